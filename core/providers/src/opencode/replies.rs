//! Answers to calls of ours.

use super::{
    codec::id_of,
    commands::{self, Command},
    outgoing::Call,
    rules::{self, Rule},
};
use crate::{
    contract::FoundConversation,
    rpc::{
        CallFailure,
        frames::{self, cut, list, text_of, text_or_empty},
    },
};
use pilothouse_domain::{Mode, NativeId, limits};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of opencode's words in an error.
const WORDS: usize = 1024;
/// Providers whose ways to sign in are looked at, and those of one.
const PROVIDERS: usize = 512;
/// See [`PROVIDERS`].
const METHODS: usize = 32;
/// Bytes of a page's address.
const URL: usize = 4096;
/// Servers of tools that are looked at.
const SERVERS: usize = 256;
/// Models that are remembered.
const MODELS: usize = 4096;
/// Parts of a message of which the kind is remembered.
const PARTS: usize = 64;
/// Bytes of a path: Linux knows none that is longer.
const PATH: usize = 4096;
/// Bytes of a name of a provider, a model or a variant.
const NAME: usize = 256;
/// Agents that are remembered.
const AGENTS: usize = 256;

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// It is there.
    Health {
        /// Its version.
        version: String,
    },
    /// Its agents, by name.
    Agents(BTreeMap<String, Agent>),
    /// Its models.
    Models(Vec<Model>),
    /// Provider and model that it is configured to take where none is chosen.
    Configured(Option<(String, String)>),
    /// What can be said to it as a command, the first of its list.
    Commands(Vec<Command>),
    /// Conversations, the newest first.
    Listed(Vec<FoundConversation>),
    /// Files, the best first.
    Files(Vec<String>),
    /// The directory that calls are about.
    Place(String),
    /// Its servers of tools by their names, each with what is wrong with it.
    Servers(BTreeMap<String, Option<String>>),
    /// A conversation.
    Session(Box<Session>),
    /// Conversations that do something now; the others are idle.
    Working(BTreeMap<NativeId, Working>),
    /// Permissions or questions that wait, for [`super::Codec::waiting`].
    Waiting(Entries),
    /// Messages, for [`super::Codec::synchronise`] and [`super::Codec::past`].
    Messages(Entries),
    /// Conversations that work for another, for [`super::Codec::adopt_children`].
    Children(Entries),
    /// By provider, the places of those of its methods by which a person signs in at a page, in opencode's order.
    SignInMethods(BTreeMap<String, Vec<usize>>),
    /// What a person does to sign in.
    SignInBegun(SignInPage),
    /// Whether a sign-in came to its end.
    SignInEnded(bool),
    /// Taken.
    Done,
}

/// What a person does to sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInPage {
    /// The page to open.
    pub url: String,
    /// What opencode says with it; may be empty.
    pub instructions: String,
    /// Whether the page shows a code at its end that is to be given back.
    pub by_code: bool,
}

/// Entries of a list as opencode writes them: only the codec looks into them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entries(pub(super) Vec<Value>);

impl Entries {
    /// Forgets what files hold that stand in messages, as `data:` URLs of any length.
    pub(super) fn drop_files(&mut self) {
        let parts = self
            .0
            .iter_mut()
            .filter_map(|message| message.get_mut("parts"));
        for part in parts.filter_map(Value::as_array_mut).flatten() {
            drop_url(part);
            let attached = part.pointer_mut("/state/attachments");
            for file in attached.and_then(Value::as_array_mut).into_iter().flatten() {
                drop_url(file);
            }
        }
    }

    /// What tells messages and the beginnings of turns from one another, without what is said in them.
    pub(super) fn outlined(&self) -> Self {
        let outline = |message: &Value| {
            let info = message.get("info").unwrap_or(&Value::Null);
            let parts = list(message, "parts").iter().map(|part| {
                json!({ "type": text_or_empty(part, "type"), "synthetic": part.get("synthetic") })
            });
            json!({
                "info": { "id": cut(&text_or_empty(info, "id"), WORDS), "role": text_or_empty(info, "role") },
                "parts": parts.take(PARTS).collect::<Vec<_>>(),
            })
        };
        Self(self.0.iter().map(outline).collect())
    }
}

fn drop_url(part: &mut Value) {
    if let Some(url) = part.get_mut("url")
        && url.as_str().is_some_and(|url| url.starts_with("data:"))
    {
        *url = Value::Null;
    }
}

