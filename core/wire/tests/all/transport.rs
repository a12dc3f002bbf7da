//! Real TLS and WebSockets over loopback.

use crate::common::{Listening, device, raw_client, soon};
use pilothouse_wire::{
    connect::{AttemptError, Connector},
    duplex::{
        Close, CloseCode, Direction, Duplex, DuplexError, Frame, MAX_BINARY, MAX_FRAME, memory_pair,
    },
    identity::HostIdentity,
    tls,
};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn two_sides_with_the_right_pins_exchange_frames_both_ways() {
    let device = device();
    let mut host = Listening::start().await;
    let (accepted, dialled) = host.connect(&device).await;
    assert_eq!(accepted.peer_hash(), device.spki_sha256());
    assert_eq!(dialled.peer_hash(), host.identity.spki_sha256());
    assert_eq!(accepted.binding, dialled.binding);
    assert_eq!(dialled.address, host.address.to_string());

    let (mut host_out, mut host_in) = accepted.duplex.split();
    let (mut device_out, mut device_in) = dialled.duplex.split();
    let largest = Frame::Text("x".repeat(MAX_FRAME));
    for frame in [
        Frame::Text("grüße".into()),
        Frame::Binary(vec![0, 255]),
        Frame::Text(String::new()),
        largest,
    ] {
        let (sent, received) = tokio::join!(
            device_out.send(frame.clone()),
            soon("frame", host_in.receive())
        );
        sent.unwrap();
        assert_eq!(received.unwrap(), frame);
        let (sent, received) = tokio::join!(
            host_out.send(frame.clone()),
            soon("frame", device_in.receive())
        );
        sent.unwrap();
        assert_eq!(received.unwrap(), frame);
    }

    host_out
        .close(Close::new(CloseCode::GoingAway, "good night"))
        .await
        .unwrap();
    let end = DuplexError::Closed(Some(Close::new(CloseCode::GoingAway, "good night")));
    assert_eq!(soon("close", device_in.receive()).await, Err(end.clone()));
    assert_eq!(soon("close again", device_in.receive()).await, Err(end));
}

#[tokio::test]
async fn another_hosts_key_is_refused_and_both_keys_are_named() {
    let mut host = Listening::start().await;
    let expected = HostIdentity::generate().unwrap().spki_sha256();
    let connector = Connector::new(&device(), expected).unwrap();
    let error = soon("refusal", connector.connect(&host.addresses()))
        .await
        .unwrap_err();
    let AttemptError::WrongHost(wrong) = &error.most_telling().unwrap().error else {
        panic!("{error}")
    };
    assert_eq!(
        (wrong.expected, wrong.found),
        (expected, host.identity.spki_sha256())
    );
    assert!(error.to_string().contains(&expected.to_string()), "{error}");
    assert!(host.connections.try_recv().is_err());
}

#[tokio::test]
async fn an_address_that_leads_elsewhere_does_not_hide_the_one_that_works() {
    let device = device();
    let host = Listening::start().await;
    let impostor = Listening::start().await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let addresses = vec![
        closed,
        impostor.address.to_string(),
        "not an address".into(),
        host.address.to_string(),
    ];
    let dialled = soon(
        "the good address",
        host.connector(&device).connect(&addresses),
    )
    .await
    .unwrap();
    assert_eq!(dialled.address, host.address.to_string());

    let error = soon(
        "no good address",
        host.connector(&device).connect(&addresses[..3]),
    )
    .await
    .unwrap_err();
    assert_eq!(error.failures.len(), 3);
    assert!(matches!(
        error.most_telling().unwrap().error,
        AttemptError::WrongHost(_)
    ));
    assert!(
        host.connector(&device)
            .connect(&[])
            .await
            .unwrap_err()
            .to_string()
            .contains("no address")
    );
}

#[tokio::test]
async fn a_silent_address_does_not_hold_up_the_next_one() {
    let device = device();
    let host = Listening::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = vec![
        silent.local_addr().unwrap().to_string(),
        host.address.to_string(),
    ];
    let started = std::time::Instant::now();
    let dialled = soon(
        "the second address",
        host.connector(&device).connect(&addresses),
    )
    .await
    .unwrap();
    assert_eq!(dialled.address, host.address.to_string());
    assert!(started.elapsed() < pilothouse_wire::connect::ADDRESS_TIMEOUT);
}

