//! The pi driver against programs that are no good pi.

use crate::{
    pi_world::selection,
    support::{PATIENCE, launch},
};
use pilothouse_domain::{Mode, ProviderEvent, ProviderEventKind, request::LostReason};
use pilothouse_providers::{
    contract::{
        AgentRuntime, InterruptError, OpenError, OpenThread, ProviderAdapter as _, RuntimeEvents,
        SendError, SendTurn, StartError,
    },
    pi::{Deadlines, PiAdapter},
    process::StopTimers,
};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// The gate's word, the answer to the first `get_state`, and no models and efforts.
const HELLO: &str = r#"
echo '{"type":"extension_ui_request","id":"g","method":"setStatus","statusKey":"pilothouse-gate","statusText":"{\"version\":1,\"agent\":\"1.6.0\",\"mode\":\"ask\"}"}'
read l; echo '{"id":"r1","type":"response","command":"get_state","success":true,"data":{"sessionFile":"/s.jsonl","sessionId":"s"}}'
read l; echo '{"id":"r2","type":"response","command":"get_available_models","success":false,"error":"none"}'
read l; echo '{"id":"r3","type":"response","command":"get_available_thinking_levels","success":false,"error":"none"}'
"#;
/// The state that is asked for when a session is opened.
const OPENED: &str = r#"
read l; echo '{"id":"r4","type":"response","command":"get_state","success":true,"data":{"sessionFile":"/s.jsonl","sessionId":"s"}}'
"#;
/// A turn that begins and speaks.
const TURN: &str = r#"
read l; echo '{"id":"r5","type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}'
echo '{"type":"agent_start"}'
echo '{"type":"message_start","message":{"role":"user","content":"go","timestamp":1}}'
echo '{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"hi"}}'
"#;
const SETTLED: &str = "echo '{\"type\":\"agent_settled\",\"aborted\":false}'\n";

type Started = (
    Result<Arc<dyn AgentRuntime>, StartError>,
    mpsc::Receiver<RuntimeEvents>,
);

async fn start(script: &str) -> Started {
    start_with(script, PATIENCE).await
}

async fn start_with(script: &str, interrupt: Duration) -> Started {
    let (sender, events) = mpsc::channel(16);
    let mut launch = launch(&["sh", "-c", script], Path::new("/"));
    // Each has a file of its own for the gate.
    static LIVES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let life = LIVES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut bytes = [9; 16];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[8..].copy_from_slice(&life.to_be_bytes());
    launch.incarnation = pilothouse_domain::Incarnation::from_bytes(bytes);
    let deadlines = Deadlines {
        handshake: PATIENCE,
        call: PATIENCE,
        interrupt,
        stop: StopTimers {
            after_input_closed: Duration::from_millis(50),
            after_terminate: Duration::from_millis(50),
        },
        ..Deadlines::default()
    };
    let runtime = PiAdapter::with_deadlines(deadlines)
        .start(launch, sender)
        .await;
    (runtime, events)
}

fn open() -> OpenThread {
    OpenThread {
        resume: None,
        cwd: "/".into(),
        selection: selection(Mode::Ask),
    }
}

fn message() -> SendTurn {
    SendTurn {
        thread: "/s.jsonl".into(),
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

/// Case 32: whatever ends a process ends its session, once, and every call tells.
#[tokio::test]
async fn case_32_a_pi_that_ends_at_any_point_ends_its_session_once() {
    let points = [
        String::new(),
        "read l;".to_owned(),
        HELLO.to_owned(),
        format!("{HELLO} read l;"),
        format!("{HELLO}{OPENED}"),
        format!("{HELLO}{OPENED} read l;"),
        format!("{HELLO}{OPENED}{TURN}"),
        format!("{HELLO}{OPENED}{TURN} printf '{{\"type\":';"),
        format!("{HELLO}{OPENED}{TURN}{SETTLED}"),
    ];
    for (at, script) in points.iter().enumerate() {
        let (started, events) = start(script).await;
        let Ok(runtime) = started else {
            assert!(at < 2, "{script}");
            assert!(all(events).await.is_empty(), "no event without a start");
            continue;
        };
        match runtime.open_thread(open()).await {
            Ok(_) => match runtime.send_turn(message()).await {
                Ok(_) => assert!(at >= 6, "{script}"),
                Err(error) => assert!(
                    matches!(error, SendError::Unknown | SendError::Refused { .. }),
                    "{script}: {error}"
                ),
            },
            Err(error) => assert!(matches!(error, OpenError::Lost), "{script}: {error}"),
        }
        let seen = all(events).await;
        assert!(matches!(
            seen[0].kind,
            ProviderEventKind::SessionReady { .. }
        ));
        let ends: Vec<_> = seen
            .iter()
            .filter(|event| matches!(event.kind, ProviderEventKind::SessionEnded { .. }))
            .collect();
        assert_eq!(ends.len(), 1, "{script}");
        assert!(matches!(
            seen.last().unwrap().kind,
            ProviderEventKind::SessionEnded {
                reason: LostReason::AgentExited,
                ..
            }
        ));
        assert!(runtime.open_thread(open()).await.is_err(), "{script}");
    }
}

/// Case 34: an interrupt that is not taken is said so in time, so that the next step follows.
#[tokio::test]
async fn case_34_an_interrupt_that_is_not_taken_is_said_so_and_a_signal_ends_it() {
    let script = format!("{HELLO}{OPENED}{TURN} trap '' INT; while read l; do :; done; sleep 600");
    let (started, mut events) = start_with(&script, Duration::from_millis(200)).await;
    let runtime = started.unwrap_or_else(|error| panic!("{error}"));
    let thread = runtime.open_thread(open()).await.unwrap();
    let turn = runtime.send_turn(message()).await.unwrap().turn.unwrap();
    let stopped = runtime
        .interrupting()
        .unwrap()
        .interrupt(thread, turn)
        .await;
    assert!(
        matches!(stopped, Err(InterruptError::NotTaken { .. })),
        "{stopped:?}"
    );
    runtime
        .signal(pilothouse_providers::contract::Escalation::Kill)
        .unwrap();
    let mut ended = false;
    while let Some(batch) = events.recv().await {
        ended |= batch
            .events
            .iter()
            .any(|event| matches!(event.kind, ProviderEventKind::SessionEnded { .. }));
    }
    assert!(ended);
}

#[tokio::test]
async fn a_stream_of_nonsense_without_end_is_given_up_with_a_reason() {
    let (started, events) = start(&format!("{HELLO} while :; do echo nonsense; done")).await;
    let _runtime = started.unwrap_or_else(|error| panic!("{error}"));
    let seen = all(events).await;
    let Some(ProviderEventKind::SessionEnded { reason, detail }) =
        seen.last().map(|event| event.kind.clone())
    else {
        panic!("{seen:?}")
    };
    assert_eq!(reason, LostReason::ProtocolError);
    assert!(detail.contains("unreadable"), "{detail}");
}

#[tokio::test]
async fn what_is_no_pi_is_not_started_and_its_words_are_kept() {
    let (started, _events) = start("echo 'unknown option --mode' >&2; exit 2").await;
    let Err(StartError::Handshake {
        stderr, problem, ..
    }) = started
    else {
        panic!("it started or failed otherwise")
    };
    assert!(
        stderr.contains("unknown option --mode") && problem.contains("exit status: 2"),
        "{problem}: {stderr}"
    );
}
