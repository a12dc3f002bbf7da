//! The modes of real Claude Code: what each lets pass, and which word of its own it is put into.

use crate::{
    claude_world::{World, call, run, selection},
    support::say,
};
use pilothouse_domain::{Mode, ProviderEventKind, provider::TurnStatus, request::RequestKind};
use pilothouse_providers::contract::OpenError;
use serde_json::json;
use std::path::Path;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_lets_pass_what_it_says_and_only_full_access_may_lift_the_checks() {
    for (mode, asks_for_edits, asks_for_commands) in [
        (Mode::Ask, true, true),
        (Mode::AutoEdit, false, true),
        (Mode::FullAccess, false, false),
    ] {
        let mut world = World::start_with(json!({}), selection(mode), &[]).await;
        let inside = world.workspace().join("made.txt");
        edit(&world, "edit", &inside);
        // Outside of the workspace every mode but the last asks.
        let outside = world.dir.path().join("outside.txt");
        let touch = run(&format!("touch {}", outside.display()));
        world.model.script("run", &json!([touch, say("ok")]));
        let thread = world.open(None).await;
        for (script, file, asks, kind) in [
            ("edit", &inside, asks_for_edits, RequestKind::FileChange),
            ("run", &outside, asks_for_commands, RequestKind::Command),
        ] {
            world.send(&thread, &format!("[[script:{script}]]")).await;
            let asked = asked_or_completed(&mut world).await;
            let wanted = asks.then_some(kind);
            assert_eq!(asked, wanted, "{mode:?} {script}");
            if asks {
                let asked = world.last_asked();
                world.choose(&asked, "deny_and_stop").await;
                world.turn_end().await;
            }
            assert_eq!(file.exists(), !asks, "{mode:?} {script}");
        }
        assert_eq!(may_bypass(&world), mode == Mode::FullAccess);
        if mode != Mode::FullAccess {
            // A person chooses it for the thread: a process that may lift its checks takes up the conversation.
            let mut message = world.message(&thread, "[[script:run]]");
            message.selection.mode = Mode::FullAccess;
            world.runtime.send_turn(message).await.unwrap();
            assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
            assert!(world.dir.path().join("outside.txt").exists());
            assert!(may_bypass(&world));
            let ended =
                |kind: &ProviderEventKind| matches!(kind, ProviderEventKind::SessionEnded { .. });
            assert!(!world.seen.iter().any(|event| ended(&event.kind)));
        }
    }
}

/// A script that writes a file.
fn edit(world: &World, script: &str, file: &Path) {
    let write = json!({"file_path": file.display().to_string(), "content": "x"});
    let steps = json!([call("Write", write), say("ok")]);
    world.model.script(script, &steps);
}

/// What it asks for, or nothing if its turn ends well without.
async fn asked_or_completed(world: &mut World) -> Option<RequestKind> {
    let what = "a request or the end";
    let (asked, status) = world
        .until(what, |event| match &event.kind {
            ProviderEventKind::RequestOpened { kind, .. } => Some((Some(*kind), None)),
            ProviderEventKind::TurnEnded { status, .. } => Some((None, Some(*status))),
            _ => None,
        })
        .await;
    assert!(
        matches!(status, None | Some(TurnStatus::Completed)),
        "{status:?}"
    );
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mode_that_is_switched_holds_in_the_process_that_runs_and_back_again() {
    let mut world = World::start_with(json!({}), selection(Mode::Ask), &[]).await;
    let thread = world.open(None).await;
    let process = world.runtime.process_id();
    for (n, mode) in [Mode::Ask, Mode::AutoEdit, Mode::Ask]
        .into_iter()
        .enumerate()
    {
        let asks = mode == Mode::Ask;
        let file = world.workspace().join(format!("{n}.txt"));
        edit(&world, &format!("edit-{n}"), &file);
        let mut message = world.message(&thread, &format!("[[script:edit-{n}]]"));
        message.selection.mode = mode;
        world.runtime.send_turn(message).await.unwrap();
        let wanted = asks.then_some(RequestKind::FileChange);
        assert_eq!(asked_or_completed(&mut world).await, wanted, "{n} {mode:?}");
        assert_eq!(file.exists(), !asks, "{n} {mode:?}");
        if asks {
            let asked = world.last_asked();
            world.choose(&asked, "deny_and_stop").await;
            world.turn_end().await;
            assert!(!file.exists(), "{n}: it was refused");
        }
    }
    assert!(process.is_some());
    assert_eq!(
        world.runtime.process_id(),
        process,
        "one process did it all"
    );
}

/// Whether the process was told that it may lift every check.
fn may_bypass(world: &World) -> bool {
    let pid = world.runtime.process_id().unwrap();
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    String::from_utf8_lossy(&arguments).contains("dangerously-skip-permissions")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_a_conversation_leaves_no_mode_of_the_persons_own_settings_in_force() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("ok")]})).await;
    std::fs::write(
        world.dir.path().join("claude/settings.json"),
        r#"{"permissions": {"defaultMode": "acceptEdits"}}"#,
    )
    .unwrap();
    world.restart(None).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    assert_eq!(world.request().await.kind, RequestKind::Command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_that_host_toml_says_for_a_mode_is_the_one_in_force_and_others_are_refused() {
    let mut world = World::start(json!({})).await;
    let file = world.workspace().join("made.txt");
    let write = call(
        "Write",
        json!({"file_path": file.display().to_string(), "content": "x"}),
    );
    world.model.script("go", &json!([write, say("ok")]));
    // The mode that asks is said by words in which the agent does not: to refuse unasked, and to let edits pass.
    for (word, made) in [("dontAsk", false), ("acceptEdits", true)] {
        world.modes.insert(Mode::Ask, word.to_owned());
        world.restart(None).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed, "{word}");
        assert_eq!(file.exists(), made, "{word}");
    }
    let asks = |kind: &ProviderEventKind| matches!(kind, ProviderEventKind::RequestOpened { .. });
    assert!(!world.seen.iter().any(|event| asks(&event.kind)));
    for word in ["yolo", "bypassPermissions"] {
        world.modes.insert(Mode::Ask, word.to_owned());
        world.restart(None).await;
        let opened = world.runtime.open_thread(world.opening(None)).await;
        let Err(OpenError::Refused { error }) = opened else {
            panic!("{word}: {opened:?}")
        };
        assert!(error.message.contains(word), "{}", error.message);
        assert!(!may_bypass(&world));
    }
}
