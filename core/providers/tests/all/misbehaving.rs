//! The driver against programs that are no good codex, and the process under it.

use crate::support::{PATIENCE, launch, selection};
use pilothouse_domain::{Mode, ProviderEvent, ProviderEventKind, request::LostReason};
use pilothouse_providers::{
    codex::{CodexAdapter, Deadlines},
    contract::{
        AgentRuntime, Escalation, OpenThread, ProviderAdapter as _, RuntimeEvents, SendError,
        SendTurn, StartError,
    },
    process::{BoundProcess, Life, Recorded, StopTimers, exec_supervised, kill_recorded},
    registry,
};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;

const HELLO: &str = r#"
read l; echo '{"id":1,"result":{"userAgent":"pilothouse/9.9.9 (test)"}}'
read l; read l; read l
echo '{"id":2,"result":{"data":[]}}'; echo '{"id":3,"result":{"account":null,"requiresOpenaiAuth":true}}'
"#;
const THREAD: &str = r#"
read l; echo '{"id":4,"result":{"config":{}}}'
read l; echo '{"id":5,"result":{"thread":{"id":"t"},"approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":{"type":"workspaceWrite"},"cwd":"/","model":"m"}}'
"#;

fn quick() -> Deadlines {
    Deadlines {
        ask_again: Duration::from_millis(300),
        handshake: PATIENCE,
        call: PATIENCE,
        confirm: PATIENCE,
        interrupt: PATIENCE,
        stop: StopTimers {
            after_input_closed: Duration::from_millis(50),
            after_terminate: Duration::from_millis(50),
        },
        life: Life::default(),
        ping: PATIENCE,
    }
}

async fn start(
    script: &str,
    deadlines: Deadlines,
) -> (
    Result<Arc<dyn AgentRuntime>, StartError>,
    mpsc::Receiver<RuntimeEvents>,
) {
    let (sender, events) = mpsc::channel(16);
    let launch = launch(&["sh", "-c", script], Path::new("/"));
    let runtime = CodexAdapter::with_deadlines(deadlines)
        .start(launch, sender)
        .await;
    (runtime, events)
}

/// All events to the end.
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

fn ends(events: &[ProviderEvent]) -> Vec<(LostReason, String)> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::SessionEnded { reason, detail } => Some((*reason, detail.clone())),
            _ => None,
        })
        .collect()
}

fn problem(outcome: Result<Arc<dyn AgentRuntime>, StartError>) -> StartError {
    match outcome {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn an_agent_that_exits_in_a_turn_ends_its_session_once_and_the_call_is_unknown() {
    let script = format!(
        "{HELLO}{THREAD} read l; echo '{{\"method\":\"turn/started\",\"params\":{{\"threadId\":\"t\",\"turn\":{{\"id\":\"u\"}}}}}}'; echo 'token sk-0123456789abcdef is bad' >&2; exit 3"
    );
    let (runtime, events) = start(&script, quick()).await;
    let runtime = runtime.unwrap();
    let thread = runtime
        .open_thread(OpenThread {
            resume: None,
            cwd: "/".into(),
            selection: selection(Mode::Ask),
        })
        .await
        .unwrap();
    let outcome = runtime
        .send_turn(SendTurn {
            thread,
            client_id: "c".into(),
            text: "go".into(),
            attachments: Vec::new(),
            selection: selection(Mode::Ask),
        })
        .await;
    assert_eq!(outcome, Err(SendError::Unknown));
    let events = all(events).await;
    assert!(
        matches!(events[0].kind, ProviderEventKind::SessionReady { ref version, .. } if version == "9.9.9")
    );
    let [(LostReason::AgentExited, detail)] = &ends(&events)[..] else {
        panic!("{events:#?}")
    };
    assert!(detail.contains("exit status: 3"), "{detail}");
    assert!(
        detail.contains("is bad") && !detail.contains("sk-0123"),
        "{detail}"
    );
    assert!(matches!(
        events.last().unwrap().kind,
        ProviderEventKind::SessionEnded { .. }
    ));
}

#[tokio::test]
async fn an_agent_that_ends_before_its_handshake_is_told_with_its_last_words() {
    let (outcome, events) = start("echo 'no such model' >&2; exit 7", quick()).await;
    let error = problem(outcome).to_string();
    assert!(
        error.contains("exit status: 7") && error.contains("no such model"),
        "{error}"
    );
    assert!(all(events).await.is_empty());
}

#[tokio::test]
async fn an_agent_that_never_answers_is_given_up_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = format!(
        "trap '' TERM; echo $$ > {}; cat >/dev/null; while :; do sleep 1; done",
        pid.display()
    );
    let deadlines = Deadlines {
        handshake: Duration::from_millis(500),
        ..quick()
    };
    let (outcome, _events) = start(&script, deadlines).await;
    let error = problem(outcome).to_string();
    assert!(error.contains("did not answer initialize"), "{error}");
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
}

const TURN: &str = r#"
read l; echo '{"id":6,"result":{"turn":{"id":"u","status":"inProgress","items":[]}}}'
echo '{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u","status":"inProgress","items":[]}}}'
"#;

/// Starts a turn of an agent that then does as `rest` says, and is given this long for an answer once it is silent.
async fn silent(
    rest: &str,
    answer: Duration,
) -> (Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>) {
    let script = format!("{HELLO} {THREAD} {TURN} {rest}");
    let deadlines = Deadlines {
        life: Life {
            silent: Duration::from_millis(400),
            answer,
        },
        ..quick()
    };
    let (runtime, events) = start(&script, deadlines).await;
    let runtime = runtime.unwrap();
    let thread = runtime
        .open_thread(OpenThread {
            resume: None,
            cwd: "/".into(),
            selection: selection(Mode::Ask),
        })
        .await
        .unwrap();
    let send = SendTurn {
        thread,
        client_id: "m".to_owned(),
        text: "go".to_owned(),
        attachments: Vec::new(),
        selection: selection(Mode::Ask),
    };
    runtime.send_turn(send).await.unwrap();
    (runtime, events)
}

#[tokio::test]
async fn an_agent_at_work_without_any_sign_of_life_is_asked_and_ended() {
    // Reads what it is asked, and answers nothing.
    let (_runtime, events) = silent("read l; read l; exit 0", Duration::from_millis(400)).await;
    let ended = ends(&all(events).await);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].0, LostReason::Unresponsive, "{}", ended[0].1);
}

