//! What a paired device is served, whatever it sends.

use crate::common::{TestHost, command, create};
use pilothouse_domain::{
    BlobHash, CommandBody, CommandId, DispatchMode, Epoch, Outcome, Position, Refusal, Scope,
    ThreadId, feed::FeedCursor,
};
use pilothouse_wire::{
    duplex::{Duplex, Frame, MAX_FRAME, memory_pair},
    message::{
        ByeReason, CheckOutcome, DeviceMessage, ErrorAbout, ErrorCode, Hello, HostMessage,
        Outgoing, Query, QueryAnswer, QueryResult,
    },
    stream::Encoding,
    version::{ProtocolRange, UpdateNeeded},
};

#[tokio::test]
async fn a_device_of_another_protocol_version_is_told_both_ranges_and_who_must_update() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let range = |min, max| ProtocolRange { min, max };
    for (spoken, update) in [
        (range(7, 9), UpdateNeeded::Host),
        (range(0, 0), UpdateNeeded::Device),
    ] {
        let mut connection = device.dial().await;
        connection
            .send(DeviceMessage::Hello(Hello {
                protocol: spoken,
                ..device.hello()
            }))
            .await;
        let ByeReason::Version { refusal } = connection.bye().await else {
            panic!()
        };
        assert_eq!((refusal.device, refusal.update), (spoken, update));
        assert!(connection.is_closed().await);
    }
    let mut connection = device.dial().await;
    connection
        .send(DeviceMessage::Hello(Hello {
            protocol: range(1, 9),
            ..device.hello()
        }))
        .await;
    let HostMessage::Welcome(welcome) = connection.next().await else {
        panic!()
    };
    assert_eq!(welcome.protocol, 1);
    host.daemon.stop().await;
}

#[tokio::test]
async fn what_is_not_understood_is_answered_with_what_and_the_next_step_and_the_connection_stays() {
    let host = TestHost::start().await;
    let (mut connection, _) = host.device("phone").await.connect().await;
    connection
        .send_text("{\"type\":\"teleport\",\"to\":\"moon\"}")
        .await;
    let HostMessage::Error(error) = connection.next().await else {
        panic!()
    };
    assert_eq!(
        error.about,
        ErrorAbout::Message {
            kind: "teleport".into()
        }
    );
    assert_eq!(
        (error.code, error.next_step.as_str()),
        (ErrorCode::Unsupported, "update the host")
    );
    for text in ["not json", "{}", "{\"type\":\"ping\"}", "[1,2,3]", "\u{0}"] {
        connection.send_text(text).await;
        let HostMessage::Error(error) = connection.next().await else {
            panic!("{text}")
        };
        assert_eq!(error.code, ErrorCode::Malformed, "{text}");
    }
    let binary = pilothouse_wire::duplex::Frame::Binary(vec![1, 2, 3]);
    connection.outgoing.frames().send(binary).await.unwrap();
    assert!(matches!(connection.next().await, HostMessage::Error(_)));
    connection
        .send(DeviceMessage::Hello(Hello::of_this_build("again", "test")))
        .await;
    assert!(matches!(connection.next().await, HostMessage::Error(_)));
    assert!(connection.is_alive().await);
    host.daemon.stop().await;
}

