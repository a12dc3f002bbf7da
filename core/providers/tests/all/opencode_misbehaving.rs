//! Programs that claim to be opencode, and a real one whose connections are cut or whose host is gone.

use crate::{
    heard,
    opencode_stage::{World, asked, launch, opencode, run},
    support::{Asked, PATIENCE, root, say},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use pilothouse_domain::{
    Answer, Mode, NativeId, OptionId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus,
    provider_event::Resolution,
    request::{AnswerDelivery, LostReason},
    thread::Selection,
};
use pilothouse_providers::{
    contract::{
        AgentRuntime, InterruptError, Launch, OpenThread, ProviderAdapter as _, RespondError,
        Reverted, RuntimeEvents, SendError, SendTurn, StartError,
    },
    opencode::{Deadlines, OpencodeAdapter},
    process::detached::{DetachedRecord, EXTENSION},
};
use serde_json::{Value, json};
use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

type Events = mpsc::Receiver<RuntimeEvents>;

fn fake(dir: &TempDir, mode: &str) -> Launch {
    std::fs::create_dir_all(dir.path().join("workspace")).unwrap();
    let program = root().join("tests/support/fake-opencode.mjs");
    Launch {
        command: vec![
            "node".to_owned(),
            program.display().to_string(),
            mode.to_owned(),
        ],
        env: Default::default(),
        ..launch(dir.path(), 1)
    }
}

/// Patient, but for what a fake never does.
fn adapter_for(mode: &str) -> OpencodeAdapter {
    let patient = Deadlines {
        handshake: PATIENCE,
        first: Duration::from_secs(2),
        call: PATIENCE,
        reconnect: PATIENCE,
        quiet: Duration::from_millis(200),
        ..Deadlines::default()
    };
    OpencodeAdapter::with_deadlines(match mode {
        "mute" | "silent" => Deadlines {
            handshake: Duration::from_secs(3),
            ..patient
        },
        "deaf" | "stalls" | "forgets" => Deadlines {
            call: Duration::from_secs(2),
            ..patient
        },
        "gone" => Deadlines {
            reconnect: Duration::from_secs(1),
            ..patient
        },
        _ => patient,
    })
}

async fn start(dir: &TempDir, mode: &str) -> Result<(Arc<dyn AgentRuntime>, Events), StartError> {
    let (sender, events) = mpsc::channel(64);
    let runtime = adapter_for(mode).start(fake(dir, mode), sender).await?;
    Ok((runtime, events))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_listens_never_answers_refuses_or_answers_without_end_is_not_started_and_ended()
 {
    for (mode, said) in [
        ("mute", "did not say where it listens"),
        ("silent", "did not answer"),
        ("denies", "not today"),
        ("huge", "too long"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Err(StartError::Handshake { problem, .. }) = start(&dir, mode).await else {
            panic!("{mode} was started, or could not be spawned")
        };
        assert!(problem.contains(said), "{mode}: {problem}");
        // Its process and its record are gone.
        let left: Vec<_> = std::fs::read_dir(dir.path().join("agents"))
            .unwrap()
            .flatten()
            .map(|file| file.file_name())
            .filter(|name| name.to_string_lossy().ends_with(EXTENSION))
            .collect();
        assert!(left.is_empty(), "{mode}: {left:?}");
    }
}

async fn end_of(events: &mut Events) -> (LostReason, String) {
    let end = async {
        loop {
            let batch = events.recv().await.expect("its end is told");
            for event in batch.events {
                if let ProviderEventKind::SessionEnded { reason, detail } = event.kind {
                    return (reason, detail);
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_stream_is_garbage_or_that_cannot_be_reached_again_is_ended_with_the_reason() {
    for (mode, wanted) in [
        ("garbage", LostReason::ProtocolError),
        ("gone", LostReason::Unresponsive),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, mut events) = start(&dir, mode).await.unwrap();
        let (reason, detail) = end_of(&mut events).await;
        assert_eq!(reason, wanted, "{mode}: {detail}");
        assert_eq!(runtime.process_id(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_never_answered_is_unknown_and_the_conversation_can_be_used_again() {
    used_again("deaf").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_cannot_be_read_after_such_a_prompt_is_read_until_it_can() {
    used_again("stalls").await;
}

async fn used_again(mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, _events) = start(&dir, mode).await.unwrap();
    let open = OpenThread {
        resume: None,
        cwd: dir.path().join("workspace"),
        selection: selection(),
    };
    let thread = runtime.open_thread(open).await.unwrap();
    let send = message(&thread);
    assert_eq!(
        runtime.send_turn(send.clone()).await,
        Err(SendError::Unknown)
    );
    // It is not in the conversation: after a look at it another may be sent.
    let again = async {
        while runtime.send_turn(send.clone()).await == Err(SendError::Busy) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again)
        .await
        .expect("it is let go of");
}

/// A turn with a fake; events until one for which `wanted` gives something.
async fn turn_of<T>(mode: &str, wanted: impl Fn(&ProviderEventKind) -> Option<T>) -> T {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, mut events) = start(&dir, mode).await.unwrap();
    let open = OpenThread {
        resume: None,
        cwd: dir.path().join("workspace"),
        selection: selection(),
    };
    let thread = runtime.open_thread(open).await.unwrap();
    runtime.send_turn(message(&thread)).await.unwrap();
    let found = async {
        loop {
            let batch = events.recv().await.expect("it lives");
            if let Some(found) = batch.events.iter().find_map(|event| wanted(&event.kind)) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("it is found out")
}

#[tokio::test(flavor = "multi_thread")]
async fn case_30_an_end_that_is_never_said_and_a_message_that_is_never_taken_up_end_the_turn() {
    let ended = |kind: &ProviderEventKind| match kind {
        ProviderEventKind::TurnEnded { status, error } => Some((*status, error.clone())),
        _ => None,
    };
    assert_eq!(
        turn_of("endless", ended).await,
        (TurnStatus::Completed, None)
    );
    let (status, error) = turn_of("swallows", ended).await;
    assert_eq!(status, TurnStatus::Failed);
    assert!(error.unwrap().message.contains("said nothing more of it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn case_23_a_request_that_was_never_told_on_a_stream_that_lives_is_found() {
    let command = turn_of("asks", |kind| match kind {
        ProviderEventKind::RequestOpened { subject, .. } => subject.command.clone(),
        _ => None,
    });
    assert_eq!(command.await, "ls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_with_large_pictures_is_read_and_taken_back_from_a_turn_far_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, _events) = start(&dir, "long-past").await.unwrap();
    let open = OpenThread {
        resume: None,
        cwd: dir.path().join("workspace"),
        selection: selection(),
    };
    let thread = runtime.open_thread(open).await.unwrap();
    let turns = async || {
        let past = runtime.history().unwrap().read(thread.clone(), 12).await;
        let begun = past
            .unwrap()
            .into_iter()
            .filter(|event| event.kind == ProviderEventKind::TurnStarted)
            .filter_map(|event| event.place.turn);
        begun.map(|turn| turn.0).collect::<Vec<_>>()
    };
    let of = |turns: std::ops::Range<u32>| -> Vec<String> {
        turns.map(|at| format!("msg_{:04}", at * 10)).collect()
    };
    assert_eq!(turns().await, of(88..100));
    let reverting = runtime.reverting().unwrap();
    let from = NativeId::from("msg_0500");
    for outcome in [Reverted::Forgotten, Reverted::NotThere] {
        let taken = reverting.revert(thread.clone(), from.clone()).await;
        assert_eq!(taken, Ok(outcome));
        assert_eq!(turns().await, of(38..50));
    }
}

/// A fake with a conversation, whose first turn is to be sent.
async fn conversation_with(dir: &TempDir, mode: &str) -> (Arc<dyn AgentRuntime>, Events, NativeId) {
    let (runtime, events) = start(dir, mode).await.unwrap();
    let open = OpenThread {
        resume: None,
        cwd: dir.path().join("workspace"),
        selection: selection(),
    };
    let thread = runtime.open_thread(open).await.unwrap();
    (runtime, events, thread)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_somebody_between_answers_for_is_unknown_and_its_turn_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, mut events, thread) = conversation_with(&dir, "between").await;
    let sent = runtime.send_turn(message(&thread)).await;
    assert_eq!(sent, Err(SendError::Unknown));
    let (mut seen, mut next) = (Vec::new(), 0);
    let (events, seen) = (&mut events, &mut seen);
    let end = heard::until(events, seen, &mut next, "its end", heard::turn_end).await;
    assert_eq!(end, (TurnStatus::Completed, None));
    let begun = |event: &&ProviderEvent| event.kind == ProviderEventKind::TurnStarted;
    assert_eq!(seen.iter().filter(begun).count(), 1);
    let Err(SendError::Unknown) = runtime.send_turn(message(&thread)).await else {
        panic!("the conversation is busy, or its prompt was refused")
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_failed_stop_did_not_reach_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, mut events, thread) = conversation_with(&dir, "unheard").await;
    let turn = runtime.send_turn(message(&thread)).await.unwrap().turn;
    let (mut seen, mut next) = (Vec::new(), 0);
    let (events, seen) = (&mut events, &mut seen);
    let begun =
        |event: &ProviderEvent| (event.kind == ProviderEventKind::TurnStarted).then_some(());
    heard::until(events, seen, &mut next, "its beginning", begun).await;
    let interrupting = runtime.interrupting().unwrap();
    let stopped = interrupting.interrupt(thread.clone(), turn.unwrap()).await;
    let Err(InterruptError::NotTaken { problem }) = stopped else {
        panic!("{stopped:?}")
    };
    assert!(problem.contains("out of memory"), "{problem}");
    // The fake goes on once it is asked for its commands, when the stop is known to have failed.
    runtime.commands(dir.path()).await;
    let end = heard::until(events, seen, &mut next, "its end", heard::turn_end).await;
    assert_eq!(end, (TurnStatus::Completed, None));
}

/// A conversation with a fake that asks, in a mode; the first request that a person is to answer.
struct Asking {
    runtime: Arc<dyn AgentRuntime>,
    events: Events,
    seen: Vec<ProviderEvent>,
    next: usize,
    _dir: TempDir,
}

impl Asking {
    async fn start(program: &str, mode: Mode) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, events) = start(&dir, program).await.unwrap();
        let selection = Selection {
            mode,
            ..selection()
        };
        let open = OpenThread {
            resume: None,
            cwd: dir.path().join("workspace"),
            selection: selection.clone(),
        };
        let thread = runtime.open_thread(open).await.unwrap();
        let send = SendTurn {
            selection,
            ..message(&thread)
        };
        runtime.send_turn(send).await.unwrap();
        Self {
            runtime,
            events,
            seen: Vec::new(),
            next: 0,
            _dir: dir,
        }
    }

    async fn request(&mut self) -> Asked {
        let (events, seen) = (&mut self.events, &mut self.seen);
        heard::until(events, seen, &mut self.next, "a request", asked).await
    }

    async fn allow(&self, asked: &Asked) -> Result<AnswerDelivery, RespondError> {
        let once = Answer::Choose {
            option: OptionId::from("once"),
            note: None,
        };
        self.runtime.respond(asked.response(once)).await
    }

    async fn closed(&mut self) -> Resolution {
        let (events, seen) = (&mut self.events, &mut self.seen);
        heard::until(
            events,
            seen,
            &mut self.next,
            "its end",
            |event| match event.kind {
                ProviderEventKind::RequestClosed { resolution, .. } => Some(resolution),
                _ => None,
            },
        )
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_opencode_fails_at_was_not_taken_and_can_be_given_again() {
    let mut asking = Asking::start("refuses", Mode::Ask).await;
    let asked = asking.request().await;
    let Err(RespondError::NotTaken { problem }) = asking.allow(&asked).await else {
        panic!("it was taken, or lost")
    };
    assert!(problem.contains("out of memory"), "{problem}");
    assert_eq!(asking.allow(&asked).await, Ok(AnswerDelivery::Confirmed));
    assert_eq!(asking.closed().await, Resolution::Answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_opencode_says_nothing_to_is_asked_for_again_if_it_still_waits() {
    let mut asking = Asking::start("forgets", Mode::Ask).await;
    let asked = asking.request().await;
    assert_eq!(asking.allow(&asked).await, Err(RespondError::Lost));
    let again = asking.request().await;
    assert_eq!(
        (&again.request, &again.subject),
        (&asked.request, &asked.subject)
    );
    assert_eq!(asking.allow(&again).await, Ok(AnswerDelivery::Confirmed));
    assert_eq!(asking.closed().await, Resolution::Answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagents_request_whose_automatic_answer_did_not_arrive_is_asked_of_a_person() {
    let mut asking = Asking::start("settles", Mode::FullAccess).await;
    let asked = asking.request().await;
    assert_eq!(asked.subject.command.as_deref(), Some("ls"));
    assert_eq!(asking.allow(&asked).await, Ok(AnswerDelivery::Confirmed));
    assert_eq!(asking.closed().await, Resolution::Answered);
}

fn selection() -> Selection {
    Selection {
        agent: "opencode".into(),
        model: None,
        effort: None,
        mode: Mode::Ask,
        sandbox: None,
    }
}

fn message(thread: &NativeId) -> SendTurn {
    SendTurn {
        thread: thread.clone(),
        client_id: "m".to_owned(),
        text: "hello".to_owned(),
        attachments: Vec::new(),
        selection: selection(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_23_a_host_that_takes_up_a_running_opencode_shows_what_it_asks_before_any_live_event()
{
    let mut world = World::start(json!({
        "ask": [run("touch x"), say("went on")],
    }))
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:ask]]").await;
    let first = world.request().await;
    let record = world
        .dir
        .path()
        .join("agents/one")
        .with_extension(EXTENSION);
    let mode = std::fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its user may read the secret");
    assert!(DetachedRecord::read(&record).unwrap().is_alive());

    let pid = world.runtime.process_id();
    world.taken_up().await;
    assert_eq!(world.runtime.process_id(), pid);
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    let second = world.request().await;
    assert_eq!(
        (&second.request, &second.subject),
        (&first.request, &first.subject)
    );
    assert_eq!(
        world.runtime.pending(&[]).await,
        Some(vec![second.request.clone()])
    );
    let past = world
        .runtime
        .history()
        .unwrap()
        .read(thread.clone(), 8)
        .await
        .unwrap();
    assert!(
        past.iter()
            .any(|event| event.kind == ProviderEventKind::TurnStarted
                && event.place.turn.as_ref() == Some(&turn))
    );
    assert!(
        !past
            .iter()
            .any(|event| matches!(event.kind, ProviderEventKind::TurnEnded { .. }))
    );
    world.choose(&second, "once").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(world.workspace().join("x").exists());
    world.runtime.stop().await;
}

/// A real opencode whose connections are cut while a file is there.
pub(crate) async fn cuttable(scripts: Value, cut: &Path) -> World {
    let proxy = root().join("tests/support/opencode-proxy.mjs");
    let command = vec![
        "node".to_owned(),
        proxy.display().to_string(),
        cut.display().to_string(),
        opencode().to_owned(),
        "serve".to_owned(),
    ];
    World::start_as(scripts, command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_and_said_while_the_stream_was_cut_is_shown_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut");
    let scripts = json!({"ask": [
        {"text": "first", "hold": "asks", "tools": [{"name": "bash", "args": {"command": "touch x", "description": "d"}}]},
        {"text": "second", "hold": "ends"},
    ]});
    let mut world = cuttable(scripts, &cut).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:ask]]").await;
    world
        .until("the turn", |event| {
            (event.kind == ProviderEventKind::TurnStarted).then_some(())
        })
        .await;
    std::fs::write(&cut, "").unwrap();
    world.model.release("asks");
    behind(&world, &cut, "/permission", |said| said.contains("per_")).await;
    std::fs::remove_file(&cut).unwrap();
    let asked = world.request().await;
    assert_eq!(asked.subject.command.as_deref(), Some("touch x"));
    world.choose(&asked, "once").await;
    world
        .until("the command", |event| match &event.kind {
            ProviderEventKind::RequestClosed { .. } => Some(()),
            _ => None,
        })
        .await;
    std::fs::write(&cut, "").unwrap();
    world.model.release("ends");
    behind(&world, &cut, "/session/status", |said| said.contains("{}")).await;
    std::fs::remove_file(&cut).unwrap();
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(
        world
            .seen
            .iter()
            .all(|event| event.place.turn.as_ref().is_none_or(|of| *of == turn))
    );
}

/// Asks opencode itself, behind its proxy, until it says what is wanted.
async fn behind(world: &World, cut: &Path, path: &str, wanted: impl Fn(&str) -> bool) {
    call_behind(world, cut, &format!("GET {path}"), wanted).await;
}

/// Calls opencode itself, behind its proxy, until it says what is wanted.
pub(crate) async fn call_behind(
    world: &World,
    cut: &Path,
    call: &str,
    wanted: impl Fn(&str) -> bool,
) {
    let port = std::fs::read_to_string(cut.with_extension("port")).unwrap();
    let record = world
        .dir
        .path()
        .join("agents/one")
        .with_extension(EXTENSION);
    let secret = DetachedRecord::read(&record).unwrap().secret;
    let word = STANDARD.encode(format!("opencode:{secret}"));
    let ask = async {
        loop {
            let mut stream = TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap()))
                .await
                .unwrap();
            let request = format!(
                "{call} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {word}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).await.unwrap();
            if wanted(said.trim_end()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ask)
        .await
        .expect("opencode comes to it");
}
