//! Codex as its own server on a Unix socket: started so that it outlives the host, or taken up again.

use super::adapter::Deadlines;
use crate::{
    contract::{Launch, StartError},
    process::{
        agent::Channel,
        detached::{DetachedProcess, DetachedRecord},
    },
    rpc::{session::STDERR_SHOWN, websocket},
};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::net::UnixStream;

/// Bytes of a socket's path; the system takes 107.
const PATH_LIMIT: usize = 100;
/// How often a socket that is not there yet is looked for: nothing tells when it is.
const LOOK: Duration = Duration::from_millis(5);

/// What makes the command a server on a socket; `None` for a command that says itself how it is to be spoken with, or that is
/// not known to be codex' own: it is spoken with over its pipes.
pub(super) fn arguments(command: &[String]) -> Option<Vec<&'static str>> {
    let Some((first, rest)) = command.get(1..)?.split_first() else {
        return Some(vec!["app-server", "--listen"]);
    };
    let says = |word: &String| word == "--stdio" || word.starts_with("--listen");
    (first == "app-server" && !rest.iter().any(says)).then(|| vec!["--listen"])
}

/// Starts one and connects with it.
pub(super) async fn start(
    launch: &Launch,
    mut arguments: Vec<&str>,
    deadlines: Deadlines,
) -> Result<(DetachedProcess, Channel), StartError> {
    let near = launch.pid_file.as_deref().and_then(Path::parent);
    let dir = private_dir(near).map_err(|error| StartError::Spawn {
        agent: launch.agent.clone(),
        program: launch.command.first().cloned().unwrap_or_default(),
        problem: format!("there is no place for its socket: {error}"),
    })?;
    let socket = dir.join("codex.sock");
    let url = format!("unix://{}", socket.display());
    arguments.push(&url);
    let started = DetachedProcess::start(launch, "codex", &arguments, &[], "", Some(&socket)).await;
    let process = match started {
        Ok(process) => process,
        Err(error) => {
            let _ = fs::remove_dir_all(&dir);
            return Err(error);
        }
    };
    match connect(&process, &socket, deadlines.handshake).await {
        Ok(channel) => Ok((process, channel)),
        Err(problem) => Err(failed(launch, &process, problem, deadlines).await),
    }
}

/// Takes up one that an earlier host left running.
pub(super) async fn attach(
    launch: &Launch,
    record: &Path,
    deadlines: Deadlines,
) -> Result<(DetachedProcess, Channel), StartError> {
    let spawn_error = |problem: String| StartError::Spawn {
        agent: launch.agent.clone(),
        program: launch.command.first().cloned().unwrap_or_default(),
        problem,
    };
    let known = DetachedRecord::read(record)
        .ok_or_else(|| spawn_error("its record cannot be read".to_owned()))?;
    let socket = PathBuf::from(&known.endpoint);
    let process = DetachedProcess::attach(record, known, launch)
        .map_err(|error| spawn_error(error.to_string()))?;
    match connect(&process, &socket, deadlines.handshake).await {
        Ok(channel) => Ok((process, channel)),
        Err(problem) => Err(failed(launch, &process, problem, deadlines).await),
    }
}

/// Connects as soon as it listens.
async fn connect(
    process: &DetachedProcess,
    socket: &Path,
    deadline: Duration,
) -> Result<Channel, String> {
    let began = Instant::now();
    let stream = loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => break stream,
            Err(_) if process.has_exited() => {
                return Err(format!("it ended ({})", process.exited().await));
            }
            Err(error) if began.elapsed() > deadline => {
                return Err(format!(
                    "it did not listen on {} within {} s: {error}",
                    socket.display(),
                    deadline.as_secs()
                ));
            }
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    };
    tokio::time::timeout(
        deadline,
        websocket::upgrade(stream, "localhost", None, None),
    )
    .await
    .map_err(|_| "it does not speak on its socket".to_owned())?
    .map_err(|error| error.to_string())
}

async fn failed(
    launch: &Launch,
    process: &DetachedProcess,
    problem: String,
    deadlines: Deadlines,
) -> StartError {
    process.stop(deadlines.stop).await;
    process.output().finished(Duration::from_secs(3)).await;
    StartError::Handshake {
        agent: launch.agent.clone(),
        problem,
        stderr: process.output().tail(STDERR_SHOWN),
    }
}

/// A new directory that only this user can enter, in which a socket's path is short enough: beside the records, or where the
/// system keeps such things.
fn private_dir(near: Option<&Path>) -> io::Result<PathBuf> {
    let mut word = [0; 6];
    getrandom::fill(&mut word).map_err(|error| io::Error::other(error.to_string()))?;
    let word: String = word.iter().map(|byte| format!("{byte:02x}")).collect();
    let candidates = [
        near.map(Path::to_owned),
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        Some(std::env::temp_dir()),
        Some(PathBuf::from("/tmp")),
    ];
    let mut last = io::Error::other("every path is too long");
    for base in candidates.into_iter().flatten() {
        let dir = base.join(format!("codex-{word}"));
        let is_short = dir.join("codex.sock").as_os_str().len() < PATH_LIMIT;
        // codex is told by a URL: it has to be text.
        if !is_short || !dir.is_absolute() || dir.to_str().is_none() {
            continue;
        }
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn only_a_command_that_is_codex_own_and_leaves_the_way_open_becomes_a_server() {
        let of = |command: &[&str]| arguments(&words(command)).is_some();
        assert!(of(&["codex"]));
        assert!(of(&["/opt/codex", "app-server"]));
        assert!(of(&["codex", "app-server", "-c", "model=\"x\""]));
        assert!(!of(&["codex", "app-server", "--stdio"]));
        assert!(!of(&["codex", "app-server", "--listen=stdio://"]));
        assert!(!of(&["npx", "codex", "app-server"]));
        assert!(!of(&["node", "app-server.mjs"]));
        assert!(!of(&[]));
    }

    #[test]
    fn a_socket_stands_in_a_directory_of_its_user_and_elsewhere_where_the_path_would_be_too_long() {
        let near = tempfile::tempdir().unwrap();
        let dir = private_dir(Some(near.path())).unwrap();
        assert!(dir.starts_with(near.path()));
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let deep = near.path().join("d".repeat(90));
        fs::create_dir_all(&deep).unwrap();
        let elsewhere = private_dir(Some(&deep)).unwrap();
        assert!(!elsewhere.starts_with(&deep));
        assert!(elsewhere.join("codex.sock").as_os_str().len() < PATH_LIMIT);
        fs::remove_dir_all(elsewhere).unwrap();
    }
}
