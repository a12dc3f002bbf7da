//! Processes of Claude Code: how one is started for a conversation, and what it said of itself.

use super::{
    codec::Codec,
    driver::Deadlines,
    outgoing::Call,
    profile,
    replies::{CallError, Hello, Reply},
};
use crate::{
    contract::{Escalation, EventSender, Launch, StartError},
    mcp::{self, Given, ValueFile},
    process::BoundProcess,
    rpc::{
        facts, greeting,
        session::{STDERR_SHOWN, Session, lock},
    },
};
use pilothouse_domain::{
    AgentName, CapabilityFlag, CapabilityValue, Mode, NativeId, ProviderEvent,
};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// Arguments of every start. Messages are sent back as receipts, and so are our answers: both are how it is known that the
/// agent has them.
const ARGUMENTS: &[&str] = &[
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
    "--replay-user-messages",
    "--forward-subagent-text",
];
/// Without this the mode in which nothing is asked cannot be entered; with it, it is only possible.
const ALLOW_BYPASS: &str = "--allow-dangerously-skip-permissions";
/// Names a file of servers, which are there beside those that the person configured for the agent.
const SERVERS: &str = "--mcp-config";
/// How long a server may take to start, in ms, for which the first turn waits; 30 s where it is not set.
const SERVER_START: &str = "MCP_TIMEOUT";
/// Batches of events that wait to be passed on.
const BATCHES: usize = 16;

/// Which conversation a process is to serve.
#[derive(Debug, Clone)]
pub(super) enum Conversation {
    /// A new one of that id.
    New(NativeId),
    /// One that is there.
    Resumed(NativeId),
    /// A copy of one that is there, under an id of its own.
    Forked {
        source: NativeId,
        copy: NativeId,
        /// Its last entry that the copy is to hold; all of them without.
        through: Option<String>,
    },
}

impl Conversation {
    /// What the process will serve.
    fn serves(&self) -> &NativeId {
        match self {
            Self::New(id) | Self::Resumed(id) | Self::Forked { copy: id, .. } => id,
        }
    }

    fn arguments(&self) -> Vec<&str> {
        match self {
            Self::New(id) => vec!["--session-id", id.as_str()],
            Self::Resumed(id) => vec!["--resume", id.as_str()],
            Self::Forked {
                source,
                copy,
                through,
            } => {
                let mut words = vec!["--resume", source.as_str(), "--fork-session"];
                words.extend(["--session-id", copy.as_str()]);
                words.extend(through.iter().flat_map(|at| ["--resume-session-at", at]));
                words
            }
        }
    }
}

/// How processes are started for a thread.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) launch: Launch,
    pub(super) deadlines: Deadlines,
}

/// A running process. Dropped, it is killed.
pub(super) struct Process {
    pub(super) session: Arc<Session<Codec>>,
    pub(super) hello: Hello,
    /// Whether the mode in which nothing is asked can be entered.
    pub(super) may_bypass: bool,
    /// The conversation that it serves.
    pub(super) serves: NativeId,
    /// How it came by that: until something is said in it, it is on no disk.
    pub(super) began: Conversation,
    /// Passes its events on. One that another takes the place of ends without a word.
    relay: JoinHandle<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.session.process.escalate(Escalation::Kill);
    }
}

impl Process {
    /// Ends it, and nobody hears of that.
    pub(super) async fn retire(&self) {
        self.relay.abort();
        self.session.stop().await;
    }
}

/// Why no process serves the conversation.
#[derive(Debug)]
pub(super) enum Failed {
    /// The agent does not have it.
    NoConversation,
    /// It could not be started.
    Start(StartError),
}

