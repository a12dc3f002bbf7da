//! New and old sides meet: the stream is compressed where both know it, and plain where one does not.

use crate::{
    common::soon,
    examples::{hello, welcome},
    link::{HostEnds, Scripted, down, start, start_as, state, up},
};
use pilothouse_wire::{
    duplex::{DuplexError, Frame},
    link::{LinkEvent, LinkProblem, LinkState},
    message::{
        ByeReason, DeviceMessage, Hello, HostMessage, Incoming, KNOWN_WORDS, Message, Outgoing,
        ReceiveError, Welcome, decode,
    },
    opening::{Opening, read_opening},
    stream::{Encoding, StreamError},
};
use serde::Deserialize;

/// A `hello` with encodings, and the name of its golden file.
pub(crate) fn offering() -> (&'static str, DeviceMessage) {
    let hello = Hello {
        encodings: Encoding::KNOWN.to_vec(),
        ..hello()
    };
    ("hello.encodings", DeviceMessage::Hello(hello))
}

/// A `hello` with later words, and the name of its golden file.
pub(crate) fn wording() -> (&'static str, DeviceMessage) {
    let hello = Hello {
        words: KNOWN_WORDS.iter().map(|&word| word.to_owned()).collect(),
        ..hello()
    };
    ("hello.words", DeviceMessage::Hello(hello))
}

/// A `welcome` with one, and the name of its golden file.
pub(crate) fn choosing() -> (&'static str, HostMessage) {
    let welcome = Welcome {
        encoding: Some(Encoding::Deflate),
        ..welcome()
    };
    ("welcome.encoding", HostMessage::Welcome(Box::new(welcome)))
}

/// Answers `hello` as a host that knows these encodings, and goes on as agreed.
async fn greet(ends: HostEnds, known: &[Encoding]) -> (HostEnds, Option<Encoding>) {
    let (mut outgoing, mut incoming) = ends;
    let Opening::Hello(hello) = read_opening(&mut incoming, true).await.unwrap() else {
        panic!()
    };
    let encoding = Encoding::choose(&hello.encodings).filter(|chosen| known.contains(chosen));
    let message = HostMessage::Welcome(Box::new(Welcome {
        encoding,
        ..welcome()
    }));
    outgoing.send(&message).await.unwrap();
    (
        (outgoing.encoded(encoding), incoming.encoded(encoding)),
        encoding,
    )
}

fn pong(nonce: u64) -> HostMessage {
    HostMessage::Outcome {
        command_id: pilothouse_domain::CommandId::from_bytes([nonce as u8; 16]),
        outcome: None,
    }
}

