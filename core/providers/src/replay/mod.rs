//! A recording as an agent: a person can try the whole product, and a test can use it, with no agent installed.
//!
//! **Owns** the reading of a recording ([`Recording`]), its playing ([`Player`], sans-I/O: frames in, frames out) and the
//! process that does so ([`play`], the host's hidden `agent-replay`). **Must not know** what the frames mean to a thread: they
//! go through the codec and driver of the family that was recorded, exactly as a running agent's would. [`ReplayAdapter`] is
//! that family's adapter with the player as its program.
//!
//! In host.toml: `protocol = "replay"`, `command = ["FILE.jsonl"]`, optionally with `"--speed", "N"` (default 4; pauses are
//! never longer than a second). Each prompt plays the next recorded turn, after the last the first again. A request waits for
//! its person; an answer that the recording does not know ends the turn with a word about it. Nothing is executed.

mod play;
mod player;
mod recording;

pub use play::play;
pub use player::Player;
pub use recording::{RECORDING_BYTES, Recording, ReplayError};

use crate::{
    contract::{AgentRuntime, EventSender, Launch, ProcessSharing, ProviderAdapter, StartError},
    registry,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{Capabilities, Mode};
use std::{path::Path, sync::Arc};

/// The host's verb that plays a recording.
pub const VERB: &str = "agent-replay";

/// What follows the verb and `command` of host.toml: the file, and how fast it is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The recording.
    pub file: String,
    /// How many times faster than recorded.
    pub speed: u32,
}

impl Arguments {
    /// How many times faster than recorded, unless it is said.
    const SPEED: u32 = 4;

    /// Reads `FILE [--speed N]`.
    ///
    /// # Errors
    /// [`ReplayError::Arguments`].
    pub fn read(command: &[String]) -> Result<Self, ReplayError> {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let wrong = |problem: &str| {
            Err(ReplayError::Arguments {
                problem: problem.to_owned(),
            })
        };
        match words[..] {
            [] | ["", ..] => wrong("no recording is named"),
            [file] => Ok(Self {
                file: file.to_owned(),
                speed: Self::SPEED,
            }),
            [file, "--speed", number] => match number.parse() {
                Ok(speed @ 1..=1_000_000) => Ok(Self {
                    file: file.to_owned(),
                    speed,
                }),
                _ => wrong(&format!(
                    "`--speed {number}` is no number from 1 to 1000000"
                )),
            },
            [_, other, ..] => wrong(&format!("`{other}` is not understood")),
        }
    }
}

/// A recording in the place of an agent.
pub struct ReplayAdapter {
    command: Vec<String>,
    /// The adapter of the recorded family.
    inner: Result<Arc<dyn ProviderAdapter>, ReplayError>,
    description: String,
}

impl ReplayAdapter {
    /// Of `command` as it stands in host.toml. A recording that cannot be played is an agent that cannot be started, and says
    /// why then.
    pub fn new(command: &[String]) -> Self {
        let mut command = command.to_vec();
        // The player works elsewhere, in its thread's workspace.
        if let Some(file) = command.first_mut()
            && let Ok(path) = std::path::absolute(&file)
        {
            *file = path.to_string_lossy().into_owned();
        }
        let (inner, description) = match open(&command) {
            Ok((inner, description)) => (Ok(inner), description),
            Err(error) => (Err(error), String::new()),
        };
        Self {
            command,
            inner,
            description,
        }
    }

    /// What is recorded, in a few words.
    ///
    /// # Errors
    /// Why it cannot be played.
    pub fn describe(&self) -> Result<&str, &ReplayError> {
        self.inner.as_ref().map(|_| self.description.as_str())
    }
}

fn open(command: &[String]) -> Result<(Arc<dyn ProviderAdapter>, String), ReplayError> {
    let arguments = Arguments::read(command)?;
    let recording = Recording::read(Path::new(&arguments.file))?;
    let family = recording.family().name();
    let inner = registry::family(family).ok_or(ReplayError::Family { family })?;
    let turns = match recording.turns() {
        1 => "1 turn".to_owned(),
        turns => format!("{turns} turns"),
    };
    Ok((inner, format!("a recording of {family} with {turns}")))
}

impl ProviderAdapter for ReplayAdapter {
    fn family(&self) -> &'static str {
        "replay"
    }

    fn profile(&self) -> Capabilities {
        let inner = self.inner.as_ref();
        inner.map_or_else(|_| Capabilities::default(), |inner| inner.profile())
    }

    fn modes(&self) -> Vec<Mode> {
        let inner = self.inner.as_ref();
        inner.map_or_else(|_| vec![Mode::Ask], |inner| inner.modes())
    }

    fn sharing(&self) -> ProcessSharing {
        let inner = self.inner.as_ref();
        inner.map_or(ProcessSharing::PerThread, |inner| inner.sharing())
    }

    fn start(
        &self,
        mut launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(async move {
            let failed = |problem: String| StartError::Spawn {
                agent: launch.agent.clone(),
                program: self.command.first().cloned().unwrap_or_default(),
                problem,
            };
            // Read again: it may have been mended, or have gone.
            let command = self.command.clone();
            // Up to 64 MB of it.
            let opened = tokio::task::spawn_blocking(move || open(&command)).await;
            let (inner, _) = opened
                .map_err(|error| failed(error.to_string()))?
                .map_err(|error| failed(error.to_string()))?;
            let own = match launch.wrapper.first() {
                Some(own) => own.clone(),
                None => std::env::current_exe()
                    .map_err(|error| failed(format!("the player is not found: {error}")))?
                    .to_string_lossy()
                    .into_owned(),
            };
            launch.command = [own, VERB.to_owned()]
                .into_iter()
                .chain(self.command.iter().cloned())
                .collect();
            inner.start(launch, events).await
        })
    }
}
