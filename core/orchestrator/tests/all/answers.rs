//! Requests and what becomes of answers.

use crate::world::{
    PHONE, TABLET, World, approval, choose, command, device, options, question, questions, reply,
};
use pilothouse_domain::{
    Answer, ContentHash, Effect, EffectKind, Refusal, RequestId, RequestStatus, RunStatus,
    RuntimeRequest, Subject,
    provider_event::Resolution,
    refusal::{ClosedAs, StaleWhat},
    request::{AnswerDelivery, RequestKind},
    run::BlockedOn,
};
use pilothouse_orchestrator::{MASK, Verdict, masked};

pub(crate) const OK: Result<Verdict, Refusal> = Ok(Verdict::Accepted { notice: None });

/// A running turn that asks to run a command.
pub(crate) fn asking() -> (World, RuntimeRequest) {
    let mut world = World::new();
    world.running("first");
    world.open("c1", command("touch c1", ""));
    world.ask("0", Some("c1"), RequestKind::Command, approval("touch c1"));
    let request = world.request();
    (world, request)
}

pub(crate) fn status(world: &World, request: &RuntimeRequest) -> RequestStatus {
    world.thread.request(request.id).unwrap().status
}

pub(crate) fn blocked(world: &World) -> (RunStatus, BlockedOn) {
    let active = world.thread.state.active.as_ref().unwrap();
    (active.status, active.blocked_on)
}

#[test]
fn an_approval_blocks_the_run_until_it_is_answered_and_counts_only_when_the_agent_says_so() {
    let (mut world, request) = asking();
    assert_eq!(blocked(&world), (RunStatus::Waiting, BlockedOn::Approval));
    assert_eq!(world.thread.summary.as_ref().unwrap().waiting.approvals, 1);
    let shown: Subject = serde_json::from_str(&request.subject).unwrap();
    assert_eq!(shown, approval("touch c1"));
    assert_eq!(request.content_hash, ContentHash::of(&request.subject));
    assert!(request.one_tap_allowed && request.asked_before == 0);
    assert_eq!(world.answer(&request, "accept"), OK);
    assert_eq!(blocked(&world), (RunStatus::Running, BlockedOn::None));
    assert!(matches!(
        status(&world, &request),
        RequestStatus::Answering { .. }
    ));
    let [
        Effect {
            kind:
                EffectKind::Respond {
                    request: asked,
                    answer,
                },
            ..
        },
    ] = &world.effects()[..]
    else {
        panic!();
    };
    assert_eq!((*asked, answer), (request.id, &choose("accept")));
    world.resolved("0", Resolution::Answered);
    let RequestStatus::Answered {
        answer,
        by,
        delivery,
        at_ms,
    } = status(&world, &request)
    else {
        panic!();
    };
    assert_eq!(
        (answer, by, delivery),
        (
            Some(choose("accept")),
            Some(device(PHONE)),
            AnswerDelivery::Confirmed
        )
    );
    assert!(at_ms > 0);
}

#[test]
fn case_09_three_parallel_requests_answered_in_any_order() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut world = World::new();
        world.running("first");
        for n in 0..3 {
            let line = format!("touch c{n}");
            world.open(&format!("c{n}"), command(&line, ""));
            world.ask(
                &n.to_string(),
                Some(&format!("c{n}")),
                RequestKind::Command,
                approval(&line),
            );
        }
        let requests = world.requests();
        assert_eq!(requests.len(), 3);
        assert_eq!(world.thread.summary.as_ref().unwrap().waiting.approvals, 3);
        for (done, n) in order.into_iter().enumerate() {
            let option = ["accept", "decline", "acceptForSession"][n];
            assert_eq!(world.answer(&requests[n], option), OK);
            let effects = world.effects();
            assert!(
                matches!(&effects[..], [Effect { kind: EffectKind::Respond { request, answer }, .. }]
                if *request == requests[n].id && *answer == choose(option))
            );
            let waits = done < 2;
            assert_eq!(blocked(&world).0 == RunStatus::Waiting, waits);
            world.resolved(&n.to_string(), Resolution::Answered);
        }
        for (n, request) in requests.iter().enumerate() {
            let option = ["accept", "decline", "acceptForSession"][n];
            assert!(
                matches!(status(&world, request), RequestStatus::Answered { answer: Some(answer), .. } if answer == choose(option))
            );
        }
    }
}

