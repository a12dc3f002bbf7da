//! What we send: one typed call per method that is used.

use super::profile::Permissions;
use crate::{
    mcp::{self, McpReach, McpServer},
    picture::Encoded,
    rpc::line,
};
use pilothouse_domain::NativeId;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A picture that goes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// A file that codex reads.
    File(PathBuf),
    /// The picture itself, for a codex that cannot read our files.
    Itself(Encoded),
}

/// A call to codex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The handshake. `requestAttestation` is not announced, so codex never asks for one.
    Initialize {
        /// Our version.
        version: String,
    },
    /// The models that can be chosen.
    ModelList,
    /// Whether a sign-in is there.
    AccountRead,
    /// What its settings say for conversations in a directory.
    ConfigRead {
        /// The directory.
        cwd: PathBuf,
    },
    /// Starts a conversation.
    ThreadStart {
        /// Where it works.
        cwd: PathBuf,
        /// The model, if not codex' own default.
        model: Option<String>,
        /// What it may do.
        permissions: Permissions,
        /// Servers of tools that it is given beside its own.
        mcp: Vec<McpServer>,
    },
    /// Loads a conversation. Everything is sent again: a new process forgets the sandbox (docs/agents-probes.md, section 2).
    ThreadResume {
        /// Which.
        thread: NativeId,
        /// Where it works.
        cwd: PathBuf,
        /// The model, if not codex' own default.
        model: Option<String>,
        /// What it may do.
        permissions: Permissions,
        /// Servers of tools that it is given beside its own.
        mcp: Vec<McpServer>,
    },
    /// Copies a conversation, with its own settings; the copy is loaded. The source need not be.
    ThreadFork {
        /// Which.
        source: NativeId,
        /// The last turn that the copy holds; all if `None`.
        through: Option<NativeId>,
        /// Where the copy works.
        cwd: PathBuf,
        /// The model, if not codex' own default.
        model: Option<String>,
        /// What it may do.
        permissions: Permissions,
        /// Servers of tools that it is given beside its own.
        mcp: Vec<McpServer>,
    },
    /// Takes back a turn and all after it, of a loaded conversation. A turn that goes on would be stopped by it.
    ThreadRevert {
        /// Of which conversation.
        thread: NativeId,
        /// The first turn that is taken back.
        before: NativeId,
    },
    /// Shortens a loaded conversation's context, in a turn of its own that is not named in the answer.
    CompactStart {
        /// Of which conversation.
        thread: NativeId,
    },
    /// Begins to sign in by a code that is entered in a browser. What is to be done is asked in that conversation.
    LoginStart {
        /// Where it is asked.
        thread: NativeId,
    },
    /// Gives up a sign-in that was begun.
    LoginCancel {
        /// Its id.
        login: Value,
    },
    /// A conversation's status and whose it is.
    ThreadRead {
        /// Which.
        thread: NativeId,
    },
    /// The conversations that are kept of a directory, those last worked in first.
    ThreadList {
        /// Of which directory, exactly as they name it, by any of these names.
        cwds: Vec<PathBuf>,
        /// At most so many.
        limit: u32,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// Files of a directory by a part of their path, the best first.
    FindFiles {
        /// The directory.
        cwd: PathBuf,
        /// The part.
        text: String,
    },
    /// The skills that are there in a directory.
    SkillsList {
        /// The directory.
        cwd: PathBuf,
    },
    /// The conversations that the process has loaded.
    ThreadsLoaded,
    /// Makes a loaded conversation tell this connection what goes on in it, as it is.
    ThreadJoin {
        /// Which.
        thread: NativeId,
    },
    /// The newest turn of a conversation with its items.
    LastTurn {
        /// Of which conversation.
        thread: NativeId,
        /// Whether it is told as events; otherwise it only is remembered.
        told: bool,
    },
    /// The last turns with their items, newest first.
    TurnsList {
        /// Of which conversation.
        thread: NativeId,
        /// At most so many.
        limit: u32,
        /// Where the page before ended.
        cursor: Option<String>,
        /// With all their items; else with the first message and the last answer of each.
        whole: bool,
    },
    /// The items of a turn, oldest first.
    ItemsList {
        /// Of which conversation.
        thread: NativeId,
        /// Of which turn; all if `None`.
        turn: Option<NativeId>,
        /// At most so many.
        limit: u32,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// Starts a turn. On a busy conversation codex steers instead.
    TurnStart {
        /// In which conversation.
        thread: NativeId,
        /// Our message's id; codex keeps it as `clientId`.
        client_id: String,
        /// What is said; left out if empty.
        text: String,
        /// Pictures that go with it.
        images: Vec<Image>,
        /// Where it works from now on, if codex resumed it elsewhere.
        cwd: Option<PathBuf>,
        /// The model, if chosen.
        model: Option<String>,
        /// The effort, if chosen.
        effort: Option<String>,
        /// What it may do.
        permissions: Permissions,
        /// Whether it plans, and the model in force, without which codex does not take that; `None` leaves it as it is.
        plans: Option<(bool, String)>,
    },
    /// Puts words into a running turn.
    TurnSteer {
        /// In which conversation.
        thread: NativeId,
        /// Into which turn, and no other.
        turn: NativeId,
        /// Our message's id.
        client_id: String,
        /// What is said.
        text: String,
    },
    /// Stops a running turn.
    TurnInterrupt {
        /// In which conversation.
        thread: NativeId,
        /// Which turn, and no other.
        turn: NativeId,
    },
    /// The commands of a conversation that run on their own.
    TerminalsList {
        /// Of which conversation.
        thread: NativeId,
        /// Those that are to be ended, by their items.
        items: Vec<NativeId>,
    },
    /// Ends one of them.
    TerminalEnd {
        /// Of which conversation.
        thread: NativeId,
        /// Its process, as codex names it.
        process: String,
    },
    /// A call made elsewhere, whose answer is only passed over (replay of recordings).
    Foreign {
        /// Its name.
        method: String,
    },
}

impl Call {
    /// Its name.
    pub fn method(&self) -> &str {
        match self {
            Self::Initialize { .. } => "initialize",
            Self::ModelList => "model/list",
            Self::AccountRead => "account/read",
            Self::ConfigRead { .. } => "config/read",
            Self::ThreadStart { .. } => "thread/start",
            Self::ThreadResume { .. } => "thread/resume",
            Self::ThreadFork { .. } => "thread/fork",
            Self::ThreadRevert { .. } => "thread/revert",
            Self::CompactStart { .. } => "thread/compact/start",
            Self::LoginStart { .. } => "account/login/start",
            Self::LoginCancel { .. } => "account/login/cancel",
            Self::ThreadRead { .. } => "thread/read",
            Self::ThreadList { .. } => "thread/list",
            Self::FindFiles { .. } => "fuzzyFileSearch",
            Self::SkillsList { .. } => "skills/list",
            Self::ThreadsLoaded => "thread/loaded/list",
            Self::ThreadJoin { .. } => "thread/resume",
            Self::TurnsList { .. } | Self::LastTurn { .. } => "thread/turns/list",
            Self::ItemsList { .. } => "thread/items/list",
            Self::TurnStart { .. } => "turn/start",
            Self::TurnSteer { .. } => "turn/steer",
            Self::TurnInterrupt { .. } => "turn/interrupt",
            Self::TerminalsList { .. } => "thread/backgroundTerminals/list",
            Self::TerminalEnd { .. } => "thread/backgroundTerminals/terminate",
            Self::Foreign { method } => method,
        }
    }

    /// Its parameters.
    pub(crate) fn params(&self) -> Value {
        match self {
            Self::Initialize { version } => json!({
                "clientInfo": {"name": "pilothouse", "title": "Pilothouse", "version": version},
                "capabilities": {"experimentalApi": true, "requestAttestation": false},
            }),
            Self::ModelList | Self::AccountRead | Self::ThreadsLoaded | Self::Foreign { .. } => {
                json!({})
            }
            Self::ConfigRead { cwd } => json!({"cwd": cwd, "includeLayers": false}),
            Self::ThreadStart {
                cwd,
                model,
                permissions,
                mcp,
            } => with_choice(
                json!({
                    "cwd": cwd,
                    "approvalPolicy": permissions.policy(),
                    "approvalsReviewer": "user",
                    "sandbox": permissions.sandbox(),
                }),
                model,
                mcp,
            ),
            Self::ThreadResume {
                thread,
                cwd,
                model,
                permissions,
                mcp,
            } => with_choice(
                json!({
                    "threadId": thread,
                    "cwd": cwd,
                    "approvalPolicy": permissions.policy(),
                    "approvalsReviewer": "user",
                    "sandbox": permissions.sandbox(),
                    "excludeTurns": true,
                }),
                model,
                mcp,
            ),
            Self::ThreadFork {
                source,
                through,
                cwd,
                model,
                permissions,
                mcp,
            } => with_choice(
                json!({
                    "threadId": source,
                    "lastTurnId": through,
                    "cwd": cwd,
                    "approvalPolicy": permissions.policy(),
                    "approvalsReviewer": "user",
                    "sandbox": permissions.sandbox(),
                    "excludeTurns": true,
                }),
                model,
                mcp,
            ),
            Self::ThreadRevert { thread, before } => {
                json!({"threadId": thread, "beforeTurnId": before})
            }
            Self::CompactStart { thread } => json!({"threadId": thread}),
            Self::LoginStart { .. } => json!({"type": "chatgptDeviceCode"}),
            Self::LoginCancel { login } => json!({"loginId": login}),
            Self::ThreadRead { thread } => json!({"threadId": thread, "includeTurns": false}),
            Self::FindFiles { cwd, text } => json!({"query": text, "roots": [cwd]}),
            Self::SkillsList { cwd } => json!({"cwds": [cwd]}),
            // Every provider's, and those begun by a program too; subagents' are left out.
            Self::ThreadList {
                cwds,
                limit,
                cursor,
            } => json!({
                "cwd": cwds,
                "limit": limit,
                "cursor": cursor,
                "sortKey": "updated_at",
                "modelProviders": [],
                "sourceKinds": ["cli", "vscode", "exec", "appServer"],
            }),
            Self::ThreadJoin { thread } => json!({"threadId": thread, "excludeTurns": true}),
            Self::LastTurn { thread, .. } => turns(thread, 1, &None, true),
            Self::TurnsList {
                thread,
                limit,
                cursor,
                whole,
            } => turns(thread, *limit, cursor, *whole),
            Self::ItemsList {
                thread,
                turn,
                limit,
                cursor,
            } => json!({
                "threadId": thread,
                "turnId": turn,
                "limit": limit,
                "cursor": cursor,
                "sortDirection": "asc",
            }),
            Self::TurnStart {
                thread,
                client_id,
                text,
                images,
                cwd,
                model,
                effort,
                permissions,
                plans,
            } => {
                let mut params = with_model(
                    json!({
                        "threadId": thread,
                        "clientUserMessageId": client_id,
                        "input": input(text, images),
                        "approvalPolicy": permissions.policy(),
                        "approvalsReviewer": "user",
                        "sandboxPolicy": permissions.sandbox_policy(),
                    }),
                    model,
                );
                if let Some(effort) = effort {
                    params["effort"] = json!(effort);
                }
                if let Some((plans, model)) = plans {
                    let mode = if *plans { "plan" } else { "default" };
                    params["collaborationMode"] = json!({
                        "mode": mode,
                        "settings": {"model": model, "reasoning_effort": effort, "developer_instructions": null},
                    });
                }
                if let Some(cwd) = cwd {
                    params["cwd"] = json!(cwd);
                }
                params
            }
            Self::TurnSteer {
                thread,
                turn,
                client_id,
                text,
            } => json!({
                "threadId": thread,
                "expectedTurnId": turn,
                "clientUserMessageId": client_id,
                "input": [{"type": "text", "text": text, "text_elements": []}],
            }),
            Self::TurnInterrupt { thread, turn } => json!({"threadId": thread, "turnId": turn}),
            Self::TerminalsList { thread, .. } => json!({"threadId": thread}),
            Self::TerminalEnd { thread, process } => {
                json!({"threadId": thread, "processId": process})
            }
        }
    }
}

fn turns(thread: &NativeId, limit: u32, cursor: &Option<String>, whole: bool) -> Value {
    json!({
        "threadId": thread,
        "limit": limit,
        "cursor": cursor,
        "sortDirection": "desc",
        "itemsView": if whole { "full" } else { "summary" },
    })
}

/// The words first, then the pictures in their order.
fn input(text: &str, images: &[Image]) -> Vec<Value> {
    let words = (!text.is_empty() || images.is_empty())
        .then(|| json!({"type": "text", "text": text, "text_elements": []}));
    let pictures = images.iter().map(|image| match image {
        Image::File(path) => json!({"type": "localImage", "path": path}),
        Image::Itself(picture) => {
            let url = format!("data:{};base64,{}", picture.kind.media_type(), picture.data);
            json!({"type": "image", "url": url})
        }
    });
    words.into_iter().chain(pictures).collect()
}

/// With the model and the servers of a conversation that is loaded.
fn with_choice(params: Value, model: &Option<String>, mcp: &[McpServer]) -> Value {
    let mut params = with_model(params, model);
    if !mcp.is_empty() {
        // Put into what codex is configured with, over a server of the same name.
        params["config"] = json!({ "mcp_servers": servers(mcp) });
    }
    params
}

fn servers(servers: &[McpServer]) -> Map<String, Value> {
    let each = servers.iter().map(|server| {
        let mut config = match &server.reach {
            McpReach::Stdio { command, env } => {
                let (program, arguments) = mcp::program(command);
                json!({"command": program, "args": arguments, "env": mcp::values(env)})
            }
            McpReach::Http { url, headers } => {
                json!({"url": url, "http_headers": mcp::values(headers)})
            }
        };
        config["startup_timeout_sec"] = json!(mcp::START.as_secs());
        (server.name.clone(), config)
    });
    each.collect()
}

fn with_model(mut params: Value, model: &Option<String>) -> Value {
    if let Some(model) = model {
        params["model"] = json!(model);
    }
    params
}

/// The line of a call.
pub(crate) fn call_line(id: u64, call: &Call) -> Vec<u8> {
    line(&json!({"id": id, "method": call.method(), "params": call.params()}))
}

/// The line of the notification that ends the handshake.
pub(crate) fn initialized_line() -> Vec<u8> {
    line(&json!({"method": "initialized"}))
}

/// The line of an answer to a request of codex; the id goes back exactly as it came.
pub(crate) fn result_line(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"id": id, "result": result}))
}

/// The line of a refusal of a request of codex.
pub(crate) fn error_line(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(&json!({"id": id, "error": {"code": code, "message": message}}))
}
