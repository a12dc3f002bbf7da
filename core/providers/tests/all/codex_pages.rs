//! History of a codex whose answers are too long to be read: it is asked for less at once, and what cannot be read says so. The
//! codex is a scripted server: a real one keeps no turn of 40 MiB without hours of work.

use crate::support::{PATIENCE, launch};
use futures_util::{SinkExt as _, StreamExt as _};
use pilothouse_domain::{ItemContent, NativeId, ProviderEvent, ProviderEventKind};
use pilothouse_providers::{
    codex::{Deadlines, FarCodexAdapter},
    contract::{AgentRuntime, ProviderAdapter as _, RuntimeEvents},
    endpoint::{Endpoint, Trust},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_tungstenite::{
    accept_async,
    tungstenite::{
        Message,
        protocol::frame::Frame,
        protocol::frame::coding::{Data, OpCode},
    },
};

const TURNS: usize = 130;
/// Far beyond what is read of an answer, and what a message may have.
const HUGE: usize = 40 * 1024 * 1024;

/// What the server does that is too long.
#[derive(Clone, Copy)]
struct Script {
    /// A page of so many turns or more.
    page: usize,
    /// This turn with its items.
    turn: Option<usize>,
    /// It sends each message in frames of so many bytes.
    frames: Option<usize>,
}

/// What it was asked of its history: limit and view.
type Asked = Arc<Mutex<Vec<(usize, String)>>>;

async fn serve(stream: TcpStream, script: Script, asked: Asked) {
    let mut socket = accept_async(stream).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let call: Value = serde_json::from_str(&text).unwrap();
        let (Some(id), Some(method)) = (call.get("id"), call["method"].as_str()) else {
            continue;
        };
        let result = match method {
            "initialize" => json!({"userAgent": "fake/0.171.0 (test)", "codexHome": "/nowhere"}),
            "thread/turns/list" => page(&call["params"], script, &asked),
            _ => json!({"data": [], "nextCursor": null}),
        };
        let answer = json!({"id": id, "result": result}).to_string();
        let Some(bytes) = script.frames else {
            socket.send(Message::text(answer)).await.unwrap();
            continue;
        };
        // Letters of several bytes are cut in two by this.
        let count = answer.len().div_ceil(bytes);
        for (at, piece) in answer.as_bytes().chunks(bytes).enumerate() {
            let opcode = match at {
                0 => Data::Text,
                _ => Data::Continue,
            };
            let frame = Frame::message(piece.to_vec(), OpCode::Data(opcode), at + 1 == count);
            socket.send(Message::Frame(frame)).await.unwrap();
        }
    }
}

/// The newest turns first, from the cursor on.
fn page(params: &Value, script: Script, asked: &Asked) -> Value {
    let limit = params["limit"].as_u64().unwrap() as usize;
    let view = params["itemsView"].as_str().unwrap();
    asked.lock().unwrap().push((limit, view.to_owned()));
    let from = params["cursor"]
        .as_str()
        .map_or(TURNS, |cursor| cursor.parse().unwrap());
    let turns: Vec<usize> = (0..from).rev().take(limit).collect();
    let item = |kind: &str, turn: usize, text: String| json!({"type": kind, "id": format!("{kind}-{turn}"), "text": text, "content": [{"type": "text", "text": text}], "clientId": format!("ours-{turn}")});
    let data: Vec<Value> = turns
        .iter()
        .map(|&turn| {
            let mut items = vec![item("userMessage", turn, "Do it.".into())];
            if view == "full" && Some(turn) == script.turn {
                items.push(item("reasoning", turn, "ü".repeat(HUGE / 2)));
            }
            items.push(item("agentMessage", turn, "Done.".into()));
            json!({"id": format!("turn-{turn}"), "items": items, "status": "completed", "completedAt": 1})
        })
        .collect();
    let pad = match turns.len() >= script.page {
        true => "x".repeat(HUGE),
        false => String::new(),
    };
    let next = turns.last().filter(|&&last| last > 0);
    json!({"data": data, "nextCursor": next.map(usize::to_string), "pad": pad})
}

