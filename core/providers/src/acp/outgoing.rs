//! What we send: one typed call per method that is used.

use crate::{
    mcp::{self, Hidden, McpReach, McpServer},
    rpc::line,
};
use pilothouse_domain::NativeId;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf};

/// The protocol's version that is spoken.
pub const PROTOCOL: u64 = 1;

/// A call to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The handshake. Neither files nor terminals are offered: agents use their own.
    Initialize {
        /// Our version.
        version: String,
    },
    /// Starts a conversation.
    New {
        /// Where it works.
        cwd: PathBuf,
        /// Servers of tools that it is given.
        mcp: Vec<McpServer>,
    },
    /// Loads a conversation; the agent tells its whole history before it answers.
    Load {
        /// Which.
        session: NativeId,
        /// Where it works.
        cwd: PathBuf,
        /// Servers of tools that it is given.
        mcp: Vec<McpServer>,
    },
    /// Loads a conversation without its history.
    Resume {
        /// Which.
        session: NativeId,
        /// Where it works.
        cwd: PathBuf,
        /// Servers of tools that it is given.
        mcp: Vec<McpServer>,
    },
    /// Starts a turn; its answer ends the turn.
    Prompt {
        /// In which conversation.
        session: NativeId,
        /// The turn's id, which is ours: the protocol has none.
        turn: NativeId,
        /// What is said.
        text: String,
    },
    /// Sets the mode, where an agent has no option for it.
    SetMode {
        /// Of which conversation.
        session: NativeId,
        /// As the agent names it.
        mode: String,
    },
    /// Sets an option.
    SetConfig {
        /// Of which conversation.
        session: NativeId,
        /// The option.
        config: String,
        /// As the agent names it.
        value: String,
    },
    /// Sets the model, where an agent still has a call of its own for it.
    SetModel {
        /// Of which conversation.
        session: NativeId,
        /// As the agent names it.
        model: String,
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
            Self::New { .. } => "session/new",
            Self::Load { .. } => "session/load",
            Self::Resume { .. } => "session/resume",
            Self::Prompt { .. } => "session/prompt",
            Self::SetMode { .. } => "session/set_mode",
            Self::SetConfig { .. } => "session/set_config_option",
            Self::SetModel { .. } => "session/set_model",
            Self::Foreign { method } => method,
        }
    }

    /// Its parameters.
    pub(crate) fn params(&self) -> Value {
        match self {
            Self::Initialize { version } => json!({
                "protocolVersion": PROTOCOL,
                "clientCapabilities": {
                    "fs": {"readTextFile": false, "writeTextFile": false},
                    "terminal": false,
                    "elicitation": {"form": {}, "url": {}},
                    "plan": {},
                    "subagents": {},
                    "session": {"compaction": {}, "notices": {}},
                },
                "clientInfo": {"name": "pilothouse", "title": "Pilothouse", "version": version},
            }),
            Self::New { cwd, mcp } => json!({"cwd": cwd, "mcpServers": servers(mcp)}),
            Self::Load { session, cwd, mcp } | Self::Resume { session, cwd, mcp } => {
                json!({"sessionId": session, "cwd": cwd, "mcpServers": servers(mcp)})
            }
            Self::Prompt { session, text, .. } => json!({
                "sessionId": session,
                "prompt": [{"type": "text", "text": text}],
            }),
            Self::SetMode { session, mode } => json!({"sessionId": session, "modeId": mode}),
            Self::SetConfig {
                session,
                config,
                value,
            } => json!({"sessionId": session, "configId": config, "value": value}),
            Self::SetModel { session, model } => json!({"sessionId": session, "modelId": model}),
            Self::Foreign { .. } => json!({}),
        }
    }
}

fn servers(servers: &[McpServer]) -> Vec<Value> {
    let pairs = |values: &BTreeMap<String, Hidden>| {
        let each = values.iter();
        each.map(|(name, value)| json!({"name": name, "value": value.0}))
            .collect::<Vec<_>>()
    };
    let each = servers.iter().map(|server| match &server.reach {
        McpReach::Stdio { command, env } => {
            let (program, arguments) = mcp::program(command);
            json!({"name": server.name, "command": program, "args": arguments, "env": pairs(env)})
        }
        McpReach::Http { url, headers } => {
            json!({"type": "http", "name": server.name, "url": url, "headers": pairs(headers)})
        }
    });
    each.collect()
}

/// The line of a call.
pub(crate) fn call_line(id: u64, call: &Call) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": call.method(), "params": call.params()}))
}

/// The line that stops a conversation's turn.
pub(crate) fn cancel_line(session: &NativeId) -> Vec<u8> {
    let params = json!({"sessionId": session});
    line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
}

/// The line of an answer to a request of the agent; the id goes back exactly as it came.
pub(crate) fn result_line(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// The line of a refusal of a request of the agent.
pub(crate) fn error_line(id: &Value, code: i64, message: &str) -> Vec<u8> {
    let error = json!({"code": code, "message": message});
    line(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}
