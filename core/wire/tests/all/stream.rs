//! The compressed stream: what goes in comes out, however it travels, and nothing else does.

use crate::{
    common::{Listening, device, soon},
    examples::{ITEM, THREAD, of_device, of_host},
};
use pilothouse_domain::{BlobHash, row::LiveText};
use pilothouse_wire::{
    connect::Connector,
    duplex::{
        Direction, Duplex, DuplexError, Frame, FrameReceiver, FrameSender, MAX_FRAME, MemoryDuplex,
        memory_pair,
    },
    message::{
        BLOB_CHUNK, Base64, BlobChunk, DecodeError, DeviceMessage, HostMessage, Incoming, Message,
        Outgoing, QueryAnswer, QueryResult, ReceiveError, SendError,
    },
    stream::{Encoding, StreamError},
};
use proptest::prelude::*;
use std::{fs, path::PathBuf};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const DEFLATE: Option<Encoding> = Some(Encoding::Deflate);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A sender, and a receiver of what it sends, with room for that many frames.
fn line(room: usize) -> (Box<dyn FrameSender>, Box<dyn FrameReceiver>) {
    let (here, there): (MemoryDuplex, MemoryDuplex) = memory_pair(room);
    (Box::new(here).split().0, Box::new(there).split().1)
}

/// The frames by which messages travel.
async fn frames_of<M: Message>(messages: &[M]) -> Vec<Vec<u8>> {
    let (sender, mut receiver) = line(messages.len());
    let mut outgoing = Outgoing::new(sender).encoded(DEFLATE);
    for message in messages {
        outgoing.send(message).await.unwrap();
    }
    let mut frames = Vec::new();
    for _ in messages {
        match receiver.receive().await.unwrap() {
            Frame::Binary(bytes) => frames.push(bytes),
            Frame::Text(text) => panic!("{text}"),
        }
    }
    frames
}

/// What a peer reads out of these frames, up to the first that is no message.
async fn read<M: Message>(frames: Vec<Vec<u8>>) -> (Vec<M>, Option<ReceiveError>) {
    let count = frames.len();
    let (mut sender, receiver) = line(count.max(1));
    for frame in frames {
        sender.send(Frame::Binary(frame)).await.unwrap();
    }
    let mut incoming = Incoming::<M>::new(receiver).encoded(DEFLATE);
    let mut messages = Vec::new();
    for _ in 0..count {
        match incoming.receive().await {
            Ok(message) => messages.push(message),
            Err(error) => {
                if let ReceiveError::Duplex(_) = error {
                    let again = incoming.receive().await.err();
                    assert_eq!(again.as_ref(), Some(&error), "an end stays an end");
                }
                return (messages, Some(error));
            }
        }
    }
    (messages, None)
}

fn live(offset: u64, text: &str) -> HostMessage {
    HostMessage::Live {
        thread: THREAD,
        live: LiveText {
            item: ITEM,
            offset,
            text: text.to_owned(),
        },
    }
}

fn blob(id: u32, offset: u64, data: Vec<u8>) -> HostMessage {
    let chunk = BlobChunk {
        hash: BlobHash::of(&data),
        offset,
        total: offset + data.len() as u64,
        data: Base64(data),
    };
    HostMessage::Result {
        id,
        answer: QueryAnswer::Result(QueryResult::Blob(chunk)),
    }
}

fn any_message() -> impl Strategy<Value = HostMessage> {
    let examples = of_host();
    prop_oneof![
        (0..examples.len()).prop_map(move |at| examples[at].1.clone()),
        (any::<u64>(), "\\PC{0,400}").prop_map(|(offset, text)| live(offset, &text)),
        (any::<u64>(), "[a-c]{0,8}", 0usize..20_000)
            .prop_map(|(offset, text, times)| live(offset, &text.repeat(times))),
        (
            any::<u32>(),
            0u64..1 << 40,
            prop::collection::vec(any::<u8>(), 0..2000)
        )
            .prop_map(|(id, offset, data)| blob(id, offset, data)),
    ]
}

