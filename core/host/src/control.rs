//! The control socket: how `pair`, `devices` and `doctor` of the same user reach a running daemon.
//!
//! A Unix socket of mode 0600 in the state directory (itself 0700); the peer's user is checked as well. One JSON line is
//! asked, one or more are answered. It is not a way for devices: those come over TLS.

use crate::{daemon::Running, server::PairingEvent, state::StatePath};
use pilothouse_domain::{DeviceId, HostId, Scope};
use pilothouse_store::DeviceRow;
use pilothouse_wire::{
    message::{ByeReason, DoctorReport},
    offer::{OFFER_VERSION, PairingOffer, PairingSecret},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    sync::broadcast::error::RecvError,
    task::JoinHandle,
    time::timeout,
};

/// Bytes of one question.
const QUESTION: u64 = 64 * 1024;
/// Time to ask it.
const ASKING: Duration = Duration::from_secs(10);
/// Bytes of a socket's path that the system takes.
const PATH_BYTES: usize = 100;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// A pairing code, and then what becomes of it, for as long as one listens.
    Pair {
        /// What the device is granted.
        scopes: Vec<Scope>,
    },
    /// The paired devices.
    Devices,
    /// Takes a device's pairing back.
    Revoke {
        /// Its id, or its name if only one has it.
        device: String,
    },
    /// The doctor's report.
    Doctor {
        /// Whether agents are started and the whole ledger is read.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        deep: bool,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// A pairing code.
    Offer(Offer),
    /// A device came in by the code.
    Paired(PairedDevice),
    /// A device was refused; the code may still be good.
    Refused {
        /// Why.
        reason: String,
    },
    /// The code's time is over.
    Expired,
    /// The paired devices.
    Devices {
        /// In the order of pairing.
        devices: Vec<ListedDevice>,
    },
    /// The device was revoked.
    Revoked {
        /// Its id.
        device: DeviceId,
        /// Its name.
        name: String,
    },
    /// The doctor's report.
    Doctor(DoctorReport),
    /// It could not be done.
    Error {
        /// What failed, and why.
        message: String,
        /// What to do.
        next_step: String,
    },
}

/// A pairing code with what a person wants to know of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The code: what the QR code holds. Secret.
    pub code: String,
    /// Host time in ms until which it is good.
    pub expires_at_ms: u64,
    /// The host.
    pub host: HostId,
    /// What it calls itself.
    pub host_name: String,
    /// Where it says that it is.
    pub addresses: Vec<String>,
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Offer({}, {:?})", self.host, self.addresses)
    }
}

/// A device that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedDevice {
    /// Its id.
    pub device: DeviceId,
    /// What it calls itself.
    pub name: String,
    /// What it runs on.
    pub platform: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
}

/// A device in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDevice {
    /// Its id.
    pub device: DeviceId,
    /// What it calls itself.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Host time of its pairing, Unix ms.
    pub paired_at_ms: u64,
    /// Whether its pairing was taken back.
    pub revoked: bool,
    /// Whether it is connected now.
    pub connected: bool,
}

/// Why a daemon was not asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// None runs on that directory.
    #[error("no `pilothouse host` is running on {}; start one, or name its directory with --state", .0.display())]
    NotRunning(PathBuf),
    /// The socket cannot be used.
    #[error("the daemon at {} cannot be asked: {source}; is it another user's?", path.display())]
    Unusable {
        /// The state directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The daemon ended the conversation.
    #[error("the daemon gave no answer; look at its output, and run `pilothouse doctor`")]
    NoAnswer,
    /// The daemon is of another version.
    #[error(
        "the daemon's answer was not understood ({0}); stop it and start it anew with this version"
    )]
    NotUnderstood(String),
}

/// A conversation with a running daemon.
pub struct Asked {
    lines: tokio::io::Lines<BufReader<UnixStream>>,
}

