//! A turn that goes on in one mode while another is chosen for the next.

use crate::{
    opencode_stage::{World, asked, run, task},
    support::say,
};
use pilothouse_domain::{Mode, provider::TurnStatus};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_was_chosen_for_the_next_turn_answers_nothing_of_one_that_is_taken_up() {
    let mut world = World::start(json!({
        "parent": [task("kid"), say("parent done")],
        "kid": [run("touch kid.txt"), say("kid done")],
        "again": [task("other"), say("again done")],
        "other": [run("touch other.txt"), say("other done")],
    }))
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:parent]]").await;
    let first = world.request().await;
    world.taken_up().await;
    world.mode = Mode::FullAccess;
    world.open(Some(thread.clone())).await;
    let second = world.request().await;
    assert_eq!(
        (&second.request, &second.subject),
        (&first.request, &first.subject)
    );
    let pending = world.runtime.pending(&[]).await;
    assert_eq!(pending, Some(vec![second.request.clone()]));
    assert!(!world.workspace().join("kid.txt").exists());
    world.choose(&second, "once").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(world.workspace().join("kid.txt").exists());

    // It holds from the next turn on.
    let before = world.seen.len();
    world.send(&thread, "[[script:again]] ").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(world.workspace().join("other.txt").exists());
    let asks = |event| asked(event).is_some();
    assert!(!world.seen[before..].iter().any(asks));
    world.runtime.stop().await;
}
