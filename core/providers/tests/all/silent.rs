//! An ACP agent that shows no sign of life in the middle of a turn.

use crate::support::{PATIENCE, launch};
use pilothouse_domain::{Mode, ProviderEventKind, request::LostReason, thread::Selection};
use pilothouse_providers::{
    acp::{AcpAdapter, Deadlines},
    contract::{Escalation, OpenThread, ProviderAdapter as _, SendTurn},
    process::Life,
};
use std::{path::Path, process::Command, time::Duration};
use tokio::sync::mpsc;

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "kill {signal}");
}

#[tokio::test]
async fn its_turn_is_told_once_and_it_lives_on() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    std::fs::write(at("script"), r#"{"default": [{"hang": true}]}"#).unwrap();
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/scripted-acp.mjs");
    let (script, log) = (at("script"), at("log"));
    let command = [
        "node",
        &agent.to_string_lossy(),
        "--script",
        &script,
        "--log",
        &log,
        "--store",
        &dir.path().to_string_lossy(),
    ];
    let life = Life {
        silent: Duration::from_millis(800),
        answer: Duration::from_millis(400),
    };
    let adapter = AcpAdapter::with_deadlines(Deadlines {
        life,
        ..Deadlines::default()
    });
    let (sender, mut events) = mpsc::channel(64);
    let runtime = adapter
        .start(launch(&command, dir.path()), sender)
        .await
        .unwrap();
    let selection = Selection {
        agent: "codex".into(),
        model: None,
        effort: None,
        mode: Mode::Ask,
        sandbox: None,
    };
    let open = OpenThread {
        resume: None,
        cwd: dir.path().to_owned(),
        selection: selection.clone(),
    };
    let thread = runtime.open_thread(open).await.unwrap();
    let send = SendTurn {
        thread: thread.clone(),
        client_id: "m".to_owned(),
        text: "go on".to_owned(),
        attachments: Vec::new(),
        selection,
    };
    runtime.send_turn(send).await.unwrap();
    // Idle, but alive: it answers what it is asked, and nothing is told. Then it stands still.
    tokio::time::sleep(life.silent * 2).await;
    let pid = runtime.process_id().unwrap();
    kill("-STOP", pid);
    let mut told = 0;
    let mut after = None;
    tokio::time::timeout(PATIENCE, async {
        while let Some(batch) = events.recv().await {
            for event in batch.events {
                match event.kind {
                    ProviderEventKind::Error { error, will_retry } => {
                        assert!(error.message.contains("no sign of life"), "{error:?}");
                        assert!(will_retry && event.place.thread.as_ref() == Some(&thread));
                        told += 1;
                        // It goes on, and ends as a person asks it to.
                        kill("-CONT", pid);
                        runtime.signal(Escalation::Kill).unwrap();
                    }
                    ProviderEventKind::SessionEnded { reason, .. } => after = Some(reason),
                    _ => {}
                }
            }
        }
    })
    .await
    .expect("the events end");
    assert_eq!((told, after), (1, Some(LostReason::AgentExited)));
}
