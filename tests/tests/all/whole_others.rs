//! What is done with a thread as a whole, end to end on real Claude Code and real pi.

use crate::whole::{fork, held, next_life, prompt, talk};
use pilothouse_domain::{Mode, Refusal, RunStatus, command::CommandBody};
use pilothouse_engine::{Page, Query, RowContent, TimelineRow};
use pilothouse_tests::{Setup, World};
use serde_json::json;

/// Runs are taken back, the agent dies, a copy goes its own way, and the context is shortened.
fn goes_back_and_on(mut world: World, agent: &str, model: &str) {
    world.model.script("say", &json!([{"text": "Said."}]));
    let device = world.device("phone");
    let thread = device.new_thread(agent, Mode::Ask);
    let first = talk(&device, thread, 1, "one");
    let second = talk(&device, thread, 2, "two");
    let third = talk(&device, thread, 3, "three");
    let marks = ["one", "two", "three", "four", "five", "six"];
    assert_eq!(held(&world, &marks), [3, 2, 1, 0, 0, 0]);
    device.accepted(&device.submit(
        Some(thread),
        CommandBody::ThreadRollback {
            before: second,
            last: third,
        },
    ));
    let back = |row: &TimelineRow| {
        row.content
            == RowContent::Rollback {
                before: second,
                runs: 2,
            }
    };
    device.wait("the rollback", |seen| {
        let timeline = seen.timelines.get(&thread)?;
        timeline.rows.iter().any(back).then_some(())
    });
    // Before anything is said again the agent dies: it has forgotten all the same.
    next_life(&mut world, &device);
    talk(&device, thread, 4, "four");
    assert_eq!(held(&world, &marks), [4, 2, 1, 1, 0, 0]);

    let copy = fork(&device, thread, None);
    talk(&device, copy, 1, "five");
    talk(&device, thread, 5, "six");
    assert_eq!(held(&world, &marks), [6, 2, 1, 3, 1, 1]);
    let early = fork(&device, thread, Some(first));
    talk(&device, early, 1, "early");
    assert_eq!(held(&world, &marks), [7, 2, 1, 3, 1, 1]);

    let page = device.core().query(Query::Models {
        host: world.host.id(),
        thread,
    });
    let Ok(Page::Models(models)) = page else {
        panic!("{page:?}")
    };
    let chosen = models.iter().find(|offered| offered.id == model).unwrap();
    // pi tells the efforts of the model alone that it runs on.
    let effort = chosen.efforts.last().map_or("high", String::as_str);
    let (usual, own) = world.model.chosen("say").unwrap();
    let select = |model: &str, effort: Option<&str>| {
        let body = CommandBody::ThreadSelect {
            model: Some(model.to_owned()),
            effort: effort.map(str::to_owned),
            mode: Mode::Ask,
        };
        device.submit(Some(thread), body)
    };
    let unknown = device.refused(&select("no such model", None));
    assert!(matches!(unknown, Refusal::UnknownModel { .. }), "{unknown}");
    device.accepted(&select(model, Some(effort)));
    device.accepted(&device.say(thread, &prompt("seven")));
    device.completed(thread, 6);
    let (asked, hard) = world.model.chosen("say").unwrap();
    assert_ne!(asked, usual, "another model than the one before");
    assert!(
        asked.contains(model.rsplit('/').next().unwrap()),
        "{model} was chosen: {asked}"
    );
    assert_eq!(hard.as_deref(), Some(effort));
    assert_ne!(hard, own, "another effort than the one before");

    device.accepted(&device.submit(Some(thread), CommandBody::ThreadCompact));
    assert_eq!(device.ended(thread, 7).status, RunStatus::Completed);
    let rows = device.whole(thread);
    assert!(
        rows.iter().any(|row| row.content == RowContent::Compaction),
        "{rows:#?}"
    );
    device.same_as(&world.host, thread);
    device.same_as(&world.host, copy);
    world.host.verify();
}

#[test]
fn claude_code_forgets_copies_switches_and_shortens() {
    goes_back_and_on(Setup::new().claude().start(), "claude", "sonnet");
}

#[test]
fn pi_forgets_copies_switches_and_shortens() {
    goes_back_and_on(Setup::new().pi(&[]).start(), "pi", "local/scripted-2");
}
