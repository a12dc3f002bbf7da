//! What pi says of a message after its answer was no longer waited for, of words that came too late
//! for their turn, and of dialogs after their time.

use crate::{
    fuzz::line,
    pi_world::{PiWorld, Place, life, selection},
    support::{PATIENCE, launch},
};
use pilothouse_domain::{
    Answer, ItemContent, Mode, NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus,
    provider_event::Resolution,
};
use pilothouse_providers::{
    contract::{OpenThread, ProviderAdapter as _, RespondError, SendError, SendTurn, Steer},
    pi::{Call, Codec, Deadlines, PiAdapter, Received},
};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use tokio::sync::mpsc;

/// A codec that waited for the answer to a prompt in vain.
fn given_up(text: &str) -> (Codec, u64) {
    let mut codec = Codec::new("life");
    let (state, _) = codec.call(Call::State);
    let loaded = json!({"id": format!("r{state}"), "type": "response", "command": "get_state", "success": true, "data": {"sessionFile": "/s.jsonl", "sessionId": "s"}});
    events(&mut codec, &loaded);
    let (call, _) = codec.call(prompt("c", text));
    codec.forget(call);
    (codec, call)
}

fn prompt(client_id: &str, text: &str) -> Call {
    Call::Prompt {
        client_id: client_id.to_owned(),
        text: text.to_owned(),
        pictures: Vec::new(),
    }
}

fn events(codec: &mut Codec, frame: &Value) -> Vec<ProviderEvent> {
    let received = codec.receive(&line(frame));
    received
        .into_iter()
        .filter_map(|one| match one {
            Received::Event(event) => Some(event),
            _ => None,
        })
        .collect()
}

/// The one turn that the events tell of, from its beginning to its end.
fn only_turn(told: &[ProviderEvent]) -> (NativeId, TurnStatus, Option<String>) {
    let began = told
        .iter()
        .filter(|event| event.kind == ProviderEventKind::TurnStarted)
        .count();
    let ends: Vec<_> = told
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::TurnEnded { status, error } => {
                Some((event.place.turn.clone()?, *status, error.clone()))
            }
            _ => None,
        })
        .collect();
    let [(turn, status, error)] = &ends[..] else {
        panic!("{told:#?}")
    };
    assert_eq!(began, 1, "{told:#?}");
    (
        turn.clone(),
        *status,
        error.clone().map(|error| error.message),
    )
}

fn said(told: &[ProviderEvent]) -> Vec<(String, Option<String>)> {
    told.iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::UserMessage { text, .. },
                client_id,
                ..
            } => Some((text.preview().to_owned(), client_id.clone())),
            _ => None,
        })
        .collect()
}

#[test]
fn a_command_that_was_done_late_is_a_turn_with_its_message() {
    let (mut codec, call) = given_up("/deploy");
    let done = json!({"id": format!("r{call}"), "type": "response", "command": "prompt", "success": true, "data": {"disposition": "handled"}});
    let told = events(&mut codec, &done);
    assert_eq!(only_turn(&told).1, TurnStatus::Completed);
    assert_eq!(said(&told), [("/deploy".to_owned(), Some("c".to_owned()))]);
    assert!(!codec.is_busy());
    let again = events(&mut codec, &done);
    assert!(
        matches!(
            &again[..],
            [ProviderEvent {
                kind: ProviderEventKind::Diagnostic { .. },
                ..
            }]
        ),
        "{again:?}"
    );
}

#[test]
fn a_command_that_asks_late_asks_in_its_turn() {
    let (mut codec, call) = given_up("/deploy");
    let mut told = events(
        &mut codec,
        &json!({"type": "extension_ui_request", "id": "q", "method": "confirm", "title": "Go?"}),
    );
    assert!(
        told.iter().any(
            |event| matches!(event.kind, ProviderEventKind::RequestOpened { .. })
                && event.place.turn.is_some()
        ),
        "{told:#?}"
    );
    let done = json!({"id": format!("r{call}"), "type": "response", "command": "prompt", "success": true, "data": {"disposition": "handled"}});
    told.extend(events(&mut codec, &done));
    assert_eq!(only_turn(&told).1, TurnStatus::Completed);
    assert_eq!(said(&told), [("/deploy".to_owned(), Some("c".to_owned()))]);
}

