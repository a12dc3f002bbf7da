//! Calls of ours as HTTP requests (opencode 1.18.33, `GET /doc`).

use super::{commands::Named, rules::Rule};
use crate::mcp::{self, McpReach, McpServer};
use pilothouse_domain::NativeId;
use serde_json::{Value, json};

/// A call of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Whether it is there, and its version.
    Health,
    /// Its agents, with what each may do.
    Agents,
    /// Its models.
    Providers,
    /// Its configuration.
    Config,
    /// What can be said to it as a command.
    Commands,
    /// Where the directory is that every call is about, symbolic links followed.
    Place,
    /// What is in that directory.
    Look,
    /// Conversations of a directory, the newest first; subagents' are none.
    List {
        /// Where they work.
        directory: String,
        /// At most so many.
        limit: u32,
    },
    /// Files of a directory by a part of their path, the best first.
    FindFiles {
        /// Which directory.
        directory: String,
        /// The part.
        text: String,
        /// At most so many; opencode takes 1 to 200.
        limit: u32,
    },
    /// How its servers of tools stand in a directory.
    Servers {
        /// Which directory.
        directory: String,
    },
    /// Adds a server of tools for a directory until opencode ends, in place of one of its name; answered when it has started,
    /// or has not.
    AddServer {
        /// Which directory.
        directory: String,
        /// The server.
        server: McpServer,
    },
    /// Begins a conversation.
    Create {
        /// Where it works.
        directory: String,
        /// What it may do without asking.
        rules: Vec<Rule>,
    },
    /// What a conversation is.
    Get {
        /// Which.
        session: NativeId,
    },
    /// Adds to what a conversation may do without asking; the last rule that fits holds.
    Permit {
        /// Which.
        session: NativeId,
        /// The rules.
        rules: Vec<Rule>,
    },
    /// Starts a turn.
    Prompt(Box<Prompt>),
    /// Stops what a conversation does.
    Abort {
        /// Which.
        session: NativeId,
    },
    /// What every conversation of a directory does now.
    Status {
        /// Which directory.
        directory: String,
    },
    /// Permissions that wait in a directory.
    Permissions {
        /// Which directory.
        directory: String,
    },
    /// Questions that wait in a directory.
    Questions {
        /// Which directory.
        directory: String,
    },
    /// Messages of a conversation, oldest first.
    Messages {
        /// Which.
        session: NativeId,
        /// At most so many.
        limit: u32,
        /// Where the page after them ended, as opencode said with it; without it the last ones.
        before: Option<String>,
    },
    /// Conversations that work for another.
    Children {
        /// The other.
        session: NativeId,
    },
    /// Answers a permission or a question.
    Reply {
        /// Its id, as opencode writes it.
        request: String,
        /// Whether it is a question.
        question: bool,
        /// What is sent, as the interface wants it for that answer.
        body: Value,
    },
    /// Copies a conversation.
    Fork {
        /// Which.
        session: NativeId,
        /// The message before which the copy ends; all of it without one.
        before: Option<NativeId>,
    },
    /// Takes one message out of a conversation. Files stay as they are.
    Delete {
        /// Which conversation.
        session: NativeId,
        /// The message.
        message: NativeId,
    },
    /// How each provider can be signed in to.
    SignInMethods,
    /// Begins to sign in to a provider.
    BeginSignIn {
        /// Which.
        provider: String,
        /// The place of the method in its list.
        method: usize,
    },
    /// Waits until the sign-in that was begun last to a provider is over, or ends it with a code.
    EndSignIn {
        /// Which.
        provider: String,
        /// The place of the method in its list.
        method: usize,
        /// What the page shows at its end, where the method wants it.
        code: Option<Code>,
    },
    /// Has what was read of a directory's configuration and sign-ins forgotten; what goes on there is stopped.
    Forget {
        /// Which directory.
        directory: String,
    },
    /// Shortens a conversation's context.
    Summarize {
        /// Which.
        session: NativeId,
        /// The model that does it.
        provider: String,
        /// See `provider`.
        model: String,
    },
}

/// A code that signs somebody in: nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(pub String);

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code")
    }
}

/// A message that starts a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The conversation.
    pub session: NativeId,
    /// The message's id, which is ours, and the turn's.
    pub turn: NativeId,
    /// What is said.
    pub text: String,
    /// The command that it is, in place of the text: this call is answered when the turn is over.
    pub command: Option<Named>,
    /// What is attached, in order.
    pub files: Vec<File>,
    /// The agent of opencode that is to work, if not its default.
    pub agent: Option<String>,
    /// Provider and model, if not the conversation's.
    pub model: Option<(String, String)>,
    /// The model's variant, which is its effort.
    pub variant: Option<String>,
}