#[tokio::test]
async fn an_unknown_command_or_query_is_refused_under_its_id_never_ignored() {
    let host = TestHost::start().await;
    let (mut connection, _) = host.device("phone").await.connect().await;
    let mut known = serde_json::to_value(DeviceMessage::Command {
        command: Box::new(create(1, "x")),
    })
    .unwrap();
    known["command"]["body"]["command"] = "thread.explode".into();
    connection.send_text(&known.to_string()).await;
    let outcome = connection.outcome(create(1, "x").id).await;
    let Outcome::Refused {
        refusal: Refusal::UnknownCommand { name },
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(name, "thread.explode");
    connection
        .send_text("{\"type\":\"query\",\"id\":9,\"query\":{\"query\":\"weather\"}}")
        .await;
    let HostMessage::Result {
        id: 9,
        answer: QueryAnswer::Error(error),
    } = connection.next().await
    else {
        panic!()
    };
    assert_eq!(error.about, ErrorAbout::Query { id: 9 });
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_command_is_taken_once_however_often_it_comes_and_its_outcome_can_be_asked() {
    let host = TestHost::start().await;
    let (mut connection, welcome) = host.device("phone").await.connect().await;
    let made = create(1, "one");
    let first = connection.command(&made).await;
    let Outcome::Accepted { cursor, .. } = &first else {
        panic!("{first:?}")
    };
    assert_eq!(cursor.epoch, welcome.epoch);
    assert_eq!(connection.command(&made).await, first);
    let unknown = CommandId::from_bytes([9; 16]);
    connection
        .send(DeviceMessage::OutcomeQuery {
            command_ids: vec![unknown, made.id],
        })
        .await;
    let HostMessage::Outcome {
        command_id,
        outcome: None,
    } = connection.next().await
    else {
        panic!()
    };
    assert_eq!(command_id, unknown);
    assert_eq!(connection.outcome(made.id).await, first);
    connection
        .send(DeviceMessage::OutcomeQuery {
            command_ids: vec![unknown; 257],
        })
        .await;
    let HostMessage::Error(error) = connection.next().await else {
        panic!()
    };
    assert_eq!(error.code, ErrorCode::TooMuch);
    host.daemon.stop().await;
}

#[tokio::test]
async fn the_feed_begins_with_a_reset_goes_on_live_and_is_taken_up_where_it_was_left() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let (mut connection, welcome) = device.connect().await;
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 1,
            cursor: None,
        })
        .await;
    let HostMessage::Feed { sub: 1, update } = connection.next().await else {
        panic!()
    };
    assert!(update.reset && update.threads.is_empty());
    let made = create(1, "one");
    connection
        .send(DeviceMessage::Command {
            command: Box::new(made.clone()),
        })
        .await;
    let at = loop {
        match connection.next().await {
            HostMessage::Feed { update, .. } if update.threads.len() == 1 => {
                assert_eq!(update.threads[0].summary.title, "one");
                break update.cursor;
            }
            HostMessage::Feed { .. } | HostMessage::Outcome { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    drop(connection);
    let (mut connection, _) = device.connect().await;
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 4,
            cursor: Some(at),
        })
        .await;
    let HostMessage::Feed { sub: 4, update } = connection.next().await else {
        panic!()
    };
    assert!(!update.reset && update.threads.is_empty(), "{update:?}");
    connection.send(DeviceMessage::Unsubscribe { sub: 4 }).await;
    let ahead = FeedCursor {
        epoch: welcome.epoch,
        revision: at.revision + 100,
    };
    let elsewhere = FeedCursor {
        epoch: Epoch::from_bytes([3; 16]),
        revision: 1,
    };
    for (sub, cursor) in [(5, ahead), (6, elsewhere)] {
        connection
            .send(DeviceMessage::SubscribeFeed {
                sub,
                cursor: Some(cursor),
            })
            .await;
        let HostMessage::Feed {
            sub: answered,
            update,
        } = connection.next().await
        else {
            panic!()
        };
        assert!(
            answered == sub && update.reset && update.threads.len() == 1,
            "{update:?}"
        );
    }
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_thread_is_followed_from_a_snapshot_then_entry_by_entry_and_resumed_by_cursor() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let (mut connection, _) = device.connect().await;
    let made = create(1, "one");
    let Outcome::Accepted { cursor, .. } = connection.command(&made).await else {
        panic!()
    };
    connection
        .send(DeviceMessage::Subscribe {
            sub: 1,
            thread: made.thread,
            cursor: None,
            tail_bytes: 4096,
        })
        .await;
    let HostMessage::Subscribed { sub: 1, answer, .. } = connection.next().await else {
        panic!()
    };
    let snapshot = answer.snapshot.unwrap();
    assert!(
        answer.gap.is_some() && snapshot.cursor == answer.high_water && snapshot.cursor == cursor
    );

    let (mut second, _) = host.device("tablet").await.connect().await;
    let dispatch = DispatchMode::StartImmediately;
    let send = CommandBody::MessageSend {
        text: "hello".into(),
        attachments: Vec::new(),
        dispatch,
        accept_stop: Vec::new(),
    };
    assert!(matches!(
        second.command(&command(2, made.thread, send)).await,
        Outcome::Accepted { .. }
    ));
    let HostMessage::Entries { sub: 1, entries } = connection.next().await else {
        panic!()
    };
    assert_eq!(entries[0].seq, cursor.seq + 1);
    drop(connection);

    let (mut connection, _) = device.connect().await;
    let cursor = Some(cursor);
    connection
        .send(DeviceMessage::Subscribe {
            sub: 7,
            thread: made.thread,
            cursor,
            tail_bytes: 4096,
        })
        .await;
    let HostMessage::Subscribed { answer, .. } = connection.next().await else {
        panic!()
    };
    assert!(answer.gap.is_none() && answer.snapshot.is_none());
    let HostMessage::Entries {
        sub: 7,
        entries: again,
    } = connection.next().await
    else {
        panic!()
    };
    assert_eq!(again[0], entries[0]);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_subscription_that_cannot_be_is_answered_and_nothing_else_suffers() {
    let host = TestHost::start().await;
    let (mut connection, welcome) = host.device("phone").await.connect().await;
    let subscribe = |sub, thread| DeviceMessage::Subscribe {
        sub,
        thread,
        cursor: None,
        tail_bytes: u32::MAX,
    };
    connection
        .send(subscribe(1, ThreadId::from_bytes([8; 16])))
        .await;
    let HostMessage::Error(error) = connection.next().await else {
        panic!()
    };
    assert_eq!(
        (error.about, error.code),
        (ErrorAbout::Sub { sub: 1 }, ErrorCode::NotFound)
    );
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 2,
            cursor: None,
        })
        .await;
    assert!(matches!(connection.next().await, HostMessage::Feed { .. }));
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 2,
            cursor: None,
        })
        .await;
    let HostMessage::Error(error) = connection.next().await else {
        panic!()
    };
    assert_eq!(error.code, ErrorCode::Malformed, "a number in use");
    for sub in 3..2 + welcome.limits.subscriptions {
        connection
            .send(DeviceMessage::SubscribeFeed { sub, cursor: None })
            .await;
        assert!(matches!(connection.next().await, HostMessage::Feed { .. }));
    }
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 1000,
            cursor: None,
        })
        .await;
    let HostMessage::Error(error) = connection.next().await else {
        panic!()
    };
    assert_eq!(error.code, ErrorCode::TooMuch);
    connection.send(DeviceMessage::Unsubscribe { sub: 3 }).await;
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 1000,
            cursor: None,
        })
        .await;
    assert!(matches!(
        connection.next().await,
        HostMessage::Feed { sub: 1000, .. }
    ));
    host.daemon.stop().await;
}

