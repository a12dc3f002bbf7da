//! The host's verbs as a person types them, and what they print.

use crate::{
    agents,
    config::listen_address,
    control::{Answer, Ask, AskError, Asked, ask},
    daemon::{Daemon, DaemonOptions, read_config},
    demo,
    doctor::{self, Examiner},
    state::StatePath,
    text,
};
use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use pilothouse_domain::Scope;
use pilothouse_providers::replay::play;
use pilothouse_wire::message::{CheckOutcome, DoctorReport};
use std::{
    ffi::OsString,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};
use tokio::signal::unix::{SignalKind, signal};

/// The host's verbs.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Run the daemon: agents of this machine, for your paired devices
    #[command(after_help = HOST_HELP)]
    Host(HostArgs),
    /// Show a code with which one device can be paired, for five minutes
    #[command(after_help = PAIR_HELP)]
    Pair(PairArgs),
    /// List the paired devices, or take a pairing back
    #[command(after_help = DEVICES_HELP)]
    Devices(DevicesArgs),
    /// Check agents, workspaces, port, key, clock and disk, and say what to do
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Tell the whole story once, with your own agent: it asks, a paired device answers, a file changes
    #[command(after_help = demo::HELP)]
    Demo(demo::DemoArgs),
    /// Becomes an agent, supervised. For the daemon itself.
    #[command(hide = true)]
    AgentExec(AgentExecArgs),
    /// Plays a recording as an agent. For the daemon itself.
    #[command(hide = true)]
    AgentReplay(AgentReplayArgs),
}

const HOST_HELP: &str = "Examples:
  cd ~/src/app && pilothouse host        offers installed agents and this directory
  pilothouse host --config host.toml     offers what the file names

host.toml (usually ~/.config/pilothouse/host.toml), all of it optional:
  [host]
  name = \"studio\"
  listen = \"0.0.0.0:7433\"
  addresses = [\"studio.example.net:7433\"]   # put first into pairing codes
  allow_hosts = [\"studio.example.net\"]      # names that devices may ask for
  [agents.codex]
  protocol = \"codex\"
  command = [\"codex\", \"app-server\"]
  env = { RUST_LOG = \"warn\" }
  [agents.goose]                            # any agent that speaks the Agent Client Protocol
  protocol = \"acp\"
  command = [\"goose\", \"acp\"]
  modes = { ask = \"approve\" }             # its own words for our modes, where Pilothouse does not know them
  [agents.pi]                               # asks by Pilothouse's own extension; with `sandbox` it does not ask, and
  protocol = \"pi\"                         # its threads run in that: \"bwrap\", \"none\", or a list to choose from
  command = [\"pi\"]
  [workspaces.app]
  path = \"~/src/app\"
  [defaults]
  mode = \"ask\"                             # read_only, ask, auto_edit, full_access

Listens on 127.0.0.1:7433 until `pilothouse pair` is run for the first time, then on all interfaces; --listen and
`listen` override that. Log lines go to stderr; PILOTHOUSE_LOG=debug shows more of them.
Ctrl-C stops it: devices are told, agents are stopped. A second Ctrl-C stops at once.";

const PAIR_HELP: &str = "Examples:
  pilothouse pair                        shows the code, and waits until a device has used it
  pilothouse pair --json                 prints it as one object: code, expires_at_ms, host, addresses
  pilothouse pair --json --wait          and a second object when a device has used it
  pilothouse pair --scopes read          a device that may only look

On the phone scan the QR code; in another terminal run `pilothouse join CODE`.";

const DEVICES_HELP: &str = "Examples:
  pilothouse devices
  pilothouse devices --revoke phone      takes its pairing back; it is disconnected at once";

const DOCTOR_HELP: &str = "Examples:
  pilothouse doctor
  pilothouse doctor --deep               also starts each agent, and reads the whole ledger
  pilothouse doctor --json               one object: checks, each with name, outcome, finding, next_step

Exits with 1 if something does not work. Never shows a secret: it looks whether sign-in files exist, not into them.";

/// `host`
#[derive(Debug, Args)]
pub struct HostArgs {
    /// State directory: the host's key, its ledger [default: ~/.local/state/pilothouse]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Configuration [default: ~/.config/pilothouse/host.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Say that the state was restored from a backup: devices begin anew, and ask about what may be lost
    #[arg(long)]
    pub new_epoch: bool,
    /// Print one JSON object when ready instead of a line
    #[arg(long)]
    pub json: bool,
}

/// `pair`
#[derive(Debug, Args)]
pub struct PairArgs {
    /// State directory of the running daemon [default: ~/.local/state/pilothouse]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,
    /// Wait until a device has used the code, and say which; usual at a terminal
    #[arg(long)]
    pub wait: bool,
    /// Only print the code, and end
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// What the device may do
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["read", "operate", "approve"])]
    pub scopes: Vec<ScopeArg>,
}

/// A scope as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// See threads
    Read,
    /// Send, steer, queue, interrupt
    Operate,
    /// Answer approvals and questions
    Approve,
    /// Manage devices and the host
    Admin,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Read => Self::Read,
            ScopeArg::Operate => Self::Operate,
            ScopeArg::Approve => Self::Approve,
            ScopeArg::Admin => Self::Admin,
        }
    }
}

/// `devices`
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// State directory of the running daemon [default: ~/.local/state/pilothouse]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print JSON, one object per device
    #[arg(long)]
    pub json: bool,
    /// Take a device's pairing back, by its id, or by its name if only one has it
    #[arg(long, value_name = "DEVICE")]
    pub revoke: Option<String>,
}

/// `doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// State directory [default: ~/.local/state/pilothouse]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Configuration [default: ~/.config/pilothouse/host.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Also start each agent to see whether it takes the handshake, and read the whole ledger
    #[arg(long)]
    pub deep: bool,
}