/// What a broken or hostile peer does to a frame.
#[derive(Debug, Clone)]
enum Damage {
    Byte(prop::sample::Index, u8),
    CutOff(prop::sample::Index),
    Remove(prop::sample::Index),
    Append(Vec<u8>),
    SplitInTwo(prop::sample::Index),
    Repeat,
    Drop,
    Any(Vec<u8>),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..60);
    prop_oneof![
        (any::<prop::sample::Index>(), 1u8..).prop_map(|(at, by)| Damage::Byte(at, by)),
        any::<prop::sample::Index>().prop_map(Damage::CutOff),
        any::<prop::sample::Index>().prop_map(Damage::Remove),
        bytes().prop_map(Damage::Append),
        any::<prop::sample::Index>().prop_map(Damage::SplitInTwo),
        Just(Damage::Repeat),
        Just(Damage::Drop),
        bytes().prop_map(Damage::Any),
    ]
}

impl Damage {
    fn apply(&self, frames: &mut Vec<Vec<u8>>, which: usize) {
        let frame = &mut frames[which];
        match self {
            Self::Byte(at, by) => {
                let at = at.index(frame.len());
                frame[at] ^= by;
            }
            Self::CutOff(at) => frame.truncate(at.index(frame.len())),
            Self::Remove(at) => drop(frame.remove(at.index(frame.len()))),
            Self::Append(bytes) => frame.extend(bytes),
            Self::SplitInTwo(at) => {
                let mut rest = frame.split_off(at.index(frame.len()));
                rest.insert(0, 0);
                frames.insert(which + 1, rest);
            }
            Self::Repeat => {
                let again = frame.clone();
                frames.insert(which, again);
            }
            Self::Drop => drop(frames.remove(which)),
            Self::Any(bytes) => frame.clone_from(bytes),
        }
    }
}

/// What ends each message's deflate, and is left out of its frame.
const FLUSHED: [u8; 4] = [0, 0, 0xff, 0xff];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_come_out_as_they_went_in(messages in prop::collection::vec(any_message(), 0..30)) {
        let (read, error) = runtime().block_on(async { read::<HostMessage>(frames_of(&messages).await).await });
        prop_assert_eq!(error, None);
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn what_was_damaged_on_the_way_is_an_error_or_a_message_and_never_a_panic(
        messages in prop::collection::vec(any_message(), 1..8), which in any::<prop::sample::Index>(), damage in any_damage(),
    ) {
        let which = which.index(messages.len());
        runtime().block_on(async {
            let mut frames = frames_of(&messages).await;
            damage.apply(&mut frames, which);
            let (read, _) = read::<HostMessage>(frames).await;
            // What came before the damage is unharmed.
            let unharmed = which.min(read.len());
            assert_eq!(&read[..unharmed], &messages[..unharmed]);
            assert!(read.len() >= which);
        });
    }

    #[test]
    fn a_message_cut_anywhere_is_never_read_as_another(text in "\\PC{1,300}", at in any::<prop::sample::Index>()) {
        runtime().block_on(async {
            let mut frames = frames_of(&[live(1, &text)]).await;
            let at = 1 + at.index(frames[0].len() - 1);
            frames[0].truncate(at);
            let (read, error) = read::<HostMessage>(frames).await;
            // A last byte that only filled up the flush may be missing.
            assert!(error.is_some() || read == [live(1, &text)]);
        });
    }
}

#[tokio::test]
async fn what_repeats_costs_next_to_nothing_and_each_direction_is_one_stream() {
    let pieces: Vec<_> = (0..50u64).map(|n| live(n * 4, "word")).collect();
    let frames = frames_of(&pieces).await;
    let plain = serde_json::to_string(&pieces[0]).unwrap().len();
    assert!(frames[0].len() < plain);
    for frame in &frames[1..] {
        assert!(
            frame.len() < 24,
            "{} bytes for a piece of {plain}",
            frame.len()
        );
    }
}

