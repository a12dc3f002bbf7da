//! A frame of more values than are read is one that is too large: whoever waits for it is told.

use pilothouse_domain::{ProviderEvent, ProviderEventKind};
use pilothouse_providers::{acp, claude, codex, opencode, pi};

/// Two million values.
fn values() -> String {
    format!("[{}0]", "0,".repeat(2_000_000))
}

/// What came of a frame: the answer to a request, and the call that failed.
macro_rules! came {
    ($family:ident, $codec:expr, $frame:expr) => {{
        let (mut answer, mut failed) = (None, None);
        for one in $codec.receive(format!("{}\n", $frame).as_bytes()) {
            match one {
                $family::Received::Send(line) => answer = Some(String::from_utf8(line).unwrap()),
                $family::Received::Reply { call, reply } => {
                    assert!(
                        matches!(reply, Err($family::CallError::Unreadable { .. })),
                        "{reply:?}"
                    );
                    failed = Some(call);
                }
                $family::Received::Event(event) => assert!(is_told(&event), "{event:?}"),
            }
        }
        (answer, failed)
    }};
}

fn is_told(event: &ProviderEvent) -> bool {
    matches!(&event.kind, ProviderEventKind::Unknown { label, .. } if label.starts_with("frame of "))
}

#[test]
fn a_request_of_too_many_values_is_answered_and_a_reply_fails_its_call() {
    let values = values();
    let asks = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x/y","params":{values}}}"#);
    let replies = |call: u64| format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{values}}}"#);

    let mut codec = codex::Codec::new();
    let (answer, _) = came!(codex, codec, asks);
    assert!(answer.unwrap().contains("\"id\":7"));
    let (call, _) = codec.call(codex::Call::LoginStart { thread: "T".into() });
    assert_eq!(came!(codex, codec, replies(call)), (None, Some(call)));

    let mut codec = acp::Codec::new("life");
    let (answer, _) = came!(acp, codec, asks);
    assert!(answer.unwrap().contains("\"id\":7"));
    let (call, _) = codec.call(acp::Call::Initialize {
        version: "1".to_owned(),
    });
    assert_eq!(came!(acp, codec, replies(call)), (None, Some(call)));

    let mut codec = pi::Codec::new("life");
    let asks =
        format!(r#"{{"type":"extension_ui_request","id":"d","method":"confirm","x":{values}}}"#);
    let (answer, _) = came!(pi, codec, asks);
    assert!(answer.unwrap().contains("\"id\":\"d\""));
    let (call, _) = codec.call(pi::Call::State);
    let reply = format!(r#"{{"id":"r{call}","type":"response","success":true,"data":{values}}}"#);
    assert_eq!(came!(pi, codec, reply), (None, Some(call)));
}

#[test]
fn one_that_nobody_waits_for_is_told_and_is_no_garbage() {
    let values = values();
    let frame = format!(r#"{{"type":"assistant","message":{values}}}"#);

    let mut codec = claude::Codec::serving("life", "s".into());
    let told = codec.receive(format!("{frame}\n").as_bytes());
    assert!(matches!(&told[..], [claude::Received::Event(event)] if is_told(event)));
    assert_eq!(codec.unreadable_in_a_row(), 0);

    let mut codec = opencode::Codec::new();
    let told = codec.receive(format!("data: {frame}\n\n").as_bytes());
    assert!(matches!(&told[..], [opencode::Told::Event(event)] if is_told(event)));
    assert_eq!(codec.unreadable_in_a_row(), 0);
}