struct Far {
    runtime: Arc<dyn AgentRuntime>,
    _events: mpsc::Receiver<RuntimeEvents>,
    asked: Asked,
    server: tokio::task::JoinHandle<()>,
}

impl Far {
    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let asked = Asked::default();
        let known = Arc::clone(&asked);
        // One connection and no other: whoever loses it cannot go on.
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream, script, known).await;
        });
        let deadlines = Deadlines {
            handshake: PATIENCE,
            call: PATIENCE,
            ..Deadlines::default()
        };
        let endpoint = Endpoint::parse(&url, Trust::Usual).unwrap();
        let adapter = FarCodexAdapter::with_deadlines(endpoint, "token".into(), deadlines);
        let (sender, events) = mpsc::channel(64);
        let runtime = adapter.start(launch(&[], Path::new("/")), sender).await;
        Self {
            runtime: runtime.unwrap(),
            _events: events,
            asked,
            server,
        }
    }

    async fn read(&self, turns: usize) -> Vec<ProviderEvent> {
        let history = self.runtime.history().unwrap();
        let read = history.read("thread".into(), turns as u32).await;
        assert!(!self.server.is_finished(), "the connection goes on");
        read.unwrap()
    }

    fn limits(&self) -> Vec<usize> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(limit, _)| *limit).collect()
    }
}

/// Every turn once, from the oldest on.
fn turns(events: &[ProviderEvent]) -> Vec<NativeId> {
    let begun = |event: &&ProviderEvent| event.kind == ProviderEventKind::TurnStarted;
    let begun = events.iter().filter(begun);
    begun.filter_map(|event| event.place.turn.clone()).collect()
}

fn all() -> Vec<NativeId> {
    (0..TURNS)
        .map(|turn| NativeId(format!("turn-{turn}")))
        .collect()
}

fn left_out(events: &[ProviderEvent]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| match &event.kind {
            ProviderEventKind::ItemClosed { content, .. } => {
                matches!(content, ItemContent::Error { message, .. } if message.contains("too long"))
            }
            _ => false,
        })
        .map(|event| event.place.turn.as_ref().unwrap().as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_too_long_is_read_in_shorter_ones() {
    let far = Far::start(Script {
        page: 50,
        turn: None,
        frames: None,
    })
    .await;
    let read = far.read(TURNS).await;
    assert_eq!(turns(&read), all());
    assert!(left_out(&read).is_empty());
    assert_eq!(far.limits(), [4, 8, 16, 32, 50, 25, 45]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_turn_that_is_too_long_the_message_and_the_answer_are_read_and_it_is_said() {
    for frames in [None, Some(1_000_001)] {
        let far = Far::start(Script {
            page: usize::MAX,
            turn: Some(TURNS - 1),
            frames,
        })
        .await;
        let read = far.read(TURNS).await;
        assert_eq!(turns(&read), all());
        assert_eq!(left_out(&read), ["turn-129"]);
        let alone = (1, "summary".to_owned());
        let asked = far.asked.lock().unwrap().clone();
        assert_eq!(asked.iter().filter(|asked| **asked == alone).count(), 1);
        let of_it: Vec<_> = read
            .iter()
            .filter(|event| {
                event
                    .place
                    .turn
                    .as_ref()
                    .is_some_and(|turn| turn.as_str() == "turn-129")
            })
            .filter_map(|event| match &event.kind {
                ProviderEventKind::ItemClosed {
                    item, client_id, ..
                } => Some((item.as_str(), client_id.as_deref())),
                _ => None,
            })
            .collect();
        assert_eq!(of_it[0], ("userMessage-129", Some("ours-129")));
        assert_eq!(of_it[2].0, "turn-129/left-out");
        assert!(matches!(
            read.last().unwrap().kind,
            ProviderEventKind::TurnEnded { .. }
        ));
        // What is read again is the same, over the same connection.
        let again = far.read(1).await;
        assert!(!again.is_empty() && read.ends_with(&again));
    }
}
