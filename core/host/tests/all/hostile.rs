//! Devices that misbehave: they drop, flood, do not read, or make no sense. Others notice nothing.

use crate::common::{DEADLINE, TestDevice, TestHost, create, soon};
use futures_util::{SinkExt, StreamExt};
use pilothouse_domain::Outcome;
use pilothouse_host::control::{Answer, Ask};
use pilothouse_wire::message::{ByeReason, DeviceMessage, Hello, Query};
use std::time::Duration;

#[tokio::test]
async fn a_device_that_connects_anew_ends_its_older_connection() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let (mut first, _) = device.connect().await;
    let (mut second, _) = device.connect().await;
    assert_eq!(first.bye().await, ByeReason::Replaced);
    assert!(first.is_closed().await);
    assert!(second.is_alive().await);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_device_that_drops_in_the_middle_of_a_frame_leaves_nothing_behind() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    for _ in 0..5 {
        let (mut connection, _) = device.connect().await;
        connection
            .send(DeviceMessage::SubscribeFeed {
                sub: 1,
                cursor: None,
            })
            .await;
        connection
            .send(DeviceMessage::Command {
                command: Box::new(create(1, "x")),
            })
            .await;
        // Neither a bye nor a closing handshake: the socket is simply gone.
        drop(connection);
    }
    let connected = async {
        loop {
            let Answer::Devices { devices } = host.ask(&Ask::Devices).await else {
                panic!()
            };
            if devices.iter().all(|device| !device.connected) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the host to notice", connected).await;
    let (mut connection, _) = device.connect().await;
    assert!(matches!(
        connection.command(&create(1, "x")).await,
        Outcome::Accepted { .. }
    ));
    host.daemon.stop().await;
}

/// A device without our limits: raw TLS and WebSocket.
async fn raw(
    device: &TestDevice,
    host: &TestHost,
) -> tokio_tungstenite::WebSocketStream<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let config =
        pilothouse_wire::tls::client_config(&device.identity, host.daemon.fingerprint()).unwrap();
    let stream = tokio::net::TcpStream::connect(host.daemon.address())
        .await
        .unwrap();
    let name = tokio_rustls::rustls::pki_types::ServerName::try_from("host.invalid").unwrap();
    let stream = tokio_rustls::TlsConnector::from(config)
        .connect(name, stream)
        .await
        .unwrap();
    let url = format!("wss://{}/v1", host.daemon.address());
    let mut socket = tokio_tungstenite::client_async(url, stream)
        .await
        .unwrap()
        .0;
    // In plain text: compressed, small answers would take minutes to fill the buffers on the way.
    let hello = Hello {
        encodings: Vec::new(),
        ..device.hello()
    };
    let hello = serde_json::to_string(&DeviceMessage::Hello(hello)).unwrap();
    socket
        .send(tokio_tungstenite::tungstenite::Message::Text(hello.into()))
        .await
        .unwrap();
    assert!(
        soon("welcome", socket.next())
            .await
            .unwrap()
            .unwrap()
            .into_text()
            .unwrap()
            .contains("welcome")
    );
    socket
}

#[tokio::test]
async fn a_frame_over_one_mebibyte_ends_that_connection_only() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let (mut bystander, _) = host.device("tablet").await.connect().await;
    let mut socket = raw(&device, &host).await;
    let text = format!(
        "{{\"type\":\"ping\",\"nonce\":1,\"x\":\"{}\"}}",
        "x".repeat(1024 * 1024)
    );
    let _ = socket
        .send(tokio_tungstenite::tungstenite::Message::Text(text.into()))
        .await;
    soon("the end", async {
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    assert!(bystander.is_alive().await);
    let (mut again, _) = device.connect().await;
    assert!(again.is_alive().await);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_device_that_does_not_read_is_given_up_and_the_others_notice_nothing() {
    let host = TestHost::start_with(|options| options.stall = Duration::from_millis(300)).await;
    let device = host.device("phone").await;
    let (mut bystander, _) = host.device("tablet").await.connect().await;
    let mut socket = raw(&device, &host).await;
    // Asks without ever reading an answer, until every buffer on the way is full and the host hangs up.
    let flood = async {
        let text = serde_json::to_string(&DeviceMessage::Query {
            id: 1,
            query: Query::Workspaces,
        })
        .unwrap();
        while socket
            .send(tokio_tungstenite::tungstenite::Message::Text(
                text.clone().into(),
            ))
            .await
            .is_ok()
        {}
    };
    tokio::time::timeout(4 * DEADLINE, flood)
        .await
        .expect("the host hangs up");
    assert!(bystander.is_alive().await);
    let Answer::Devices { devices } = host.ask(&Ask::Devices).await else {
        panic!()
    };
    assert!(
        !devices
            .iter()
            .find(|device| device.name == "phone")
            .unwrap()
            .connected
    );
    host.daemon.stop().await;
}

#[tokio::test]
async fn frames_that_never_make_sense_end_the_connection_after_a_while() {
    let host = TestHost::start().await;
    let (mut connection, _) = host.device("phone").await.connect().await;
    let reason = async {
        for _ in 0..257 {
            connection.send_text("nonsense").await;
        }
        connection.bye().await
    };
    assert!(matches!(reason.await, ByeReason::Protocol { .. }));
    host.daemon.stop().await;
}
