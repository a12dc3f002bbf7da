//! The agent's own files: one per conversation under its settings, a line per entry, entries linked by `parentUuid` to the one
//! before. What was taken back stays in the file; the branch that counts ends at the last entry, or where the agent wrote
//! that it was rewound to (docs/agents-probes.md, section 10).

use super::{
    codec::{Codec, Received},
    content, messages,
    starting::is_uuid,
};
use crate::{
    contract::Launch,
    rpc::{
        event,
        frames::{FRAME_LIMIT, Line, Lines, json, text_of, text_or_empty},
    },
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus,
    run::{ErrorCode, RunError},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Folders of projects that are looked through.
const PROJECTS: usize = 4096;
/// Entries of a conversation that are linked; of a longer one the oldest are not known.
const ENTRIES: usize = 500_000;
/// Bytes of lines that are kept while a file is read; of the oldest only the links are.
const KEPT: usize = 32 * 1024 * 1024;

/// Where the agent keeps its conversations.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) projects: PathBuf,
}

impl Files {
    /// As its environment says.
    pub(super) fn of(launch: &Launch) -> Self {
        let variable = |name: &str| {
            let given = launch.env.get(name).cloned();
            given
                .or_else(|| std::env::var(name).ok())
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = || variable("HOME").unwrap_or_default().join(".claude");
        let settings = variable("CLAUDE_CONFIG_DIR").unwrap_or_else(home);
        Self {
            projects: settings.join("projects"),
        }
    }

    /// What a conversation holds now; `None` if there is none that can be read.
    pub(super) async fn branch(&self, session: &NativeId) -> Option<Branch> {
        let (files, session) = (self.clone(), session.clone());
        let read = move || Branch::read(&files.find(&session)?).ok();
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    /// A conversation's file.
    fn find(&self, session: &NativeId) -> Option<PathBuf> {
        // Anything else could be a path.
        is_uuid(session.as_str()).then_some(())?;
        let name = format!("{session}.jsonl");
        fs::read_dir(&self.projects)
            .ok()?
            .take(PROJECTS)
            .filter_map(|folder| Some(folder.ok()?.path().join(&name)))
            .find(|file| file.is_file())
    }
}

/// An entry.
#[derive(Debug)]
struct Entry {
    parent: Option<String>,
    /// What was said in it; `None` of what is only a link.
    said: Option<Value>,
}

/// The branch of a conversation that counts.
#[derive(Debug)]
pub(super) struct Branch {
    /// Its entries, oldest first: their ids, and what was said.
    entries: Vec<(String, Option<Value>)>,
}

#[derive(Default)]
struct Reading {
    entries: BTreeMap<String, Entry>,
    /// Entries whose words are kept, with their bytes, oldest first.
    kept: VecDeque<(String, usize)>,
    bytes: usize,
    leaf: Option<String>,
}

impl Reading {
    fn line(&mut self, line: &[u8]) {
        let Ok(value) = json(&String::from_utf8_lossy(line)) else {
            return;
        };
        let kind = text_of(&value, "type").unwrap_or_default();
        if kind == "last-prompt" {
            if value.get("rewound") == Some(&Value::Bool(true)) {
                self.leaf = text_of(&value, "leafUuid");
            }
            return;
        }
        let Some(id) = text_of(&value, "uuid").filter(|_| self.entries.len() < ENTRIES) else {
            return;
        };
        let is_aside = value.get("isSidechain") == Some(&Value::Bool(true));
        if is_aside
            || !matches!(
                kind.as_str(),
                "user" | "assistant" | "attachment" | "system"
            )
        {
            return;
        }
        let parent = text_of(&value, "parentUuid").or_else(|| text_of(&value, "logicalParentUuid"));
        let said = matches!(kind.as_str(), "user" | "assistant").then_some(value);
        if said.is_some() {
            self.kept.push_back((id.clone(), line.len()));
            self.bytes += line.len();
        }
        while self.bytes > KEPT
            && let Some((oldest, bytes)) = self.kept.pop_front()
        {
            self.bytes -= bytes;
            if let Some(entry) = self.entries.get_mut(&oldest) {
                entry.said = None;
            }
        }
        self.leaf = Some(id.clone());
        self.entries.insert(id, Entry { parent, said });
    }
}

impl Branch {
    fn read(file: &Path) -> io::Result<Self> {
        let mut reading = Reading::default();
        let mut lines = Lines::new(FRAME_LIMIT);
        let mut file = fs::File::open(file)?;
        let mut bytes = vec![0; 256 * 1024];
        let mut take = |line: Line<'_>| {
            if let Line::Whole(line) = line {
                reading.line(line);
            }
        };
        loop {
            match file.read(&mut bytes)? {
                0 => break,
                read => {
                    lines.split(&bytes[..read], &mut take);
                }
            }
        }
        // A last line without an end is still being written.
        let mut entries = Vec::new();
        let mut next = reading.leaf.take();
        // Each is taken out, so that links in a circle end.
        while let Some(id) = next
            && let Some(entry) = reading.entries.remove(&id)
        {
            entries.push((id, entry.said));
            next = entry.parent;
        }
        entries.reverse();
        Ok(Self { entries })
    }

    /// Whether an entry is part of it.
    pub(super) fn holds(&self, id: &NativeId) -> bool {
        self.entries.iter().any(|(known, _)| known == id.as_str())
    }

    /// The last entry of a turn.
    pub(super) fn end_of(&self, turn: &NativeId) -> Option<String> {
        let prompts = |said: &Option<Value>| said.as_ref().is_some_and(is_prompt);
        let begins = self
            .entries
            .iter()
            .position(|(id, _)| id == turn.as_str())?;
        let held = self.entries[begins + 1..]
            .iter()
            .take_while(|(_, said)| !prompts(said));
        let last = held.filter(|(_, said)| said.is_some()).last();
        last.map(|(id, _)| id.clone())
    }

    /// The last message of a person.
    pub(super) fn last_prompt(&self) -> Option<NativeId> {
        let mut prompts = self.entries.iter().rev();
        let last = prompts.find(|(_, said)| said.as_ref().is_some_and(is_prompt));
        last.map(|(id, _)| NativeId(id.clone()))
    }

    /// The last turns as events, oldest first, with the ids that they had when they happened.
    pub(super) fn last(self, session: &NativeId, turns: u32) -> Vec<ProviderEvent> {
        let prompts = |said: &Option<Value>| said.as_ref().is_some_and(is_prompt);
        let all = self
            .entries
            .iter()
            .filter(|(_, said)| prompts(said))
            .count();
        let mut skipped = all.saturating_sub(turns as usize);
        let mut telling = Telling::new(session);
        for (id, said) in self.entries {
            let Some(said) = said else { continue };
            if is_prompt(&said) {
                telling.ends();
                if skipped > 0 {
                    skipped -= 1;
                    continue;
                }
                telling.begins(NativeId(id), &said);
            } else {
                telling.goes_on(said);
            }
        }
        telling.ends();
        telling.events
    }
}

/// Whether an entry is a message of a person that begins a turn.
pub(super) fn is_prompt(said: &Value) -> bool {
    let is = |key: &str| said.get(key) == Some(&Value::Bool(true));
    if text_of(said, "type").as_deref() != Some("user") || is("isMeta") || is("isCompactSummary") {
        return false;
    }
    let content = said
        .get("message")
        .and_then(|message| message.get("content"));
    let content = content.unwrap_or(&Value::Null);
    let is_result =
        |block: &Value| block.get("type").and_then(Value::as_str) == Some("tool_result");
    if content
        .as_array()
        .is_some_and(|blocks| blocks.iter().any(is_result))
    {
        return false;
    }
    let words = content::texts(content);
    !(words.is_empty()
        || is_stop(&words)
        || words.starts_with("<local-command-")
        || words.starts_with("<command-"))
}

fn is_stop(words: &str) -> bool {
    words.starts_with("[Request interrupted by user")
}

/// Turns as they are told.
struct Telling {
    /// Reads what was said as it is read when it happens.
    codec: Codec,
    events: Vec<ProviderEvent>,
    status: TurnStatus,
    error: Option<RunError>,
}

impl Telling {
    fn new(session: &NativeId) -> Self {
        Self {
            codec: Codec::serving("past", session.clone()),
            events: Vec::new(),
            status: TurnStatus::Completed,
            error: None,
        }
    }

