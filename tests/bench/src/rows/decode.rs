//! What an agent writes, decoded and ingested: frames of a recording, with as many deltas as a real answer has.

mod pi;

use super::{Context, decode_opencode};
use crate::{
    fixture::SEED,
    measure::{self, quantile},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{
    Command, CommandBody, CommandId, DeviceId, Incarnation, Mode, NativeId, Policy, ProviderEvent,
    ProviderEventKind, SessionId, ThreadId,
    policy::AgentPolicy,
    provider_event::NativePlace,
    thread::{Actor, Selection},
};
use pilothouse_orchestrator::{SessionContext, memory::MemoryThread};
use pilothouse_providers::{acp, claude, codex};
use pilothouse_tests::places;
use serde_json::{Value, json};

/// Bytes that a pipe gives at a time.
const CHUNK: usize = 64 * 1024;
/// Copies of each recorded delta.
pub(super) const DELTAS: usize = 40;

/// What a process writes, turn by turn, and how many frames it is.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) turns: Vec<Vec<u8>>,
    frames: u64,
}

impl Stream {
    pub(super) fn push(&mut self, line: &str) {
        if let Some(turn) = self.turns.last_mut() {
            turn.extend_from_slice(line.as_bytes());
            turn.push(b'\n');
            self.frames += 1;
        }
    }

    fn bytes(&self) -> usize {
        self.turns.iter().map(Vec::len).sum()
    }
}

/// A family's codec.
pub(super) trait Decode {
    /// Says that a message is sent now.
    fn begin(&mut self);
    /// Bytes to events.
    fn receive(&mut self, bytes: &[u8]) -> Vec<ProviderEvent>;
}

struct Family {
    name: &'static str,
    codec: fn() -> Box<dyn Decode>,
    stream: fn(u64) -> Result<Stream>,
}

const FAMILIES: &[Family] = &[
    Family {
        name: "codex",
        codec: || Box::new(codex::Codec::new()),
        stream: codex_stream,
    },
    Family {
        name: "acp",
        codec: acp_codec,
        stream: acp_stream,
    },
    Family {
        name: "pi",
        codec: pi::codec,
        stream: pi::stream,
    },
    Family {
        name: "claude",
        codec: || Box::new(Claude::new()),
        stream: claude_stream,
    },
    Family {
        name: "opencode",
        codec: decode_opencode::codec,
        stream: decode_opencode::stream,
    },
];

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let mut table = Vec::new();
    let turns = if context.quick { 60 } else { 200 };
    for family in FAMILIES {
        let (half, whole) = ((family.stream)(turns / 2)?, (family.stream)(turns)?);
        let (mut rates, mut decoded, mut growth) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..6 {
            let (small, large) = (once(family, &half, true)?, once(family, &whole, true)?);
            let only = once(family, &whole, false)?;
            if round > 0 {
                rates.push(large);
                decoded.push(only);
                growth.push(large / small);
            }
        }
        let best = quantile(&mut rates, 0.0).context("rounds")?;
        #[expect(clippy::cast_precision_loss, reason = "sizes of megabytes")]
        let (frames, megabytes) = (whole.frames as f64, whole.bytes() as f64 / 1e6);
        let grown = Row::at_most(
            format!("{}: twice the frames", family.name),
            quantile(&mut growth, 0.5).context("rounds")?,
            2.6,
            "× the time",
        )
        .gate();
        if context.quick {
            // A rate says nothing on a build without optimisation.
            table.push(grown.note(format!("{frames:.0} frames, {megabytes:.1} MB")));
            continue;
        }
        let by_frames = frames / best / 200_000.0;
        let by_bytes = megabytes / best / 100.0;
        let mut row = Row::at_least(
            format!("{}: decode and ingest, best of 5, by the bar", family.name),
            by_frames.max(by_bytes),
            1.0,
            "×",
        )
        .gate();
        row.bar = "≥ 200,000 frames/s or ≥ 100 MB/s".into();
        table.push(row.note(format!(
            "{:.0} frames/s, {:.0} MB/s; decode alone {:.0} frames/s, {:.0} MB/s",
            frames / best,
            megabytes / best,
            frames / quantile(&mut decoded, 0.0).unwrap_or(1.0),
            megabytes / quantile(&mut decoded, 0.0).unwrap_or(1.0),
        )));
        table.push(grown);
    }
    Ok(table)
}

/// Decodes a stream, and takes it in; seconds of processor time.
fn once(family: &Family, stream: &Stream, ingest: bool) -> Result<f64> {
    let mut decode = (family.codec)();
    let session = session(family.name);
    let mut memory = thread(family.name, &session)?;
    let mut events = 0;
    let began = measure::thread_cpu()?;
    for turn in &stream.turns {
        decode.begin();
        for chunk in turn.chunks(CHUNK) {
            for event in decode.receive(chunk) {
                events += 1;
                if ingest {
                    memory.provider(&session, &event);
                }
            }
        }
    }
    let took = (measure::thread_cpu()? - began).as_secs_f64();
    ensure!(
        events * 2 > stream.frames,
        "{} frames gave {events} events",
        stream.frames
    );
    ensure!(
        !ingest || memory.state.next_arrival > 100,
        "little was taken in: {:?}",
        memory.state
    );
    Ok(took)
}