/// A file that goes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name; no path.
    pub name: String,
    /// Its MIME type.
    pub media_type: &'static str,
    /// Its bytes as a `data:` URL.
    pub url: String,
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, `PATCH` or `DELETE`.
    pub method: &'static str,
    /// Path and query, percent-encoded.
    pub path: String,
    /// JSON, if it has a body.
    pub body: Option<Value>,
}

impl Call {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Health => "its health",
            Self::Agents => "its agents",
            Self::Providers => "its models",
            Self::Config => "its configuration",
            Self::Commands => "its commands",
            Self::Place => "its directory",
            Self::Look => "the files of its directory",
            Self::List { .. } => "its conversations",
            Self::FindFiles { .. } => "files by name",
            Self::Servers { .. } => "its MCP servers",
            Self::AddServer { .. } => "an MCP server",
            Self::Create { .. } => "a new conversation",
            Self::Get { .. } => "a conversation",
            Self::Permit { .. } => "a change of permissions",
            Self::Prompt(_) => "a prompt",
            Self::Abort { .. } => "an abort",
            Self::Status { .. } => "its status",
            Self::Permissions { .. } => "its permissions",
            Self::Questions { .. } => "its questions",
            Self::Messages { .. } => "a conversation's messages",
            Self::Children { .. } => "a conversation's subagents",
            Self::Reply { .. } => "an answer",
            Self::Fork { .. } => "a fork",
            Self::Delete { .. } => "the deletion of a message",
            Self::SignInMethods => "its ways to sign in",
            Self::BeginSignIn { .. } => "a sign-in",
            Self::EndSignIn { .. } => "the end of a sign-in",
            Self::Forget { .. } => "a new beginning",
            Self::Summarize { .. } => "a compaction",
        }
    }

    /// The request that makes it.
    pub fn request(&self) -> Request {
        let get = |path: String| Request {
            method: "GET",
            path,
            body: None,
        };
        let post = |path: String, body: Value| Request {
            method: "POST",
            path,
            body: Some(body),
        };
        let of = |session: &NativeId, what: &str| format!("/session/{}{what}", encoded(&session.0));
        let at = |path: &str, directory: &str| format!("{path}?directory={}", encoded(directory));
        match self {
            Self::Health => get("/global/health".to_owned()),
            Self::Agents => get("/agent".to_owned()),
            Self::Providers => get("/config/providers".to_owned()),
            Self::Config => get("/config".to_owned()),
            Self::Commands => get("/command".to_owned()),
            Self::Place => get("/path".to_owned()),
            Self::Look => get("/file?path=.".to_owned()),
            Self::List { directory, limit } => get(format!(
                "{}&roots=true&limit={limit}",
                at("/session", directory)
            )),
            Self::FindFiles {
                directory,
                text,
                limit,
            } => get(format!(
                "{}&query={}&type=file&limit={limit}",
                at("/find/file", directory),
                encoded(text)
            )),
            Self::Servers { directory } => get(at("/mcp", directory)),
            Self::AddServer { directory, server } => {
                let body = json!({ "name": server.name, "config": config(server) });
                post(at("/mcp", directory), body)
            }
            Self::Create { directory, rules } => {
                let body = json!({ "permission": rules_json(rules) });
                post(at("/session", directory), body)
            }
            Self::Get { session } => get(of(session, "")),
            Self::Permit { session, rules } => Request {
                method: "PATCH",
                path: of(session, ""),
                body: Some(json!({ "permission": rules_json(rules) })),
            },
            Self::Prompt(prompt) => {
                let path = match prompt.command {
                    Some(_) => "/command",
                    None => "/prompt_async",
                };
                post(of(&prompt.session, path), prompt.body())
            }
            Self::Abort { session } => post(of(session, "/abort"), json!({})),
            Self::Status { directory } => get(at("/session/status", directory)),
            Self::Permissions { directory } => get(at("/permission", directory)),
            Self::Questions { directory } => get(at("/question", directory)),
            Self::Messages {
                session,
                limit,
                before,
            } => {
                let path = format!("{}?limit={limit}", of(session, "/message"));
                get(match before {
                    Some(before) => format!("{path}&before={}", encoded(before)),
                    None => path,
                })
            }
            Self::Children { session } => get(of(session, "/children")),
            Self::Reply {
                request,
                question,
                body,
            } => {
                let request = encoded(request);
                match (question, body.get("answers")) {
                    (false, _) => post(format!("/permission/{request}/reply"), body.clone()),
                    (true, Some(_)) => post(format!("/question/{request}/reply"), body.clone()),
                    (true, None) => post(format!("/question/{request}/reject"), json!({})),
                }
            }
            Self::Fork { session, before } => {
                let body = match before {
                    Some(message) => json!({ "messageID": message.0 }),
                    None => json!({}),
                };
                post(of(session, "/fork"), body)
            }
            Self::Delete { session, message } => Request {
                method: "DELETE",
                path: of(session, &format!("/message/{}", encoded(&message.0))),
                body: None,
            },
            Self::SignInMethods => get("/provider/auth".to_owned()),
            Self::BeginSignIn { provider, method } => post(
                format!("/provider/{}/oauth/authorize", encoded(provider)),
                json!({ "method": method }),
            ),
            Self::EndSignIn {
                provider,
                method,
                code,
            } => {
                let body = match code {
                    Some(Code(code)) => json!({ "method": method, "code": code }),
                    None => json!({ "method": method }),
                };
                post(
                    format!("/provider/{}/oauth/callback", encoded(provider)),
                    body,
                )
            }
            Self::Forget { directory } => post(at("/instance/dispose", directory), json!({})),
            Self::Summarize {
                session,
                provider,
                model,
            } => {
                let body = json!({ "providerID": provider, "modelID": model });
                post(of(session, "/summarize"), body)
            }
        }
    }
}