#[test]
fn case_15_question_cancelled_then_answered_is_withdrawn() {
    let mut world = World::new();
    world.running("first");
    let subject = questions(vec![question("q1", &["Red", "Blue"], false, false)]);
    world.ask("4", None, RequestKind::UserInput, subject);
    assert_eq!(blocked(&world), (RunStatus::Waiting, BlockedOn::Question));
    let request = world.request();
    world.resolved("4", Resolution::Withdrawn);
    assert_eq!(status(&world, &request), RequestStatus::Withdrawn);
    assert_eq!(blocked(&world), (RunStatus::Running, BlockedOn::None));
    assert_eq!(
        world.answer_as(
            PHONE,
            request.id,
            request.content_hash,
            reply("q1", &["Red"], None)
        ),
        Err(Refusal::NotRespondable {
            request: request.id,
            status: ClosedAs::Withdrawn
        })
    );
    assert_eq!(world.effects().len(), 0);
}

#[test]
fn case_17_stale_answer_is_refused_and_never_becomes_chat_text() {
    let (mut world, old) = asking();
    world.resolved("0", Resolution::Withdrawn);
    world.ask("1", Some("c1"), RequestKind::Command, approval("rm -rf /"));
    let new = world.request();
    let items = world.items().len();
    assert!(matches!(
        world.answer(&old, "accept"),
        Err(Refusal::NotRespondable { .. })
    ));
    // The old button's hash on the new request, and an answer to nothing.
    assert_eq!(
        world.answer_as(PHONE, new.id, old.content_hash, choose("accept")),
        Err(Refusal::Stale {
            what: StaleWhat::Content {
                now: new.content_hash
            }
        })
    );
    let nothing = RequestId::from_bytes([1; 16]);
    assert_eq!(
        world.answer_as(PHONE, nothing, new.content_hash, choose("accept")),
        Err(Refusal::UnknownRequest { request: nothing })
    );
    assert_eq!(status(&world, &new), RequestStatus::Pending);
    assert_eq!(world.items().len(), items, "no answer became a message");
    assert_eq!(world.effects().len(), 0);
    assert!(world.queue().is_empty());
}

#[test]
fn case_20_own_receipt_and_cancel_are_idempotent() {
    for order in [
        [Resolution::Answered, Resolution::Withdrawn],
        [Resolution::Answered, Resolution::Answered],
        [Resolution::Unsaid, Resolution::Unsaid],
    ] {
        let (mut world, request) = asking();
        world.answer(&request, "accept").unwrap();
        world.resolved("0", order[0]);
        let first = (status(&world, &request), world.thread.digest());
        assert!(matches!(first.0, RequestStatus::Answered { .. }));
        world.resolved("0", order[1]);
        assert_eq!((status(&world, &request), world.thread.digest()), first);
        // A second answer is told who was first.
        let again = world.answer(&request, "decline");
        assert!(
            matches!(again, Err(Refusal::AlreadyAnswered { by: Some(by), answer: Some(answer), .. })
            if by == device(PHONE) && answer == choose("accept"))
        );
    }
}

#[test]
fn the_first_answer_wins_and_the_second_device_learns_whose_it_was() {
    let (mut world, request) = asking();
    world
        .answer_as(TABLET, request.id, request.content_hash, choose("decline"))
        .unwrap();
    world.effects();
    let late = world.answer(&request, "accept");
    let Err(Refusal::AlreadyAnswered {
        by, answer, at_ms, ..
    }) = late
    else {
        panic!("{late:?}");
    };
    assert_eq!(
        (by, answer),
        (Some(device(TABLET)), Some(choose("decline")))
    );
    assert!(at_ms > 0);
    assert_eq!(world.effects().len(), 0);
}