/// Asks the daemon of a state directory.
///
/// # Errors
/// [`AskError`].
pub async fn ask(state: &StatePath, question: &Ask) -> Result<Asked, AskError> {
    let unusable = |source| AskError::Unusable {
        path: state.dir().to_owned(),
        source,
    };
    let mut stream = match with_short_path(&state.control_socket(), |path| async move {
        UnixStream::connect(path).await
    })
    .await
    {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::NotADirectory
            ) =>
        {
            return Err(AskError::NotRunning(state.dir().to_owned()));
        }
        Err(error) => return Err(unusable(error)),
    };
    let mut line = serde_json::to_vec(question).map_err(|error| unusable(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).await.map_err(unusable)?;
    Ok(Asked {
        lines: BufReader::new(stream).lines(),
    })
}

impl Asked {
    /// The next line of the answer; `None` when the daemon has no more to say.
    ///
    /// # Errors
    /// [`AskError::NotUnderstood`].
    pub async fn next(&mut self) -> Result<Option<Answer>, AskError> {
        match self.lines.next_line().await {
            Ok(Some(line)) => serde_json::from_str(&line)
                .map(Some)
                .map_err(|error| AskError::NotUnderstood(error.to_string())),
            Ok(None) | Err(_) => Ok(None),
        }
    }

    /// The first line of the answer.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn first(&mut self) -> Result<Answer, AskError> {
        self.next().await?.ok_or(AskError::NoAnswer)
    }
}

/// Runs `work` with a path to the same file that is short enough for a socket: through the directory's descriptor, if
/// the path itself is too long.
async fn with_short_path<T, F: Future<Output = io::Result<T>>>(
    path: &Path,
    work: impl FnOnce(PathBuf) -> F,
) -> io::Result<T> {
    if path.as_os_str().len() <= PATH_BYTES {
        return work(path.to_owned()).await;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = File::open(parent)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    let result = work(short).await;
    drop(directory);
    result
}

/// Opens the socket and answers on it. The state directory's lock is held, so a socket that is there is a dead one's.
pub(crate) fn listen(running: Arc<Running>) -> io::Result<JoinHandle<()>> {
    let path = running.state.path().control_socket();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let own_user = rustix::process::geteuid().as_raw();
    Ok(tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == own_user || peer.uid() == 0 => {
                    tokio::spawn(converse(running.clone(), stream));
                }
                _ => tracing::warn!("another user asked on the control socket and was sent away"),
            }
        }
    }))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if path.as_os_str().len() <= PATH_BYTES {
        return UnixListener::bind(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = File::open(parent)?;
    UnixListener::bind(PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name))
}

/// Takes the socket away; a daemon that is gone must not look alive.
pub(crate) fn remove(running: &Running) {
    let _ = fs::remove_file(running.state.path().control_socket());
}

async fn converse(running: Arc<Running>, stream: UnixStream) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(QUESTION));
    if !matches!(
        timeout(ASKING, reader.read_line(&mut line)).await,
        Ok(Ok(1..))
    ) {
        return;
    }
    let ask = match serde_json::from_str(&line) {
        Ok(ask) => ask,
        Err(error) => {
            let message = format!("the question was not understood: {error}");
            let next_step = "stop the daemon and start it anew with this version".to_owned();
            return drop(say(&mut write, &Answer::Error { message, next_step }).await);
        }
    };
    let answer = match ask {
        Ask::Pair { scopes } => {
            // Whoever asked may leave at any time: the offer stays good.
            line.clear();
            tokio::select! {
                () = pair(&running, scopes, &mut write) => {}
                _ = reader.read_line(&mut line) => {}
            }
            return;
        }
        Ask::Devices => devices(&running).await,
        Ask::Revoke { device } => revoke(&running, &device).await,
        Ask::Doctor { deep } => Ok(Answer::Doctor(running.host.examine(deep).await)),
    };
    let _ = say(&mut write, &answer.unwrap_or_else(error_answer)).await;
}

