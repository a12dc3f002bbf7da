//! The adapter contract: what a ledger can ask of an agent, near or far.
//!
//! Required operations are methods; optional ones are reached only through an accessor that returns `None` where the
//! running agent does not offer them, so an unsupported call cannot be written.

mod reverting;

pub use reverting::{RevertError, Reverted};

use crate::{mcp::McpServers, naming::FindFiles};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    AgentName, Answer, Capabilities, Incarnation, Mode, NativeId, ProviderEvent, Subject,
    policy::{Contract, Sandbox},
    provider::{OfferedCommand, OfferedModel},
    request::{AnswerDelivery, RequestKind},
    run::RunError,
    thread::Selection,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::mpsc;

/// Events of one agent process, in the order it sent them. Bounded: a full channel stops reading the agent.
pub type EventSender = mpsc::Sender<RuntimeEvents>;

/// A batch of events of one life of an agent's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeEvents {
    /// Which life of the process.
    pub incarnation: Incarnation,
    /// What it sent, in order; never empty.
    pub events: Vec<ProviderEvent>,
}

/// A protocol family: how to start agents that speak it.
pub trait ProviderAdapter: Send + Sync + 'static {
    /// Its name in host.toml, e.g. `codex`.
    fn family(&self) -> &'static str;
    /// What its agents can do as far as measured, before any handshake.
    fn profile(&self) -> Capabilities;
    /// Modes that its agents can be given.
    fn modes(&self) -> Vec<Mode>;
    /// How many app threads one process serves.
    fn sharing(&self) -> ProcessSharing;
    /// Before what its agents have to ask, with this environment and these modes configured. What was not measured is not
    /// demanded.
    fn contract(&self, env: &BTreeMap<String, String>, modes: &BTreeMap<Mode, String>) -> Contract {
        let _ = (env, modes);
        Contract::default()
    }
    /// Whether an agent that is started so, and would run in that sandbox, can be given servers of tools ([`Launch::mcp`]).
    ///
    /// # Errors
    /// Why not, in words for a person.
    fn takes_mcp(&self, command: &[String], sandbox: Option<Sandbox>) -> Result<(), &'static str> {
        let _ = (command, sandbox);
        Err("it is no agent of its own")
    }
    /// Whether its processes outlive the host and can be taken up again ([`Self::attach`]).
    fn outlives_host(&self) -> bool {
        false
    }
    /// Whether its agents run where no process of theirs is this ledger's: what is started here is a connection, what ends here
    /// is one. They outlive the ledger, [`Self::attach`] connects anew, and what they were doing is never taken for lost because
    /// a connection was.
    fn runs_elsewhere(&self) -> bool {
        false
    }
    /// Takes up a process that an earlier host left running, as [`Self::start`] does with a new one. `record` is the file that
    /// says which it is ([`crate::process::detached`]); `launch` names its incarnation and what is configured.
    fn attach(
        &self,
        launch: Launch,
        record: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        let _ = (record, events);
        Box::pin(async move {
            Err(StartError::Spawn {
                agent: launch.agent,
                program: String::new(),
                problem: "its family's processes do not outlive the host".to_owned(),
            })
        })
    }
    /// The conversations that its agents have on this machine, where that is known without a process of theirs.
    fn conversations(&self, launch: &Launch) -> Option<Arc<dyn Conversations>> {
        let _ = launch;
        None
    }
    /// Starts a process and takes its handshake. `SessionReady` is the first event; after `SessionEnded`, which comes
    /// exactly once however the process ends, no other follows.
    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>>;
}

/// How many app threads one agent process serves (DETAILS section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSharing {
    /// One process for all threads of an agent instance.
    PerAgent,
    /// One process for all threads of a workspace.
    PerWorkspace,
    /// One process for each thread.
    PerThread,
}

/// How to start an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The agent instance.
    pub agent: AgentName,
    /// The life it is about to have.
    pub incarnation: Incarnation,
    /// Program and arguments, as configured.
    pub command: Vec<String>,
    /// Environment added to the host's own.
    pub env: BTreeMap<String, String>,
    /// How modes are said to this agent, where its family leaves that to agents and the person configured it.
    pub modes: BTreeMap<Mode, String>,
    /// Servers of tools that it is given beside its own, to be looked up for each conversation.
    pub mcp: McpServers,
    /// Working directory.
    pub cwd: PathBuf,
    /// Program and arguments put before `command`: re-executes the host as `agent-exec`, which sets the death signal and
    /// the process group and then becomes the agent. Empty in tests that need no supervision.
    pub wrapper: Vec<String>,
    /// In what an agent is to run that does not ask before it acts, as its thread chose; `None` for one that is to ask. Of
    /// families whose agents ask by themselves it is `None`.
    pub sandbox: Option<Sandbox>,
    /// The conversation that the process is started for, where one serves a single thread: some agents are told which, and
    /// some of how it is to work, only when they are started. [`AgentRuntime::open_thread`] follows with the same.
    pub opens: Option<OpenThread>,
    /// Where the driver writes the agent's process id, so that a restarted host can kill it before it reconciles.
    pub pid_file: Option<PathBuf>,
}

