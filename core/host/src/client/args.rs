//! The verbs of the terminal client as a person types them.

mod direct;
mod whole;

pub(crate) use direct::{
    DirectAddArgs, DirectCommand, DirectListArgs, DirectRemoveArgs, DirectSetArgs,
};
pub(crate) use whole::{CompactArgs, RollbackArgs, SignInArgs};

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What a terminal can do as a device: the verbs that `pilothouse --help` lists beside the host's own.
#[derive(Debug, Clone, Subcommand)]
pub enum ClientCommand {
    /// Pair this device with a host, by the code that `pilothouse pair` prints there
    #[command(
        after_help = "Example:\n  pilothouse join 'pilothouse:pair?…'\n\nGive - as the code to read it from standard input, so that it shows in no process list."
    )]
    Join(JoinArgs),
    /// Drive an agent's own server from this device, with no Pilothouse on its machine
    #[command(subcommand)]
    Direct(DirectCommand),
    /// List the paired hosts, whether they can be reached, and what waits on each
    Hosts(HostsArgs),
    /// List threads: what each is doing, and what waits in it
    Threads(ThreadsArgs),
    /// Make a thread on a host; nothing runs until a message is sent
    #[command(
        after_help = "Example:\n  pilothouse new --agent codex --workspace demo 'Fix the flaky test'"
    )]
    New(NewArgs),
    /// Make a thread that begins as another stands, or stood after one of its runs; nothing runs until a message is sent
    #[command(
        after_help = "Examples:\n  pilothouse fork 3kf\n  pilothouse fork 3kf --after 2 'The other way'\n\nThe agent gets a copy of the conversation up to there with the first message. Both threads work on the same\nfiles, as they are then."
    )]
    Fork(ForkArgs),
    /// List conversations that an agent has by itself in a workspace, for instance from its own program at the desk
    #[command(after_help = "Example:\n  pilothouse sessions --agent claude --workspace demo")]
    Sessions(SessionsArgs),
    /// Make a thread of a conversation that an agent has by itself; what was said in it last is read
    #[command(
        after_help = "Example:\n  pilothouse import 7qx --agent claude --workspace demo\n\n`pilothouse sessions` lists them. Close the agent's own program before you go on here: both would write the same conversation."
    )]
    Import(ImportArgs),
    /// Have a thread's agent forget a run and all after it; files stay as they are
    #[command(
        after_help = "Example:\n  pilothouse rollback 3kf --before 4\n\nThe runs stay in the timeline, marked as rolled back."
    )]
    Rollback(RollbackArgs),
    /// Ask a thread's agent to shorten its context, and wait until it has
    Compact(CompactArgs),
    /// Have an agent whose sign-in was refused begin to sign in: says the page to open, on any device, and the code to enter
    #[command(
        after_help = "Examples:\n  pilothouse sign-in codex\n  pilothouse sign-in 3kf\n\nIts threads go on by themselves once it is signed in. `pilothouse inbox` shows page and code on every device,\nand `pilothouse answer` gives it up."
    )]
    SignIn(SignInArgs),
    /// Choose the mode, model or effort that a thread runs on from its next turn on; without any, show them
    #[command(
        after_help = "Examples:\n  pilothouse select 3kf\n  pilothouse select 3kf --model gpt-5.5 --effort high\n  pilothouse select 3kf --mode read_only --model default"
    )]
    Select(SelectArgs),
    /// List the commands, skills and templates of a thread's agent that a message can name
    #[command(
        after_help = "Examples:\n  pilothouse commands 3kf\n  pilothouse send 3kf '/init'\n\nThey are known once the agent has run in the thread."
    )]
    Commands(CommandsArgs),
    /// Find files of a thread's workspace by a part of their path, for a message to name
    #[command(
        after_help = "Examples:\n  pilothouse files 3kf parser\n  pilothouse send 3kf 'What does @src/parser.rs do?'\n\nThe thread's agent finds them (codex, opencode); it is started for that if it does not run."
    )]
    Files(FilesArgs),
    /// Send a message to a thread's agent
    #[command(
        after_help = "Examples:\n  pilothouse send 3kf 'Run the tests'\n  git diff | pilothouse send 3kf -\n\nWithout --queue, --steer or --restart the message starts a run, or is queued if one is active."
    )]
    Send(SendArgs),
    /// Watch a thread live, or everything that happens on all hosts
    #[command(
        after_help = "Examples:\n  pilothouse watch\n  pilothouse watch 3kf --until-idle\n\nEnds with Ctrl-C; the work on the host goes on."
    )]
    Watch(WatchArgs),
    /// List what waits for you: approvals and questions, in full, longest waiting first
    Inbox(InboxArgs),
    /// Answer a request: shows exactly what is asked, sends the answer, reports what the host confirmed
    #[command(
        after_help = "Examples:\n  pilothouse answer 7q2 --allow\n  pilothouse answer 7q2 --deny --note 'use the staging database'\n  pilothouse answer 7q2 --choose 1='Option B' --reply 2='in my own words'\n\nWithout an answer it only shows what is asked and what can be answered."
    )]
    Answer(AnswerArgs),
    /// Ask a thread's agent to stop; it is stopped when the agent says so
    Interrupt(InterruptArgs),
    /// Show a thread's queue, let a held queue go on, or take a message out of it
    Queue(QueueArgs),
}