#[tokio::test]
async fn scopes_are_what_the_host_granted_whatever_the_device_asks() {
    let host = TestHost::start().await;
    let (offer, _asked) = host.offer_scopes(vec![Scope::Read]).await;
    let reader = crate::common::TestDevice::new("reader");
    reader.pair(&offer).await.unwrap();
    let (mut connection, _) = reader.at(&offer).connect().await;
    let outcome = connection.command(&create(1, "x")).await;
    let forbidden = Outcome::Refused {
        refusal: Refusal::Forbidden {
            scope: Scope::Operate,
        },
    };
    assert_eq!(outcome, forbidden);

    let (offer, _asked) = host.offer_scopes(vec![Scope::Operate]).await;
    let blind = crate::common::TestDevice::new("blind");
    blind.pair(&offer).await.unwrap();
    let (mut connection, _) = blind.at(&offer).connect().await;
    connection
        .send(DeviceMessage::SubscribeFeed {
            sub: 1,
            cursor: None,
        })
        .await;
    let HostMessage::Error(error) = connection.next().await else {
        panic!()
    };
    assert_eq!(error.code, ErrorCode::Forbidden);
    connection
        .send(DeviceMessage::Query {
            id: 1,
            query: Query::Workspaces,
        })
        .await;
    let HostMessage::Result {
        answer: QueryAnswer::Error(error),
        ..
    } = connection.next().await
    else {
        panic!()
    };
    assert_eq!(error.code, ErrorCode::Forbidden);
    assert!(matches!(
        connection.command(&create(2, "x")).await,
        Outcome::Accepted { .. }
    ));
    host.daemon.stop().await;
}