#[test]
fn a_message_that_was_refused_late_is_a_turn_that_failed() {
    let (mut codec, call) = given_up("go");
    let refused = json!({"id": format!("r{call}"), "type": "response", "command": "prompt", "success": false, "error": "the context is full"});
    let told = events(&mut codec, &refused);
    let (_, status, error) = only_turn(&told);
    assert_eq!(status, TurnStatus::Failed);
    assert!(error.unwrap().contains("the context is full"));
    // Its words are those of nobody any more: the same ones again are the new message's.
    codec.call(prompt("new", "go"));
    events(&mut codec, &json!({"type": "agent_start"}));
    let heard = events(
        &mut codec,
        &json!({"type": "message_start", "message": {"role": "user", "content": "go", "timestamp": 1}}),
    );
    assert_eq!(said(&heard), [("go".to_owned(), Some("new".to_owned()))]);
}

/// A pi that says hello and opens a session, then goes on with what follows.
const HELLO: &str = r#"
echo '{"type":"extension_ui_request","id":"g","method":"setStatus","statusKey":"pilothouse-gate","statusText":"{\"version\":1,\"agent\":\"1.6.0\",\"mode\":\"ask\"}"}'
read l; echo '{"id":"r1","type":"response","command":"get_state","success":true,"data":{"sessionFile":"/s.jsonl","sessionId":"s"}}'
read l; echo '{"id":"r2","type":"response","command":"get_available_models","success":false,"error":"none"}'
read l; echo '{"id":"r3","type":"response","command":"get_available_thinking_levels","success":false,"error":"none"}'
read l; echo '{"id":"r4","type":"response","command":"get_state","success":true,"data":{"sessionFile":"/s.jsonl","sessionId":"s"}}'
"#;

#[tokio::test]
async fn a_message_that_is_answered_after_its_deadline_has_its_turn_all_the_same() {
    let gate = tempfile::tempdir().unwrap();
    let go = gate.path().join("go");
    // It answers only when the deadline is known to be over.
    let script = format!(
        "{HELLO} read l; until [ -e '{}' ]; do sleep 0.02; done; echo '{{\"id\":\"r5\",\"type\":\"response\",\"command\":\"prompt\",\"success\":true,\"data\":{{\"disposition\":\"handled\"}}}}'; cat >/dev/null",
        go.display()
    );
    let (sender, mut told) = mpsc::channel(16);
    let mut launch = launch(&["sh", "-c", &script], Path::new("/"));
    launch.incarnation = pilothouse_domain::Incarnation::from_bytes(life());
    let deadlines = Deadlines {
        handshake: PATIENCE,
        call: Duration::from_secs(3),
        ..Deadlines::default()
    };
    let runtime = PiAdapter::with_deadlines(deadlines)
        .start(launch, sender)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let selection = selection(Mode::Ask);
    let thread = runtime
        .open_thread(OpenThread {
            resume: None,
            cwd: "/".into(),
            selection: selection.clone(),
        })
        .await
        .unwrap();
    let sent = runtime
        .send_turn(SendTurn {
            thread,
            client_id: "c".into(),
            text: "/deploy".into(),
            attachments: Vec::new(),
            selection,
        })
        .await;
    assert_eq!(sent, Err(SendError::Unknown));
    std::fs::write(&go, "").unwrap();
    let mut seen = Vec::new();
    tokio::time::timeout(PATIENCE, async {
        while !seen
            .iter()
            .any(|event: &ProviderEvent| matches!(event.kind, ProviderEventKind::TurnEnded { .. }))
        {
            seen.extend(told.recv().await.expect("it goes on").events);
        }
    })
    .await
    .expect("its turn ends");
    assert_eq!(only_turn(&seen).1, TurnStatus::Completed);
    assert_eq!(said(&seen), [("/deploy".to_owned(), Some("c".to_owned()))]);
    runtime.stop().await;
}

/// A codec in whose turn a dialog was opened that waits a second.
fn asking() -> (Codec, NativeId) {
    let (mut codec, _) = given_up("/deploy");
    let told = events(
        &mut codec,
        &json!({"type": "extension_ui_request", "id": "q", "method": "confirm", "title": "Go?", "timeout": 1000}),
    );
    let asked = told.into_iter().find_map(|event| match event.kind {
        ProviderEventKind::RequestOpened { request, .. } => Some(request),
        _ => None,
    });
    (codec, asked.expect("it is asked"))
}