/// What every verb takes.
#[derive(Debug, Clone, Args)]
pub struct DeviceArgs {
    /// This device's data: key, hosts, what was seen, what is to be sent [default: $XDG_DATA_HOME/pilothouse]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Print one JSON object per line; docs/cli.md describes each
    #[arg(long)]
    pub json: bool,
}

/// How long to wait for a host.
#[derive(Debug, Clone, Copy, Args)]
pub struct PatienceArgs {
    /// Seconds to wait for the host (fractions allowed); what is to be sent stays in the outbox afterwards
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=86_400.0 * 30.0).contains(&value) => Ok(value),
        _ => Err(
            "expected a number of seconds from 0 to 2592000 (30 days), e.g. 10 or 0.5".to_owned(),
        ),
    }
}

/// `join`
#[derive(Debug, Clone, Args)]
pub struct JoinArgs {
    /// The code, as `pilothouse pair` prints it; - reads it from standard input
    pub code: String,
    /// What the host is to call this device [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `hosts`
#[derive(Debug, Clone, Args)]
pub struct HostsArgs {
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `threads`
#[derive(Debug, Clone, Args)]
pub struct ThreadsArgs {
    /// Only threads of this host (name, or the beginning of its id)
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Archived threads, too (behind the others)
    #[arg(long, conflicts_with_all = ["only", "after"])]
    pub all: bool,
    /// Only threads that stand so
    #[arg(long, value_name = "STANDING")]
    pub only: Option<Only>,
    /// How many at most, the one that changed last first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Those behind this thread: the next page
    #[arg(long, value_name = "THREAD")]
    pub after: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// Where a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Only {
    /// Something in it waits for you
    Waiting,
    /// A run is worked on
    Running,
    /// Its last run failed
    Failed,
    /// It is put away
    Archived,
}

/// `new`
#[derive(Debug, Clone, Args)]
pub struct NewArgs {
    /// What the thread is about
    pub title: String,
    /// The agent, as the host's configuration names it
    #[arg(long, value_name = "AGENT")]
    pub agent: String,
    /// The workspace, as the host's configuration names it
    #[arg(long, value_name = "WORKSPACE")]
    pub workspace: String,
    /// What the agent may do without asking
    #[arg(long, value_enum, default_value = "ask")]
    pub mode: ModeArg,
    /// In what an agent runs that does not ask before it acts [default: the host's first]
    #[arg(long, value_enum, value_name = "SANDBOX")]
    pub sandbox: Option<SandboxArg>,
    /// The model, as the agent names it [default: the agent's own]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The effort, as the model names it [default: the model's own]
    #[arg(long, value_name = "EFFORT")]
    pub effort: Option<String>,
    /// The host (name, or the beginning of its id); needed when several are paired
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `--sandbox` of `new`
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SandboxArg {
    /// bubblewrap: it can write the workspace only, and sees nothing of your other files
    Bwrap,
    /// None: it can do everything that you can
    None,
}

impl From<SandboxArg> for pilothouse_domain::policy::Sandbox {
    fn from(sandbox: SandboxArg) -> Self {
        match sandbox {
            SandboxArg::Bwrap => Self::Bwrap,
            SandboxArg::None => Self::None,
        }
    }
}

/// `fork`
#[derive(Debug, Clone, Args)]
pub struct ForkArgs {
    /// The thread it comes from (the beginning of its id is enough)
    pub thread: String,
    /// What the new thread is about [default: the other's title]
    pub title: Option<String>,
    /// The run after which it goes its own way: its number, or the beginning of its id [default: the last that has ended]
    #[arg(long, value_name = "RUN")]
    pub after: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `sessions`
#[derive(Debug, Clone, Args)]
pub struct SessionsArgs {
    /// The agent, as the host calls it
    #[arg(long)]
    pub agent: String,
    /// The workspace, as the host calls it
    #[arg(long)]
    pub workspace: String,
    /// The host (its name, or the beginning of its id) [default: the only one]
    #[arg(long)]
    pub host: Option<String>,
    /// Where the page before ended, as it said [default: the newest]
    #[arg(long, value_name = "PLACE")]
    pub after: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `import`
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// The conversation (the beginning of its key is enough)
    pub key: String,
    /// What the thread is about [default: the conversation's title]
    pub title: Option<String>,
    /// The agent, as the host calls it
    #[arg(long)]
    pub agent: String,
    /// The workspace, as the host calls it
    #[arg(long)]
    pub workspace: String,
    /// The host (its name, or the beginning of its id) [default: the only one]
    #[arg(long)]
    pub host: Option<String>,
    /// What the agent may do without asking
    #[arg(long, value_enum, default_value_t = ModeArg::Ask)]
    pub mode: ModeArg,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `commands`
#[derive(Debug, Clone, Args)]
pub struct CommandsArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `files`
#[derive(Debug, Clone, Args)]
pub struct FilesArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// The part of the path
    pub text: String,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `select`
#[derive(Debug, Clone, Args)]
pub struct SelectArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// What the agent may do without asking [default: as it is]
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// The model, as the agent names it; `default` is the agent's own [default: as it is]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The effort, as the model names it; `default` is the model's own [default: as it is]
    #[arg(long, value_name = "EFFORT")]
    pub effort: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `--mode` of `new`
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeArg {
    /// Only look
    #[value(name = "read_only", alias = "read-only")]
    ReadOnly,
    /// Ask before every command not known to be harmless and before every change
    #[value(name = "ask")]
    Ask,
    /// Change files of the workspace and run commands in the sandbox; ask to leave it
    #[value(name = "auto_edit", alias = "auto-edit")]
    AutoEdit,
    /// Everything, without asking
    #[value(name = "full_access", alias = "full-access")]
    FullAccess,
}

impl From<ModeArg> for pilothouse_domain::Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::ReadOnly => Self::ReadOnly,
            ModeArg::Ask => Self::Ask,
            ModeArg::AutoEdit => Self::AutoEdit,
            ModeArg::FullAccess => Self::FullAccess,
        }
    }
}

/// `send`
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// What to say; - reads it from standard input; may be left out where something is attached
    #[arg(required_unless_present = "attach", default_value = "")]
    pub text: String,
    /// A file that goes with it; again for several. Whether the agent takes it, the host says
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// When it is to reach the agent.
    #[command(flatten)]
    pub dispatch: DispatchArgs,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// When a message is to reach the agent.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub struct DispatchArgs {
    /// As a run of its own, after everything that waits before it
    #[arg(long)]
    pub queue: bool,
    /// Into the run that is going on, where the agent can take it
    #[arg(long)]
    pub steer: bool,
    /// Into the run that is going on, by stopping what it does now and restarting it
    #[arg(long)]
    pub restart: bool,
}

/// `watch`
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// The thread (the beginning of its id is enough); without one, everything
    pub thread: Option<String>,
    /// End when nothing runs or waits any more (status 1 if the last run failed)
    #[arg(long)]
    pub until_idle: bool,
    /// Items of the past to begin with
    #[arg(long, value_name = "ITEMS", default_value_t = 50)]
    pub tail: u32,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `inbox`
#[derive(Debug, Clone, Args)]
pub struct InboxArgs {
    /// If nothing waits, wait until something does
    #[arg(long)]
    pub wait: bool,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `answer`
#[derive(Debug, Clone, Args)]
pub struct AnswerArgs {
    /// The request (the beginning of its id is enough)
    pub request: String,
    /// What to answer.
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Text for one question: its number, id or heading, then = and the text; - as the text reads standard input
    #[arg(long, value_name = "QUESTION=TEXT")]
    pub reply: Vec<String>,
    /// A choice for one question: its number, id or heading, then = and the label or its number; again for several
    #[arg(long, value_name = "QUESTION=LABEL")]
    pub choose: Vec<String>,
    /// Words that go with the decision ("yes, and …", "no, instead …")
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["reply", "choose"])]
    pub note: Option<String>,
    /// Answer only if the text asked for still has this hash (or one that begins so): the `content_hash` of `inbox --json`
    #[arg(long, value_name = "HASH")]
    pub hash: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// One of the agent's options.
#[derive(Debug, Clone, Args)]
#[group(multiple = false, conflicts_with_all = ["reply", "choose"])]
pub struct ChoiceArgs {
    /// One of the agent's options, by its id as `inbox` lists it
    #[arg(value_name = "OPTION")]
    pub option: Option<String>,
    /// The option that allows exactly this, once
    #[arg(long)]
    pub allow: bool,
    /// The option that allows this and the like until the session ends
    #[arg(long)]
    pub allow_session: bool,
    /// The option that refuses
    #[arg(long)]
    pub deny: bool,
}

/// `interrupt`
#[derive(Debug, Clone, Args)]
pub struct InterruptArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// Let the queue go on afterwards; otherwise it is held
    #[arg(long)]
    pub keep_queue: bool,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `queue`
#[derive(Debug, Clone, Args)]
pub struct QueueArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// Let a held queue go on
    #[arg(long, conflicts_with = "remove")]
    pub release: bool,
    /// Take this run out of the queue (the beginning of its id is enough)
    #[arg(long, value_name = "RUN")]
    pub remove: Option<String>,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

impl ClientCommand {
    /// What every verb takes.
    pub(super) fn device(&self) -> &DeviceArgs {
        match self {
            Self::Join(args) => &args.device,
            Self::Direct(DirectCommand::Add(args)) => &args.device,
            Self::Direct(DirectCommand::Set(args)) => &args.device,
            Self::Direct(DirectCommand::List(args)) => &args.device,
            Self::Direct(DirectCommand::Remove(args)) => &args.device,
            Self::Hosts(args) => &args.device,
            Self::Threads(args) => &args.device,
            Self::New(args) => &args.device,
            Self::Fork(args) => &args.device,
            Self::Sessions(args) => &args.device,
            Self::Import(args) => &args.device,
            Self::Rollback(args) => &args.device,
            Self::Compact(args) => &args.device,
            Self::SignIn(args) => &args.device,
            Self::Select(args) => &args.device,
            Self::Commands(args) => &args.device,
            Self::Files(args) => &args.device,
            Self::Send(args) => &args.device,
            Self::Watch(args) => &args.device,
            Self::Inbox(args) => &args.device,
            Self::Answer(args) => &args.device,
            Self::Interrupt(args) => &args.device,
            Self::Queue(args) => &args.device,
        }
    }
}
