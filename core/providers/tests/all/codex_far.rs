//! Real codex elsewhere: at the address of its WebSocket, with a token.

use crate::support::{ELSEWHERE, PATIENCE, World, codex, launch, run, say, selection};
use pilothouse_domain::{
    Answer, Mode, OptionId, ProviderEvent, ProviderEventKind, provider::TurnStatus,
    provider_event::Resolution, request::AnswerDelivery,
};
use pilothouse_providers::{
    codex::{Deadlines, FarCodexAdapter},
    contract::{
        AgentRuntime, OpenThread, ProviderAdapter as _, RespondError, RuntimeEvents, StartError,
    },
    endpoint::{Endpoint, Trust},
};
use serde_json::json;
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

const TOKEN: &str = "a-token-of-this-test-0123456789";

/// A server; dropped, it is gone.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(dir: &Path) -> Self {
        let token = dir.join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let home = dir.join("home");
        let child = Command::new(codex())
            .args(["app-server", "--listen", &format!("ws://127.0.0.1:{port}")])
            .args(["--ws-auth", "capability-token", "--ws-token-file"])
            .arg(&token)
            .env("CODEX_HOME", &home)
            .env("HOME", &home)
            .env("LOCAL_KEY", "sk-local")
            .env("TMPDIR", ELSEWHERE)
            .current_dir(dir.join("workspace"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "codex does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    async fn connect(
        &self,
        token: &str,
    ) -> Result<(Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>), StartError> {
        self.connect_with(token, Deadlines::default()).await
    }

    async fn connect_with(
        &self,
        token: &str,
        deadlines: Deadlines,
    ) -> Result<(Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>), StartError> {
        let url = format!("ws://127.0.0.1:{}", self.port);
        let endpoint = Endpoint::parse(&url, Trust::Usual).unwrap();
        let deadlines = Deadlines {
            handshake: PATIENCE,
            ..deadlines
        };
        let adapter = FarCodexAdapter::with_deadlines(endpoint, token.to_owned(), deadlines);
        let (sender, events) = mpsc::channel(64);
        let launch = launch(&[], Path::new("/"));
        Ok((adapter.start(launch, sender).await?, events))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_codex_elsewhere_asks_and_what_it_asked_is_answered_over_the_next_connection() {
    let scripts = json!({"go": [run("echo far >> far.txt"), say("All done.")]});
    let (dir, model) = World::prepare(&scripts);
    let server = Server::start(dir.path());
    let (runtime, events) = server.connect(TOKEN).await.unwrap();
    let mut world = World::around(dir, model, runtime, events);
    assert_eq!(
        world.runtime.process_id(),
        None,
        "it is not on this machine"
    );
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;

    // The connection is lost; codex is not.
    world.runtime.stop().await;
    world
        .until("the end of the session", |event| {
            matches!(event.kind, ProviderEventKind::SessionEnded { .. }).then_some(())
        })
        .await;
    let (runtime, events) = server.connect(TOKEN).await.unwrap();
    world.goes_on_with(runtime, events);
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    let again = world.request().await;
    assert_eq!(
        (&again.request, &again.subject),
        (&asked.request, &asked.subject)
    );
    let pending = world.runtime.pending(std::slice::from_ref(&asked.request));
    assert_eq!(pending.await, Some(vec![asked.request.clone()]));
    assert_eq!(
        world.choose(&again, "accept").await,
        AnswerDelivery::Confirmed
    );
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let made = std::fs::read_to_string(world.workspace().join("far.txt")).unwrap();
    assert_eq!(made, "far\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_over_another_connection_is_answered_and_what_is_taken_back_is_withdrawn()
{
    let scripts = json!({"go": [run("touch far.txt"), say("All done.")]});
    let (dir, model) = World::prepare(&scripts);
    let server = Server::start(dir.path());
    let (runtime, events) = server.connect(TOKEN).await.unwrap();
    let mut world = World::around(dir, model, runtime, events);
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    // The desk is connected as well, is asked the same, and answers.
    let (desk, mut at_desk) = server.connect(TOKEN).await.unwrap();
    let open = OpenThread {
        resume: Some(thread.clone()),
        cwd: world.workspace(),
        selection: selection(Mode::Ask),
    };
    assert_eq!(desk.open_thread(open).await.unwrap(), thread);
    heard_asked(&mut at_desk).await;
    let option = Answer::Choose {
        option: OptionId::from("accept"),
        note: None,
    };
    desk.respond(asked.response(option)).await.unwrap();
    let closed = |event: &ProviderEvent| match &event.kind {
        ProviderEventKind::RequestClosed { resolution, .. } => Some(*resolution),
        _ => None,
    };
    assert_eq!(world.until("its end", closed).await, Resolution::Answered);
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(world.workspace().join("far.txt").exists());

    // What the end of its turn takes back is not said to be answered.
    let next = world.send(&thread, "[[script:go]]").await;
    assert_ne!(next, turn);
    world.request().await;
    let stopping = world.runtime.interrupting().unwrap();
    stopping.interrupt(thread, next).await.unwrap();
    assert_eq!(world.until("its end", closed).await, Resolution::Withdrawn);
}

/// Waits until somebody is asked.
async fn heard_asked(events: &mut mpsc::Receiver<RuntimeEvents>) {
    let asked = async {
        while let Some(batch) = events.recv().await {
            let mut events = batch.events.iter();
            if events.any(|event| matches!(event.kind, ProviderEventKind::RequestOpened { .. })) {
                return;
            }
        }
        panic!("the session ended");
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_codex_elsewhere_that_refuses_the_token_says_so_and_the_token_is_not_shown() {
    let (dir, _model) = World::prepare(&json!({}));
    let server = Server::start(dir.path());
    for token in ["another-token-0123456789", ""] {
        let Err(error) = server.connect(token).await else {
            panic!("it was taken");
        };
        let said = error.to_string();
        assert!(said.contains("refuses the token"), "{said}");
        assert!(token.is_empty() || !said.contains(token), "{said}");
    }
}

/// A network that changes under a connection says nothing: what is written is taken, and nothing comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_carries_nothing_any_more_ends_and_no_answer_counts_as_given() {
    let scripts = json!({"go": [run("echo dead >> dead.txt"), say("All done.")]});
    let (dir, model) = World::prepare(&scripts);
    let server = Server::start(dir.path());
    let deadlines = Deadlines {
        ping: Duration::from_secs(1),
        confirm: Duration::from_millis(500),
        ..Deadlines::default()
    };
    let (runtime, events) = server.connect_with(TOKEN, deadlines).await.unwrap();
    let mut world = World::around(dir, model, runtime, events);
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    // Nothing is said for longer than a dead connection is kept, but for the signs of life.
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.signal("-STOP");
    let answer = Answer::Choose {
        option: "accept".into(),
        note: None,
    };
    let given = world.runtime.respond(asked.response(answer)).await;
    assert_eq!(given, Err(RespondError::Lost));
    world
        .until("the end of the session", |event| {
            matches!(event.kind, ProviderEventKind::SessionEnded { .. }).then_some(())
        })
        .await;
    server.signal("-CONT");
}