#[tokio::test]
async fn a_bomb_ends_the_connection_and_a_message_of_just_the_limit_does_not() {
    // Raw deflate of spaces is a thousandth of their size.
    let (sender, mut sent) = line(1);
    let mut outgoing = Outgoing::<HostMessage>::new(sender).encoded(DEFLATE);
    let most = Frame::Text(" ".repeat(MAX_FRAME - 2) + "{}");
    outgoing.frames().send(most).await.unwrap();
    let Frame::Binary(honest) = sent.receive().await.unwrap() else {
        panic!()
    };
    assert!(honest.len() < 4000);
    let (_, error) = read::<HostMessage>(vec![honest.clone()]).await;
    assert!(
        matches!(error, Some(ReceiveError::Decode(_))),
        "it was inflated, and is no message: {error:?}"
    );
    // The same once more in the same frame is over the limit, and so is a MiB of it.
    for times in [2, 250] {
        let mut bomb = honest.clone();
        for _ in 1..times {
            bomb.extend(FLUSHED);
            bomb.extend(&honest[1..]);
        }
        let (_, error) = read::<HostMessage>(vec![bomb]).await;
        let expected = DuplexError::TooLarge {
            direction: Direction::Incoming,
            limit: MAX_FRAME,
        };
        assert_eq!(error, Some(ReceiveError::Duplex(expected)));
    }
    // And a larger one is not sent; the stream goes on behind it.
    let refused = outgoing
        .frames()
        .send(Frame::Text(" ".repeat(MAX_FRAME + 1)));
    assert!(matches!(
        refused.await,
        Err(DuplexError::TooLarge {
            direction: Direction::Outgoing,
            ..
        })
    ));
    outgoing.send(&live(0, "on")).await.unwrap();
    let Frame::Binary(after) = sent.receive().await.unwrap() else {
        panic!()
    };
    let (mut both, receiver) = line(2);
    for frame in [honest, after] {
        both.send(Frame::Binary(frame)).await.unwrap();
    }
    let mut incoming = Incoming::<HostMessage>::new(receiver).encoded(DEFLATE);
    assert!(incoming.receive().await.is_err());
    assert_eq!(incoming.receive().await.unwrap(), live(0, "on"));
}

#[tokio::test]
async fn what_does_not_compress_fits_at_the_limit_too() {
    // Half a million two-byte characters without an order.
    let mut seed = 1u32;
    let text: String = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(0x80 + (seed >> 8) % 0x700).unwrap_or('x')
    })
    .take(MAX_FRAME / 2 - 200)
    .collect();
    let message = live(0, &text);
    let (read, error) = read::<HostMessage>(frames_of(std::slice::from_ref(&message)).await).await;
    assert_eq!((read, error), (vec![message], None));
}

#[tokio::test]
async fn each_way_to_be_wrong_has_its_name() {
    let good = frames_of(&[live(0, "good")]).await.remove(0);
    // A last block of fixed codes with nothing in it.
    let over = [&good[..], &FLUSHED, &[0x03, 0x00]].concat();
    let damaged = vec![0, 0xff, 0xff];
    // A stored block of two bytes that are no text.
    let no_text = vec![0, 0x00, 0x02, 0x00, 0xfd, 0xff, 0xc0, 0xc1, 0];
    for (frame, expected) in [
        (Vec::new(), StreamError::Empty),
        (vec![7, 1, 2], StreamError::UnknownKind(7)),
        (over, StreamError::Over),
        (damaged, StreamError::Damaged),
        (no_text, StreamError::NotText),
    ] {
        let (_, error) = read::<HostMessage>(vec![frame.clone()]).await;
        assert_eq!(
            error,
            Some(ReceiveError::Duplex(expected.into())),
            "{frame:?}"
        );
    }
}

#[tokio::test]
async fn a_part_of_a_text_that_lies_about_itself_is_no_message() {
    let good = frames_of(&[blob(9, 100, vec![5; 50])]).await.remove(0);
    assert_eq!(good[0], 1);
    let total = 45..53;
    let mut beyond = good.clone();
    beyond[total.clone()].fill(0);
    let mut endless = good.clone();
    endless[37..45].fill(0xff);
    let mut long = good.clone();
    long[total].fill(0x7f);
    long.extend(vec![5; BLOB_CHUNK as usize]);
    for frame in [good[..52].to_vec(), vec![1], beyond, endless, long] {
        let (_, error) = read::<HostMessage>(vec![frame]).await;
        assert!(
            matches!(
                error,
                Some(ReceiveError::Decode(DecodeError::NotAMessage(_)))
            ),
            "{error:?}"
        );
    }
    // Devices send none.
    let (_, error) = read::<DeviceMessage>(vec![good]).await;
    assert!(matches!(
        error,
        Some(ReceiveError::Decode(DecodeError::NotAMessage(_)))
    ));
}