/// `agent-replay`
#[derive(Debug, Args)]
pub struct AgentReplayArgs {
    /// The recording, and how it is played.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// `agent-exec`
#[derive(Debug, Args)]
pub struct AgentExecArgs {
    /// The daemon's process id: without it there is nobody to serve.
    #[arg(long)]
    pub parent: u32,
    /// The agent's program and arguments.
    #[arg(last = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Does what was typed, prints what came of it and gives the exit code.
pub fn run(command: HostCommand) -> ExitCode {
    let result = match command {
        HostCommand::AgentExec(args) => return agents::exec(args.parent, &args.command),
        HostCommand::AgentReplay(args) => {
            play(&args.command).map_or_else(|error| Err(error.into()), |()| Ok(ExitCode::SUCCESS))
        }
        HostCommand::Host(args) => runtime(4).and_then(|runtime| runtime.block_on(host(args))),
        HostCommand::Pair(args) => runtime(1).and_then(|runtime| runtime.block_on(pair(args))),
        HostCommand::Devices(args) => {
            runtime(1).and_then(|runtime| runtime.block_on(devices(args)))
        }
        HostCommand::Doctor(args) => runtime(1).and_then(|runtime| runtime.block_on(doctor(args))),
        HostCommand::Demo(args) => demo::run(&args),
    };
    result.unwrap_or_else(|error| {
        // The one place where an error meets its person; if stderr is gone, the exit code still tells.
        let _ = writeln!(io::stderr(), "pilothouse: {error:#}");
        ExitCode::FAILURE
    })
}

fn runtime(workers: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build();
    built.context("the system gives no threads")
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())?;
    Ok(())
}

fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string(value)?)
}

async fn host(args: HostArgs) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let options = DaemonOptions {
        state: args.state,
        config: args.config,
        listen: args.listen,
        new_epoch: args.new_epoch,
        ..DaemonOptions::usual()
    };
    let daemon = Daemon::start(options).await?;
    if args.json {
        print_json(&serde_json::json!({
            "listening": daemon.address(),
            "host": daemon.host_id(),
            "name": daemon.name(),
            "fingerprint": daemon.fingerprint(),
            "pid": std::process::id(),
        }))?;
    } else {
        print(&format!(
            "listening on {} as {}",
            daemon.address(),
            daemon.name()
        ))?;
    }
    let code = tokio::select! {
        _ = interrupt.recv() => ExitCode::SUCCESS,
        _ = terminate.recv() => ExitCode::SUCCESS,
        () = daemon.failed() => {
            tracing::error!("the ledger has failed; start the host again: what was acknowledged is on disk");
            ExitCode::FAILURE
        }
    };
    tracing::info!("stopping; once more stops at once");
    tokio::select! {
        () = daemon.stop() => Ok(code),
        _ = interrupt.recv() => std::process::exit(130),
        _ = terminate.recv() => std::process::exit(143),
    }
}

