//! A real opencode that stands still in the middle of a turn.

use crate::opencode_stage::{World, opencode};
use pilothouse_domain::{ProviderEventKind, request::LostReason};
use pilothouse_providers::{
    mcp::McpServers,
    opencode::{Deadlines, OpencodeAdapter},
};
use serde_json::json;
use std::{process::Command, time::Duration};

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill {name}");
}

/// One that was stopped in the middle of its words. It tells that it lives every 10 s: a little more than that is waited for
/// each time.
async fn stopped(reconnect: Duration) -> (World, u32) {
    let adapter = OpencodeAdapter::with_deadlines(Deadlines {
        handshake: crate::support::PATIENCE,
        call: Duration::from_secs(2),
        silent: Duration::from_secs(12),
        reconnect,
        ..Deadlines::default()
    });
    let long = json!({"long": [{"text": "word ".repeat(400), "chunk": 5, "delay": 100}]});
    let command = vec![opencode().to_owned(), "serve".to_owned()];
    let mut world = World::start_by(adapter, long, command, |_| McpServers::default()).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:long]]").await;
    let streams =
        |event: &ProviderEventKind| matches!(event, ProviderEventKind::ItemAppended { .. });
    world
        .until("its first words", |event| {
            streams(&event.kind).then_some(())
        })
        .await;
    let pid = world.runtime.process_id().unwrap();
    signal("-STOP", pid);
    (world, pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ended_and_its_person_told_why() {
    let (mut world, _) = stopped(Duration::from_secs(3)).await;
    let end = world
        .until("its end", |event| match &event.kind {
            ProviderEventKind::SessionEnded { reason, detail } => Some((*reason, detail.clone())),
            _ => None,
        })
        .await;
    assert_eq!(end.0, LostReason::Unresponsive, "{}", end.1);
    assert!(
        end.1.contains("gave no sign of life for 3 s; it was ended"),
        "{}",
        end.1
    );
    assert_eq!(world.runtime.process_id(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_moves_again_in_time_goes_on_with_its_turn() {
    let (mut world, pid) = stopped(Duration::from_secs(60)).await;
    // Long enough for its stream to be given up.
    tokio::time::sleep(Duration::from_secs(14)).await;
    signal("-CONT", pid);
    assert_eq!(
        world.turn_end().await.0,
        pilothouse_domain::provider::TurnStatus::Completed
    );
    assert_eq!(world.runtime.process_id(), Some(pid));
}
