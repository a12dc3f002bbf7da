//! What was done without asking, though the thread's mode is to ask: found once, and only where it is certain.

use crate::world::{World, approval, choose, command, full_policy, options};
use pilothouse_domain::{
    Body, CapabilityFlag, CapabilityValue, CommandBody, Event, ItemContent, ItemStatus, Mode,
    NativeId, ProviderEventKind, Subject,
    item::{Anomaly, FileAction, FileChange},
    policy::{Contract, MustAsk},
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    request::{LostReason, OptionEffect, RequestKind, RequestOption},
};

const CONTRACT: Contract = Contract {
    read_only: MustAsk::BOTH,
    ask: MustAsk::BOTH,
    auto_edit: MustAsk::COMMANDS,
    own_files: &[".claude"],
};

/// A thread that asks, with a run that is worked on.
fn asking() -> World {
    let mut world = World::new();
    world.session.contract = CONTRACT;
    world.running("go");
    world
}

/// A thread that can be given every mode.
fn in_any_mode() -> World {
    let mut policy = full_policy();
    for agent in policy.agents.values_mut() {
        agent.modes = Mode::ALL.to_vec();
        agent.capabilities.insert(
            CapabilityFlag::RuntimeModeSwitchInSession,
            CapabilityValue::Yes,
        );
    }
    let mut world = World::on(policy);
    world.session.contract = CONTRACT;
    world
}

fn change(path: &str) -> ItemContent {
    ItemContent::FileChange {
        changes: vec![FileChange {
            path: path.to_owned(),
            action: FileAction::Update,
            moved_to: None,
            diff: Body::inline("+x"),
        }],
    }
}

fn of_changes() -> Subject {
    let ItemContent::FileChange { changes } = change("src/lib.rs") else {
        unreachable!()
    };
    Subject {
        changes,
        options: options(),
        ..Subject::default()
    }
}

/// Something that begins and ends as agents say it.
fn done(world: &mut World, item: &str, content: &ItemContent) {
    world.open(item, content.clone());
    world.close(item, ItemStatus::Completed, content.clone());
}

/// How often something was found.
fn found(world: &World) -> usize {
    let found = |event: &&Event| matches!(event, Event::AnomalyFound { .. });
    world.events().iter().filter(found).count()
}

fn choose_mode(world: &mut World, mode: Mode) {
    world
        .submit(CommandBody::ThreadSelect {
            model: None,
            effort: None,
            mode,
        })
        .unwrap();
}

#[test]
fn a_change_that_nobody_was_asked_about_is_found_once_and_stands_on_its_item() {
    let mut world = asking();
    done(&mut world, "f1", &change("src/lib.rs"));
    assert_eq!(found(&world), 1);
    // The agent ends it once more, with another diff.
    world.close("f1", ItemStatus::Completed, change("src/main.rs"));
    assert_eq!(found(&world), 1);
    let marked: Vec<_> = world.items().iter().map(|item| item.anomaly).collect();
    assert_eq!(marked, [None, Some(Anomaly::Unasked)]);
    // One that is told only when it is over, and a command that failed.
    world.close("f2", ItemStatus::Completed, change("b"));
    let mut failed = command("false", "");
    if let ItemContent::Command { exit_code, .. } = &mut failed {
        *exit_code = Some(1);
    }
    world.open("c1", command("false", ""));
    world.close("c1", ItemStatus::Failed, failed);
    assert_eq!(found(&world), 3);
}

#[test]
fn what_was_asked_was_not_done_or_need_not_be_asked_is_no_anomaly() {
    let mut world = asking();
    world.open("c1", command("make", ""));
    world.ask("0", Some("c1"), RequestKind::Command, approval("make"));
    let request = world.request();
    world.answer(&request, "accept").unwrap();
    world.resolved("0", Resolution::Answered);
    world.close("c1", ItemStatus::Completed, command("make", "ok"));
    // Asked before its item was heard of.
    world.ask("1", Some("f1"), RequestKind::FileChange, of_changes());
    let request = world.request();
    world.answer(&request, "accept").unwrap();
    world.resolved("1", Resolution::Answered);
    world.close("f1", ItemStatus::Completed, change("src/lib.rs"));
    // Refused, never ended, looked at, the agent's own.
    world.open("c2", command("rm x", ""));
    world.close("c2", ItemStatus::Declined, command("rm x", ""));
    world.open("c3", command("rm x", ""));
    world.close("c3", ItemStatus::Failed, command("rm x", "refused"));
    done(&mut world, "p1", &change("/home/dev/.claude/plans/a.md"));
    world.open("c4", command("sleep", ""));
    world.end_turn(TurnStatus::Completed);
    assert_eq!(found(&world), 0);
}

