//! Requests that are asked again, changed or closed, and answers that do not arrive.

use crate::answers::{OK, asking, blocked, status};
use crate::world::{
    PHONE, TABLET, World, approval, choose, command, options, question, questions, reply,
};
use pilothouse_domain::{
    Body, CommandBody, DispatchMode, Effect, EffectKind, EffectOutcome, ItemContent, ItemStatus,
    ProviderEventKind, Refusal, RequestStatus, RunStatus, Subject,
    item::{FileAction, FileChange},
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    refusal::ClosedAs,
    request::{AnswerDelivery, LostReason, RequestKind},
    run::{BlockedOn, ErrorCode, RunError},
};

fn diff(text: &str) -> Vec<FileChange> {
    vec![FileChange {
        path: "src/lib.rs".to_owned(),
        action: FileAction::Update,
        moved_to: None,
        diff: Body::inline(text),
    }]
}

#[test]
fn the_same_request_sent_again_is_the_same() {
    let (mut world, request) = asking();
    let digest = world.thread.digest();
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c1"));
    assert_eq!(world.thread.digest(), digest);
    world.answer(&request, "accept").unwrap();
    world.effects();
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c1"));
    assert_eq!(world.requests().len(), 1);
    let effects = world.effects();
    assert!(
        matches!(&effects[..], [Effect { kind: EffectKind::Respond { request: r, answer }, .. }] if *r == request.id && *answer == choose("accept"))
    );
}

#[test]
fn an_answer_is_never_delivered_to_other_content() {
    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    world.effects();
    world.ask("0", Some("c1"), RequestKind::Command, approval("rm -rf /"));
    assert!(world.effects().is_empty());
    let again = world.request();
    assert_ne!(again.id, request.id);
    assert_eq!(again.status, RequestStatus::Pending);
}

#[test]
fn asked_again_after_an_answer_is_a_new_request() {
    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    world.resolved("0", Resolution::Answered);
    world.effects();
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c1"));
    let again = world.request();
    assert_ne!(again.id, request.id);
    assert_eq!(
        (again.asked_before, &again.status),
        (1, &RequestStatus::Pending)
    );
    assert!(world.effects().is_empty(), "never answered by itself");
}

#[test]
fn a_request_whose_content_changes_makes_the_old_answer_stale() {
    let (mut world, old) = asking();
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c2"));
    let new = world.request();
    assert_eq!(new.id, old.id);
    assert_ne!(new.content_hash, old.content_hash);
    assert!(matches!(
        world.answer(&old, "accept"),
        Err(Refusal::Stale { .. })
    ));
    assert_eq!(world.answer(&new, "accept"), OK);
}

#[test]
fn a_file_change_request_carries_the_diff_of_its_item_and_follows_it() {
    let mut world = World::new();
    world.running("first");
    world.open(
        "f1",
        ItemContent::FileChange {
            changes: diff("+one"),
        },
    );
    let subject = Subject {
        options: options(),
        ..Subject::default()
    };
    world.ask("2", Some("f1"), RequestKind::FileChange, subject);
    let old = world.request();
    let shown: Subject = serde_json::from_str(&old.subject).unwrap();
    assert_eq!(shown.changes, diff("+one"));
    assert!(old.one_tap_allowed);
    world.agent(ProviderEventKind::ItemUpdated {
        item: "f1".into(),
        content: ItemContent::FileChange {
            changes: diff("+two"),
        },
    });
    let new = world.request();
    let shown: Subject = serde_json::from_str(&new.subject).unwrap();
    assert_eq!(shown.changes, diff("+two"));
    assert!(matches!(
        world.answer(&old, "accept"),
        Err(Refusal::Stale { .. })
    ));
    assert_eq!(world.answer(&new, "accept"), OK);
}

#[test]
fn a_file_change_request_without_any_diff_is_never_one_tap() {
    let mut world = World::new();
    world.running("first");
    let subject = Subject {
        options: options(),
        ..Subject::default()
    };
    world.ask("2", Some("f1"), RequestKind::FileChange, subject);
    let request = world.request();
    assert!(!request.one_tap_allowed && request.default_to_no);
}

#[test]
fn case_12_the_end_of_a_turn_closes_its_requests() {
    let (mut world, request) = asking();
    world.end_turn(TurnStatus::Interrupted);
    assert_eq!(status(&world, &request), RequestStatus::Withdrawn);
    // codex says so afterwards (AGENTS 3, quirk 7).
    let digest = world.thread.digest();
    world.resolved("0", Resolution::Unsaid);
    assert_eq!(world.thread.digest(), digest);

    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    world.end_turn(TurnStatus::Completed);
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answered {
            delivery: AnswerDelivery::Inferred,
            by: Some(_),
            ..
        }
    ));
}

#[test]
fn an_answer_to_what_an_agent_does_not_wait_for_any_more_is_only_inferred_while_its_turn_goes_on() {
    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    world.resolved("0", Resolution::Unsaid);
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answered {
            delivery: AnswerDelivery::Inferred,
            by: Some(_),
            ..
        }
    ));
    assert_eq!(blocked(&world), (RunStatus::Running, BlockedOn::None));
}

#[test]
fn an_answer_written_to_an_agent_that_cannot_confirm_is_answered() {
    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    let effects = world.effects();
    world.outcome(&effects[0], EffectOutcome::Acknowledged);
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answering { .. }
    ));
    world.outcome(&effects[0], EffectOutcome::Written);
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answered {
            delivery: AnswerDelivery::Written,
            ..
        }
    ));
}