    fn tell(&mut self, read: impl FnOnce(&mut Codec, &mut Vec<Received>)) {
        let mut out = Vec::new();
        read(&mut self.codec, &mut out);
        self.events
            .extend(out.into_iter().filter_map(|received| match received {
                Received::Event(event)
                    if !matches!(event.kind, ProviderEventKind::Diagnostic { .. }) =>
                {
                    Some(event)
                }
                _ => None,
            }));
    }

    fn begins(&mut self, turn: NativeId, said: &Value) {
        let message = said.get("message").unwrap_or(&Value::Null);
        let words = content::texts(message.get("content").unwrap_or(&Value::Null));
        self.status = TurnStatus::Interrupted;
        self.error = None;
        self.tell(|codec, out| {
            codec.turn = Some(turn.clone());
            let place = codec.place(None);
            event(out, place.clone(), ProviderEventKind::TurnStarted);
            // It spoke to itself: a task in the background has ended.
            if text_of(&said["origin"], "kind").as_deref() == Some("task-notification") {
                return;
            }
            let kind = ProviderEventKind::ItemClosed {
                item: turn,
                status: ItemStatus::Completed,
                content: ItemContent::UserMessage {
                    message: None,
                    text: Body::inline(words),
                    attachments: Vec::new(),
                },
                client_id: None,
            };
            event(out, place, kind);
        });
    }