type Failure = (String, &'static str);

fn error_answer((message, next_step): Failure) -> Answer {
    Answer::Error {
        message,
        next_step: next_step.to_owned(),
    }
}

async fn say(write: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    write.write_all(&line).await
}

async fn pair(running: &Running, scopes: Vec<Scope>, write: &mut OwnedWriteHalf) {
    let (offer, mut events) = match begin(running, scopes).await {
        Ok(begun) => begun,
        Err(failure) => return drop(say(write, &error_answer(failure)).await),
    };
    let left = offer
        .expires_at_ms
        .saturating_sub(running.host.served.clock.now_ms());
    if say(write, &Answer::Offer(offer)).await.is_err() {
        return;
    }
    let expired = tokio::time::sleep(Duration::from_millis(left));
    tokio::pin!(expired);
    loop {
        let answer = tokio::select! {
            () = &mut expired => Answer::Expired,
            event = events.recv() => match event {
                Ok(PairingEvent::Paired { device, name, platform, scopes }) => {
                    Answer::Paired(PairedDevice { device, name, platform, scopes })
                }
                Ok(PairingEvent::Refused(refusal)) => Answer::Refused { reason: refusal.to_string() },
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            }
        };
        let last = matches!(answer, Answer::Paired(_) | Answer::Expired);
        if say(write, &answer).await.is_err() || last {
            return;
        }
    }
}

async fn begin(
    running: &Running,
    scopes: Vec<Scope>,
) -> Result<(Offer, tokio::sync::broadcast::Receiver<PairingEvent>), Failure> {
    let look = "look at the daemon's output, and run `pilothouse doctor`";
    let listening = running
        .open_for_pairing()
        .await
        .map_err(|error| (error.to_string(), look))?;
    let mut secret = [0; 16];
    getrandom::fill(&mut secret)
        .map_err(|error| (format!("the system gives no randomness: {error}"), look))?;
    let secret = PairingSecret::from_bytes(secret);
    let host = &running.host;
    let (expires_at_ms, events) =
        host.pairing
            .begin(secret.clone(), scopes, host.served.clock.now_ms());
    let offer = PairingOffer {
        version: OFFER_VERSION,
        host_id: host.served.id,
        host_name: host.served.name.clone(),
        addresses: running.addresses(listening),
        spki_sha256: running.fingerprint,
        secret,
        expires_at_ms,
    };
    let code = offer.to_text().map_err(|error| {
        (
            error.to_string(),
            "correct `name` and `addresses` under [host]",
        )
    })?;
    let PairingOffer {
        host_id,
        host_name,
        addresses,
        ..
    } = offer;
    Ok((
        Offer {
            code,
            expires_at_ms,
            host: host_id,
            host_name,
            addresses,
        },
        events,
    ))
}

async fn rows(running: &Running) -> Result<Vec<DeviceRow>, Failure> {
    let rows = running
        .host
        .served
        .ledger
        .read(|reader| reader.devices())
        .await;
    rows.map_err(|error| (error.to_string(), "run `pilothouse doctor`"))
}

async fn devices(running: &Running) -> Result<Answer, Failure> {
    let connected = running.host.served.sessions.connected();
    let listed = |row: DeviceRow| ListedDevice {
        connected: connected.contains(&row.device),
        device: row.device,
        name: row.name,
        scopes: row.scopes,
        paired_at_ms: row.paired_at_ms,
        revoked: row.revoked,
    };
    Ok(Answer::Devices {
        devices: rows(running).await?.into_iter().map(listed).collect(),
    })
}

async fn revoke(running: &Running, named: &str) -> Result<Answer, Failure> {
    let list = "run `pilothouse devices` for the list";
    let rows = rows(running).await?;
    let mut matching = rows.iter().filter(|row| row.device.to_string() == named);
    let mut by_name = rows.iter().filter(|row| !row.revoked && row.name == named);
    let row = match (matching.next(), by_name.next(), by_name.next()) {
        (Some(row), ..) | (None, Some(row), None) => row,
        (None, Some(_), Some(_)) => {
            return Err((
                format!("several devices are called `{named}`; name its id"),
                list,
            ));
        }
        (None, None, _) => return Err((format!("no device is called `{named}`"), list)),
    };
    let host = &running.host;
    host.served
        .ledger
        .revoke_device(row.device)
        .await
        .map_err(|error| (error.to_string(), "run `pilothouse doctor`"))?;
    host.served.sessions.end(row.device, ByeReason::Revoked);
    Ok(Answer::Revoked {
        device: row.device,
        name: row.name.clone(),
    })
}
