//! Items: what agents open, stream, forget to end and end twice.

use crate::world::{World, assistant, command};
use pilothouse_domain::{
    Body, Event, ItemContent, ItemStatus, ProviderEventKind, Row, TurnItem,
    item::{TodoEntry, TodoStatus},
    provider::TurnStatus,
    provider_event::NativePlace,
    run::{ErrorCode, RunError, Usage},
    transfer::PlanKind,
};

fn last(world: &World) -> TurnItem {
    world.items().pop().unwrap()
}

fn output(item: &TurnItem) -> (&str, Option<&str>) {
    match &item.content {
        ItemContent::Command {
            output,
            agent_output,
            ..
        } => (output.preview(), agent_output.as_ref().map(Body::preview)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn deltas_are_never_events() {
    let mut world = World::new();
    world.running("first");
    world.open("m", assistant(""));
    let events = world.events().len();
    for n in 0..100 {
        world.append("m", &format!("word{n} "), assistant(""));
    }
    assert_eq!(world.events().len(), events);
    let item = world.thread.state.items[0].id;
    assert_eq!(world.thread.streamed[&item].split_whitespace().count(), 100);
}

#[test]
fn text_for_an_unknown_item_opens_it() {
    let mut world = World::new();
    world.running("first");
    world.append("m", "lo", assistant(""));
    assert_eq!(last(&world).status, ItemStatus::Open);
    world.close("m", ItemStatus::Completed, assistant("Hello"));
    assert_eq!(last(&world).content, assistant("Hello"));
    assert_eq!(world.thread.state.items, []);
}

#[test]
fn words_are_replaced_by_the_final_ones_and_a_repeat_changes_nothing() {
    let mut world = World::new();
    world.running("first");
    world.append("m", "Helo", assistant(""));
    world.close("m", ItemStatus::Completed, assistant("Hello"));
    let digest = world.thread.digest();
    world.close("m", ItemStatus::Completed, assistant("Hello"));
    world.open("m", assistant("Hello again"));
    world.append("m", "late", assistant(""));
    assert_eq!(world.thread.digest(), digest, "never opened again");
    world.close("m", ItemStatus::Completed, assistant("Hello!"));
    assert_eq!(
        last(&world).content,
        assistant("Hello!"),
        "the last end holds"
    );
}

#[test]
fn words_ended_without_a_text_keep_what_was_streamed() {
    let mut world = World::new();
    world.running("first");
    world.append("m", "Hello", assistant(""));
    world.close("m", ItemStatus::Completed, assistant(""));
    assert_eq!(last(&world).content, assistant("Hello"));
}

#[test]
fn whole_texts_sent_again_and_again_stream_only_what_is_new() {
    let mut world = World::new();
    world.running("first");
    world.open("m", assistant("Hel"));
    let events = world.events().len();
    for text in ["Hell", "Hello", "Hello"] {
        world.agent(ProviderEventKind::ItemUpdated {
            item: "m".into(),
            content: assistant(text),
        });
    }
    let item = world.thread.state.items[0].id;
    assert_eq!(world.thread.streamed[&item], "Hello");
    assert_eq!(world.events().len(), events);
}

#[test]
fn command_output_is_the_fuller_of_streamed_and_final() {
    // (streamed, final, shown, the agent's own beside it)
    let long = "line\n".repeat(50);
    let table: [(&str, &str, &str, Option<&str>); 6] = [
        ("", "all", "all", None),
        ("ll", "all", "all", None),
        ("all", "all", "all", None),
        (&long, "line\n…\nline\n", &long, Some("line\n…\nline\n")),
        ("all", "", "all", None),
        ("abc", "abcd but other", "abcd but other", None),
    ];
    for (streamed, given, shown, beside) in table {
        let mut world = World::new();
        world.running("first");
        world.open("c", command("make", ""));
        world.append("c", streamed, command("make", ""));
        world.close("c", ItemStatus::Completed, command("make", given));
        assert_eq!(output(&last(&world)), (shown, beside), "{given:?}");
    }
}

#[test]
fn what_a_turn_leaves_open_is_closed_with_it() {
    for (status, text, tool) in [
        (
            TurnStatus::Completed,
            ItemStatus::Unfinished,
            ItemStatus::Background,
        ),
        (
            TurnStatus::Interrupted,
            ItemStatus::Interrupted,
            ItemStatus::Interrupted,
        ),
        (
            TurnStatus::Failed,
            ItemStatus::Unfinished,
            ItemStatus::Unfinished,
        ),
    ] {
        let mut world = World::new();
        world.running("first");
        world.append("m", "half a sen", assistant(""));
        world.append("c", "10 %", command("make", ""));
        world.end_turn(status);
        let items = world.items();
        assert_eq!((items[1].status, items[2].status), (text, tool));
        assert_eq!(items[1].content, assistant("half a sen"));
        if tool != ItemStatus::Background {
            assert_eq!(output(&items[2]).0, "10 %");
        }
        // The command ends after its turn (AGENTS 3, quirk 6): in its own run, whatever we had thought.
        world.close("c", ItemStatus::Completed, command("make", "10 %\n100 %\n"));
        let late = world.items().pop().unwrap();
        assert_eq!(
            (late.status, late.position),
            (ItemStatus::Completed, items[2].position)
        );
        assert_eq!(output(&late).0, "10 %\n100 %\n");
        assert_eq!(world.thread.state.items, []);
    }
}

#[test]
fn background_work_has_an_owner_and_survives_the_next_turns_end() {
    let mut world = World::new();
    let run = world.running("first");
    world.append("c", "serving", command("npm start", ""));
    world.end_turn(TurnStatus::Completed);
    let owner = world.events().into_iter().find_map(|event| match event {
        Event::ItemBackground { owner, .. } => Some(owner),
        _ => None,
    });
    assert_eq!(owner.unwrap().run, run);
    world.running("second");
    world.end_turn(TurnStatus::Completed);
    assert!(matches!(&world.thread.state.items[..], [slot] if slot.background));
}

#[test]
fn items_that_begin_after_their_turn_stay_in_its_run_with_an_owner() {
    let mut world = World::new();
    let first = world.running("first");
    let old = world.place.clone();
    world.end_turn(TurnStatus::Completed);
    world.running("second");
    world.agent_at(
        old,
        ProviderEventKind::ItemOpened {
            item: "late".into(),
            content: command("make", ""),
            client_id: None,
        },
    );
    let item = world
        .items()
        .into_iter()
        .find(|item| item.run == first && matches!(item.content, ItemContent::Command { .. }))
        .unwrap();
    assert_eq!(
        (item.position.run, item.status),
        (1, ItemStatus::Background)
    );
}

#[test]
fn a_todo_list_is_one_item_and_one_plan() {
    let mut world = World::new();
    world.running("first");
    let list = |status| {
        vec![TodoEntry {
            text: "write the test".to_owned(),
            status,
        }]
    };
    for status in [
        TodoStatus::Pending,
        TodoStatus::Pending,
        TodoStatus::Completed,
    ] {
        world.agent(ProviderEventKind::TodoList {
            entries: list(status),
        });
    }
    assert_eq!(world.items().len(), 2);
    let plan = world.thread.state.plan.unwrap();
    let row = world.thread.rows.0.values().find_map(|row| match row {
        Row::Plan(row) => Some(row.clone()),
        _ => None,
    });
    let row = row.unwrap();
    assert_eq!(row.id, plan);
    assert_eq!(
        row.kind,
        PlanKind::TodoList {
            entries: list(TodoStatus::Completed)
        }
    );
    world.end_turn(TurnStatus::Completed);
    assert_eq!(last(&world).status, ItemStatus::Completed);
}

#[test]
fn a_closed_plan_is_an_artifact() {
    let mut world = World::new();
    world.running("first");
    let plan = |text: &str| ItemContent::Plan {
        plan: None,
        text: Body::inline(text),
    };
    world.append("p", "1. do", plan(""));
    world.close("p", ItemStatus::Completed, plan("1. do it"));
    let ItemContent::Plan { plan: Some(id), .. } = last(&world).content else {
        panic!();
    };
    assert_eq!(world.thread.state.plan, Some(id));
}

#[test]
fn case_30_frames_of_no_turn_are_kept_not_lost() {
    let mut world = World::new();
    let place = NativePlace::default();
    let unknown = ProviderEventKind::Unknown {
        label: "thread/goal/updated".to_owned(),
        raw: "{\"goal\":1}".to_owned(),
    };
    world.agent_at(place.clone(), unknown.clone());
    let unreadable = |world: &World| {
        world
            .events()
            .iter()
            .filter(|event| matches!(event, Event::FrameUnreadable { detail } if detail.contains("goal")))
            .count()
    };
    assert_eq!(unreadable(&world), 1);
    world.running("first");
    world.agent_at(place.clone(), unknown.clone());
    assert!(
        matches!(last(&world).content, ItemContent::Unknown { label, .. } if label == "thread/goal/updated")
    );
    world.end_turn(TurnStatus::Completed);
    world.agent_at(place, unknown);
    assert_eq!(world.items().len(), 3, "after the run it stands at its end");
    assert_eq!(unreadable(&world), 1);
}

#[test]
fn errors_of_no_run_are_told() {
    let mut world = World::new();
    world.agent_at(
        NativePlace::default(),
        ProviderEventKind::Error {
            error: RunError {
                code: ErrorCode::SignIn,
                message: "signed out".to_owned(),
            },
            will_retry: false,
        },
    );
    assert!(
        world
            .events()
            .iter()
            .any(|event| matches!(event, Event::NoticeRaised { .. }))
    );
    let digest = world.thread.digest();
    world.agent_at(
        NativePlace::default(),
        ProviderEventKind::Diagnostic {
            message: "slow".to_owned(),
        },
    );
    assert_eq!(world.thread.digest(), digest);
}

#[test]
fn usage_and_another_model_are_kept_with_the_run() {
    let mut world = World::new();
    let run = world.running("first");
    let usage = Usage {
        input: 1200,
        output: 80,
        ..Usage::default()
    };
    world.agent(ProviderEventKind::Usage { usage });
    world.agent(ProviderEventKind::ModelRerouted {
        from: "gpt-5.5".to_owned(),
        to: "gpt-5.4".to_owned(),
    });
    assert_eq!(world.run(run).usage, Some(usage));
    assert!(matches!(
        last(&world).content,
        ItemContent::ModelRerouted { .. }
    ));
}

#[test]
fn a_close_that_says_it_is_still_open_is_an_end() {
    let mut world = World::new();
    world.running("first");
    world.close("m", ItemStatus::Open, assistant("Hi"));
    assert_eq!(last(&world).status, ItemStatus::Completed);
    assert_eq!(world.thread.state.items, []);
}

#[test]
fn an_agent_that_does_not_name_its_turns_is_followed_all_the_same() {
    let mut world = World::new();
    let run = world.start("first");
    world.place.turn = None;
    world.agent(ProviderEventKind::TurnStarted);
    world.append("m", "Hel", assistant(""));
    world.close("m", ItemStatus::Completed, assistant("Hello"));
    world.end_turn(TurnStatus::Completed);
    assert_eq!(
        world.run(run).status,
        pilothouse_domain::RunStatus::Completed
    );
    assert_eq!(last(&world).content, assistant("Hello"));
}
