//! A device as a process of its own: the engine on a data directory, driven by JSON lines, so that it can be killed.
//!
//! Each line in is `{"n": N, "do": WHAT, …}` and is answered by `{"n": N, "ok": …}` or `{"n": N, "error": TEXT}`, in order.
//! What comes of a command is told by itself: `{"outcome": COMMAND, "is": …}`. A command counts as told to its person only
//! when its `ok` was written, which is after the outbox has synced it.

use pilothouse_domain::{CommandBody, CommandId, HostId, RequestId, ThreadId};
use pilothouse_engine::{
    Core, CoreConfig, DeliveryState, Environment, InboxRow, InboxState, LinkState, Network,
    NewCommand, Observation, Page, Query, RowContent, Scope, SystemPlatform, ThreadHeader,
    TicketOutcome, TimelineRow,
};
use pilothouse_tests::Board;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    io::{BufRead, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// Items of a thread that are watched: more than a story makes.
const TAIL: u32 = 1000;

struct Driver {
    core: Arc<Core>,
    board: Arc<Board>,
    observations: Vec<Observation>,
    watched: BTreeSet<ThreadId>,
    out: Arc<Mutex<std::io::Stdout>>,
    runtime: tokio::runtime::Runtime,
}

/// Runs until its input ends.
///
/// # Errors
/// The core cannot be opened, or a pipe is closed.
pub(crate) fn run(dir: &Path, name: &str) -> Result<(), String> {
    let config = CoreConfig {
        data_dir: dir.to_owned(),
        device_name: name.to_owned(),
        platform: "chaos".to_owned(),
    };
    let core = Core::open(config, Arc::new(SystemPlatform::new(dir)))
        .map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut driver = Driver {
        core,
        board: Arc::default(),
        observations: Vec::new(),
        watched: BTreeSet::new(),
        out: Arc::new(Mutex::new(std::io::stdout())),
        runtime,
    };
    let threads = Scope::threads(1_000);
    for scope in [Scope::Hosts, threads, Scope::Inbox, Scope::Delivery] {
        driver.observe(scope);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let asked: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let said = match driver.act(&asked) {
            Ok(ok) => json!({"n": asked["n"], "ok": ok}),
            Err(error) => json!({"n": asked["n"], "error": error}),
        };
        say(&driver.out, &said)?;
    }
    driver.core.close();
    Ok(())
}

fn say(out: &Mutex<std::io::Stdout>, value: &Value) -> Result<(), String> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(out, "{value}")
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}

fn parsed<T: std::str::FromStr>(asked: &Value, field: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    let text = asked[field]
        .as_str()
        .ok_or_else(|| format!("no `{field}`"))?;
    text.parse()
        .map_err(|error: T::Err| format!("{field}: {error}"))
}

impl Driver {
    fn observe(&mut self, scope: Scope) {
        let board = self.board.clone();
        let sink = Arc::new(move |batch| board.take(batch));
        self.observations.push(self.core.observe(scope, sink));
    }

    /// Opens every thread that is listed.
    fn watch(&mut self) {
        for row in self.board.seen().threads {
            let thread = row.summary.thread;
            if self.watched.insert(thread) {
                self.observe(Scope::Timeline {
                    host: row.host,
                    thread,
                    tail: TAIL,
                });
            }
        }
    }

    fn act(&mut self, asked: &Value) -> Result<Value, String> {
        match asked["do"].as_str().unwrap_or_default() {
            "pair" => {
                let code = asked["code"].as_str().unwrap_or_default();
                let host = self
                    .runtime
                    .block_on(self.core.pair(code))
                    .map_err(|error| error.to_string())?;
                Ok(json!(host.to_string()))
            }
            "submit" => self.submit(asked),
            "state" => {
                self.watch();
                Ok(self.state(false))
            }
            "dump" => {
                self.watch();
                Ok(self.state(true))
            }
            "outcome" => self.outcome(parsed(asked, "command")?),
            "network" => {
                for network in [Network::Unmetered, Network::Metered] {
                    self.core.set_environment(Environment {
                        network,
                        ..Environment::default()
                    });
                }
                Ok(Value::Null)
            }
            other => Err(format!("`{other}` is nothing that can be done")),
        }
    }

    fn submit(&self, asked: &Value) -> Result<Value, String> {
        let body: CommandBody =
            serde_json::from_value(asked["body"].clone()).map_err(|error| error.to_string())?;
        let thread = match asked["thread"].is_null() {
            true => None,
            false => Some(parsed::<ThreadId>(asked, "thread")?),
        };
        let ticket = self
            .core
            .submit(NewCommand {
                host: parsed::<HostId>(asked, "host")?,
                thread,
                body,
            })
            .map_err(|error| error.to_string())?;
        ticket.durable().map_err(|error| error.to_string())?;
        let out = self.out.clone();
        let told = json!({
            "command": ticket.command_id().to_string(),
            "thread": ticket.thread().to_string(),
        });
        self.runtime.spawn(async move {
            let mut told = outcome_json(&ticket.outcome().await);
            told["outcome"] = json!(ticket.command_id().to_string());
            let _ = say(&out, &told);
        });
        Ok(told)
    }

