//! Answers to our calls, typed. The texts of errors are those of codex 0.171.0: nothing but the text tells them apart.

use super::{items, lineage::Lineage, outgoing::Call};
use crate::contract::{ConversationList, FoundConversation};
use crate::rpc::{
    CallFailure, budget,
    frames::{RpcError, bounded_id, cut, id_of, list, text_of},
};
use pilothouse_domain::{
    ItemStatus, NativeId, ProviderEvent, ProviderEventKind, limits,
    provider::{OfferedCommand, OfferedModel, TurnStatus},
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The handshake was taken.
    Initialized {
        /// Codex' version, e.g. `0.171.0`.
        version: String,
    },
    /// The models there are.
    Models(Vec<OfferedModel>),
    /// Whether codex can talk to its model's service: signed in, or no sign-in needed. Nothing of the account is kept.
    Account {
        /// Whether it can.
        ready: bool,
        /// Whether what it is configured to talk to is signed in to by an account at all; `None` where it does not say.
        by_account: Option<bool>,
    },
    /// What its settings name.
    Configured(Settings),
    /// A conversation is loaded.
    Thread(LoadedThread),
    /// A turn was started, or, on a busy conversation, was going on.
    Turn {
        /// Which.
        turn: NativeId,
        /// Whether it had been seen before the call was written: then codex has steered.
        known_before: bool,
    },
    /// A page of turns, newest first, each as events in their order.
    Turns {
        /// One element per turn.
        turns: Vec<Vec<ProviderEvent>>,
        /// Where the next page begins.
        next: Option<String>,
    },
    /// The skills that a message can name.
    Commands(Vec<OfferedCommand>),
    /// A page of the conversations that are kept.
    Conversations(ConversationList),
    /// Files, the best first.
    Files(Vec<String>),
    /// The conversations that are loaded.
    Threads(Vec<NativeId>),
    /// Whose a conversation is, and what goes on in it.
    Kin {
        /// The one that began it, if it is a subagent's.
        parent: Option<NativeId>,
        /// The one at the top of all that it belongs to.
        root: NativeId,
        /// Whether it waits for a person.
        waits: bool,
    },
    /// Taken.
    Done,
}

/// A model and its effort.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The model; `None` where none is named.
    pub model: Option<String>,
    /// The effort; `None` for the model's own.
    pub effort: Option<String>,
}

impl Settings {
    /// Those under two names; what is longer than a name is none.
    pub(super) fn of(told: &Value, model: &str, effort: &str) -> Self {
        const NAME: usize = 256;
        let name = |key| text_of(told, key).filter(|name| !name.is_empty() && name.len() <= NAME);
        Self {
            model: name(model),
            effort: name(effort),
        }
    }

    /// Bytes that they hold beside themselves.
    pub(super) fn weight(&self) -> usize {
        let names = [&self.model, &self.effort];
        let names = names.into_iter().flatten();
        names.map(|name| budget::block(name.len())).sum()
    }
}

/// A conversation as codex says it loaded it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedThread {
    /// Its id.
    pub thread: NativeId,
    /// The approval policy in force, as JSON text.
    pub policy: String,
    /// The sandbox in force, its type.
    pub sandbox: String,
    /// Who reviews approvals.
    pub reviewer: String,
    /// Where it works.
    pub cwd: String,
    /// What is in force.
    pub settings: Settings,
    /// Whether it waits for a person.
    pub waits: bool,
    /// Whether it plans, and carries nothing out.
    pub plans: bool,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The conversation is not there, or holds nothing.
    #[error("codex has no such conversation: {message}")]
    NoConversation {
        /// Codex' words.
        message: String,
    },
    /// No turn, or another one, is going on.
    #[error("that turn is not going on: {message}")]
    NotThatTurn {
        /// Codex' words.
        message: String,
    },
    /// The conversation holds no such turn.
    #[error("codex has no such turn: {message}")]
    NoTurn {
        /// Codex' words.
        message: String,
    },
    /// Codex refused.
    #[error("codex refused: {message}")]
    Refused {
        /// Its words.
        message: String,
    },
    /// The answer could not be read.
    #[error("codex' answer to {method} could not be read")]
    Unreadable {
        /// The call's name.
        method: String,
    },
    /// No answer came in time.
    #[error("codex did not answer {method} within {seconds} s")]
    Timeout {
        /// The call's name.
        method: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The process ended first.
    #[error("codex' process ended before it answered")]
    Lost,
}

impl CallFailure for CallError {
    fn lost() -> Self {
        Self::Lost
    }

    fn timeout(method: String, seconds: u64) -> Self {
        Self::Timeout { method, seconds }
    }
}