#[test]
fn an_answer_the_agent_did_not_take_can_be_given_anew() {
    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    let effects = world.effects();
    let error = RunError {
        code: ErrorCode::Protocol,
        message: "no such decision".to_owned(),
    };
    world.outcome(&effects[0], EffectOutcome::Failed { error });
    assert_eq!(status(&world, &request), RequestStatus::Pending);
    assert_eq!(blocked(&world), (RunStatus::Waiting, BlockedOn::Approval));
    assert_eq!(world.answer(&request, "decline"), OK);
}

#[test]
fn an_answer_after_the_runtime_is_gone_is_refused_as_lost() {
    let (mut world, request) = asking();
    world
        .thread
        .lose_runtime(LostReason::AgentExited, "signal 9");
    assert_eq!(
        world.answer(&request, "accept"),
        Err(Refusal::NotRespondable {
            request: request.id,
            status: ClosedAs::Lost
        })
    );
}

#[test]
fn case_14_a_request_of_an_unknown_kind_is_shown_and_refused_by_default() {
    let mut world = World::new();
    world.running("first");
    let subject = Subject {
        text: Some("{\"dialog\":\"usage limit\"}".to_owned()),
        ..Subject::default()
    };
    world.ask("7", None, RequestKind::Unknown, subject);
    let request = world.request();
    assert!(!request.one_tap_allowed && request.default_to_no);
    assert_eq!(blocked(&world).0, RunStatus::Waiting);
    let marker = world.items().pop().unwrap();
    assert_eq!(
        marker.content,
        ItemContent::Approval {
            request: request.id
        }
    );
    assert_eq!(marker.status, ItemStatus::Completed);
}

#[test]
fn a_request_of_no_turn_waits_without_a_run() {
    let mut world = World::new();
    let place = NativePlace {
        thread: Some("T".into()),
        root: None,
        turn: None,
    };
    world.agent_at(place.clone(), ProviderEventKind::ThreadBound);
    world.agent_at(
        place,
        ProviderEventKind::RequestOpened {
            request: "0".into(),
            item: None,
            kind: RequestKind::Elicitation,
            subject: Box::new(questions(vec![question("name", &[], false, true)])),
            unknown_fields: false,
        },
    );
    let request = world.request();
    assert_eq!((request.run, request.item), (None, None));
    assert_eq!(
        world.answer_as(
            PHONE,
            request.id,
            request.content_hash,
            reply("name", &[], Some("Ada"))
        ),
        OK
    );
}

#[test]
fn a_command_nobody_announced_is_shown_from_its_request() {
    let mut world = World::new();
    world.running("first");
    world.ask("0", Some("c7"), RequestKind::Command, approval("make"));
    let request = world.request();
    let item = world.items().pop().unwrap();
    assert_eq!(Some(item.id), request.item);
    assert!(matches!(&item.content, ItemContent::Command { command, .. } if command == "make"));
    world.close("c7", ItemStatus::Completed, command("make", "ok\n"));
    assert_eq!(world.items().pop().unwrap().id, item.id);
}

#[test]
fn an_answer_goes_on_beside_a_queued_message_of_the_same_words() {
    let (mut world, request) = asking();
    let (_, run, _) = world.say("accept", DispatchMode::QueueAfterActive);
    assert_eq!(
        status(&world, &request),
        RequestStatus::Pending,
        "words are no answer"
    );
    assert_eq!(world.queue(), [run]);
    let other = world.make(CommandBody::RequestAnswer {
        request: request.id,
        content_hash: request.content_hash,
        answer: choose("accept"),
    });
    assert_eq!(world.submit_as(TABLET, &other), OK);
}

#[test]
fn what_came_of_an_earlier_answer_says_nothing_of_the_one_on_its_way() {
    let (mut world, request) = asking();
    world.answer(&request, "accept").unwrap();
    let first = world.effects().remove(0);
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c1"));
    let again = world.effects().remove(0);
    let error = RunError {
        code: ErrorCode::Agent,
        message: "the pipe is closed".to_owned(),
    };
    world.outcome(&first, EffectOutcome::Failed { error });
    // Asked anew, the person says something else; then the first answer's other delivery is told.
    world.answer(&request, "decline").unwrap();
    world.outcome(&again, EffectOutcome::Written);
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answering { answer, .. } if answer == choose("decline")
    ));
    let last = world.effects().remove(0);
    world.outcome(&last, EffectOutcome::Written);
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answered { answer: Some(answer), .. } if answer == choose("decline")
    ));
}

#[test]
fn the_late_close_of_an_earlier_turns_request_leaves_one_of_the_same_number_open() {
    let (mut world, first) = asking();
    let earlier = world.place.clone();
    world.resolved("0", Resolution::Withdrawn);
    world.end_turn(TurnStatus::Completed);
    world.running("second");
    world.ask("0", None, RequestKind::Command, approval("make"));
    let second = world.request();
    assert_ne!(second.id, first.id);
    world.agent_at(
        earlier,
        ProviderEventKind::RequestClosed {
            request: "0".into(),
            resolution: Resolution::Withdrawn,
        },
    );
    assert_eq!(status(&world, &second), RequestStatus::Pending);
    world.resolved("0", Resolution::Withdrawn);
    assert_eq!(status(&world, &second), RequestStatus::Withdrawn);
}

#[test]
fn a_request_that_was_changed_and_is_asked_again_gets_the_answer_to_what_it_asks_now() {
    let (mut world, _) = asking();
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c2"));
    let changed = world.request();
    world.answer(&changed, "accept").unwrap();
    world.effects();
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c2"));
    assert_eq!(world.requests().len(), 1);
    assert!(matches!(
        &world.effects()[..],
        [Effect { kind: EffectKind::Respond { request, .. }, .. }] if *request == changed.id
    ));
}