#[test]
fn an_answer_given_outside_is_told_as_somebody_elses() {
    let (mut world, request) = asking();
    world.resolved("0", Resolution::Answered);
    let late = world.answer(&request, "accept");
    assert!(matches!(
        late,
        Err(Refusal::AlreadyAnswered {
            by: None,
            answer: None,
            ..
        })
    ));
}

#[test]
fn case_11_every_option_the_agent_gave_can_be_chosen_and_no_other() {
    for option in options() {
        let (mut world, request) = asking();
        assert_eq!(world.answer(&request, option.id.as_str()), OK);
        let effects = world.effects();
        assert!(
            matches!(&effects[0].kind, EffectKind::Respond { answer, .. } if *answer == choose(option.id.as_str()))
        );
    }
    let (mut world, request) = asking();
    for option in ["", "Accept", "acceptForever"] {
        assert!(
            matches!(world.answer(&request, option), Err(Refusal::Invalid { field, .. }) if field == "option")
        );
    }
    let words = world.answer_as(
        PHONE,
        request.id,
        request.content_hash,
        reply("q1", &["yes"], None),
    );
    assert!(matches!(words, Err(Refusal::Invalid { .. })));
}

#[test]
fn case_36_an_empty_reply_is_no_answer() {
    /// (several, own words, chosen, text, taken)
    type Case = (
        bool,
        bool,
        &'static [&'static str],
        Option<&'static str>,
        bool,
    );
    let table: &[Case] = &[
        (false, false, &["Red"], None, true),
        (false, false, &[], None, false),
        (false, false, &[], Some("green"), false),
        (false, false, &["Green"], None, false),
        (false, false, &["Red", "Blue"], None, false),
        (false, true, &[], Some("green"), true),
        (false, true, &[], Some("  "), false),
        (false, true, &["Red"], Some("a dark one"), true),
        (false, true, &[""], None, false),
        (true, false, &["Red", "Blue"], None, true),
        (true, false, &["Red", "Green"], None, false),
        (true, true, &["Red", "Blue"], Some("and green"), true),
        (true, true, &[], None, false),
        (true, true, &["Other"], Some("green"), true),
    ];
    for (several, own_words, chosen, text, taken) in table {
        let mut world = World::new();
        world.running("first");
        let subject = questions(vec![question("q1", &["Red", "Blue"], *several, *own_words)]);
        world.ask("4", None, RequestKind::UserInput, subject);
        let request = world.request();
        let given = reply("q1", chosen, *text);
        let result = world.answer_as(PHONE, request.id, request.content_hash, given.clone());
        assert_eq!(result.is_ok(), *taken, "{chosen:?} {text:?}: {result:?}");
        if *taken {
            let effects = world.effects();
            assert!(
                matches!(&effects[0].kind, EffectKind::Respond { answer, .. } if *answer == given)
            );
        } else {
            assert_eq!(status(&world, &request), RequestStatus::Pending);
        }
    }
}

#[test]
fn every_question_is_answered_once_and_no_other() {
    let mut world = World::new();
    world.running("first");
    let subject = questions(vec![
        question("q1", &["Red"], false, false),
        question("q2", &[], false, false),
    ]);
    world.ask("4", None, RequestKind::UserInput, subject);
    let request = world.request();
    let replies = |ids: &[&str]| Answer::Reply {
        replies: ids
            .iter()
            .flat_map(|id| {
                match reply(
                    id,
                    if *id == "q1" { &["Red"] } else { &[] },
                    (*id != "q1").then_some("words"),
                ) {
                    Answer::Reply { replies } => replies,
                    Answer::Choose { .. } => vec![],
                }
            })
            .collect(),
    };
    for ids in [&["q1"][..], &["q1", "q1", "q2"], &["q1", "q2", "q3"], &[]] {
        let result = world.answer_as(PHONE, request.id, request.content_hash, replies(ids));
        assert!(matches!(result, Err(Refusal::Invalid { .. })), "{ids:?}");
    }
    assert_eq!(
        world.answer_as(
            PHONE,
            request.id,
            request.content_hash,
            replies(&["q2", "q1"])
        ),
        OK
    );
}