/// Sorts an error by its text.
pub(crate) fn call_error(error: RpcError) -> CallError {
    let message = cut(&error.message, 1024);
    let text = error.message.as_str();
    if text.starts_with("no active turn") || text.starts_with("expected active turn id") {
        CallError::NotThatTurn { message }
    } else if text.starts_with("turn not found") {
        CallError::NoTurn { message }
    } else if text.contains("no rollout found for thread id")
        || text.starts_with("thread not found")
        || text.starts_with("thread not loaded")
        || (text.contains("rollout at") && text.contains("is empty"))
    {
        CallError::NoConversation { message }
    } else {
        CallError::Refused { message }
    }
}

/// Reads the result of a call.
pub(crate) fn read(
    call: &Call,
    result: &Value,
    lineage: &Lineage,
    known_before: impl Fn(&NativeId) -> bool,
) -> Result<Reply, CallError> {
    let unreadable = || CallError::Unreadable {
        method: call.method().to_owned(),
    };
    match call {
        Call::Initialize { .. } => {
            let agent = text_of(result, "userAgent").ok_or_else(unreadable)?;
            // `name/0.171.0 (Debian …) …`
            let version = agent
                .split_once('/')
                .and_then(|(_, rest)| rest.split_whitespace().next())
                .unwrap_or("unknown");
            Ok(Reply::Initialized {
                version: cut(version, 64),
            })
        }
        Call::ModelList => Ok(Reply::Models(
            list(result, "data").iter().filter_map(model).collect(),
        )),
        Call::AccountRead => Ok(Reply::Account {
            ready: result
                .get("account")
                .is_some_and(|account| !account.is_null())
                || result.get("requiresOpenaiAuth") == Some(&Value::Bool(false)),
            by_account: result.get("requiresOpenaiAuth").and_then(Value::as_bool),
        }),
        Call::ConfigRead { .. } => {
            let config = result.get("config").ok_or_else(unreadable)?;
            Ok(Reply::Configured(Settings::of(
                config,
                "model",
                "model_reasoning_effort",
            )))
        }
        Call::ThreadStart { .. } | Call::ThreadResume { .. } | Call::ThreadFork { .. } => {
            let thread = result
                .get("thread")
                .and_then(|thread| id_of(thread, "id"))
                .ok_or_else(unreadable)?;
            Ok(Reply::Thread(LoadedThread {
                thread,
                policy: match result.get("approvalPolicy") {
                    Some(Value::String(word)) => word.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                },
                sandbox: result
                    .get("sandbox")
                    .and_then(|sandbox| text_of(sandbox, "type"))
                    .unwrap_or_default(),
                reviewer: text_of(result, "approvalsReviewer").unwrap_or_default(),
                cwd: text_of(result, "cwd").unwrap_or_default(),
                settings: Settings::of(result, "model", "reasoningEffort"),
                waits: waits(&result["thread"]),
                plans: result["collaborationMode"]["mode"] == "plan",
            }))
        }
        Call::TurnStart { .. } => {
            let turn = result
                .get("turn")
                .and_then(|turn| id_of(turn, "id"))
                .ok_or_else(unreadable)?;
            let known_before = known_before(&turn);
            Ok(Reply::Turn { turn, known_before })
        }
        Call::TurnsList { thread, .. } => Ok(Reply::Turns {
            turns: list(result, "data")
                .iter()
                .map(|turn| turn_events(thread, turn, lineage))
                .collect(),
            next: text_of(result, "nextCursor"),
        }),
        Call::SkillsList { .. } => Ok(Reply::Commands(
            list(result, "data")
                .iter()
                .flat_map(|place| list(place, "skills"))
                .filter_map(skill)
                .take(limits::OFFERED_COMMANDS)
                .collect(),
        )),
        Call::ThreadList { .. } => Ok(Reply::Conversations(ConversationList {
            found: list(result, "data")
                .iter()
                .filter_map(conversation)
                .collect(),
            next: text_of(result, "nextCursor"),
        })),
        Call::FindFiles { .. } => Ok(Reply::Files(
            list(result, "files")
                .iter()
                .filter(|file| file["match_type"] == "file")
                .filter_map(|file| text_of(file, "path"))
                .collect(),
        )),
        Call::ThreadsLoaded => Ok(Reply::Threads(
            list(result, "data")
                .iter()
                .filter_map(|id| id.as_str().map(bounded_id))
                .collect(),
        )),
        Call::ThreadRead { .. } => {
            let thread = &result["thread"];
            let id = |key: &str| id_of(thread, key);
            Ok(Reply::Kin {
                parent: id("parentThreadId"),
                root: id("sessionId").ok_or_else(unreadable)?,
                waits: waits(thread),
            })
        }
        Call::ThreadJoin { .. }
        | Call::LastTurn { .. }
        | Call::ThreadRevert { .. }
        | Call::CompactStart { .. }
        | Call::LoginStart { .. }
        | Call::LoginCancel { .. }
        | Call::ItemsList { .. }
        | Call::TurnSteer { .. }
        | Call::TurnInterrupt { .. }
        | Call::TerminalsList { .. }
        | Call::TerminalEnd { .. }
        | Call::Foreign { .. } => Ok(Reply::Done),
    }
}

