//! The ACP driver against programs that are no good agent.

use crate::support::{PATIENCE, launch, selection};
use pilothouse_domain::{
    Mode, ProviderEvent, ProviderEventKind, request::LostReason, run::ErrorCode,
};
use pilothouse_providers::{
    acp::{AcpAdapter, Deadlines},
    contract::{
        AgentRuntime, InterruptError, Launch, OpenError, OpenThread, ProviderAdapter as _,
        RuntimeEvents, SendError, SendTurn, StartError,
    },
    process::{Life, StopTimers},
};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc;

const HELLO: &str = r#"
read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"gemini-cli","version":"9"},"agentCapabilities":{"loadSession":true},"authMethods":[{"id":"k","name":"API key","description":"set KEY"}]}}'
"#;
/// A conversation that is in the mode `plan` and can be set to `default`.
const SESSION: &str = r#"
read l; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","modes":{"currentModeId":"plan","availableModes":[{"id":"plan","name":"Plan"},{"id":"default","name":"Default"}]}}}'
"#;
const MODE_SET: &str = r#"
read l; echo '{"jsonrpc":"2.0","id":3,"result":{}}'
"#;

fn quick() -> Deadlines {
    Deadlines {
        handshake: PATIENCE,
        call: PATIENCE,
        write: PATIENCE,
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

async fn start_with(
    script: &str,
    deadlines: Deadlines,
    change: impl FnOnce(&mut Launch),
) -> Started {
    let (sender, events) = mpsc::channel(16);
    let mut launch = launch(&["sh", "-c", script], Path::new("/"));
    change(&mut launch);
    let runtime = AcpAdapter::with_deadlines(deadlines)
        .start(launch, sender)
        .await;
    (runtime, events)
}

async fn start(script: &str) -> Started {
    start_with(script, quick(), |_| {}).await
}

fn open(mode: Mode) -> OpenThread {
    let mut selection = selection(mode);
    (selection.model, selection.effort) = (None, None);
    OpenThread {
        resume: None,
        cwd: "/".into(),
        selection,
    }
}

fn message(mode: Mode) -> SendTurn {
    SendTurn {
        thread: "s".into(),
        client_id: "c".into(),
        text: "go".into(),
        attachments: Vec::new(),
        selection: open(mode).selection,
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

fn problem(outcome: Result<Arc<dyn AgentRuntime>, StartError>) -> String {
    match outcome {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn an_agent_that_ends_at_any_point_ends_its_session_once_and_every_call_tells() {
    let turn = r#"read l; echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}';"#;
    let end = r#"echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}';"#;
    let points = [
        String::new(),
        "read l;".to_owned(),
        HELLO.to_owned(),
        format!("{HELLO} read l;"),
        format!("{HELLO}{SESSION}"),
        format!("{HELLO}{SESSION} read l;"),
        format!("{HELLO}{SESSION}{MODE_SET}"),
        format!("{HELLO}{SESSION}{MODE_SET} read l;"),
        format!("{HELLO}{SESSION}{MODE_SET}{turn}"),
        format!("{HELLO}{SESSION}{MODE_SET}{turn} printf '{{\"jsonrpc\":';"),
        format!("{HELLO}{SESSION}{MODE_SET}{turn}{end}"),
    ];
    for (point, script) in points.iter().enumerate() {
        let (runtime, events) = start(&format!("{script} exit 3")).await;
        let Ok(runtime) = runtime else {
            assert!(point < 2, "point {point}");
            let text = problem(runtime);
            assert!(text.contains("did not take the handshake"), "{text}");
            assert!(
                all(events).await.is_empty(),
                "nothing was ready, nothing ends"
            );
            continue;
        };
        let opened = runtime.open_thread(open(Mode::Ask)).await;
        assert!(
            matches!(opened, Ok(_) | Err(OpenError::Lost)),
            "point {point}: {opened:?}"
        );
        if opened.is_ok() {
            let sent = runtime.send_turn(message(Mode::Ask)).await;
            assert!(
                matches!(
                    sent,
                    Ok(_) | Err(SendError::Refused { .. } | SendError::Unknown)
                ),
                "point {point}: {sent:?}"
            );
        }
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
        assert_eq!(turns, usize::from(point == 10), "point {point}");
    }
}

#[tokio::test]
async fn the_mode_that_a_thread_names_is_set_before_its_first_turn_and_another_is_refused_with_what_there_is()
 {
    // `ask` of gemini is its mode `default`.
    let script = format!(
        "{HELLO}{SESSION} read l; case \"$l\" in *set_mode*default*) echo '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{}}}}';; esac; read l"
    );
    let (runtime, _events) = start(&script).await;
    let runtime = runtime.unwrap();
    assert!(runtime.open_thread(open(Mode::Ask)).await.is_ok());

    // One that it was told to take and does not: nothing begins.
    let liar = r#"read l; echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"current_mode_update","currentModeId":"yolo"}}}'; echo '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no"}}'; read l"#;
    let (runtime, _events) = start(&format!("{HELLO}{SESSION}{liar}")).await;
    let refused = runtime.unwrap().open_thread(open(Mode::Ask)).await;
    assert!(
        matches!(refused, Err(OpenError::Refused { .. })),
        "{refused:?}"
    );

    // One that it does not list.
    let (runtime, _events) = start(&format!("{HELLO}{SESSION} read l")).await;
    let refused = runtime.unwrap().open_thread(open(Mode::FullAccess)).await;
    let Err(OpenError::Refused { error }) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.message.contains("`yolo` is no mode"), "{error:?}");
    assert!(error.message.contains("`plan`, `default`"), "{error:?}");
}

#[tokio::test]
async fn an_agent_that_nobody_measured_keeps_its_mode_and_takes_others_only_by_configuration() {
    let hello = HELLO.replace("gemini-cli", "somebody");
    let script = format!("{hello}{SESSION} read l; echo '{{}}'");
    let (runtime, mut events) = start(&script).await;
    let runtime = runtime.unwrap();
    let first = events.recv().await.unwrap().events;
    assert!(first.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::Diagnostic { message } if message.contains("nobody measured the agent `somebody`")
    )));
    assert!(
        runtime.open_thread(open(Mode::Ask)).await.is_ok(),
        "nothing is set"
    );
    let _ = runtime.send_turn(message(Mode::Ask)).await;
    let told = all(events).await;
    let warned = told.iter().filter(|event| {
        matches!(&event.kind, ProviderEventKind::Unknown { label, raw }
            if label == "notice (warning)" && raw.contains("somebody") && raw.contains("host.toml"))
    });
    assert_eq!(warned.count(), 1, "its person reads it: {told:#?}");

    let (runtime, _events) = start(&script).await;
    let refused = runtime.unwrap().open_thread(open(Mode::ReadOnly)).await;
    let Err(OpenError::Refused { error }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        error.message.contains("modes = { read_only = "),
        "{error:?}"
    );

    let (runtime, _events) = start_with(&script, quick(), |launch| {
        launch.modes.insert(Mode::ReadOnly, "plan".to_owned());
    })
    .await;
    assert!(
        runtime
            .unwrap()
            .open_thread(open(Mode::ReadOnly))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_sign_in_that_is_missing_is_told_with_its_ways() {
    let script = format!(
        "{HELLO} read l; echo '{{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{{\"code\":-32000,\"message\":\"Authentication required\"}}}}'; read l"
    );
    let (runtime, _events) = start(&script).await;
    let refused = runtime.unwrap().open_thread(open(Mode::Ask)).await;
    let Err(OpenError::Refused { error }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.code, ErrorCode::SignIn);
    assert!(error.message.contains("API key (set KEY)"), "{error:?}");
}

#[tokio::test]
async fn another_version_of_the_protocol_and_something_that_is_none_are_named() {
    let script =
        r#"read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}'; read l"#;
    let (runtime, _events) = start(script).await;
    let text = problem(runtime);
    assert!(text.contains("speaks version 2"), "{text}");

    let (runtime, _events) =
        start("echo 'usage: agent [--help]'; echo 'no such option' >&2; exit 2").await;
    let text = problem(runtime);
    assert!(
        text.contains("exit status: 2") && text.contains("no such option"),
        "{text}"
    );

    let (runtime, _events) = start("while :; do echo garbage; done").await;
    let text = problem(runtime);
    assert!(text.contains("did not take the handshake"), "{text}");

    let (runtime, _events) = start_with("read l", quick(), |launch| {
        launch.command = vec!["/nowhere/agent".to_owned()];
    })
    .await;
    let text = problem(runtime);
    assert!(
        text.contains("/nowhere/agent") && text.contains("host.toml"),
        "{text}"
    );
}

#[tokio::test]
async fn two_turns_never_go_on_at_once_and_only_the_one_that_goes_on_can_be_stopped() {
    let script = format!(
        "{HELLO}{SESSION}{MODE_SET} read l; read l; case \"$l\" in *session/cancel*) echo '{{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{{\"stopReason\":\"cancelled\"}}}}';; esac; read l"
    );
    let (runtime, mut events) = start(&script).await;
    let runtime = runtime.unwrap();
    runtime.open_thread(open(Mode::Ask)).await.unwrap();
    let turn = runtime
        .send_turn(message(Mode::Ask))
        .await
        .unwrap()
        .turn
        .unwrap();
    assert_eq!(
        runtime.send_turn(message(Mode::Ask)).await,
        Err(SendError::Busy)
    );
    let stopping = runtime.interrupting().unwrap();
    let other = stopping.interrupt("s".into(), "another".into()).await;
    assert_eq!(other, Err(InterruptError::TurnEnded));
    stopping.interrupt("s".into(), turn.clone()).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, async {
        while let Some(batch) = events.recv().await {
            for event in batch.events {
                if matches!(event.kind, ProviderEventKind::TurnEnded { .. }) {
                    return Some(event.place.turn);
                }
            }
        }
        None
    });
    assert_eq!(ended.await.unwrap(), Some(Some(turn.clone())));
    assert_eq!(
        stopping.interrupt("s".into(), turn).await,
        Err(InterruptError::TurnEnded)
    );
}

#[tokio::test]
async fn what_there_is_no_room_for_before_the_end_of_the_handshake_is_told() {
    let script = format!(
        "for n in $(seq 5000); do echo '{{\"jsonrpc\":\"2.0\",\"method\":\"_x/y\",\"params\":{{}}}}'; done; {HELLO}"
    );
    let (runtime, events) = start(&script).await;
    drop(runtime.unwrap());
    let told = all(events).await;
    let said = told.iter().any(|event| {
        matches!(&event.kind, ProviderEventKind::Unknown { label, raw }
            if label.contains("handshake") && raw.starts_with("904 "))
    });
    assert!(said, "{:?}", told.last());
}

#[tokio::test]
async fn an_option_that_the_agent_does_not_say_to_be_set_is_not() {
    let session = SESSION.replace(
        r#""modes":{"currentModeId":"plan","availableModes":[{"id":"plan","name":"Plan"},{"id":"default","name":"Default"}]}"#,
        r#""configOptions":[{"id":"mode","category":"mode","currentValue":"plan","options":[{"value":"plan"},{"value":"default"}]}]"#,
    );
    for (answer, taken) in [
        ("{}", false),
        (r#"{"configOptions":[]}"#, false),
        (
            r#"{"configOptions":[{"id":"mode","category":"mode","currentValue":"default","options":[]}]}"#,
            true,
        ),
    ] {
        let set = format!("read l; echo '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{answer}}}';");
        let (runtime, _events) = start(&format!("{HELLO}{session}{set} read l")).await;
        let opened = runtime.unwrap().open_thread(open(Mode::Ask)).await;
        assert_eq!(opened.is_ok(), taken, "{answer}: {opened:?}");
    }
}