/// What a conversation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Working {
    /// It works.
    Busy,
    /// It waits to try again.
    Retrying,
}

/// An agent of opencode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Whether a person can choose it.
    pub primary: bool,
    /// What it may do without asking.
    pub rules: Vec<Rule>,
    /// Provider and model that it is configured with.
    pub model: Option<(String, String)>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Who serves it.
    pub provider: String,
    /// Its id there.
    pub id: String,
    /// For a person.
    pub name: String,
    /// Its variants, which are its efforts.
    pub variants: Vec<String>,
    /// Size of its context, tokens.
    pub context: Option<u64>,
    /// Whether it takes images.
    pub images: bool,
    /// Whether it takes PDF documents.
    pub documents: bool,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: NativeId,
    /// Where it works.
    pub directory: String,
    /// The conversation that it works for.
    pub parent: Option<NativeId>,
    /// When it was made, Unix ms; 0 if opencode does not say.
    pub created_ms: u64,
    /// Its own rules, in order.
    pub rules: Vec<Rule>,
    /// Provider and model of its last turn, which the next one has if none is chosen.
    pub model: Option<(String, String)>,
    /// Messages from this one on were taken back and are still there.
    pub reverted: Option<NativeId>,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such conversation, message or request.
    #[error("opencode has no such thing: {message}")]
    NotFound {
        /// Its words.
        message: String,
    },
    /// It refused.
    #[error("opencode refused {method}: {message} (HTTP {status})")]
    Refused {
        /// The call's name.
        method: String,
        /// HTTP's number.
        status: u16,
        /// Its words.
        message: String,
    },
    /// It takes another password.
    #[error(
        "it refuses the password; enter the one that it was started with (OPENCODE_SERVER_PASSWORD)"
    )]
    WrongPassword,
    /// A conversation's rules are not those that were given.
    #[error("opencode did not take the rules of the mode {}: nothing was sent; update it, or choose another mode", mode.name())]
    RulesNotTaken {
        /// The mode.
        mode: Mode,
    },
    /// The answer could not be read.
    #[error("opencode's answer to {method} could not be read: {problem}")]
    Unreadable {
        /// The call's name.
        method: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The answer is longer than is read.
    #[error("opencode's answer to {method} is too long")]
    TooLong {
        /// The call's name.
        method: String,
    },
    /// No answer came in time.
    #[error("opencode did not answer {method} within {seconds} s")]
    Timeout {
        /// The call's name.
        method: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It could not be reached: nothing was said.
    #[error("opencode could not be reached: {problem}")]
    Unreachable {
        /// What the system says.
        problem: String,
    },
    /// The connection of this call or the process ended before it answered.
    #[error("the connection was cut before opencode answered")]
    Lost,
}

impl CallError {
    /// Whether the same call may be answered later: the network failed or somebody between us, not opencode.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Lost => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 502..=504),
            Self::NotFound { .. }
            | Self::WrongPassword
            | Self::RulesNotTaken { .. }
            | Self::Unreadable { .. }
            | Self::TooLong { .. } => false,
        }
    }

    /// Whether opencode may have done what it was called for all the same: no answer of its own was read. Somebody between us may
    /// have given up waiting for one.
    pub(super) fn may_be_done(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Lost | Self::Unreadable { .. } | Self::TooLong { .. } => {
                true
            }
            Self::Refused { status, .. } => matches!(status, 408 | 502..=504),
            Self::NotFound { .. }
            | Self::Unreachable { .. }
            | Self::WrongPassword
            | Self::RulesNotTaken { .. } => false,
        }
    }
}

impl CallFailure for CallError {
    fn lost() -> Self {
        Self::Lost
    }

    fn timeout(method: String, seconds: u64) -> Self {
        Self::Timeout { method, seconds }
    }
}