#[test]
fn a_grant_for_the_session_covers_the_like_of_it_until_the_process_ends() {
    let mut world = asking();
    world.open("c1", command("make", ""));
    world.ask("0", Some("c1"), RequestKind::Command, approval("make"));
    let request = world.request();
    world.answer(&request, "acceptForSession").unwrap();
    // The agent goes on before it is known that the answer arrived.
    done(&mut world, "c2", &command("make", "ok"));
    world.resolved("0", Resolution::Answered);
    world.close("c1", ItemStatus::Completed, command("make", "ok"));
    done(&mut world, "c3", &command("make", "ok"));
    assert_eq!(found(&world), 0);
    done(&mut world, "f1", &change("a"));
    assert_eq!(found(&world), 1, "of changes nobody was asked");
    // Another life of the process knows nothing of it.
    world.thread.lose_runtime(LostReason::AgentExited, "gone");
    world.session.incarnation = pilothouse_domain::Incarnation::from_bytes([5; 16]);
    world.running("again");
    done(&mut world, "c9", &command("make", "ok"));
    assert_eq!(found(&world), 2);
}

#[test]
fn a_rule_and_an_answer_given_elsewhere_cover_what_they_may_cover() {
    for (effect, later) in [(OptionEffect::AllowRule, 0), (OptionEffect::Other, 1)] {
        let mut world = asking();
        let mut subject = approval("make");
        subject.options.push(RequestOption {
            id: "wide".into(),
            label: "Wide".to_owned(),
            effect,
            reach: "more".to_owned(),
        });
        world.ask("0", Some("c1"), RequestKind::Command, subject);
        let request = world.request();
        world.answer(&request, "wide").unwrap();
        world.resolved("0", Resolution::Answered);
        done(&mut world, "c2", &command("make", "ok"));
        assert_eq!(found(&world), 0);
        done(&mut world, "f1", &change("a"));
        // A mode that lets more pass lets changes pass, too; a rule about commands does not.
        let changes = usize::from(effect == OptionEffect::AllowRule);
        assert_eq!(found(&world), changes);
        world.thread.lose_runtime(LostReason::AgentExited, "gone");
        world.session.incarnation = pilothouse_domain::Incarnation::from_bytes([5; 16]);
        world.running("again");
        done(&mut world, "c9", &command("make", "ok"));
        assert_eq!(found(&world), changes + later);
    }
    let mut world = asking();
    world.ask("0", Some("c1"), RequestKind::Command, approval("make"));
    world.resolved("0", Resolution::Answered);
    done(&mut world, "f1", &change("a"));
    assert_eq!(found(&world), 0, "what was said elsewhere is not known");
}

#[test]
fn a_request_that_names_no_item_covers_its_run_alone() {
    let mut world = asking();
    world.ask("0", None, RequestKind::FileChange, of_changes());
    let request = world.request();
    world.answer(&request, "accept").unwrap();
    world.resolved("0", Resolution::Answered);
    done(&mut world, "f1", &change("src/lib.rs"));
    assert_eq!(found(&world), 0);
    world.end_turn(TurnStatus::Completed);
    world.running("again");
    done(&mut world, "f2", &change("src/lib.rs"));
    assert_eq!(found(&world), 1);
}

#[test]
fn more_rights_for_a_turn_cover_everything() {
    let mut world = asking();
    let subject = Subject {
        options: options(),
        text: Some("write to the network".to_owned()),
        ..Subject::default()
    };
    world.ask("0", None, RequestKind::Permission, subject);
    let request = world.request();
    world
        .answer_as(1, request.id, request.content_hash, choose("accept"))
        .unwrap();
    world.resolved("0", Resolution::Answered);
    done(&mut world, "c1", &command("make", "ok"));
    done(&mut world, "f1", &change("a"));
    assert_eq!(found(&world), 0);
}

#[test]
fn each_mode_has_its_own_contract_and_a_mode_chosen_during_a_run_is_not_taken_for_the_runs() {
    for (mode, commands, changes) in [
        (Mode::ReadOnly, 1, 1),
        (Mode::AutoEdit, 1, 0),
        (Mode::FullAccess, 0, 0),
    ] {
        let mut world = in_any_mode();
        choose_mode(&mut world, mode);
        world.running("go");
        done(&mut world, "c1", &command("make", "ok"));
        assert_eq!(found(&world), commands, "{mode:?}");
        done(&mut world, "f1", &change("a"));
        assert_eq!(found(&world), commands + changes, "{mode:?}");
    }
    let mut world = in_any_mode();
    choose_mode(&mut world, Mode::FullAccess);
    world.running("go");
    choose_mode(&mut world, Mode::Ask);
    done(&mut world, "c1", &command("make", "ok"));
    assert_eq!(found(&world), 0);
    world.end_turn(TurnStatus::Completed);
    world.running("now asking");
    done(&mut world, "c2", &command("make", "ok"));
    assert_eq!(found(&world), 1);
}

#[test]
fn what_was_read_back_what_nobody_here_began_and_what_has_no_contract_is_not_judged() {
    let mut world = asking();
    world.session.contract = Contract::default();
    done(&mut world, "c1", &command("make", "ok"));
    assert_eq!(found(&world), 0);
    world.session.contract = CONTRACT;
    world.end_turn(TurnStatus::Completed);
    // Late.
    done(&mut world, "c2", &command("make", "ok"));
    world.place = NativePlace {
        turn: Some(NativeId::from("theirs")),
        ..world.place.clone()
    };
    world.agent(ProviderEventKind::TurnStarted);
    done(&mut world, "c3", &command("make", "ok"));
    assert_eq!(found(&world), 0);
}
