//! The link over real TLS.

use crate::{
    common::{Listening, device, soon},
    link::{down, greet, state, up},
};
use pilothouse_wire::{
    link::{HostDialer, Link, LinkConfig, LinkProblem, LinkState},
    message::{DeviceMessage, Hello},
};
use std::sync::Arc;

#[tokio::test]
async fn over_real_tls_it_comes_back_when_the_host_was_killed_and_started_again() {
    let device = device();
    let mut host = Listening::start().await;
    let unused = "127.0.0.1:1".to_owned();
    let dialer = Arc::new(HostDialer::new(
        host.connector(&device),
        vec![unused.clone(), host.address.to_string()],
    ));
    let (link, mut events) = Link::start(LinkConfig::new(
        Hello::of_this_build("phone", "test"),
        dialer.clone(),
    ));

    let accepted = soon("first connection", host.connections.recv())
        .await
        .unwrap();
    let mut ends = accepted.host_ends();
    greet(&mut ends).await;
    let sender = soon("up", up(&mut events)).await;
    sender.mark_synchronised();
    sender
        .send(&DeviceMessage::Ping { nonce: 77 })
        .await
        .unwrap();
    assert_eq!(
        soon("ping", ends.1.receive()).await.unwrap(),
        DeviceMessage::Ping { nonce: 77 }
    );
    assert_eq!(dialer.addresses(), [host.address.to_string(), unused]);

    let address = host.address.to_string();
    let identity = host.stop().await;
    drop(ends);
    let problem = soon("down", down(&mut events)).await;
    assert!(matches!(problem, LinkProblem::Ended(_)), "{problem}");
    state(&link, |s| {
        matches!(
            s,
            LinkState::Unreachable {
                problem: Some(LinkProblem::Connect(_)),
                ..
            }
        )
    })
    .await;

    let mut host = Listening::start_as(identity, &address).await;
    link.poke();
    let mut ends = soon("second connection", host.connections.recv())
        .await
        .unwrap()
        .host_ends();
    greet(&mut ends).await;
    assert_eq!(soon("up again", up(&mut events)).await.connection(), 2);
    assert_eq!(
        *link.state().borrow(),
        LinkState::Authenticated { connection: 2 }
    );
}
