//! The claude driver against programs that are no good agent.

use crate::support::{PATIENCE, launch};
use pilothouse_domain::{
    Mode, ProviderEvent, ProviderEventKind, provider::TurnStatus, request::LostReason,
    thread::Selection,
};
use pilothouse_providers::{
    claude::{ClaudeAdapter, Deadlines},
    contract::{
        AgentRuntime, InterruptError, OpenError, OpenThread, ProviderAdapter as _, RuntimeEvents,
        SendError, SendTurn, StartError,
    },
    process::{Life, StopTimers},
};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc;

const HELLO: &str = r#"
read l; echo '{"type":"control_response","response":{"subtype":"success","request_id":"pilothouse-1","response":{"claude_code_version":"9","current_permission_mode":"default","account":{"email":"x"}}}}'
"#;
/// Begins a turn with the message that comes.
const BEGIN: &str = r#"
read l; id=$(printf %s "$l" | sed 's/.*"uuid":"\([^"]*\)".*/\1/'); echo "{\"type\":\"command_lifecycle\",\"command_uuid\":\"$id\",\"state\":\"started\"}"
"#;
const SAY: &str = r#"
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"hi"}]}}'
"#;
const END: &str = r#"
echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed"}'
"#;

fn quick() -> Deadlines {
    Deadlines {
        handshake: PATIENCE,
        call: PATIENCE,
        confirm: PATIENCE,
        interrupt: PATIENCE,
        stop: StopTimers {
            after_input_closed: Duration::from_millis(50),
            after_terminate: Duration::from_millis(50),
        },
        life: Life::default(),
    }
}

type Started = (
    Result<Arc<dyn AgentRuntime>, StartError>,
    mpsc::Receiver<RuntimeEvents>,
);

async fn start_with(script: &str, deadlines: Deadlines) -> Started {
    let (sender, events) = mpsc::channel(16);
    let mut launch = launch(&["sh", "-c", script, "sh"], Path::new("/"));
    launch.agent = "claude".into();
    let runtime = ClaudeAdapter::with_deadlines(deadlines)
        .start(launch, sender)
        .await;
    (runtime, events)
}

async fn start(script: &str) -> Started {
    start_with(script, quick()).await
}

fn selection(mode: Mode) -> Selection {
    Selection {
        agent: "claude".into(),
        model: None,
        effort: None,
        mode,
        sandbox: None,
    }
}

fn open(mode: Mode) -> OpenThread {
    OpenThread {
        resume: None,
        cwd: "/".into(),
        selection: selection(mode),
    }
}

fn message() -> SendTurn {
    SendTurn {
        thread: "s".into(),
        client_id: "c".into(),
        text: "go".into(),
        attachments: Vec::new(),
        selection: selection(Mode::Ask),
    }
}

async fn all(mut events: mpsc::Receiver<RuntimeEvents>) -> Vec<ProviderEvent> {
    let mut seen = Vec::new();
    tokio::time::timeout(PATIENCE, async {
        while let Some(batch) = events.recv().await {
            seen.extend(batch.events);
        }
    })
    .await
    .expect("the events end");
    seen
}

#[tokio::test]
async fn an_agent_that_ends_at_any_point_ends_its_session_once_and_every_call_tells() {
    let points = [
        String::new(),
        "read l;".to_owned(),
        HELLO.to_owned(),
        format!("{HELLO} read l;"),
        format!("{HELLO}{BEGIN}"),
        format!("{HELLO}{BEGIN}{SAY}"),
        format!("{HELLO}{BEGIN}{SAY} printf '{{\"type\":';"),
        format!("{HELLO}{BEGIN}{SAY}{END}"),
    ];
    for (point, script) in points.iter().enumerate() {
        let (runtime, events) = start(&format!("{script}\nexit 3")).await;
        let Ok(runtime) = runtime else {
            assert!(point < 2, "point {point}");
            assert!(matches!(runtime.err(), Some(StartError::Handshake { .. })));
            let seen = all(events).await;
            assert!(seen.is_empty(), "nothing was ready, nothing ends");
            continue;
        };
        // Its mode is the one that is wanted: nothing has to be set.
        let opened = runtime.open_thread(open(Mode::Ask)).await;
        assert!(opened.is_ok(), "point {point}: {opened:?}");
        let sent = runtime.send_turn(message()).await;
        assert!(
            matches!(
                sent,
                Ok(_) | Err(SendError::Refused { .. } | SendError::Unknown)
            ),
            "point {point}: {sent:?}"
        );
        assert_eq!(sent.is_ok(), point >= 4, "point {point}: {sent:?}");
        let events = all(events).await;
        let ends: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                ProviderEventKind::SessionEnded { reason, detail } => Some((*reason, detail)),
                _ => None,
            })
            .collect();
        let [(LostReason::AgentExited, detail)] = &ends[..] else {
            panic!("point {point}: {events:#?}")
        };
        assert!(detail.contains("exit status: 3"), "{detail}");
        let turns = events
            .iter()
            .filter(|event| matches!(event.kind, ProviderEventKind::TurnEnded { .. }))
            .count();
        assert_eq!(turns, usize::from(point == 7), "point {point}");
    }
}