#[tokio::test]
async fn every_connection_has_its_own_binding() {
    let device = device();
    let mut host = Listening::start().await;
    let (first, _a) = host.connect(&device).await;
    let (second, _b) = host.connect(&device).await;
    assert_ne!(first.binding, second.binding);
}

#[tokio::test]
async fn a_frame_over_one_mebibyte_is_refused_by_its_sender_and_nothing_is_sent() {
    let mut host = Listening::start().await;
    let (accepted, dialled) = host.connect(&device()).await;
    for (out, into) in [(accepted.duplex.split(), dialled.duplex.split()), {
        let (left, right) = memory_pair(4);
        (Box::new(left).split(), Box::new(right).split())
    }] {
        let ((mut out, _keep), (_keep_too, mut into)) = (out, into);
        for frame in [
            Frame::Text("x".repeat(MAX_FRAME + 1)),
            Frame::Binary(vec![0; MAX_BINARY + 1]),
        ] {
            assert_eq!(
                out.send(frame).await,
                Err(DuplexError::TooLarge {
                    direction: Direction::Outgoing,
                    limit: MAX_FRAME
                })
            );
        }
        out.send(Frame::Text("still here".into())).await.unwrap();
        assert_eq!(
            soon("next frame", into.receive()).await.unwrap(),
            Frame::Text("still here".into())
        );
    }
}

#[tokio::test]
async fn a_frame_over_one_mebibyte_is_refused_by_its_receiver_whichever_side_that_is() {
    let mut host = Listening::start().await;

    // A client without our limits.
    let mut socket = raw_client(&host, &device()).await;
    let accepted = soon("accepting", host.connections.recv()).await.unwrap();
    let (_out, mut into) = accepted.duplex.split();
    let (_, received) = tokio::join!(
        send_raw(&mut socket, Message::Text("x".repeat(MAX_FRAME + 1).into())),
        soon("refusal", into.receive())
    );
    assert_eq!(
        received,
        Err(DuplexError::TooLarge {
            direction: Direction::Incoming,
            limit: MAX_FRAME
        })
    );

    // A server without our limits.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = tls::server_config(&host.identity).unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = tokio_rustls::TlsAcceptor::from(config)
            .accept(stream)
            .await
            .unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        send_raw(&mut socket, Message::Binary(vec![0; MAX_BINARY + 1].into())).await;
        socket
    });
    let dialled = soon("dialling", host.connector(&device()).connect(&[address]))
        .await
        .unwrap();
    let (_out, mut into) = dialled.duplex.split();
    let received = soon("refusal", into.receive()).await;
    assert_eq!(
        received,
        Err(DuplexError::TooLarge {
            direction: Direction::Incoming,
            limit: MAX_FRAME
        })
    );
    server.abort();
}

async fn send_raw<S>(socket: &mut tokio_tungstenite::WebSocketStream<S>, message: Message)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    use futures_util::SinkExt;
    // The other side may hang up in the middle: that is its answer.
    let _ = socket.send(message).await;
}

#[tokio::test]
async fn a_peer_that_vanishes_ends_the_connection() {
    let mut host = Listening::start().await;
    let (accepted, dialled) = host.connect(&device()).await;
    drop(dialled);
    let (_out, mut into) = accepted.duplex.split();
    let end = soon("end", into.receive()).await.unwrap_err();
    assert!(
        matches!(end, DuplexError::Broken(_) | DuplexError::Closed(None)),
        "{end}"
    );
}

#[tokio::test]
async fn a_memory_pair_carries_frames_and_the_reason_of_its_end() {
    let (left, right) = memory_pair(1);
    let (mut left_out, left_in) = Box::new(left).split();
    let (mut right_out, mut right_in) = Box::new(right).split();
    left_out.send(Frame::Text("a".into())).await.unwrap();
    assert_eq!(right_in.receive().await.unwrap(), Frame::Text("a".into()));
    left_out
        .close(Close::new(CloseCode::Normal, "done"))
        .await
        .unwrap();
    left_out
        .close(Close::new(CloseCode::Normal, "twice"))
        .await
        .unwrap();
    let end = DuplexError::Closed(Some(Close::new(CloseCode::Normal, "done")));
    assert_eq!(right_in.receive().await, Err(end.clone()));
    assert_eq!(right_in.receive().await, Err(end));
    assert_eq!(
        left_out.send(Frame::Text("b".into())).await,
        Err(DuplexError::Closed(None))
    );
    drop(left_in);
    assert_eq!(
        right_out.send(Frame::Text("c".into())).await,
        Err(DuplexError::Closed(None))
    );
}
