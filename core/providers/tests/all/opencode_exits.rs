//! opencodes that end at every point of what they say, as in [`crate::exits`]: in an answer to a call, before it, in an event of
//! the stream, between two. With the process go its connections, and nobody listens any more.

use crate::{
    exits::{ALL, Dying, Reached, each, each_is_met, life, lives, within},
    support::{PATIENCE, launch},
};
use pilothouse_providers::{
    contract::Launch,
    opencode::{Deadlines, OpencodeAdapter},
};
use serde_json::Value;
use std::{collections::BTreeMap, fs::OpenOptions, io::Write as _, path::Path, sync::Arc};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
    task::{AbortHandle, JoinSet},
};

/// What an opencode does, one thing after the other.
enum Step {
    /// Waits for a call that begins with this. Others that come before it get a usual answer.
    Hears(&'static str),
    /// Answers that call; with no content if this is empty.
    Answers(&'static str),
    /// Makes of that call the stream of events.
    Streams,
    /// Tells an event. `@turn@` is the message of the prompt, `@rules@` in an answer the rules of the call.
    Tells(&'static str),
}
use Step::{Answers, Hears, Streams, Tells};

/// A life that is stopped in a turn, after recordings.
const LIFE: &[Step] = &[
    Hears("GET /global/health"),
    Answers(r#"{"healthy":true,"version":"1.18.33"}"#),
    Hears("GET /agent"),
    Answers("[]"),
    Hears("GET /config/providers"),
    Answers(r#"{"providers":[]}"#),
    Hears("GET /config"),
    Answers("{}"),
    Hears("GET /provider/auth"),
    Answers("{}"),
    Hears("GET /global/event"),
    Streams,
    Tells(r#"{"type":"server.connected","properties":{}}"#),
    Hears("POST /session"),
    Answers(r#"{"id":"ses_1","directory":"/","permission":@rules@,"time":{"created":1}}"#),
    Tells(
        r#"{"type":"session.created","properties":{"sessionID":"ses_1","info":{"id":"ses_1","directory":"/","time":{"created":1}}}}"#,
    ),
    Hears("POST /session/ses_1/prompt_async"),
    Answers(""),
    Tells(
        r#"{"type":"message.updated","properties":{"sessionID":"ses_1","info":{"id":"@turn@","role":"user","sessionID":"ses_1","time":{"created":2}}}}"#,
    ),
    Tells(
        r#"{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"type":"text","text":"go","messageID":"@turn@","sessionID":"ses_1","id":"prt_1"},"time":2}}"#,
    ),
    Tells(
        r#"{"type":"session.status","properties":{"sessionID":"ses_1","status":{"type":"busy"}}}"#,
    ),
    Tells(
        r#"{"type":"message.updated","properties":{"sessionID":"ses_1","info":{"id":"msg_z","parentID":"@turn@","role":"assistant","sessionID":"ses_1","time":{"created":3}}}}"#,
    ),
    Tells(
        r#"{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"type":"text","text":"","messageID":"msg_z","sessionID":"ses_1","id":"prt_2","time":{"start":3}},"time":3}}"#,
    ),
    Tells(
        r#"{"type":"message.part.delta","properties":{"sessionID":"ses_1","messageID":"msg_z","partID":"prt_2","field":"text","delta":"Running."}}"#,
    ),
    Tells(
        r#"{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{"command":"make"},"time":{"start":4}},"messageID":"msg_z","sessionID":"ses_1","id":"prt_3"},"time":4}}"#,
    ),
    Tells(
        r#"{"type":"permission.asked","properties":{"id":"per_1","sessionID":"ses_1","permission":"bash","patterns":["make"],"metadata":{"command":"make"},"always":[],"tool":{"messageID":"msg_z","callID":"c"}}}"#,
    ),
    Hears("POST /permission/per_1/reply"),
    Answers("true"),
    Tells(
        r#"{"type":"permission.replied","properties":{"sessionID":"ses_1","requestID":"per_1","reply":"once"}}"#,
    ),
    Tells(
        r#"{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{"command":"make"},"metadata":{"output":"out"},"time":{"start":4}},"messageID":"msg_z","sessionID":"ses_1","id":"prt_3"},"time":5}}"#,
    ),
    Hears("POST /session/ses_1/abort"),
    Tells(
        r#"{"type":"session.error","properties":{"sessionID":"ses_1","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}}}"#,
    ),
    Answers("true"),
    Tells(
        r#"{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"error","input":{"command":"make"},"error":"Tool execution aborted","time":{"start":4,"end":6}},"messageID":"msg_z","sessionID":"ses_1","id":"prt_3"},"time":6}}"#,
    ),
    Tells(
        r#"{"type":"message.updated","properties":{"sessionID":"ses_1","info":{"id":"msg_z","parentID":"@turn@","role":"assistant","sessionID":"ses_1","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}},"time":{"created":3,"completed":6}}}}"#,
    ),
    Tells(
        r#"{"type":"session.status","properties":{"sessionID":"ses_1","status":{"type":"idle"}}}"#,
    ),
    Tells(r#"{"type":"session.idle","properties":{"sessionID":"ses_1"}}"#),
];

/// Where one ends: at this step, with so many bytes of what it writes there.
#[derive(Debug, Clone, Copy)]
struct Point {
    step: usize,
    bytes: usize,
}

/// What one has done of [`LIFE`].
struct State {
    point: Option<Point>,
    step: usize,
    /// The connection of the call that was heard last, and that of the stream.
    heard: Option<TcpStream>,
    stream: Option<TcpStream>,
    rules: String,
    turn: String,
    /// How much was written in each step.
    written: BTreeMap<usize, usize>,
    /// Whoever writes to it ends the process.
    fifo: std::path::PathBuf,
    over: watch::Sender<bool>,
}

/// A call of ours, with its body.
struct Heard {
    /// Method and path.
    call: String,
    body: Value,
}

/// An opencode: a process, and the one who speaks for it.
struct Opencode {
    state: Arc<Mutex<State>>,
    serving: AbortHandle,
    launch: Launch,
    _dir: TempDir,
}

impl Drop for Opencode {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Opencode {
    async fn start(point: Option<Point>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fifo = dir.path().join("fifo");
        let script = format!(
            "mkfifo {0} && exec 3<>{0} && echo 'opencode server listening on http://{address}' && read -r _ <&3; exit 3",
            fifo.display()
        );
        let launch = Launch {
            agent: "opencode".into(),
            incarnation: life(),
            pid_file: Some(dir.path().join("agents/one.pid")),
            ..launch(&["sh", "-c", &script, "agent"], Path::new("/"))
        };
        let (over, ended) = watch::channel(false);
        let state = Arc::new(Mutex::new(State {
            point,
            step: 0,
            heard: None,
            stream: None,
            rules: "[]".to_owned(),
            turn: String::new(),
            written: BTreeMap::new(),
            fifo,
            over,
        }));
        let serving = tokio::spawn(serve(listener, Arc::clone(&state), ended)).abort_handle();
        Self {
            state,
            serving,
            launch,
            _dir: dir,
        }
    }
}

/// Takes calls until it is over; its connections then end with it.
async fn serve(listener: TcpListener, state: Arc<Mutex<State>>, mut over: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let connection = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = over.wait_for(|over| *over) => return,
        };
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let mut connection = BufReader::new(connection);
            if let Some(heard) = hear(&mut connection).await {
                state
                    .lock()
                    .await
                    .hears(&heard, connection.into_inner())
                    .await;
            }
        });
    }
}

/// A call; `None` if it is not whole.
async fn hear(connection: &mut BufReader<TcpStream>) -> Option<Heard> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    connection.read_exact(&mut body).await.ok()?;
    Some(Heard {
        call: lines[0].clone(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

fn response(body: &str) -> String {
    match body {
        "" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        body => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    }
}

impl State {
    async fn hears(&mut self, heard: &Heard, mut connection: TcpStream) {
        if *self.over.borrow() {
            return;
        }
        let awaited = match LIFE.get(self.step) {
            Some(Hears(what)) => heard
                .call
                .strip_prefix(what)
                .is_some_and(|rest| rest.starts_with([' ', '?'])),
            _ => false,
        };
        if !awaited {
            let usual = match heard.call.split([' ', '?']).nth(1) {
                Some("/permission" | "/question") => "[]",
                _ => "{}",
            };
            let _ = connection.write_all(response(usual).as_bytes()).await;
            return;
        }
        if let Some(rules) = heard.body.get("permission") {
            self.rules = rules.to_string();
        }
        if let Some(turn) = heard.body.get("messageID") {
            self.turn = turn.as_str().unwrap().to_owned();
        }
        self.heard = Some(connection);
        self.step += 1;
        self.goes_on().await;
    }

    /// Writes up to the next call that it waits for, or to its end.
    async fn goes_on(&mut self) {
        while let Some(step) = LIFE.get(self.step) {
            let text = match step {
                Hears(_) => return,
                Answers(body) => response(&body.replace("@rules@", &self.rules)),
                Streams => {
                    self.stream = self.heard.take();
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                        .to_owned()
                }
                Tells(event) => {
                    let event = event.replace("@turn@", &self.turn);
                    let event = format!("data: {{\"payload\":{event}}}\n\n");
                    format!("{:x}\r\n{event}\r\n", event.len())
                }
            };
            self.written.insert(self.step, text.len());
            let ends = self.point.filter(|point| point.step == self.step);
            let part = &text.as_bytes()[..ends.map_or(text.len(), |point| point.bytes)];
            let connection = match step {
                Answers(_) => &mut self.heard,
                _ => &mut self.stream,
            };
            // Whoever listened may be gone.
            let _ = connection.as_mut().unwrap().write_all(part).await;
            if ends.is_some() {
                return self.ends();
            }
            self.step += 1;
        }
    }

    /// The process ends, and its connections with it.
    fn ends(&mut self) {
        let mut fifo = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.fifo)
            .unwrap();
        fifo.write_all(b"\n").unwrap();
        (self.heard, self.stream) = (None, None);
        self.over.send_replace(true);
    }
}

/// The points of a life in which so much was written in each step: before an answer, in the middle of what is written and
/// behind it; or every byte.
fn points(written: &BTreeMap<usize, usize>) -> Vec<Point> {
    let mut points = Vec::new();
    for (&step, &length) in written {
        let bytes = match LIFE[step] {
            _ if each() => (0..=length).collect(),
            Answers(_) => vec![0, length / 2, length],
            _ => vec![length / 2, length],
        };
        points.extend(bytes.into_iter().map(|bytes| Point { step, bytes }));
    }
    points
}

fn dying() -> Dying {
    let adapter = OpencodeAdapter::with_deadlines(Deadlines {
        handshake: PATIENCE,
        first: PATIENCE,
        call: PATIENCE,
        interrupt: PATIENCE,
        reconnect: PATIENCE,
        ending: PATIENCE,
        ..Deadlines::default()
    });
    Dying {
        adapter: Box::new(adapter),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opencode_that_ends_anywhere_leaves_nothing_hanging_and_nothing_open() {
    let dying = Arc::new(dying());
    let whole = Opencode::start(None).await;
    let later = Opencode::start(None).await;
    let end = dying.ends(whole.launch.clone(), later.launch.clone()).await;
    assert_eq!(end, Reached::End);
    let all = points(&whole.state.lock().await.written);
    let count = all.len();
    let mut reached = lives(all, |point| {
        let dying = Arc::clone(&dying);
        async move {
            let ends = Opencode::start(Some(point)).await;
            let later = Opencode::start(None).await;
            dying.ends(ends.launch.clone(), later.launch.clone()).await
        }
    })
    .await;
    *reached.entry(end).or_default() += 1;
    each_is_met(count, &reached, &ALL);
}

/// What it says before it can be spoken with.
#[tokio::test(flavor = "multi_thread")]
async fn an_opencode_that_ends_before_it_listens_is_not_started() {
    let dying = dying();
    for said in ["", "opencode server listening on http://127.0.0.1:4"] {
        let later = Opencode::start(None).await;
        let ends = Launch {
            incarnation: life(),
            ..launch(&["printf", said], Path::new("/"))
        };
        let ended = dying.ends(ends, later.launch.clone());
        assert_eq!(
            within("one that says little", ended).await,
            Reached::Nothing
        );
    }
}