#[tokio::test]
async fn a_silent_agent_that_answers_when_it_is_asked_goes_on() {
    // Two questions are answered; then it ends its turn by itself.
    let (_runtime, events) = silent(
        r#"for n in 7 8; do read l; echo '{"id":'$n',"result":{"account":null}}'; done; exit 4"#,
        PATIENCE,
    )
    .await;
    let ended = ends(&all(events).await);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].0, LostReason::AgentExited, "{}", ended[0].1);
}

#[tokio::test]
async fn fifty_megabytes_of_stderr_block_nobody_and_only_their_end_is_kept() {
    let script = format!(
        "head -c 50000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo 'the end' >&2; {HELLO} read l; exit 1"
    );
    let (runtime, events) = start(&script, quick()).await;
    let runtime = runtime.unwrap();
    // Not stopped: what an agent wrote is told where it ended by itself.
    runtime.signal(Escalation::Kill).unwrap();
    let ended = ends(&all(events).await);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].0, LostReason::AgentExited);
    assert!(ended[0].1.contains("the end") && ended[0].1.len() < 4096);
}

#[tokio::test]
async fn an_agent_that_speaks_garbage_for_ever_is_ended() {
    let script = format!("{HELLO} while :; do echo 'garbage, not JSON'; done");
    let (runtime, events) = start(&script, quick()).await;
    let _runtime = runtime.unwrap();
    let events = all(events).await;
    let ended = ends(&events);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].0, LostReason::ProtocolError);
    assert!(events.len() < 20_000);
}

#[tokio::test]
async fn a_frame_beyond_the_limit_is_told_and_the_session_goes_on() {
    let script =
        format!("{HELLO} head -c 20000000 /dev/zero | tr '\\0' 'x'; echo; {THREAD} read l; exit 0");
    let (runtime, events) = start(&script, quick()).await;
    let runtime = runtime.unwrap();
    let reader = tokio::spawn(all(events));
    runtime
        .open_thread(OpenThread {
            resume: None,
            cwd: "/".into(),
            selection: selection(Mode::Ask),
        })
        .await
        .unwrap();
    runtime.stop().await;
    let events = reader.await.unwrap();
    assert!(events.iter().any(|event| matches!(&event.kind, ProviderEventKind::Unknown { label, .. } if label.contains("20000000 bytes"))));
    assert_eq!(ends(&events).len(), 1);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let (sender, _events) = mpsc::channel(1);
    let launch = launch(&["/nowhere/codex", "app-server"], Path::new("/"));
    let outcome = registry::family("codex")
        .unwrap()
        .start(launch, sender)
        .await;
    let error = problem(outcome).to_string();
    assert!(
        error.contains("/nowhere/codex") && error.contains("[agents.codex]"),
        "{error}"
    );
    assert!(registry::family("kodex").is_none());
}