impl Prompt {
    fn body(&self) -> Value {
        let mut parts = Vec::new();
        if self.command.is_none() && (!self.text.is_empty() || self.files.is_empty()) {
            parts.push(json!({ "type": "text", "text": self.text }));
        }
        for File {
            name,
            media_type,
            url,
        } in &self.files
        {
            parts.push(json!({ "type": "file", "mime": media_type, "filename": name, "url": url }));
        }
        let mut body = json!({ "messageID": self.turn.0, "parts": parts });
        if let Some(agent) = &self.agent {
            body["agent"] = json!(agent);
        }
        if let Some((provider, model)) = &self.model {
            body["model"] = match self.command {
                Some(_) => json!(format!("{provider}/{model}")),
                None => json!({ "providerID": provider, "modelID": model }),
            };
        }
        if let Some(command) = &self.command {
            body["command"] = json!(command.name);
            body["arguments"] = json!(command.arguments);
        }
        if let Some(variant) = &self.variant {
            body["variant"] = json!(variant);
        }
        body
    }
}

fn config(server: &McpServer) -> Value {
    let mut config = match &server.reach {
        McpReach::Stdio { command, env } => {
            json!({"type": "local", "command": command, "environment": mcp::values(env)})
        }
        McpReach::Http { url, headers } => {
            json!({"type": "remote", "url": url, "headers": mcp::values(headers)})
        }
    };
    config["timeout"] = json!(mcp::START.as_millis() as u64);
    config
}

fn rules_json(rules: &[Rule]) -> Vec<Value> {
    rules.iter().map(Rule::json).collect()
}

/// A text as a segment of a path or a value of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Where a message id of ours begins to hold the id under which the ledger knows the message.
const MARK: char = '-';

/// The id of a message of ours. opencode orders a conversation by its messages' ids, which begin with the time in 48 bits
/// (ms × 4096); what follows is free, and holds our message's id, so that history names it.
pub(super) fn message_id(now_ms: u64, client_id: &str) -> NativeId {
    let time = now_ms.wrapping_mul(0x1000) & 0xffff_ffff_ffff;
    NativeId(format!("msg_{time:012x}{MARK}{}", encoded(client_id)))
}

/// The id under which the ledger knows a message, if it is one of ours.
pub(super) fn client_id(message: &NativeId) -> Option<String> {
    let (head, id) = message.0.split_once(MARK)?;
    (head.len() == 16 && head.starts_with("msg_") && !id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_of_ours_sorts_by_time_and_gives_our_id_back() {
        let first = message_id(1_796_041_335_833, "0123abcd");
        assert_eq!(first.0, "msg_22c67e419000-0123abcd");
        assert!(first < message_id(1_796_041_335_834, "0000"));
        // opencode's own of the same millisecond comes after it.
        assert!(first.0.as_str() < "msg_22c67e419001QmYF3MRcAhhK4H");
        assert_eq!(client_id(&first).as_deref(), Some("0123abcd"));
        for foreign in [
            "msg_22c67e419001QmYF3MRcAhhK4H",
            "msg_-x",
            "",
            "msg_22c67e419000-",
        ] {
            assert_eq!(client_id(&NativeId::from(foreign)), None, "{foreign}");
        }
    }

    #[test]
    fn what_stands_in_a_path_is_encoded() {
        let request = Call::Get {
            session: NativeId::from("../x?y#z é"),
        };
        assert_eq!(request.request().path, "/session/..%2Fx%3Fy%23z%20%C3%A9");
    }
}