/// A running agent.
pub trait AgentRuntime: Send + Sync {
    /// What it can do, as known now.
    fn capabilities(&self) -> Capabilities;
    /// Its process id, if it has one of its own on this machine.
    fn process_id(&self) -> Option<u32>;
    /// Starts a native conversation, or resumes one.
    fn open_thread(&self, open: OpenThread) -> BoxFuture<'_, Result<NativeId, OpenError>>;
    /// Starts a turn. Never steers: where the agent would take it as steering, the answer is [`SendError::Busy`].
    fn send_turn(&self, send: SendTurn) -> BoxFuture<'_, Result<TurnAccepted, SendError>>;
    /// Gives an answer to the agent.
    fn respond(&self, response: Response) -> BoxFuture<'_, Result<AnswerDelivery, RespondError>>;
    /// Ends the process: input closed, then SIGTERM, then SIGKILL to its group. `SessionEnded` follows.
    fn stop(&self) -> BoxFuture<'_, ()>;
    /// Sends a signal to the agent's process group (the visible escalation of an interrupt).
    fn signal(&self, signal: Escalation) -> std::io::Result<()>;

    /// Puts words into a running turn.
    fn steering(&self) -> Option<&dyn Steering>;
    /// Stops a running turn.
    fn interrupting(&self) -> Option<&dyn Interrupting>;
    /// Reads a conversation back.
    fn history(&self) -> Option<&dyn History>;
    /// Requests that it waits for an answer to; `None` where that is not known. An agent that was taken up again may ask once
    /// more what it asked: those that are `expected` are waited for as long as its family says.
    fn pending<'r>(&'r self, expected: &'r [NativeId]) -> BoxFuture<'r, Option<Vec<NativeId>>> {
        let _ = expected;
        Box::pin(std::future::ready(None))
    }
    /// Begins a conversation as a copy of another.
    fn forking(&self) -> Option<&dyn Forking> {
        None
    }
    /// Takes back the last turns of a conversation.
    fn reverting(&self) -> Option<&dyn Reverting> {
        None
    }
    /// Tells which conversations it has.
    fn conversations(&self) -> Option<&dyn Conversations> {
        None
    }
    /// Looks up files that a message is to name.
    fn files(&self) -> Option<&dyn FindFiles> {
        None
    }
    /// Models that it can be given, in its order; empty if it does not say.
    fn models(&self) -> Vec<OfferedModel> {
        Vec::new()
    }
    /// Asks it anew what it can do and offers, after it said that this may have changed. Where it does not answer, what it said
    /// before stays.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    /// What can be said to it as a command of its own in a conversation that works in `cwd`; empty if it does not say, or says
    /// so by an event.
    fn commands<'r>(&'r self, cwd: &'r Path) -> BoxFuture<'r, Vec<OfferedCommand>> {
        let _ = cwd;
        Box::pin(std::future::ready(Vec::new()))
    }
    /// Shortens a conversation's context when asked to.
    fn compacting(&self) -> Option<&dyn Compacting> {
        None
    }
    /// Can be signed in from anywhere.
    fn signing_in(&self) -> Option<&dyn SigningIn> {
        None
    }
}

/// A step of an interrupt beyond the protocol's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escalation {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Puts words into a running turn.
pub trait Steering: Send + Sync {
    /// Steers exactly that turn: never another, never a new one.
    fn steer(&self, steer: Steer) -> BoxFuture<'_, Result<(), SteerError>>;
}