impl Starting {
    /// Starts a process and takes its handshake. `generation` counts the processes of this life of the agent.
    pub(super) async fn process(
        &self,
        conversation: &Conversation,
        may_bypass: bool,
        generation: u32,
        events: EventSender,
    ) -> Result<Process, Failed> {
        let launch = &self.launch;
        let mut arguments: Vec<&str> = ARGUMENTS.to_vec();
        arguments.extend(conversation.arguments());
        arguments.extend(may_bypass.then_some(ALLOW_BYPASS));
        let mut given = launch.mcp.at(&launch.cwd);
        given.leave_out(|value| {
            // It would put a variable of its own there.
            let problem = "Claude Code reads `${` in a value otherwise";
            value.contains("${").then(|| problem.to_owned())
        });
        let life = format!("{}.{generation}", launch.incarnation);
        let (launch, servers) = self.with_servers(&given, &life)?;
        let path = servers
            .as_ref()
            .map(|file| file.path().to_string_lossy().into_owned());
        arguments.extend(path.iter().flat_map(|path| [SERVERS, path.as_str()]));
        let started = BoundProcess::start(&launch, &arguments)
            .await
            .map_err(Failed::Start)?;
        let (ready, first) = oneshot::channel();
        let (sender, mut inner) = mpsc::channel(BATCHES);
        let serves = conversation.serves().clone();
        let session = Session::start(
            started,
            Codec::serving(&life, serves.clone()),
            profile::capabilities(),
            launch.incarnation,
            (self.deadlines.stop, self.deadlines.life),
            sender,
            first,
        );
        let relay = tokio::spawn(async move {
            while let Some(batch) = inner.recv().await {
                // Where nobody listens any more, it is read on and thrown away.
                let _ = events.send(batch).await;
            }
        });
        // From here on dropping it, also by cancelling this start, kills the process.
        let mut process = Process {
            session,
            hello: Hello::default(),
            may_bypass,
            serves,
            began: conversation.clone(),
            relay,
        };
        match process.handshake(&self.deadlines).await {
            Ok(mut first_events) => {
                first_events.extend(mcp::notices(given.left_out));
                // If the reader is gone, the process is, and the first call will say so.
                let _ = ready.send(first_events);
                Ok(process)
            }
            Err(error) => {
                drop(ready);
                process.session.stop().await;
                if matches!(error, CallError::NoConversation { .. }) {
                    return Err(Failed::NoConversation);
                }
                let error = process.handshake_error(&launch.agent, &error).await;
                Err(Failed::Start(error))
            }
        }
    }
}

impl Starting {
    /// How it is launched with servers of tools: they are read from a file, because others can see arguments.
    fn with_servers(
        &self,
        given: &Given,
        life: &str,
    ) -> Result<(Launch, Option<ValueFile>), Failed> {
        let mut launch = self.launch.clone();
        if given.servers.is_empty() {
            return Ok((launch, None));
        }
        let config = json!({ "mcpServers": mcp::usual(&given.servers) });
        let name = format!("{life}.json");
        let file = ValueFile::write(&name, launch.pid_file.as_deref(), &config.to_string())
            .map_err(|error| {
                Failed::Start(StartError::Spawn {
                    agent: launch.agent.clone(),
                    program: launch.command.first().cloned().unwrap_or_default(),
                    problem: format!("its MCP servers cannot be written down for it: {error}"),
                })
            })?;
        if std::env::var_os(SERVER_START).is_none() {
            let bound = mcp::START.as_millis().to_string();
            launch.env.entry(SERVER_START.to_owned()).or_insert(bound);
        }
        Ok((launch, Some(file)))
    }
}

impl Process {
    async fn handshake(&mut self, deadlines: &Deadlines) -> Result<Vec<ProviderEvent>, CallError> {
        let hello = self
            .session
            .call(Call::Initialize, deadlines.handshake)
            .await?;
        let Reply::Initialized(hello) = hello else {
            return Err(CallError::Unreadable {
                method: Call::Initialize.method().to_owned(),
            });
        };
        let capabilities = {
            let mut known = lock(&self.session.capabilities);
            let value = if hello.models.len() > 1 {
                CapabilityValue::Yes
            } else {
                CapabilityValue::No
            };
            known.learn(
                CapabilityFlag::ModelSwitchInSession,
                facts::seen(value, &hello.version, SystemTime::now()),
            );
            known.clone()
        };
        let mut diagnostics = Vec::new();
        if hello.version != profile::MEASURED_VERSION {
            diagnostics.push(format!(
                "Claude Code {} runs; what it does was measured with {}",
                hello.version,
                profile::MEASURED_VERSION
            ));
        }
        if !hello.signed_in {
            diagnostics.push(
                "Claude Code is not signed in; run `claude` on the host and use /login".to_owned(),
            );
        }
        let version = hello.version.clone();
        self.hello = *hello;
        let incarnation = self.session.incarnation();
        Ok(greeting(incarnation, version, capabilities, diagnostics))
    }

    async fn handshake_error(&self, agent: &AgentName, error: &CallError) -> StartError {
        let process = &self.session.process;
        let stderr = process.stderr();
        stderr.finished(Duration::from_millis(500)).await;
        StartError::Handshake {
            agent: agent.clone(),
            problem: match error {
                CallError::Lost => format!("it ended ({})", process.exited().await),
                other => other.to_string(),
            },
            stderr: stderr.tail(STDERR_SHOWN),
        }
    }
}

/// Whether a thread's mode needs a process that may lift every check.
pub(super) fn needs_bypass(mode: Mode) -> bool {
    mode == Mode::FullAccess
}

/// Random bytes in the shape that the agent demands of ids.
pub(super) fn uuid(mut bytes: [u8; 16]) -> String {
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Whether a text has that shape. Anything else could be taken for an argument, or for a title.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_shape_of_uuids() {
        let id = uuid([0xff; 16]);
        assert_eq!(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert!(is_uuid(&id));
        for odd in ["", "--resume", "ffffffff-ffff-4fff-bfff-fffffffffff/"] {
            assert!(!is_uuid(odd), "{odd}");
        }
    }
}