    fn goes_on(&mut self, mut said: Value) {
        if self.codec.turn.is_none() {
            return;
        }
        // What stands beside the result of a tool is called otherwise in frames.
        if let Some(fields) = said.as_object_mut()
            && let Some(result) = fields.remove("toolUseResult")
        {
            fields.insert("tool_use_result".to_owned(), result);
        }
        if let Some(cwd) = text_of(&said, "cwd") {
            self.codec.cwd = cwd;
        }
        let message = said.get("message").unwrap_or(&Value::Null);
        if text_of(&said, "type").as_deref() == Some("assistant") {
            let failed = said.get("isApiErrorMessage") == Some(&Value::Bool(true));
            let stop = text_or_empty(message, "stop_reason");
            if failed {
                self.status = TurnStatus::Failed;
                self.error = Some(RunError {
                    code: ErrorCode::Agent,
                    message: content::texts(message.get("content").unwrap_or(&Value::Null)),
                });
                return;
            }
            self.status = if stop == "tool_use" {
                TurnStatus::Interrupted
            } else {
                TurnStatus::Completed
            };
            self.tell(|codec, out| messages::assistant(codec, &said, out));
        } else {
            let words = content::texts(message.get("content").unwrap_or(&Value::Null));
            if is_stop(&words) {
                self.status = TurnStatus::Interrupted;
            }
            self.tell(|codec, out| messages::user(codec, &said, out));
        }
    }

    fn ends(&mut self) {
        if self.codec.turn.is_none() {
            return;
        }
        let (status, error) = (self.status, self.error.take());
        self.tell(|codec, out| {
            let place = codec.place(None);
            for (item, content) in codec.main.leave_open() {
                let kind = ProviderEventKind::ItemClosed {
                    item,
                    status: ItemStatus::Unfinished,
                    content,
                    client_id: None,
                };
                event(out, place.clone(), kind);
            }
            event(out, place, ProviderEventKind::TurnEnded { status, error });
            codec.turn = None;
        });
    }
}