/// Stops a running turn.
pub trait Interrupting: Send + Sync {
    /// Asks it to stop; the terminal comes as an event.
    fn interrupt(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>>;
}

/// Reads a conversation back.
pub trait History: Send + Sync {
    /// The last turns of a conversation as events (turn started, items closed, turn ended), oldest first: what `ingest`
    /// takes as an upsert. At most `turns` turns.
    fn read(
        &self,
        thread: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>>;
    /// Whether a message that is not in the history never reached the model: only where it was measured that the agent
    /// writes it down before the turn starts.
    fn proves_absence(&self) -> bool;
}

/// Tells which conversations an agent has, also those that nobody here began.
pub trait Conversations: Send + Sync {
    /// A page of those of a directory, the newest first. Subagents' are none.
    fn list(&self, asked: ListConversations) -> BoxFuture<'_, Result<ConversationList, OpenError>>;
}

/// Which conversations to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListConversations {
    /// Where they work.
    pub cwd: PathBuf,
    /// At most so many.
    pub limit: u32,
    /// Where the page before ended, as it said.
    pub cursor: Option<String>,
}

/// A page of an agent's conversations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationList {
    /// The conversations.
    pub found: Vec<FoundConversation>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A conversation that an agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundConversation {
    /// Its id.
    pub id: NativeId,
    /// The agent's title for it, or what was said first.
    pub title: String,
    /// When something was last said in it, Unix ms.
    pub updated_at_ms: Option<u64>,
}

/// Begins a conversation as a copy of another.
pub trait Forking: Send + Sync {
    /// Makes the copy and loads it, as [`AgentRuntime::open_thread`] does with a new one. The other conversation is left as
    /// it is and need not be loaded; a turn may be going on in it.
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>>;
}

/// Takes back the last turns of a conversation. Files stay as they are.
pub trait Reverting: Send + Sync {
    /// Takes back a turn and all that follow it, in a loaded conversation in which no turn is going on. That the conversation
    /// does not hold it (any more) is no error: so a call that was cut off can be made again.
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>>;
}

/// Shortens a conversation's context when asked to.
pub trait Compacting: Send + Sync {
    /// Asks for it, in a loaded conversation in which no turn is going on.
    fn compact(&self, thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>>;
}

/// Can be signed in from anywhere: by a page that is opened in a browser, never by tokens or passwords that would pass through
/// here.
pub trait SigningIn: Send + Sync {
    /// Begins to sign the agent in. A request of kind [`RequestKind::Auth`] is opened in that conversation, which is loaded, and
    /// says what a person does; by an answer it can only be given up, unless it asks for the code that the page shows at its
    /// end. `selection` says whose sign-in is meant, where an agent has models of several. When the agent says that it is
    /// done it is closed as answered, and [`SignedIn`](pilothouse_domain::ProviderEventKind::SignedIn) follows. One that is open there already stays
    /// the only one.
    fn begin(&self, thread: NativeId, selection: Selection)
    -> BoxFuture<'_, Result<(), SendError>>;
}

/// How an agent shortens its context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compaction {
    /// As a turn, whose items and end come as events.
    Turn {
        /// Its native id, if the agent has said it already.
        turn: Option<NativeId>,
    },
    /// It is done, and no event says so.
    Done {
        /// What is left of the context, if the agent tells; empty otherwise.
        summary: String,
    },
}

/// Which conversation to copy, and how the copy is to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkThread {
    /// The conversation that is copied.
    pub source: NativeId,
    /// The last turn that the copy is to hold, where the agent names its turns.
    pub through: Option<NativeId>,
    /// Whether that is all the source holds as far as is known: what an agent can do that only copies whole conversations.
    pub whole: bool,
    /// Where the copy works.
    pub cwd: PathBuf,
    /// Model, effort and mode.
    pub selection: Selection,
}

/// Which conversation to open, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenThread {
    /// The conversation to resume; `None` starts one.
    pub resume: Option<NativeId>,
    /// Where it works.
    pub cwd: PathBuf,
    /// Model, effort and mode.
    pub selection: Selection,
}

/// A message that starts a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendTurn {
    /// The conversation.
    pub thread: NativeId,
    /// Our message's id, which the agent may echo.
    pub client_id: String,
    /// What is said; may be empty where something is attached.
    pub text: String,
    /// What is attached, in order.
    pub attachments: Vec<InputFile>,
    /// Model, effort and mode.
    pub selection: Selection,
}

/// A file that goes with a message. It stands where the agent's process can read it until that process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Its name as the person sees it; no path.
    pub name: String,
    /// Its MIME type as the device said it: the file's first bytes know better.
    pub media_type: String,
    /// Size in bytes, at most [`limits::ATTACHMENT_BYTES`](pilothouse_domain::limits::ATTACHMENT_BYTES).
    pub bytes: u64,
    /// Where it stands.
    pub path: PathBuf,
}

/// The agent took a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnAccepted {
    /// Its native id, if the agent has one.
    pub turn: Option<NativeId>,
}

