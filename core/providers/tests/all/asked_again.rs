//! A request that waits for a person is never refused by us because it is asked again, however little room there is.

use pilothouse_domain::{ProviderEvent, ProviderEventKind, limits, provider_event::Resolution};
use pilothouse_providers::{
    acp,
    opencode::{Codec, PENDING_BYTES, Session, Told},
};
use serde_json::{Value, json};

fn event(name: &str, properties: &Value) -> Vec<u8> {
    let event = json!({"id": "evt_1", "type": name, "properties": properties});
    format!("data: {event}\n\n").into_bytes()
}

/// A conversation of a subagent, a call in it, and a request about that call.
fn asked(number: usize) -> Value {
    json!({"id": format!("per_{number}"), "sessionID": child(number), "permission": "x_y", "patterns": ["*"], "metadata": {},
        "always": [], "tool": {"messageID": "m", "callID": format!("call_{number}")}})
}

fn child(number: usize) -> String {
    format!("c{}", number / 16)
}

fn part(number: usize, state: &Value) -> Value {
    let session = child(number);
    let part = json!({"id": format!("prt_{number}"), "sessionID": session, "messageID": "m", "type": "tool", "tool": "x_y",
        "callID": format!("call_{number}"), "state": state});
    json!({"sessionID": session, "part": part})
}

#[test]
fn a_permission_of_opencode_that_is_listed_again_still_waits_though_late_inputs_have_filled_the_room()
 {
    let mut codec = Codec::new();
    codec.open(&Session {
        id: "s".into(),
        directory: "/w".to_owned(),
        parent: None,
        created_ms: 0,
        rules: Vec::new(),
        model: None,
        reverted: None,
    });
    assert!(codec.prompted(&"s".into(), "m".into()));
    let mut feed = |name: &str, told: &Value| {
        let told = codec.receive(&event(name, told));
        let done = told.iter().any(|one| matches!(one, Told::Do(_)));
        assert!(!done, "{name} is answered without a person: {told:?}");
        told
    };
    for number in 0..limits::OPEN_REQUESTS {
        let session = child(number);
        let info = json!({"id": session, "directory": "/w", "parentID": "s", "title": "t"});
        feed(
            "session.created",
            &json!({"sessionID": session, "info": info}),
        );
        feed(
            "message.part.updated",
            &part(number, &json!({"status": "pending"})),
        );
        feed("permission.asked", &asked(number));
    }
    // Each stands in what is shown with twice its bytes.
    let input = json!({"a": "\"".repeat(30_000)});
    let mut incomplete = 0;
    for number in 0..limits::OPEN_REQUESTS {
        let state = json!({"status": "running", "input": input});
        let told = feed("message.part.updated", &part(number, &state));
        incomplete += told.iter().filter(|one| shows_no_text(one)).count();
    }
    assert!(
        (1..limits::OPEN_REQUESTS).contains(&incomplete),
        "{incomplete}"
    );
    for number in (0..limits::OPEN_REQUESTS).chain(0..limits::OPEN_REQUESTS) {
        let told = feed("permission.asked", &asked(number));
        let closed = told.iter().any(|one| {
            matches!(
                one,
                Told::Event(ProviderEvent {
                    kind: ProviderEventKind::RequestClosed { .. },
                    ..
                })
            )
        });
        assert!(
            !closed,
            "request {number} is another one than was shown: {told:?}"
        );
    }
    assert_eq!(codec.pending_requests().count(), limits::OPEN_REQUESTS);
    assert!(codec.held_bytes() <= PENDING_BYTES + 16 * 1024 * 1024);
}

/// Whether something told opens a request that does not show what its tool is called with.
fn shows_no_text(told: &Told) -> bool {
    matches!(told, Told::Event(ProviderEvent { kind: ProviderEventKind::RequestOpened { subject, .. }, .. })
        if subject.text.is_none() && subject.incomplete)
}

#[test]
fn an_id_of_a_request_is_answered_once_also_where_it_stands_for_something_that_has_no_room() {
    let mut codec = acp::Codec::new("life");
    let mut ask = |id: usize, bytes: usize| {
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": "s",
            "toolCall": {"toolCallId": format!("t{id}"), "title": "x", "kind": "execute", "rawInput": {"command": "x".repeat(bytes)}},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}});
        let came = codec.receive(format!("{frame}\n").as_bytes());
        let refused = came.iter().any(|one| matches!(one, acp::Received::Send(_)));
        let closed = came.iter().find_map(|one| match one {
            acp::Received::Event(ProviderEvent {
                kind: ProviderEventKind::RequestClosed { resolution, .. },
                ..
            }) => Some(*resolution),
            _ => None,
        });
        (refused, closed)
    };
    const LARGE: usize = 300 * 1024;
    assert_eq!(ask(0, 10), (false, None));
    let full = (1..100)
        .find(|id| ask(*id, LARGE).0)
        .expect("the room ends");
    assert!(full > 4, "{full}");
    for id in 1..full {
        assert_eq!(ask(id, LARGE), (false, None), "request {id} waits");
    }
    assert_eq!(ask(0, 10), (false, None));
    // Its id is refused now, so the one that waited under it is over.
    assert_eq!(ask(0, LARGE), (true, Some(Resolution::Withdrawn)));
}