#[tokio::test(start_paused = true)]
async fn new_and_old_sides_understand_each_other_in_every_pair() {
    let deflate = Some(Encoding::Deflate);
    let newer = vec![Encoding::Other, Encoding::Deflate];
    for (offered, known, agreed) in [
        (vec![Encoding::Deflate], Encoding::KNOWN, deflate),
        (newer, Encoding::KNOWN, deflate),
        (vec![Encoding::Deflate], &[][..], None),
        (vec![], Encoding::KNOWN, None),
        (vec![Encoding::Other], Encoding::KNOWN, None),
        (vec![], &[], None),
    ] {
        let (dialer, mut hosts) = Scripted::connecting();
        let hello = Hello {
            encodings: offered,
            ..Hello::of_this_build("phone", "test")
        };
        let (link, mut events) = start_as(dialer, hello);
        let ((mut to_device, mut from_device), encoding) =
            greet(hosts.recv().await.unwrap(), known).await;
        assert_eq!(encoding, agreed);
        let sender = up(&mut events).await;
        for n in 1..20 {
            let message = DeviceMessage::Unsubscribe { sub: n };
            sender.send(&message).await.unwrap();
            assert_eq!(from_device.receive().await.unwrap(), message);
            let message = pong(n.into());
            to_device.send(&message).await.unwrap();
            let LinkEvent::Message(came) = events.recv().await.unwrap() else {
                panic!()
            };
            assert_eq!(came, message);
        }
        link.stop(ByeReason::Done);
        assert_eq!(
            from_device.receive().await.unwrap(),
            DeviceMessage::Bye {
                reason: ByeReason::Done
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_encoding_that_was_not_offered_is_not_taken() {
    for (offered, chosen) in [
        (vec![], Encoding::Deflate),
        (vec![Encoding::Deflate], Encoding::Other),
    ] {
        let (dialer, mut hosts) = Scripted::connecting();
        let hello = Hello {
            encodings: offered,
            ..Hello::of_this_build("phone", "test")
        };
        let (link, _events) = start_as(dialer, hello);
        let (mut to_device, _from_device) = hosts.recv().await.unwrap();
        let message = HostMessage::Welcome(Box::new(Welcome {
            encoding: Some(chosen),
            ..welcome()
        }));
        to_device.send(&message).await.unwrap();
        let failed = |s: &LinkState| {
            matches!(s, LinkState::Unreachable { problem: Some(LinkProblem::Protocol(problem)), .. }
                if problem == "it chose an encoding that was not offered")
        };
        state(&link, failed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_stream_ends_the_connection_is_told_and_the_link_dials_again() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (_link, mut events) = start(dialer.clone());
    for broken in [vec![0, 0xff, 0xff], vec![0, 1, 2, 3], vec![], vec![9]] {
        let (mut ends, _) = greet(hosts.recv().await.unwrap(), Encoding::KNOWN).await;
        let before = dialer.attempts().len();
        up(&mut events).await;
        ends.0.frames().send(Frame::Binary(broken)).await.unwrap();
        let problem = down(&mut events).await;
        let LinkProblem::Ended(DuplexError::Stream(error)) = problem else {
            panic!("{problem:?}")
        };
        let said = soon("the farewell", ends.1.receive()).await.unwrap();
        let expected = DeviceMessage::Bye {
            reason: ByeReason::Protocol {
                problem: error.to_string(),
            },
        };
        assert_eq!(said, expected);
        assert!(!LinkProblem::Ended(error.into()).needs_a_person());
        assert_eq!(dialer.attempts().len(), before);
    }
    assert_eq!(
        StreamError::Damaged.to_string(),
        "a compressed message is damaged"
    );
    // It was dialled anew each time, and is once more.
    greet(hosts.recv().await.unwrap(), Encoding::KNOWN).await;
    up(&mut events).await;
}

/// What the version before the stream reads of `hello` and `welcome`, and what it writes.
#[test]
fn the_version_before_the_stream_reads_ours_and_we_read_its() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Before {
        Hello {
            device_name: String,
            software: String,
            log_formats: Vec<u16>,
            state_version: u16,
            decide_version: u16,
        },
        Welcome {
            protocol: u16,
            host_name: String,
            commands: Vec<String>,
            host_time_ms: u64,
        },
    }
    let golden = |name: &str| {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
        std::fs::read_to_string(dir.join(name)).unwrap()
    };
    let before = |name| serde_json::from_str::<Before>(&golden(name)).unwrap();
    assert_eq!(
        before("device.hello.encodings.json"),
        before("device.hello.json")
    );
    assert_eq!(
        before("device.hello.words.json"),
        before("device.hello.json")
    );
    assert_eq!(
        before("host.welcome.encoding.json"),
        before("host.welcome.json")
    );
    // The files without are those of that version, byte for byte.
    let DeviceMessage::Hello(hello) = read(golden("device.hello.json")) else {
        panic!()
    };
    assert_eq!(hello.encodings, []);
    let HostMessage::Welcome(welcome) = read(golden("host.welcome.json")) else {
        panic!()
    };
    assert_eq!(welcome.encoding, None);
    // And a later one may offer and choose what we do not know.
    let later = golden("device.hello.encodings.json").replace("deflate", "zstd");
    let DeviceMessage::Hello(hello) = read(later) else {
        panic!()
    };
    assert_eq!(Encoding::choose(&hello.encodings), None);
}

fn read<M: Message>(text: String) -> M {
    decode(&Frame::Text(text)).unwrap()
}

#[tokio::test]
async fn a_bye_in_plain_text_may_cross_the_welcome() {
    let (here, there) = pilothouse_wire::duplex::memory_pair(4);
    let (sender, _keep) = pilothouse_wire::duplex::Duplex::split(Box::new(here));
    let (_keep_too, receiver) = pilothouse_wire::duplex::Duplex::split(Box::new(there));
    let mut plain = Outgoing::<DeviceMessage>::new(sender);
    let mut incoming = Incoming::<DeviceMessage>::new(receiver).encoded(Some(Encoding::Deflate));
    let bye = DeviceMessage::Bye {
        reason: ByeReason::Done,
    };
    plain.send(&bye).await.unwrap();
    assert_eq!(incoming.receive().await.unwrap(), bye);
    drop(plain);
    assert!(matches!(
        incoming.receive().await,
        Err(ReceiveError::Duplex(DuplexError::Closed(None)))
    ));
}