#[tokio::test]
async fn queries_are_answered_with_what_the_host_has() {
    let host = TestHost::start().await;
    let (mut connection, _) = host.device("phone").await.connect().await;
    let ask = async |connection: &mut crate::common::Connection, query| {
        connection.send(DeviceMessage::Query { id: 3, query }).await;
        match connection.next().await {
            HostMessage::Result { id: 3, answer } => answer,
            other => panic!("{other:?}"),
        }
    };
    let answer = ask(&mut connection, Query::Agents).await;
    let QueryAnswer::Result(QueryResult::Agents { agents }) = answer else {
        panic!()
    };
    assert_eq!(
        (agents[0].name.as_str(), agents[0].family.as_str()),
        ("idle", "codex")
    );
    let answer = ask(&mut connection, Query::Workspaces).await;
    let QueryAnswer::Result(QueryResult::Workspaces { workspaces }) = answer else {
        panic!()
    };
    assert!(workspaces[0].id.as_str() == "work" && workspaces[0].available);
    let answer = ask(&mut connection, Query::Doctor).await;
    let QueryAnswer::Result(QueryResult::Doctor(report)) = answer else {
        panic!()
    };
    let devices = report
        .checks
        .iter()
        .find(|check| check.name == "devices")
        .unwrap();
    assert!(
        devices.outcome == CheckOutcome::Ok && devices.finding.contains(": connected"),
        "{devices:?}"
    );
    let missing = Query::Blob {
        hash: BlobHash::of(b"nowhere"),
        offset: 0,
        len: 10,
    };
    let QueryAnswer::Error(error) = ask(&mut connection, missing).await else {
        panic!()
    };
    assert_eq!(error.code, ErrorCode::NotFound);
    let made = create(1, "one");
    connection.command(&made).await;
    let older = Query::OlderItems {
        thread: made.thread,
        before: Position { run: 1, arrival: 1 },
        max_bytes: u32::MAX,
    };
    let QueryAnswer::Result(QueryResult::OlderItems(page)) = ask(&mut connection, older).await
    else {
        panic!()
    };
    assert!(page.rows.is_empty() && !page.older);
    host.daemon.stop().await;
}

#[tokio::test]
async fn stopping_tells_every_device() {
    let host = TestHost::start().await;
    let (mut phone, _) = host.device("phone").await.connect().await;
    let (mut tablet, _) = host.device("tablet").await.connect().await;
    let (_, first, second) = tokio::join!(host.daemon.stop(), phone.bye(), tablet.bye());
    assert_eq!((first, second), (ByeReason::Shutdown, ByeReason::Shutdown));
    assert!(phone.is_closed().await);
    assert!(!host.dir.path().join("state/control.sock").exists());
}

#[tokio::test]
async fn a_device_of_before_the_stream_is_served_in_plain_text() {
    let host = TestHost::start().await;
    let older = host.device("older").await;
    let hello = Hello {
        encodings: Vec::new(),
        ..older.hello()
    };
    let (mut connection, welcome) = older.connect_as(hello).await;
    assert_eq!(welcome.encoding, None);
    let made = create(1, "one");
    assert!(matches!(
        connection.command(&made).await,
        Outcome::Accepted { .. }
    ));
    let (mut newer, welcome) = host.device("newer").await.connect().await;
    assert_eq!(welcome.encoding, Some(Encoding::Deflate));
    assert!(newer.is_alive().await && connection.is_alive().await);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_damaged_stream_is_answered_with_why_and_harms_no_other_connection() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let (mut bystander, _) = host.device("tablet").await.connect().await;
    for (frame, wanted) in [
        (vec![0, 0xff, 0xff], "damaged"),
        (vec![0, 1, 2, 3], "damaged"),
        (vec![9, 9], "unknown kind 9"),
        (vec![], "empty"),
    ] {
        let (mut connection, _) = device.connect().await;
        // Binary frames go out as they are.
        let frame = Frame::Binary(frame);
        connection.outgoing.frames().send(frame).await.unwrap();
        let ByeReason::Protocol { problem } = connection.bye().await else {
            panic!()
        };
        assert!(problem.contains(wanted), "{problem}");
        assert!(connection.is_closed().await);
    }
    // A bomb: a MiB of spaces in a KiB, five hundred times in one frame.
    let (here, there) = memory_pair(1);
    let (here, mut there) = (Box::new(here).split().0, Box::new(there).split().1);
    let mut honest = Outgoing::<DeviceMessage>::new(here).encoded(Some(Encoding::Deflate));
    let spaces = Frame::Text(" ".repeat(MAX_FRAME));
    honest.frames().send(spaces).await.unwrap();
    let Ok(Frame::Binary(once)) = there.receive().await else {
        panic!()
    };
    // Between two messages stands what their frames leave out.
    let bomb = [&once[..], &[0, 0, 0xff, 0xff]].concat();
    let bomb = [&[0][..], &bomb[1..].repeat(500)].concat();
    let (mut connection, _) = device.connect().await;
    let sent = connection.outgoing.frames().send(Frame::Binary(bomb)).await;
    assert!(sent.is_ok() && connection.is_closed().await);
    assert!(device.connect().await.0.is_alive().await);
    assert!(bystander.is_alive().await);
    host.daemon.stop().await;
}