#[test]
fn an_optional_question_may_be_left_out_or_empty_and_what_is_given_is_checked() {
    let one = |id: &str, chosen: &[&str], text: Option<&str>| match reply(id, chosen, text) {
        Answer::Reply { replies } => replies,
        Answer::Choose { .. } => vec![],
    };
    let table = [
        (one("name", &[], Some("Ann")), true),
        (
            [
                one("name", &[], Some("Ann")),
                one("colour", &[], Some("  ")),
            ]
            .concat(),
            true,
        ),
        (
            [one("name", &[], Some("Ann")), one("colour", &["Red"], None)].concat(),
            true,
        ),
        (
            [
                one("name", &[], Some("Ann")),
                one("colour", &["Green"], None),
            ]
            .concat(),
            false,
        ),
        (one("colour", &["Red"], None), false),
        (
            [one("name", &[], None), one("colour", &["Red"], None)].concat(),
            false,
        ),
        (vec![], false),
    ];
    for (replies, taken) in table {
        let mut world = World::new();
        world.running("first");
        let name = question("name", &[], false, true);
        let mut colour = question("colour", &["Red"], false, false);
        colour.optional = true;
        world.ask(
            "4",
            None,
            RequestKind::Elicitation,
            questions(vec![name, colour]),
        );
        let request = world.request();
        let answer = Answer::Reply { replies };
        let result = world.answer_as(PHONE, request.id, request.content_hash, answer.clone());
        assert_eq!(result.is_ok(), taken, "{answer:?}: {result:?}");
        let effects = world.effects();
        let responds = effects.iter().any(
            |effect| matches!(&effect.kind, EffectKind::Respond { answer: sent, .. } if *sent == answer),
        );
        assert_eq!(responds, taken, "{answer:?}");
    }
}

#[test]
fn a_refusal_does_not_repeat_what_was_typed_as_the_label_of_a_secret_question() {
    let mut world = World::new();
    world.running("first");
    let mut asked = question("q1", &["a", "b"], false, false);
    asked.secret = true;
    let subject = questions(vec![asked]);
    world.ask("4", None, RequestKind::UserInput, subject.clone());
    let request = world.request();
    let typed = reply("q1", &["hunter2"], None);
    let refusal = world
        .answer_as(PHONE, request.id, request.content_hash, typed.clone())
        .unwrap_err();
    let words = serde_json::to_string(&refusal).unwrap();
    assert!(
        words.contains("not offered") && !words.contains("hunter2"),
        "{words}"
    );
    for known in [subject, Subject::default()] {
        let answer = serde_json::to_string(&masked(&known.questions, &typed)).unwrap();
        assert!(answer.contains(MASK) && !answer.contains("hunter2"));
    }
    let offered = reply("q1", &["a"], None);
    let subject: Subject = serde_json::from_str(&request.subject).unwrap();
    assert_eq!(masked(&subject.questions, &offered), offered);
}

#[test]
fn a_secret_reaches_the_agent_and_no_log() {
    let mut world = World::new();
    world.running("first");
    let mut asked = question("q1", &[], false, true);
    asked.secret = true;
    world.ask(
        "4",
        None,
        RequestKind::UserInput,
        questions(vec![asked.clone()]),
    );
    let request = world.request();
    world
        .answer_as(
            PHONE,
            request.id,
            request.content_hash,
            reply("q1", &[], Some("hunter2")),
        )
        .unwrap();
    let effects = world.effects();
    assert!(
        matches!(&effects[0].kind, EffectKind::Respond { answer, .. } if *answer == reply("q1", &[], Some("hunter2")))
    );
    let log = serde_json::to_string(&world.thread.entries).unwrap();
    assert!(!log.contains("hunter2") && log.contains(MASK));
    // Asked again before the agent has it: the log cannot give it again, so it is asked anew.
    world.ask("4", None, RequestKind::UserInput, questions(vec![asked]));
    assert!(world.effects().is_empty());
    let again = world.request();
    assert_ne!(again.id, request.id);
    assert_eq!(
        (again.asked_before, again.status),
        (1, RequestStatus::Pending)
    );
    assert_eq!(status(&world, &request), RequestStatus::Withdrawn);
}