fn session(family: &str) -> SessionContext {
    SessionContext {
        agent: "agent".into(),
        family: family.to_owned(),
        session: SessionId::from_bytes([3; 16]),
        incarnation: Incarnation::from_bytes([7; 16]),
        host_time_ms: 1_800_000_000_000,
        contract: Default::default(),
    }
}

/// A thread that an agent of the family serves.
fn thread(family: &str, session: &SessionContext) -> Result<MemoryThread> {
    let capabilities = codex::profile::capabilities();
    let agent = AgentPolicy {
        family: family.to_owned(),
        modes: Mode::ALL.to_vec(),
        capabilities: capabilities.set(),
        sandboxes: Vec::new(),
    };
    let policy = Policy {
        version: 1,
        agents: [("agent".into(), agent)].into(),
        workspaces: vec!["work".into()],
        default_mode: Mode::Ask,
    };
    let create = CommandId::from_bytes([1; 16]);
    let id: ThreadId = create.derive("thread");
    let mut memory = MemoryThread::new(id, policy);
    let command = Command {
        id: create,
        thread: id,
        device_seq: 1,
        based_on: None,
        issued_at_ms: 0,
        body: CommandBody::ThreadCreate {
            title: format!("seed {SEED}"),
            workspace: "work".into(),
            selection: Selection {
                agent: "agent".into(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        },
    };
    let device = Actor::Device {
        device: DeviceId::from_bytes([9; 16]),
    };
    memory
        .command(device, &command)
        .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    let ready = ProviderEventKind::SessionReady {
        incarnation: session.incarnation,
        version: "1".to_owned(),
        capabilities,
    };
    let mut tell = |place, kind| memory.provider(session, &ProviderEvent { place, kind });
    tell(NativePlace::default(), ready);
    if family != "codex" {
        // The answer to our call, which the ledger takes as this.
        let conversation = NativePlace {
            thread: Some(NativeId::from(SESSION)),
            root: None,
            turn: None,
        };
        tell(conversation, ProviderEventKind::ThreadBound);
    }
    Ok(memory)
}

impl Decode for codex::Codec {
    fn begin(&mut self) {}

    fn receive(&mut self, bytes: &[u8]) -> Vec<ProviderEvent> {
        Self::receive(self, bytes)
            .into_iter()
            .filter_map(|received| match received {
                codex::Received::Event(event) => Some(event),
                _ => None,
            })
            .collect()
    }
}

impl Decode for acp::Codec {
    fn begin(&mut self) {
        // Answered by the last frame of the turn before, so that none goes on.
        let _ = self.prompt(&NativeId::from(SESSION), "go on".into());
    }

    fn receive(&mut self, bytes: &[u8]) -> Vec<ProviderEvent> {
        Self::receive(self, bytes)
            .into_iter()
            .filter_map(|received| match received {
                acp::Received::Event(event) => Some(event),
                _ => None,
            })
            .collect()
    }
}

/// The conversation of the streams that are made here.
const SESSION: &str = "sess-1";

/// A codec of the claude family that serves its conversation.
struct Claude {
    codec: claude::Codec,
    turns: u64,
}

impl Claude {
    fn new() -> Self {
        Self {
            codec: claude::Codec::serving("bench", SESSION.into()),
            turns: 0,
        }
    }
}

impl Decode for Claude {
    fn begin(&mut self) {
        self.codec.call(claude::Call::Prompt {
            turn: Some(NativeId(format!("message-{}", self.turns))),
            client_id: String::new(),
            content: Vec::new(),
        });
        self.turns += 1;
    }

    fn receive(&mut self, bytes: &[u8]) -> Vec<ProviderEvent> {
        self.codec
            .receive(bytes)
            .into_iter()
            .filter_map(|received| match received {
                claude::Received::Event(event) => Some(event),
                _ => None,
            })
            .collect()
    }
}

/// Turns as Claude Code tells them: the recorded pieces of words again and again, a tool and its result, and the end.
fn claude_stream(turns: u64) -> Result<Stream> {
    let file = places::root().join("tests/recordings/claude/01_basic_allow.jsonl");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let mut frames: Vec<(Value, usize)> = Vec::new();
    for line in text.lines() {
        let mut record: Value = serde_json::from_str(line)?;
        let frame = record["frame"].take();
        let kind = frame["type"].as_str().unwrap_or_default();
        let told = matches!(kind, "stream_event" | "assistant" | "user" | "result");
        if record["dir"] == "s2c" && told {
            let delta = &frame["event"]["delta"]["type"];
            let copies = if delta == "text_delta" || delta == "thinking_delta" {
                DELTAS
            } else {
                1
            };
            frames.push((frame, copies));
        }
    }
    ensure!(frames.len() > 20, "{} holds no turn", file.display());
    let mut stream = Stream::default();
    for number in 0..turns {
        stream.turns.push(Vec::new());
        let id = format!("message-{number}");
        stream.push(
            &json!({"type": "command_lifecycle", "command_uuid": id, "state": "started"})
                .to_string(),
        );
        for (frame, copies) in &frames {
            let mut line = frame.to_string();
            // Ids of messages and of tools are of one turn.
            for known in ["msg_", "c0n0_"] {
                line = line.replace(known, &format!("{known}{number}x"));
            }
            for _ in 0..*copies {
                stream.push(&line);
            }
        }
    }
    Ok(stream)
}

/// A codec that has opened its conversation.
fn acp_codec() -> Box<dyn Decode> {
    let mut codec = acp::Codec::new("bench");
    codec.call(acp::Call::Initialize {
        version: "1".into(),
    });
    codec.call(acp::Call::New {
        cwd: "/".into(),
        mcp: Vec::new(),
    });
    let hello = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": 1, "agentInfo": {"name": "bench", "version": "1"}, "agentCapabilities": {},
    }});
    let opened = json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": SESSION}});
    codec.receive(format!("{hello}\n{opened}\n").as_bytes());
    Box::new(codec)
}