/// Reads an HTTP answer.
pub(super) fn read(call: &Call, status: u16, body: &[u8]) -> Result<Reply, CallError> {
    let text = String::from_utf8_lossy(body);
    if !(200..300).contains(&status) {
        let message = words(&text);
        return Err(match status {
            404 => CallError::NotFound { message },
            status => CallError::Refused {
                method: call.name().to_owned(),
                status,
                message,
            },
        });
    }
    let unreadable = |problem: String| CallError::Unreadable {
        method: call.name().to_owned(),
        problem: cut(&problem, 200),
    };
    if matches!(
        call,
        Call::Prompt(_)
            | Call::Abort { .. }
            | Call::Look
            | Call::Reply { .. }
            | Call::Delete { .. }
            | Call::Summarize { .. }
            | Call::Forget { .. }
    ) {
        return Ok(Reply::Done);
    }
    let mut value = frames::json(&text).map_err(|error| unreadable(error.to_string()))?;
    let shape = |what: &str| unreadable(format!("it is no {what}"));
    match call {
        Call::Health => Ok(Reply::Health {
            version: text_of(&value, "version")
                .map_or_else(|| "unknown".to_owned(), |version| cut(&version, 64)),
        }),
        Call::Agents => Ok(Reply::Agents(agents(&value).ok_or_else(|| shape("list"))?)),
        Call::Providers => Ok(Reply::Models(models(&value))),
        Call::Config => Ok(Reply::Configured(
            text_of(&value, "model").and_then(|model| named(&model)),
        )),
        Call::Servers { .. } | Call::AddServer { .. } => servers(&value)
            .map(Reply::Servers)
            .ok_or_else(|| shape("object")),
        Call::SignInMethods => sign_in_methods(&value)
            .map(Reply::SignInMethods)
            .ok_or_else(|| shape("object")),
        Call::BeginSignIn { .. } => sign_in_page(&value)
            .map(Reply::SignInBegun)
            .ok_or_else(|| shape("page to sign in at")),
        Call::EndSignIn { .. } => Ok(Reply::SignInEnded(value == Value::Bool(true))),
        Call::Place => text_of(&value, "directory")
            .map(Reply::Place)
            .ok_or_else(|| shape("directory")),
        Call::Create { .. } | Call::Get { .. } | Call::Permit { .. } | Call::Fork { .. } => {
            session(&value)
                .map(|session| Reply::Session(Box::new(session)))
                .ok_or_else(|| shape("conversation"))
        }
        Call::Status { .. } => working(&value)
            .map(Reply::Working)
            .ok_or_else(|| shape("object")),
        _ => {
            let Some(entries) = value.as_array_mut() else {
                return Err(shape("list"));
            };
            let entries = Entries(std::mem::take(entries));
            Ok(match call {
                Call::Messages { .. } => Reply::Messages(entries),
                Call::Children { .. } => Reply::Children(entries),
                Call::Commands => {
                    let read = entries.0.iter().filter_map(commands::read);
                    Reply::Commands(read.take(limits::OFFERED_COMMANDS).collect())
                }
                Call::List { .. } => Reply::Listed(entries.0.iter().filter_map(found).collect()),
                Call::FindFiles { .. } => Reply::Files(
                    entries
                        .0
                        .iter()
                        .filter_map(Value::as_str)
                        .map(ToOwned::to_owned)
                        .collect(),
                ),
                _ => Reply::Waiting(entries),
            })
        }
    }
}

/// An error's words: opencode writes them in two shapes, and of some errors only the name.
fn words(text: &str) -> String {
    let told = frames::json(text).ok().and_then(|value| {
        text_of(&value, "message")
            .or_else(|| text_of(value.get("data")?, "message"))
            .or_else(|| text_of(&value, "name"))
    });
    cut(&told.unwrap_or_else(|| text.to_owned()), WORDS)
}

/// The ways to sign in at a page of the first providers.
fn sign_in_methods(value: &Value) -> Option<BTreeMap<String, Vec<usize>>> {
    let each = value.as_object()?.iter().take(PROVIDERS);
    let at_a_page = |methods: &Value| {
        let methods = methods.as_array().into_iter().flatten().take(METHODS);
        let methods = methods.enumerate();
        methods
            .filter(|(_, method)| text_or_empty(method, "type") == "oauth")
            .map(|(place, _)| place)
            .collect()
    };
    Some(
        each.map(|(name, methods)| (name.clone(), at_a_page(methods)))
            .collect(),
    )
}

fn sign_in_page(value: &Value) -> Option<SignInPage> {
    Some(SignInPage {
        url: text_of(value, "url").filter(|url| (1..=URL).contains(&url.len()))?,
        instructions: cut(&text_or_empty(value, "instructions"), WORDS),
        by_code: match text_or_empty(value, "method").as_str() {
            "auto" => false,
            "code" => true,
            _ => return None,
        },
    })
}