/// A skill as a message names it. Codex' own commands (`/review`, `/compact`) are its terminal's: said in a message, they
/// are words.
fn skill(skill: &Value) -> Option<OfferedCommand> {
    let name = text_of(skill, "name").filter(|_| skill["enabled"] == Value::Bool(true))?;
    let short = skill
        .get("interface")
        .and_then(|shown| text_of(shown, "shortDescription"));
    let description = short.or_else(|| text_of(skill, "description"));
    Some(OfferedCommand {
        name: cut(&format!("${name}"), limits::COMMAND_WORDS),
        description: cut(&description.unwrap_or_default(), limits::COMMAND_WORDS),
        argument_hint: String::new(),
    })
}

/// A kept conversation; one that is a subagent's or leaves nothing behind is none.
fn conversation(thread: &Value) -> Option<FoundConversation> {
    let of_another = text_of(thread, "parentThreadId").is_some();
    if of_another || thread.get("ephemeral") == Some(&Value::Bool(true)) {
        return None;
    }
    let named = text_of(thread, "name").filter(|name| !name.trim().is_empty());
    Some(FoundConversation {
        id: id_of(thread, "id")?,
        title: named
            .or_else(|| text_of(thread, "preview"))
            .unwrap_or_default(),
        updated_at_ms: thread
            .get("updatedAt")
            .and_then(Value::as_u64)
            .map(|seconds| seconds.saturating_mul(1000)),
    })
}

/// Whether a conversation's status says that it waits for a person.
fn waits(thread: &Value) -> bool {
    !list(&thread["status"], "activeFlags").is_empty()
}

fn model(model: &Value) -> Option<OfferedModel> {
    let id = text_of(model, "id")?;
    Some(OfferedModel {
        name: text_of(model, "displayName").unwrap_or_else(|| id.clone()),
        efforts: list(model, "supportedReasoningEfforts")
            .iter()
            .filter_map(|effort| text_of(effort, "reasoningEffort"))
            .collect(),
        default_effort: text_of(model, "defaultReasoningEffort"),
        is_default: model.get("isDefault") == Some(&Value::Bool(true)),
        images: model
            .get("inputModalities")
            .and_then(Value::as_array)
            .map(|kinds| kinds.iter().any(|kind| kind == "image")),
        id,
    })
}

/// A turn of history as the events that ingest takes as an upsert.
pub(crate) fn turn_events(
    thread: &NativeId,
    turn: &Value,
    lineage: &Lineage,
) -> Vec<ProviderEvent> {
    let Some(id) = id_of(turn, "id") else {
        return Vec::new();
    };
    let place = lineage.place(Some(thread.clone()), Some(id));
    let mut events = Vec::new();
    let mut push = |kind| {
        events.push(ProviderEvent {
            place: place.clone(),
            kind,
        });
    };
    push(ProviderEventKind::TurnStarted);
    let ended = past_end(turn);
    for item in list(turn, "items") {
        let Some(id) = id_of(item, "id") else {
            continue;
        };
        let content = items::content(item);
        let client_id = text_of(item, "clientId");
        // In a turn that goes on, a message that is still being written has no end yet.
        let open = item.get("completedAtMs").is_some_and(Value::is_null);
        match (items::ended_as(item).filter(|_| !open), &ended) {
            (None, None) => push(ProviderEventKind::ItemOpened {
                item: id,
                content,
                client_id,
            }),
            (status, _) => push(ProviderEventKind::ItemClosed {
                item: id,
                status: status.unwrap_or(ItemStatus::Unfinished),
                content,
                client_id,
            }),
        }
    }
    if let Some((status, error)) = ended {
        push(ProviderEventKind::TurnEnded { status, error });
    }
    events
}

/// How a turn ended, as `turn/completed` or history says it; `None` while it goes on.
pub(crate) fn turn_end(turn: &Value) -> Option<(TurnStatus, Option<RunError>)> {
    let error = turn
        .get("error")
        .filter(|error| !error.is_null())
        .map(items::run_error);
    match turn.get("status").and_then(Value::as_str)? {
        "completed" => Some((TurnStatus::Completed, None)),
        "failed" => Some((TurnStatus::Failed, error)),
        "interrupted" => Some((TurnStatus::Interrupted, error)),
        _ => None,
    }
}

/// In history only the missing `completedAt` tells a turn that died with its process from one that a person stopped
/// (docs/agents-probes.md, section 5).
fn past_end(turn: &Value) -> Option<(TurnStatus, Option<RunError>)> {
    let (status, error) = turn_end(turn)?;
    let cut_off =
        status == TurnStatus::Interrupted && turn.get("completedAt").is_none_or(Value::is_null);
    let error = error.or_else(|| {
        cut_off.then(|| RunError {
            code: ErrorCode::RuntimeLost,
            message: "codex' process ended during the turn".to_owned(),
        })
    });
    Some((status, error))
}