#[tokio::test]
async fn stopping_kills_the_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = format!(
        "trap '' TERM; sleep 1000 & echo $! > {}; {HELLO} while :; do sleep 1; done",
        pid.display()
    );
    let (runtime, events) = start(&script, quick()).await;
    let runtime = runtime.unwrap();
    let grandchild = std::fs::read_to_string(pid).unwrap();
    runtime.stop().await;
    assert_gone(grandchild.trim().parse().unwrap()).await;
    assert!(runtime.signal(Escalation::Kill).is_err());
    assert_eq!(ends(&all(events).await).len(), 1);
}

/// Waits until no such process runs. One that was killed can be a zombie until its new parent reaps it.
pub(crate) async fn assert_gone(pid: u32) {
    tokio::time::timeout(PATIENCE, async {
        while std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the process ends");
}

#[tokio::test]
async fn a_recorded_process_is_killed_by_the_next_host_but_not_a_stranger_with_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agents/codex.json");
    assert_eq!(kill_recorded(&path).unwrap(), Recorded::Nothing);
    let mut launch = launch(&["sleep", "1000"], Path::new("/"));
    launch.pid_file = Some(path.clone());

    let (process, _pipes) = BoundProcess::spawn(&launch, &[]).await.unwrap();
    let record = std::fs::read_to_string(&path).unwrap();
    // The same number, started at another time by somebody else.
    let mut stranger: serde_json::Value = serde_json::from_str(&record).unwrap();
    stranger["start_time"] = 1.into();
    stranger["mark"] = "another".into();
    let other = dir.path().join("other.json");
    std::fs::write(&other, stranger.to_string()).unwrap();
    assert_eq!(kill_recorded(&other).unwrap(), Recorded::Gone);
    assert!(!process.has_exited());

    assert_eq!(kill_recorded(&path).unwrap(), Recorded::Killed);
    let exit = tokio::time::timeout(PATIENCE, process.exited())
        .await
        .unwrap();
    assert!(exit.to_string().contains("signal: 9"), "{exit}");
    assert!(!path.exists());
    assert_eq!(kill_recorded(&path).unwrap(), Recorded::Nothing);
}

#[tokio::test]
async fn the_record_goes_with_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("codex.json");
    let mut launch = launch(&["cat"], Path::new("/"));
    launch.pid_file = Some(path.clone());
    let (process, pipes) = BoundProcess::spawn(&launch, &[]).await.unwrap();
    assert!(path.exists());
    drop(pipes);
    process.exited().await;
    assert!(!path.exists());
}

const PARENT: &str = "PILOTHOUSE_TEST_PARENT";
const ROLE: &str = "PILOTHOUSE_TEST_ROLE";

/// Not a test: this program, run again, stands for the host's `agent-exec`, or for a host.
#[tokio::test]
async fn plays_a_part() {
    match std::env::var(ROLE).as_deref() {
        Ok("wrapper") => {
            let parent = std::env::var(PARENT).unwrap().parse().unwrap();
            let error = exec_supervised(parent, &["sleep".into(), "1000".into()]);
            println!("not executed: {}", error.unwrap_err());
        }
        Ok("host") => {
            let myself = std::env::current_exe().unwrap();
            let mut launch = launch(
                &[
                    &myself.to_string_lossy(),
                    "--exact",
                    "misbehaving::plays_a_part",
                    "--nocapture",
                ],
                Path::new("/"),
            );
            launch.env = [
                (ROLE.to_owned(), "wrapper".to_owned()),
                (PARENT.to_owned(), std::process::id().to_string()),
            ]
            .into();
            let (process, _pipes) = BoundProcess::spawn(&launch, &[]).await.unwrap();
            println!("\nagent {}", process.id());
            std::future::pending::<()>().await;
        }
        _ => {}
    }
}

fn play(role: &str, parent: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "misbehaving::plays_a_part", "--nocapture"])
        .env(ROLE, role)
        .env(PARENT, parent.to_string())
        .stdout(Stdio::piped());
    command
}

#[tokio::test]
async fn an_agent_dies_with_its_host_even_if_that_is_killed() {
    let mut host = play("host", 0).spawn().unwrap();
    let agent: u32 = BufReader::new(host.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().strip_prefix("agent ").map(str::to_owned))
        .expect("it says its agent's id")
        .parse()
        .unwrap();
    // Once it has become `sleep`, the death signal was asked for.
    tokio::time::timeout(PATIENCE, async {
        while std::fs::read_to_string(format!("/proc/{agent}/comm")).unwrap() != "sleep\n" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the agent is executed");
    host.kill().unwrap();
    host.wait().unwrap();
    assert_gone(agent).await;
}

#[test]
fn an_agent_whose_host_is_another_than_expected_is_not_started() {
    let output = play("wrapper", 1).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the host (process 1) is gone"), "{text}");
}