#[tokio::test]
async fn without_an_encoding_everything_stays_text() {
    for encoding in [None, Some(Encoding::Other)] {
        let (sender, receiver) = line(64);
        let mut outgoing = Outgoing::new(sender).encoded(encoding);
        let mut incoming = Incoming::<HostMessage>::new(receiver).encoded(encoding);
        let message = blob(1, 0, vec![1, 2, 3]);
        outgoing.send(&message).await.unwrap();
        assert_eq!(incoming.receive().await.unwrap(), message);
    }
    let (sender, mut receiver) = line(1);
    Outgoing::new(sender)
        .send(&blob(1, 0, vec![1]))
        .await
        .unwrap();
    assert!(matches!(receiver.receive().await, Ok(Frame::Text(_))));
}

/// A stream as another implementation of deflate wrote it (Python's zlib): frames in hexadecimal, each over its JSON.
#[tokio::test]
async fn the_golden_stream_reads_as_it_always_did() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden_stream/host.txt");
    let golden = fs::read_to_string(&path).unwrap();
    let mut lines = golden.lines().filter(|line| !line.starts_with('#'));
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    while let (Some(frame), Some(json)) = (lines.next(), lines.next()) {
        frames.push(bytes_of(frame));
        expected.push(serde_json::from_str::<HostMessage>(json).unwrap());
    }
    assert!(frames.len() > 10);
    let blob = frames.iter().rposition(|frame| frame[0] == 1).unwrap();
    assert_eq!(
        frames_of(&expected[blob..=blob]).await[0],
        frames[blob],
        "parts of stored texts are written as they are read"
    );
    let (read, error) = read::<HostMessage>(frames).await;
    assert_eq!(error, None);
    assert_eq!(read, expected);
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Passes bytes on in small pieces of changing length, both ways.
async fn in_pieces(host: std::net::SocketAddr) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (device, _) = listener.accept().await.unwrap();
        let host = TcpStream::connect(host).await.unwrap();
        let (from_device, to_device) = device.into_split();
        let (from_host, to_host) = host.into_split();
        for (mut from, mut to) in [(from_device, to_host), (from_host, to_device)] {
            to.as_ref().set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 97];
                let mut most = 1;
                while let Ok(length @ 1..) = from.read(&mut buffer[..most]).await {
                    if to.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                    most = most % 97 + 1;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn the_stream_holds_over_tls_however_its_bytes_are_split() {
    let mut host = Listening::start().await;
    // The host answers to its own port only; through the pieces it is asked under another one.
    let address = in_pieces(host.address).await;
    let identity = device();
    let connector: Connector = host.connector(&identity);
    let refused = soon("dialling", connector.connect(&[address.to_string()])).await;
    assert!(refused.is_err());
    let host_side = pilothouse_wire::websocket::Acceptor::new(
        &host.identity,
        pilothouse_wire::hosts::HostAllowList::new(["127.0.0.1"], []),
    )
    .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = in_pieces(listener.local_addr().unwrap()).await;
    let (connections, mut accepted) = tokio::sync::mpsc::channel(1);
    tokio::spawn(host_side.serve(listener, connections));
    let dialled = soon("dialling", connector.connect(&[address.to_string()]))
        .await
        .unwrap();
    let accepted = soon("accepting", accepted.recv()).await.unwrap();
    host.connections.close();

    let (outgoing, incoming) = accepted.host_ends();
    let (to_host, from_host) = dialled.device_ends();
    let (mut outgoing, mut from_host) = (outgoing.encoded(DEFLATE), from_host.encoded(DEFLATE));
    let (mut to_host, mut incoming) = (to_host.encoded(DEFLATE), incoming.encoded(DEFLATE));
    let mut down: Vec<HostMessage> = of_host().into_iter().map(|(_, message)| message).collect();
    down.push(blob(3, 7, vec![9; 30_000]));
    down.push(live(4, &"a long text. ".repeat(5000)));
    let up: Vec<DeviceMessage> = of_device()
        .into_iter()
        .map(|(_, message)| message)
        .collect();
    let sending = async {
        for message in &down {
            outgoing.send(message).await?;
        }
        for message in &up {
            to_host.send(message).await?;
        }
        Ok::<_, SendError>(())
    };
    let reading = async {
        for message in &down {
            assert_eq!(&from_host.receive().await.unwrap(), message);
        }
        for message in &up {
            assert_eq!(&incoming.receive().await.unwrap(), message);
        }
    };
    let (sent, ()) = soon("both directions", async { tokio::join!(sending, reading) }).await;
    sent.unwrap();
}