/// A message into a running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steer {
    /// The conversation.
    pub thread: NativeId,
    /// The turn it is meant for.
    pub turn: NativeId,
    /// Our message's id, which the agent may echo.
    pub client_id: String,
    /// What is said.
    pub text: String,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The conversation.
    pub thread: NativeId,
    /// The request's native id.
    pub request: NativeId,
    /// What kind of request it is.
    pub kind: RequestKind,
    /// What was asked, as it was shown.
    pub subject: Subject,
    /// The answer.
    pub answer: Answer,
}

/// Why an agent could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program is not there or may not be run.
    #[error(
        "cannot start `{program}`: {problem}; check `command` of [agents.{agent}] in host.toml"
    )]
    Spawn {
        /// The agent instance.
        agent: AgentName,
        /// The program.
        program: String,
        /// What the system says.
        problem: String,
    },
    /// It ended or stayed silent before its handshake was over.
    #[error("`{agent}` did not take the handshake: {problem}{}", if stderr.is_empty() { String::new() } else { format!("; it wrote: {stderr}") })]
    Handshake {
        /// The agent instance.
        agent: AgentName,
        /// What happened.
        problem: String,
        /// The last of what it wrote to stderr, redacted, at most 2 KiB.
        stderr: String,
    },
    /// It would act without asking, and nobody chose a sandbox for that.
    #[error(
        "`{agent}` would act without asking, and is not started so: {problem}; mend that, or name the risk with `sandbox = \"bwrap\"` in [agents.{agent}] of host.toml and make another thread"
    )]
    Unconfined {
        /// The agent instance.
        agent: AgentName,
        /// Why it would not ask.
        problem: String,
    },
    /// The sandbox that its thread chose cannot be made.
    #[error("`{agent}` cannot be put into its sandbox ({}): {problem}", sandbox.name())]
    Sandbox {
        /// The agent instance.
        agent: AgentName,
        /// Which.
        sandbox: Sandbox,
        /// What happened, and what to do.
        problem: String,
    },
}

/// Why a conversation could not be opened or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The agent does not have it any more: a replacement is needed.
    #[error("the agent has no conversation {thread}")]
    NotFound {
        /// Its native id.
        thread: NativeId,
    },
    /// The agent refused.
    #[error("the agent refused: {}", error.message)]
    Refused {
        /// Its words.
        error: RunError,
    },
    /// It did not answer, or could not be reached: nothing is known, and it can be asked again.
    #[error("{}", error.message)]
    Unanswered {
        /// What was not answered.
        error: RunError,
    },
    /// The agent's process is gone.
    #[error("the agent's process is gone")]
    Lost,
}

/// Why a turn was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// A turn is going on in that conversation; the message was not given to it.
    #[error("a turn is going on already")]
    Busy,
    /// The agent took it as steering of a turn that had begun in between.
    #[error("the agent put the message into turn {turn}, which was going on")]
    Steered {
        /// That turn.
        turn: NativeId,
    },
    /// The agent refused; nothing was started.
    #[error("the agent refused: {}", error.message)]
    Refused {
        /// Its words.
        error: RunError,
    },
    /// The process ended before it answered: it may have begun.
    #[error("the agent's process ended before it answered")]
    Unknown,
}

/// Why steering did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SteerError {
    /// The turn was over, or is another.
    #[error("the turn had ended")]
    TurnEnded,
    /// The agent refused.
    #[error("the agent refused: {}", error.message)]
    Refused {
        /// Its words.
        error: RunError,
    },
    /// The process ended before it answered.
    #[error("the agent's process ended before it answered")]
    Unknown,
}

/// Why an interrupt was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterruptError {
    /// Nothing was running.
    #[error("the turn had ended")]
    TurnEnded,
    /// The agent refused or did not answer in time; the next step is a signal.
    #[error("the agent did not take the interrupt: {problem}")]
    NotTaken {
        /// What happened.
        problem: String,
    },
    /// The process is gone.
    #[error("the agent's process is gone")]
    Lost,
}

/// Why an answer could not be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RespondError {
    /// The agent does not wait for it (any more).
    #[error("the agent does not wait for this answer any more")]
    NotPending,
    /// The answer does not fit the request.
    #[error("the answer does not fit: {problem}")]
    Unfit {
        /// What is wrong with it.
        problem: String,
    },
    /// The agent did not take it, and still waits.
    #[error("the agent did not take the answer and still waits: {problem}")]
    NotTaken {
        /// What happened.
        problem: String,
    },
    /// The answer may have reached it: its process is gone, or said nothing. One that still waits asks again.
    #[error("the agent did not say whether the answer reached it")]
    Lost,
}