async fn pair(args: PairArgs) -> anyhow::Result<ExitCode> {
    let state = StatePath::choose(args.state.as_deref())?;
    let scopes: Vec<Scope> = args.scopes.iter().copied().map(Scope::from).collect();
    let mut asked = ask(&state, &Ask::Pair { scopes }).await?;
    let offer = match asked.first().await? {
        Answer::Offer(offer) => offer,
        other => return Err(unexpected(other)),
    };
    if args.json {
        print_json(&serde_json::json!({
            "code": offer.code,
            "expires_at_ms": offer.expires_at_ms,
            "host": offer.host,
            "host_name": offer.host_name,
            "addresses": offer.addresses,
        }))?;
    } else {
        print(&text::offer(&offer, now_ms())?)?;
    }
    let at_a_terminal = io::IsTerminal::is_terminal(&io::stdout()) && !args.json;
    if args.wait || (at_a_terminal && !args.no_wait) {
        return wait_for_device(asked, args.json).await;
    }
    Ok(ExitCode::SUCCESS)
}

async fn wait_for_device(mut asked: Asked, json: bool) -> anyhow::Result<ExitCode> {
    while let Some(answer) = asked.next().await? {
        match answer {
            Answer::Paired(device) if json => {
                print_json(&serde_json::json!({ "paired": device }))?;
                return Ok(ExitCode::SUCCESS);
            }
            Answer::Paired(device) => {
                print(&text::paired(&device))?;
                return Ok(ExitCode::SUCCESS);
            }
            Answer::Refused { reason } => {
                let _ = writeln!(io::stderr(), "a device was refused: {reason}");
            }
            Answer::Expired => {
                bail!("the code has expired and no device used it; run `pilothouse pair` again")
            }
            other => return Err(unexpected(other)),
        }
    }
    Err(AskError::NoAnswer.into())
}

async fn devices(args: DevicesArgs) -> anyhow::Result<ExitCode> {
    let state = StatePath::choose(args.state.as_deref())?;
    let question = args
        .revoke
        .map_or(Ask::Devices, |device| Ask::Revoke { device });
    match ask(&state, &question).await?.first().await? {
        Answer::Devices { devices } if args.json => {
            for device in devices {
                print_json(&device)?;
            }
        }
        Answer::Devices { devices } => print(&text::devices(&devices, now_ms()))?,
        Answer::Revoked { device, name } if args.json => {
            print_json(&serde_json::json!({ "revoked": { "device": device, "name": name } }))?;
        }
        Answer::Revoked { name, .. } => print(&format!("{name} was revoked and disconnected"))?,
        other => return Err(unexpected(other)),
    }
    Ok(ExitCode::SUCCESS)
}

async fn doctor(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let state = StatePath::choose(args.state.as_deref())?;
    let report = match ask(&state, &Ask::Doctor { deep: args.deep }).await {
        Ok(mut asked) => match asked.first().await? {
            Answer::Doctor(report) => report,
            other => return Err(unexpected(other)),
        },
        Err(AskError::NotRunning(_)) => {
            examine_without_daemon(&state, args.config.as_deref(), args.deep).await
        }
        Err(error) => return Err(error.into()),
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&text::report(&report))?;
    }
    let bad = report
        .checks
        .iter()
        .any(|check| check.outcome == CheckOutcome::Failed);
    Ok(if bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn examine_without_daemon(
    state: &StatePath,
    named: Option<&std::path::Path>,
    deep: bool,
) -> DoctorReport {
    let read = read_config(named);
    let config = read.as_ref().cloned().unwrap_or_default();
    let (agents, _) = agents::choose(&config, &state.notes());
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let workspaces = doctor::workspaces(&config.workspaces, &here).unwrap_or_default();
    Examiner::new(state.clone(), read.as_ref(), agents, workspaces)
        .examine(None, deep)
        .await
}

fn unexpected(answer: Answer) -> anyhow::Error {
    match answer {
        Answer::Error { message, next_step } => anyhow!("{message}; {next_step}"),
        _ => AskError::NotUnderstood("another question's answer".to_owned()).into(),
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