#[tokio::test]
async fn case_34_an_interrupt_that_is_not_taken_in_time_says_so_and_a_signal_ends_the_process() {
    let deadlines = Deadlines {
        interrupt: Duration::from_millis(100),
        ..quick()
    };
    let script = format!("{HELLO}{BEGIN} while read l; do :; done");
    let (runtime, mut events) = start_with(&script, deadlines).await;
    let runtime = runtime.unwrap();
    let thread = runtime.open_thread(open(Mode::Ask)).await.unwrap();
    let turn = runtime.send_turn(message()).await.unwrap().turn.unwrap();
    let interrupting = runtime.interrupting().unwrap();
    let taken = interrupting.interrupt(thread, turn).await;
    let Err(InterruptError::NotTaken { problem }) = taken else {
        panic!("{taken:?}")
    };
    assert!(problem.contains("interrupt"), "{problem}");
    runtime
        .signal(pilothouse_providers::contract::Escalation::Kill)
        .unwrap();
    let ended = tokio::time::timeout(PATIENCE, async {
        while let Some(batch) = events.recv().await {
            if let Some(event) = batch
                .events
                .iter()
                .find(|event| matches!(event.kind, ProviderEventKind::SessionEnded { .. }))
            {
                return Some(event.clone());
            }
        }
        None
    });
    assert!(ended.await.unwrap().is_some());
}

#[tokio::test]
async fn a_mode_that_it_was_told_to_take_and_did_not_is_refused_before_anything_is_sent() {
    let liar = r#"read l; echo '{"type":"control_response","response":{"subtype":"success","request_id":"pilothouse-2","response":{"mode":"bypassPermissions"}}}'; read l"#;
    let refuser = r#"read l; echo '{"type":"control_response","response":{"subtype":"error","request_id":"pilothouse-2","error":"no such mode"}}'; read l"#;
    for script in [liar, refuser] {
        let (runtime, _events) = start(&format!("{HELLO}{script}")).await;
        let opened = runtime.unwrap().open_thread(open(Mode::AutoEdit)).await;
        assert!(
            matches!(opened, Err(OpenError::Refused { .. })),
            "{opened:?}"
        );
    }
}

#[tokio::test]
async fn a_stream_without_end_and_one_of_garbage_are_read_in_bounded_memory_and_ended() {
    let flood = format!(
        "{HELLO} while :; do echo '{{\"type\":\"stream_event\",\"event\":{{\"type\":\"ping\"}}}}'; done"
    );
    let (runtime, _events) = start(&flood).await;
    let runtime = runtime.unwrap();
    assert!(runtime.open_thread(open(Mode::Ask)).await.is_ok());
    runtime.stop().await;
    assert_eq!(runtime.process_id(), None);
    let garbage = format!("{HELLO} while :; do echo garbage; done");
    let (runtime, events) = start(&garbage).await;
    let runtime = runtime.unwrap();
    let seen = all(events).await;
    drop(runtime);
    assert!(seen.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::SessionEnded {
            reason: LostReason::ProtocolError,
            ..
        }
    )));
}

#[tokio::test]
async fn case_32_an_agent_that_fails_a_turn_it_calls_a_success_has_failed_it() {
    let failed = r#"echo '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":401,"result":"Failed to authenticate"}'; read l"#;
    let (runtime, mut events) = start(&format!("{HELLO}{BEGIN}{failed}")).await;
    let runtime = runtime.unwrap();
    runtime.open_thread(open(Mode::Ask)).await.unwrap();
    runtime.send_turn(message()).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, async {
        while let Some(batch) = events.recv().await {
            for event in batch.events {
                if let ProviderEventKind::TurnEnded { status, error } = event.kind {
                    return Some((status, error));
                }
            }
        }
        None
    });
    let (status, error) = end.await.unwrap().unwrap();
    assert_eq!(status, TurnStatus::Failed);
    assert_eq!(
        error.map(|error| error.code),
        Some(pilothouse_domain::run::ErrorCode::SignIn)
    );
}