/// Turns as ACP agents tell them: thoughts and words in pieces, tool calls with what they gave, plans, and the answer to
/// the prompt at the end.
fn acp_stream(turns: u64) -> Result<Stream> {
    let mut stream = Stream::default();
    for number in 0..turns {
        stream.turns.push(Vec::new());
        let mut update = |value: Value| {
            let params = json!({"sessionId": SESSION, "update": value});
            let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            stream.push(&frame.to_string());
        };
        let said = |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
        for _ in 0..4 * DELTAS {
            update(said("agent_thought_chunk", "Let me look at it "));
        }
        let call = format!("call-{number}");
        update(json!({
            "sessionUpdate": "tool_call", "toolCallId": call, "title": "cargo test --workspace", "kind": "execute",
            "status": "in_progress", "rawInput": {"command": "cargo test --workspace"},
        }));
        let output = "test result: ok. 42 passed; 0 failed; 0 ignored\n".repeat(8);
        update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": output}}],
            "rawOutput": {"output": output, "exitCode": 0},
        }));
        update(json!({"sessionUpdate": "plan", "entries": [
            {"content": "run the tests", "priority": "medium", "status": "completed"},
            {"content": "mend what fails", "priority": "medium", "status": "in_progress"},
        ]}));
        for _ in 0..5 * DELTAS {
            update(said("agent_message_chunk", "all of them pass "));
        }
        // Calls are numbered from 1; the handshake and the conversation took two.
        stream.push(
            &json!({"jsonrpc": "2.0", "id": number + 3, "result": {"stopReason": "end_turn"}})
                .to_string(),
        );
    }
    Ok(stream)
}

/// The recorded turn again and again, each time under other ids.
fn codex_stream(turns: u64) -> Result<Stream> {
    let file = places::root().join("tests/recordings/codex/01_init_thread_turn.jsonl");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let mut opening = Vec::new();
    let mut turn: Vec<(String, usize)> = Vec::new();
    let mut ids = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        let frame = &record["frame"];
        let Some(method) = frame["method"].as_str().filter(|_| record["dir"] == "s2c") else {
            continue;
        };
        match method {
            "thread/started" => opening.push(frame.to_string()),
            "turn/started" => ids.push(
                frame["params"]["turn"]["id"]
                    .as_str()
                    .context("a turn's id")?
                    .to_owned(),
            ),
            "item/started" => ids.push(
                frame["params"]["item"]["id"]
                    .as_str()
                    .context("an item's id")?
                    .to_owned(),
            ),
            _ => {}
        }
        if method.starts_with("item/")
            || method.starts_with("turn/")
            || method == "thread/tokenUsage/updated"
        {
            let copies = if method.to_lowercase().ends_with("delta") {
                DELTAS
            } else {
                1
            };
            turn.push((frame.to_string(), copies));
        }
    }
    ensure!(
        ids.len() >= 4 && turn.len() > 10,
        "{} holds no turn",
        file.display()
    );
    let mut stream = Stream::default();
    stream.turns.push(Vec::new());
    for line in opening {
        stream.push(&line);
    }
    for number in 0..turns {
        stream.turns.push(Vec::new());
        for (line, copies) in &turn {
            let line = ids.iter().fold(line.clone(), |line, id| {
                line.replace(id, &format!("{id}-{number}"))
            });
            for _ in 0..*copies {
                stream.push(&line);
            }
        }
    }
    Ok(stream)
}