/// The first servers, by their names.
fn servers(value: &Value) -> Option<BTreeMap<String, Option<String>>> {
    let each = value.as_object()?.iter().take(SERVERS);
    let problem = |server: &Value| match text_or_empty(server, "status").as_str() {
        "connected" => None,
        "failed" => Some(cut(&text_or_empty(server, "error"), WORDS)),
        "needs_auth" | "needs_client_registration" => {
            Some("it needs a sign-in on the host: `opencode mcp auth`".to_owned())
        }
        other => Some(format!("opencode calls it `{}`", cut(other, 64))),
    };
    Some(
        each.map(|(name, server)| (cut(name, 128), problem(server)))
            .collect(),
    )
}

fn agents(value: &Value) -> Option<BTreeMap<String, Agent>> {
    let read = value.as_array()?.iter().take(AGENTS).filter_map(|agent| {
        let hidden = agent.get("hidden") == Some(&Value::Bool(true));
        let known = Agent {
            primary: !hidden && text_or_empty(agent, "mode") != "subagent",
            rules: rules::read(agent, "permission"),
            model: agent.get("model").and_then(|model| {
                Some((text_of(model, "providerID")?, text_of(model, "modelID")?))
            }),
        };
        Some((text_of(agent, "name")?, known))
    });
    Some(read.collect())
}

/// Provider and model of a name as `provider/model`.
pub(super) fn named(model: &str) -> Option<(String, String)> {
    let (provider, id) = model.split_once('/')?;
    Some((provider.to_owned(), id.to_owned()))
}

fn models(value: &Value) -> Vec<Model> {
    let mut models = Vec::new();
    for provider in list(value, "providers") {
        let name = cut(&text_or_empty(provider, "id"), NAME);
        let of_provider = provider.get("models").and_then(Value::as_object);
        for (id, model) in of_provider.into_iter().flatten() {
            if models.len() == MODELS {
                return models;
            }
            let variants = model.get("variants").and_then(Value::as_object);
            let takes = |what: &str| {
                model.pointer(&format!("/capabilities/input/{what}")) == Some(&Value::Bool(true))
            };
            if id.len() > NAME {
                continue;
            }
            models.push(Model {
                provider: name.clone(),
                id: id.clone(),
                name: cut(
                    model.get("name").and_then(Value::as_str).unwrap_or(id),
                    NAME,
                ),
                variants: variants
                    .into_iter()
                    .flat_map(|variants| {
                        variants
                            .keys()
                            .take(32)
                            .filter(|name| name.len() <= NAME)
                            .cloned()
                    })
                    .collect(),
                context: model.pointer("/limit/context").and_then(Value::as_u64),
                images: takes("image"),
                documents: takes("pdf"),
            });
        }
    }
    models
}

/// Reads a conversation's description; one whose ids or directory are of no sensible length is none.
pub(super) fn session(value: &Value) -> Option<Session> {
    Some(Session {
        id: id_of(value, "id")?,
        directory: Some(text_or_empty(value, "directory")).filter(|path| path.len() <= PATH)?,
        parent: match value.get("parentID") {
            None | Some(Value::Null) => None,
            Some(_) => Some(id_of(value, "parentID")?),
        },
        created_ms: value
            .pointer("/time/created")
            .and_then(Value::as_u64)
            .unwrap_or(0),
        rules: rules::read(value, "permission"),
        model: value
            .get("model")
            .and_then(|model| Some((text_of(model, "providerID")?, text_of(model, "id")?))),
        reverted: value
            .get("revert")
            .and_then(|revert| id_of(revert, "messageID")),
    })
}

/// Reads a conversation of a list.
fn found(value: &Value) -> Option<FoundConversation> {
    Some(FoundConversation {
        id: session(value)?.id,
        title: text_or_empty(value, "title"),
        updated_at_ms: value.pointer("/time/updated").and_then(Value::as_u64),
    })
}

fn working(value: &Value) -> Option<BTreeMap<NativeId, Working>> {
    let read = value.as_object()?.iter().filter_map(|(session, status)| {
        let working = match text_or_empty(status, "type").as_str() {
            "idle" => return None,
            "retry" => Working::Retrying,
            _ => Working::Busy,
        };
        Some((NativeId(session.clone()), working))
    });
    Some(read.collect())
}
