//! The link: when it dials, when it gives up a peer, and that it comes back.

use crate::{common::soon, examples::welcome};
use pilothouse_wire::{
    connect::ConnectError,
    duplex::{BoxFuture, Duplex, DuplexError, memory_pair},
    link::{
        Dialer, Dialled, Link, LinkConfig, LinkEvent, LinkProblem, LinkSendError, LinkSender,
        LinkState,
        rhythm::{BACKOFF_LAST, Backoff},
    },
    message::{
        ByeReason, DeviceMessage, Hello, HostMessage, Incoming, Outgoing, ReceiveError, Welcome,
    },
    opening::{Opening, read_opening, say_bye},
    version::{ProtocolRange, UpdateNeeded, VersionRefusal},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

/// A draw that makes every wait about half of its ceiling.
const DRAW: u64 = 0x1234_5678_9abc_def1;

pub(crate) type HostEnds = (Outgoing<HostMessage>, Incoming<DeviceMessage>);

/// Notes every attempt; gives connections whose other ends come out of `hosts`, or fails.
pub(crate) struct Scripted {
    attempts: Mutex<Vec<Instant>>,
    hosts: Option<mpsc::Sender<HostEnds>>,
    hangs: bool,
}

impl Scripted {
    fn failing() -> Arc<Self> {
        Arc::new(Self {
            attempts: Mutex::default(),
            hosts: None,
            hangs: false,
        })
    }

    fn hanging() -> Arc<Self> {
        Arc::new(Self {
            attempts: Mutex::default(),
            hosts: None,
            hangs: true,
        })
    }

    pub(crate) fn connecting() -> (Arc<Self>, mpsc::Receiver<HostEnds>) {
        let (sender, receiver) = mpsc::channel(8);
        (
            Arc::new(Self {
                attempts: Mutex::default(),
                hosts: Some(sender),
                hangs: false,
            }),
            receiver,
        )
    }

    pub(crate) fn attempts(&self) -> Vec<Instant> {
        self.attempts.lock().unwrap().clone()
    }
}

impl Dialer for Scripted {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, ConnectError>> {
        Box::pin(async move {
            self.attempts.lock().unwrap().push(Instant::now());
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let Some(hosts) = &self.hosts else {
                return Err(ConnectError { failures: vec![] });
            };
            let (ours, theirs) = memory_pair(64);
            let (sender, receiver) = Box::new(theirs).split();
            hosts
                .send((Outgoing::new(sender), Incoming::new(receiver)))
                .await
                .unwrap();
            Ok(Dialled {
                duplex: Box::new(ours),
                address: "memory".into(),
            })
        })
    }
}

pub(crate) fn start(dialer: Arc<dyn Dialer>) -> (Link, mpsc::Receiver<LinkEvent>) {
    start_as(dialer, Hello::of_this_build("phone", "test"))
}

pub(crate) fn start_as(dialer: Arc<dyn Dialer>, hello: Hello) -> (Link, mpsc::Receiver<LinkEvent>) {
    Link::start(LinkConfig {
        hello,
        dialer,
        random: Box::new(|| DRAW),
    })
}

pub(crate) async fn greet(ends: &mut HostEnds) {
    assert!(matches!(
        read_opening(&mut ends.1, true).await.unwrap(),
        Opening::Hello(_)
    ));
    ends.0
        .send(&HostMessage::Welcome(Box::new(welcome())))
        .await
        .unwrap();
}

pub(crate) async fn up(events: &mut mpsc::Receiver<LinkEvent>) -> LinkSender {
    match events.recv().await.unwrap() {
        LinkEvent::Up { sender, .. } => sender,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn down(events: &mut mpsc::Receiver<LinkEvent>) -> LinkProblem {
    match events.recv().await.unwrap() {
        LinkEvent::Down(problem) => problem,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn state(link: &Link, wanted: impl Fn(&LinkState) -> bool) -> LinkState {
    soon("a state", async {
        link.state().wait_for(wanted).await.unwrap().clone()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn it_dials_for_ever_with_growing_jittered_waits() {
    let dialer = Scripted::failing();
    let (link, _events) = start(dialer.clone());
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let attempts = dialer.attempts();
    let mut backoff = Backoff::new();
    let waits: Vec<_> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (index, wait) in waits.iter().enumerate() {
        let planned = backoff.next_wait(DRAW);
        // The runtime's clock has steps of a millisecond.
        assert!(
            *wait >= planned && *wait <= planned + Duration::from_millis(2),
            "wait {index}: {wait:?}, {planned:?}"
        );
    }
    assert!(waits.len() > 2000, "{} attempts in a day", waits.len());
    let seen = link.state().borrow().clone();
    let LinkState::Unreachable {
        since,
        next_attempt: Some(next),
        problem: Some(LinkProblem::Connect(_)),
    } = seen
    else {
        panic!("{seen:?}")
    };
    assert_eq!(since, attempts[0]);
    assert!(next > Instant::now() && next <= Instant::now() + BACKOFF_LAST);
}

#[tokio::test(start_paused = true)]
async fn a_poke_ends_a_wait_at_once_and_starts_the_waits_over() {
    let dialer = Scripted::failing();
    let (link, _events) = start(dialer.clone());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = dialer.attempts().len();
    link.poke();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(dialer.attempts().len(), before + 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        dialer.attempts().len() > before + 2,
        "the waits are short again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_poke_begins_a_hanging_attempt_anew() {
    let dialer = Scripted::hanging();
    let (link, _events) = start(dialer.clone());
    tokio::time::sleep(Duration::from_millis(500)).await;
    link.poke();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(dialer.attempts().len(), 1, "a fresh attempt is left alone");
    tokio::time::sleep(Duration::from_secs(2)).await;
    link.poke();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(dialer.attempts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_three_states_of_being_connected_are_told_apart() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    state(&link, |s| {
        *s == LinkState::Reachable {
            address: "memory".into(),
        }
    })
    .await;
    greet(&mut host).await;
    let sender = up(&mut events).await;
    assert_eq!(
        *link.state().borrow(),
        LinkState::Authenticated { connection: 1 }
    );
    sender.mark_synchronised();
    assert_eq!(
        *link.state().borrow(),
        LinkState::Synchronised { connection: 1 }
    );
    drop(host);
    assert_eq!(
        down(&mut events).await,
        LinkProblem::Ended(DuplexError::Closed(None))
    );
    sender.mark_synchronised();
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    assert_eq!(up(&mut events).await.connection(), 2);
    sender.mark_synchronised();
    assert_eq!(
        *link.state().borrow(),
        LinkState::Authenticated { connection: 2 },
        "an old sender changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn messages_pass_in_order_both_ways_and_newer_ones_are_skipped() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (_link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    let sender = up(&mut events).await;
    sender
        .send(&DeviceMessage::Unsubscribe { sub: 1 })
        .await
        .unwrap();
    sender
        .try_send(&DeviceMessage::Unsubscribe { sub: 2 })
        .unwrap();
    for sub in 1..=2 {
        assert_eq!(
            host.1.receive().await.unwrap(),
            DeviceMessage::Unsubscribe { sub }
        );
    }
    let newer = pilothouse_wire::duplex::Frame::Text("{\"type\":\"of_next_year\",\"x\":1}".into());
    host.0.frames().send(newer).await.unwrap();
    let bye_less = HostMessage::Outcome {
        command_id: pilothouse_domain::CommandId::default(),
        outcome: None,
    };
    host.0.send(&bye_less).await.unwrap();
    let LinkEvent::Message(message) = events.recv().await.unwrap() else {
        panic!()
    };
    assert_eq!(message, bye_less);
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_is_pinged_twice_and_then_given_up() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (_link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    let begun = Instant::now();
    let sender = up(&mut events).await;
    for seconds in [15, 30] {
        assert!(matches!(
            host.1.receive().await.unwrap(),
            DeviceMessage::Ping { .. }
        ));
        assert_eq!(begun.elapsed().as_secs(), seconds);
    }
    assert_eq!(
        host.1.receive().await.unwrap(),
        DeviceMessage::Bye {
            reason: ByeReason::Silent
        }
    );
    assert_eq!(begun.elapsed().as_secs(), 45);
    assert_eq!(down(&mut events).await, LinkProblem::Stale);
    hosts.recv().await.unwrap();
    assert_eq!(
        sender.send(&DeviceMessage::Ping { nonce: 1 }).await,
        Err(LinkSendError::Ended)
    );
}

#[tokio::test(start_paused = true)]
async fn pongs_keep_a_connection_for_hours() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    up(&mut events).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2 * 3600) {
        let DeviceMessage::Ping { nonce } = host.1.receive().await.unwrap() else {
            panic!()
        };
        host.0
            .send(&HostMessage::Pong {
                nonce,
                host_time_ms: 0,
            })
            .await
            .unwrap();
    }
    assert_eq!(
        *link.state().borrow(),
        LinkState::Authenticated { connection: 1 }
    );
}

#[tokio::test(start_paused = true)]
async fn a_poke_probes_an_open_connection_and_gives_it_up_in_seconds() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    up(&mut events).await;
    let begun = Instant::now();
    link.poke();
    assert!(matches!(
        host.1.receive().await.unwrap(),
        DeviceMessage::Ping { .. }
    ));
    assert!(begun.elapsed() < Duration::from_millis(10));
    assert_eq!(down(&mut events).await, LinkProblem::Stale);
    assert_eq!(begun.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_busy_does_not_make_the_host_stale() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    up(&mut events).await;
    // More than the engine's channel and the connection hold.
    let flood = async {
        for nonce in 0..2000u32 {
            let message = HostMessage::Outcome {
                command_id: pilothouse_domain::CommandId::default(),
                outcome: None,
            };
            host.0.send(&message).await.unwrap();
            let _ = nonce;
        }
        host
    };
    let flood = tokio::spawn(flood);
    tokio::time::sleep(Duration::from_secs(300)).await;
    for _ in 0..2000 {
        assert!(matches!(
            events.recv().await.unwrap(),
            LinkEvent::Message(_)
        ));
    }
    let _host = flood.await.unwrap();
    assert_eq!(
        *link.state().borrow(),
        LinkState::Authenticated { connection: 1 }
    );
}

#[tokio::test(start_paused = true)]
async fn a_revoked_device_stops_for_good() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer.clone());
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    up(&mut events).await;
    say_bye(&mut host.0, ByeReason::Revoked).await;
    assert!(matches!(
        events.recv().await.unwrap(),
        LinkEvent::Stopped(ByeReason::Revoked)
    ));
    assert!(events.recv().await.is_none());
    link.poke();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(dialer.attempts().len(), 1);
    assert_eq!(
        *link.state().borrow(),
        LinkState::Stopped {
            reason: ByeReason::Revoked
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_device_revoked_while_it_was_away_learns_it_at_hello() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (_link, mut events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    read_opening(&mut host.1, true).await.unwrap();
    say_bye(&mut host.0, ByeReason::Revoked).await;
    assert!(matches!(
        events.recv().await.unwrap(),
        LinkEvent::Stopped(ByeReason::Revoked)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_host_of_another_protocol_is_named_and_tried_seldom() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer.clone());
    let refusal = VersionRefusal {
        device: ProtocolRange { min: 1, max: 1 },
        host: ProtocolRange { min: 2, max: 3 },
        update: UpdateNeeded::Device,
    };
    let reason = ByeReason::Version { refusal };
    let for_task = reason.clone();
    tokio::spawn(async move {
        while let Some(mut host) = hosts.recv().await {
            read_opening(&mut host.1, true).await.unwrap();
            say_bye(&mut host.0, for_task.clone()).await;
        }
    });
    tokio::time::sleep(Duration::from_secs(600)).await;
    let seen = link.state().borrow().clone();
    let LinkState::Unreachable {
        problem: Some(problem),
        ..
    } = seen
    else {
        panic!("{seen:?}")
    };
    assert_eq!(problem, LinkProblem::Bye(reason));
    assert!(problem.to_string().contains("update the app"), "{problem}");
    assert!(
        dialer.attempts().len() < 80,
        "{} attempts in 10 minutes",
        dialer.attempts().len()
    );
    assert!(
        events.try_recv().is_err(),
        "it was never up, so it never went down"
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_accepts_and_drops_is_not_dialled_in_a_storm() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (_link, mut events) = start(dialer.clone());
    tokio::spawn(async move {
        while let Some(mut host) = hosts.recv().await {
            greet(&mut host).await;
        }
    });
    let drain = tokio::spawn(async move { while events.recv().await.is_some() {} });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(
        dialer.attempts().len() < 80,
        "{} attempts in 10 minutes",
        dialer.attempts().len()
    );
    drain.abort();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_welcome_is_given_up() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, _events) = start(dialer);
    let _silent = hosts.recv().await.unwrap();
    let seen = state(&link, |s| {
        matches!(
            s,
            LinkState::Unreachable {
                problem: Some(_),
                ..
            }
        )
    })
    .await;
    let LinkState::Unreachable { problem, .. } = seen else {
        panic!()
    };
    assert_eq!(problem, Some(LinkProblem::NoWelcome));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_chooses_a_protocol_that_was_not_offered_is_not_taken() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, _events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    let newer = Welcome {
        protocol: 2,
        ..welcome()
    };
    host.0
        .send(&HostMessage::Welcome(Box::new(newer)))
        .await
        .unwrap();
    let seen = state(&link, |s| {
        matches!(
            s,
            LinkState::Unreachable {
                problem: Some(_),
                ..
            }
        )
    })
    .await;
    let LinkState::Unreachable {
        problem: Some(LinkProblem::Protocol(problem)),
        ..
    } = seen
    else {
        panic!("{seen:?}")
    };
    assert_eq!(problem, "it chose protocol 2, offered were 1");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_link_says_bye_and_an_abandoned_one_ends() {
    let (dialer, mut hosts) = Scripted::connecting();
    let (link, mut events) = start(dialer.clone());
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    up(&mut events).await;
    link.stop(ByeReason::Done);
    assert!(matches!(
        events.recv().await.unwrap(),
        LinkEvent::Stopped(ByeReason::Done)
    ));
    assert_eq!(
        host.1.receive().await.unwrap(),
        DeviceMessage::Bye {
            reason: ByeReason::Done
        }
    );
    assert!(matches!(
        host.1.receive().await,
        Err(ReceiveError::Duplex(DuplexError::Closed(Some(_))))
    ));

    let (_link, events) = start(dialer);
    let mut host = hosts.recv().await.unwrap();
    greet(&mut host).await;
    drop(events);
    assert_eq!(
        host.1.receive().await.unwrap(),
        DeviceMessage::Bye {
            reason: ByeReason::Done
        }
    );
    let dialled_again = timeout(Duration::from_secs(600), hosts.recv()).await;
    assert!(
        !matches!(dialled_again, Ok(Some(_))),
        "nobody dials for nobody"
    );
}