    fn outcome(&self, command: CommandId) -> Result<Value, String> {
        match self.core.query(Query::Outcome { command }) {
            Ok(Page::Outcome { delivery, outcome }) => Ok(json!({
                "delivery": delivery.map(|row| delivery_json(&row.state)),
                "outcome": outcome.as_ref().map(outcome_json),
            })),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What is shown. `whole` brings rows and every request as it is held.
    fn state(&self, whole: bool) -> Value {
        let seen = self.board.seen();
        let link = seen.hosts.first().map(|host| &host.link);
        let threads: Map<_, _> = seen
            .threads
            .iter()
            .map(|row| {
                let listed = json!({
                    "summary": row.summary,
                    "pending": row.pending,
                    "outstanding": row.outstanding,
                });
                (row.summary.thread.to_string(), listed)
            })
            .collect();
        let timelines: Map<_, _> = seen
            .timelines
            .iter()
            .filter_map(|(thread, timeline)| {
                let header = timeline.header.as_ref()?;
                let mut shown = header_json(header);
                if whole {
                    let row = |row: &TimelineRow| self.row_json(header.host, *thread, row);
                    shown["rows"] = timeline.rows.iter().map(row).collect();
                }
                Some((thread.to_string(), shown))
            })
            .collect();
        json!({
            "synchronised": link == Some(&LinkState::Synchronised),
            "link": link.map(|link| format!("{link:?}")),
            "threads": threads,
            "timelines": timelines,
            "inbox": seen.inbox.iter().map(inbox_json).collect::<Vec<_>>(),
            "delivery": seen.delivery.iter().map(|row| json!({
                "command": row.command.to_string(),
                "thread": row.thread.to_string(),
                "kind": row.kind,
                "preview": row.preview,
                "state": delivery_json(&row.state),
            })).collect::<Vec<_>>(),
        })
    }

    fn row_json(&self, host: HostId, thread: ThreadId, row: &TimelineRow) -> Value {
        let (kind, request, note) = match &row.content {
            RowContent::UserMessage { .. } => ("user", None, None),
            RowContent::AssistantMessage => ("assistant", None, None),
            RowContent::Question { request, .. } | RowContent::Approval { request, .. } => {
                ("request", Some(*request), None)
            }
            RowContent::Error { message, .. } => ("error", None, Some(message.clone())),
            RowContent::Command { command, .. } => ("command", None, Some(command.clone())),
            RowContent::Interrupt { note } => ("interrupt", None, Some(note.clone())),
            RowContent::Reasoning => ("reasoning", None, None),
            RowContent::Todo { .. } => ("todo", None, None),
            RowContent::Unknown { label } => ("unknown", None, Some(label.clone())),
            _ => ("other", None, None),
        };
        json!({
            "id": row.id.to_string(),
            "kind": kind,
            "position": row.position,
            "run": row.run.map(|run| run.to_string()),
            "status": row.status,
            "text": row.text.text,
            "bytes": row.text.bytes,
            "hash": row.text.hash.map(|hash| hash.to_string()),
            "note": note,
            "pending": row.pending,
            "delivery": row.delivery,
            "request": request.map(|request| self.request_json(host, thread, request)),
        })
    }

    fn request_json(&self, host: HostId, thread: ThreadId, request: RequestId) -> Value {
        let query = Query::Request {
            host,
            thread: Some(thread),
            request,
        };
        match self.core.query(query) {
            Ok(Page::Request(page)) => json!({
                "id": request.to_string(),
                "subject": page.request.subject,
                "status": page.request.status,
                "verified": page.verified,
            }),
            other => json!({"id": request.to_string(), "unreadable": format!("{other:?}")}),
        }
    }
}

fn outcome_json(outcome: &TicketOutcome) -> Value {
    match outcome {
        TicketOutcome::Accepted { cursor, notice } => {
            json!({"is": "accepted", "cursor": cursor, "notice": notice})
        }
        TicketOutcome::Refused { refusal } => json!({"is": "refused", "refusal": refusal}),
        TicketOutcome::Expired => json!({"is": "expired"}),
        TicketOutcome::Parked { reason } => json!({"is": "parked", "reason": reason}),
    }
}

fn delivery_json(state: &DeliveryState) -> Value {
    let (word, reason) = match state {
        DeliveryState::Saved => ("saved", None),
        DeliveryState::Sent => ("sent", None),
        DeliveryState::Waiting { reason } => ("waiting", Some(reason)),
        DeliveryState::Parked { reason } => ("parked", Some(reason)),
        DeliveryState::OnHost => ("on_host", None),
        DeliveryState::Expired => ("expired", None),
        DeliveryState::Refused { reason } => ("refused", Some(reason)),
    };
    json!({"is": word, "reason": reason})
}

fn header_json(header: &ThreadHeader) -> Value {
    json!({
        "active": header.active.as_ref().map(|active| json!({
            "run": active.run.to_string(),
            "attempt": active.attempt.map(|attempt| attempt.to_string()),
            "status": active.status,
            "blocked_on": active.blocked_on,
            "interrupting": active.interrupting,
            "pending": active.pending,
        })),
        "last_run": header.last_run,
        "queue": header.queue.iter().map(|row| json!({
            "run": row.run.to_string(),
            "preview": row.preview,
            "pending": row.pending,
        })).collect::<Vec<_>>(),
        "queue_revision": header.queue_revision,
        "held": header.held,
        "outstanding": header.outstanding,
        "read_only": header.read_only,
        "synchronised": header.synchronised,
        "cursor": header.cursor,
        "digest": header.digest.map(|digest| digest.to_string()),
    })
}

fn inbox_json(row: &InboxRow) -> Value {
    json!({
        "thread": row.thread.to_string(),
        "request": row.request.to_string(),
        "hash": row.content_hash.to_string(),
        "pending": row.state == InboxState::Pending,
        "verified": row.verified,
        "subject": row.raw_subject,
        "options": row.subject.options,
        "questions": row.subject.questions,
    })
}