#[test]
fn a_dialog_is_over_after_its_time_and_not_if_it_was_answered_before() {
    let yes = Answer::Choose {
        option: "yes".into(),
        note: None,
    };
    let (mut codec, asked) = asking();
    let [(timed, wait)] = codec.timed()[..] else {
        panic!("it has a time")
    };
    assert_eq!(wait, Duration::from_secs(1));
    assert_eq!(codec.timed(), []);
    let expired = codec.expire(timed);
    assert!(
        matches!(&expired[..], [Received::Event(event)] if matches!(&event.kind, ProviderEventKind::RequestClosed { request, resolution: Resolution::Expired } if *request == asked)),
        "{expired:?}"
    );
    assert!(codec.answer(&asked, &yes).is_err());
    assert!(codec.expire(timed).is_empty(), "it is over once");

    let (mut codec, asked) = asking();
    let timed = codec.timed()[0].0;
    codec.answer(&asked, &yes).unwrap();
    // The same id is another dialog by now, which has no time.
    events(
        &mut codec,
        &json!({"type": "extension_ui_request", "id": "q", "method": "confirm", "title": "Sure?"}),
    );
    assert!(codec.expire(timed).is_empty());
    assert_eq!(codec.pending_requests().count(), 1);
}

/// The real pi goes on without an answer and says nothing of it.
#[tokio::test]
async fn an_answer_to_a_dialog_that_pi_gave_up_is_not_taken() {
    // It ends when the answer was refused.
    const EXTENSION: &str = r#"
import { existsSync } from "node:fs";
export default function (pi) {
  pi.registerCommand("hurry", {
    description: "does not wait",
    handler: async (_args, ctx) => {
      const told = await ctx.ui.confirm("Go?", "", { timeout: 50 });
      ctx.ui.notify(`told ${told}`, "info");
      while (!existsSync("go")) await new Promise((then) => setTimeout(then, 20));
    },
  });
}
"#;
    let place = Place::new(&json!({}));
    let file = place.dir.path().join("extension.js");
    std::fs::write(&file, EXTENSION).unwrap();
    let mut launch = place.launch();
    launch
        .command
        .extend(["-e".to_owned(), file.display().to_string()]);
    let mut world = PiWorld::launched(place, launch, Mode::Ask).await;
    let thread = world.open(None).await;
    world.send(&thread, "/hurry").await;
    let asked = world.request().await;
    world
        .until("the end of its time", |event| {
            matches!(&event.kind, ProviderEventKind::RequestClosed { request, resolution: Resolution::Expired } if *request == asked.request)
                .then_some(())
        })
        .await;
    let yes = Answer::Choose {
        option: "yes".into(),
        note: None,
    };
    let late = world.runtime.respond(asked.response(yes)).await;
    assert_eq!(late, Err(RespondError::NotPending));
    std::fs::write(world.workspace().join("go"), "").unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(
        world.seen.iter().any(|event| matches!(&event.kind, ProviderEventKind::Diagnostic { message } if message.contains("told false"))),
        "{:#?}",
        world.seen
    );
}

/// Words that wait for their turn to hear them are taken back with a stop: their person is told, and they are those of no later
/// message.
#[tokio::test]
async fn words_that_a_stop_takes_back_are_told_and_never_taken_for_later_ones() {
    let mut world =
        PiWorld::start(json!({"s": [{"text": "word ", "hold_after_text": "never"}]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    world
        .until("the first words", |event| {
            matches!(&event.kind, ProviderEventKind::ItemAppended { .. }).then_some(())
        })
        .await;
    let words = "go on [[script:plain]]";
    let steer = Steer {
        thread: thread.clone(),
        turn: turn.clone(),
        client_id: "steer".to_owned(),
        text: words.to_owned(),
    };
    let steering = world.runtime.steering().expect("pi can be steered");
    steering.steer(steer).await.expect("it waits for the turn");
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting
        .interrupt(thread.clone(), turn.clone())
        .await
        .expect("it is taken");
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    let told = world.seen.iter().any(|event| {
        event.place.turn.as_ref() == Some(&turn)
            && matches!(&event.kind, ProviderEventKind::Error { error, will_retry: false } if error.message.ends_with(words))
    });
    assert!(told, "{:#?}", world.seen);
    world.send(&thread, words).await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let heard = said(&world.seen);
    assert_eq!(
        heard.last(),
        Some(&(words.to_owned(), Some(format!("id of {words}"))))
    );
    assert!(
        heard.iter().all(|(_, id)| id.as_deref() != Some("steer")),
        "{heard:?}"
    );
}
