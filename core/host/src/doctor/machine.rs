//! The machine and the host's own things: state directory, lock, space, key, clock, port, names, tools.

use super::{DaemonFacts, failed, ok, skipped, warning};
use crate::{addresses, agents::find_program, state::StatePath};
use pilothouse_wire::{identity::HostIdentity, message::DoctorCheck, websocket::DEFAULT_PORT};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::{Duration, SystemTime},
};
use tokio::{net::TcpStream, time::timeout};

/// Below this a run can fail at any moment.
const SPACE_LEAST: u64 = 64 * 1024 * 1024;
/// Below this a person should look.
const SPACE_GOOD: u64 = 1024 * 1024 * 1024;
/// No clock was right before this program was made: 2026-11-01, Unix s.
const MADE_AT: u64 = 1_793_491_200;
/// Time for the host's own port to answer.
const PORT_ANSWERS: Duration = Duration::from_secs(3);
/// Devices that are named in a finding.
const NAMED: usize = 8;

pub(super) fn daemon(daemon: Option<&DaemonFacts>) -> DoctorCheck {
    match daemon {
        Some(_) => ok(
            "daemon",
            &format!("running as process {}", std::process::id()),
        ),
        None => warning("daemon", "not running", "start it: `pilothouse host`"),
    }
}

pub(super) fn state(state: &StatePath) -> DoctorCheck {
    let dir = state.dir();
    if !dir.exists() {
        return skipped(
            "state",
            &format!("{} is made at the first start", dir.display()),
        );
    }
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"written by the doctor");
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => ok("state", &dir.display().to_string()),
        Err(error) => failed(
            "state",
            &format!("{} cannot be written: {error}", dir.display()),
            "make it a directory that this user can write, or use --state",
        ),
    }
}

/// Whether a daemon has the directory that cannot be asked.
pub(super) fn lock(state: &StatePath, daemon: Option<&DaemonFacts>) -> DoctorCheck {
    match (daemon, state.holder()) {
        (Some(_), _) => ok("lock", "held by the running host"),
        (None, Ok(None)) => ok("lock", "nobody holds the state directory"),
        (None, Ok(Some(pid))) => failed(
            "lock",
            &format!("process {pid} holds the state directory and cannot be asked"),
            &format!("stop it (`kill {pid}`), then start `pilothouse host`"),
        ),
        (None, Err(error)) => failed(
            "lock",
            &format!("the lock cannot be looked at: {error}"),
            "check who owns the state directory",
        ),
    }
}

pub(super) fn space(state: &StatePath) -> DoctorCheck {
    let Some(dir) = state.dir().ancestors().find(|dir| dir.exists()) else {
        return skipped("space", "no such disk");
    };
    match rustix::fs::statvfs(dir) {
        Ok(stat) => space_left(
            stat.f_bavail.saturating_mul(stat.f_frsize),
            &dir.display().to_string(),
        ),
        Err(_) => skipped("space", "the disk does not say"),
    }
}

fn space_left(free: u64, at: &str) -> DoctorCheck {
    let found = format!("{} MiB free at {at}", free / (1024 * 1024));
    match free {
        n if n < SPACE_LEAST => {
            let step = "free some space: nothing can be recorded soon";
            failed("space", &found, step)
        }
        n if n < SPACE_GOOD => warning("space", &found, "free some space before it is used up"),
        _ => ok("space", &found),
    }
}

pub(super) fn certificate(state: &StatePath) -> DoctorCheck {
    let path = state.dir().join(HostIdentity::FILE);
    if !path.exists() {
        return skipped("certificate", "the host's key is made at the first start");
    }
    match HostIdentity::load_or_create(&path) {
        Ok(identity) => {
            let found = format!("fingerprint {}", identity.spki_sha256());
            ok("certificate", &found)
        }
        Err(error) => failed(
            "certificate",
            &error.to_string(),
            "restore the file; a new one breaks every pairing",
        ),
    }
}

/// A clock that stands before the last write went back: times on screens are wrong then, and codes do not expire.
pub(super) fn clock(state: &StatePath, now: SystemTime) -> DoctorCheck {
    let unix = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let step = "set it (e.g. `timedatectl set-ntp true`)";
    if unix.as_secs() < MADE_AT {
        return failed("clock", "the clock is before November 2026", step);
    }
    let written = ["ledger.db-wal", "ledger.db"].iter().filter_map(|file| {
        std::fs::metadata(state.dir().join(file))
            .and_then(|metadata| metadata.modified())
            .ok()
    });
    match written.max().and_then(|at| at.duration_since(now).ok()) {
        Some(ahead) if ahead > Duration::from_secs(60) => {
            let ahead = ahead.as_secs();
            let found = format!("the clock stands {ahead} s before the last recorded write");
            warning("clock", &found, step)
        }
        _ => ok("clock", "not before anything recorded"),
    }
}

/// Whether devices can connect: somebody listens and answers, or could listen.
pub(super) async fn port(daemon: Option<&DaemonFacts>, wanted: Option<SocketAddr>) -> DoctorCheck {
    let Some(facts) = daemon else {
        return free_port(wanted.unwrap_or((Ipv4Addr::LOCALHOST, DEFAULT_PORT).into()));
    };
    let listening = facts.listening;
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let answered = timeout(PORT_ANSWERS, TcpStream::connect((ip, listening.port()))).await;
    let problem = match answered {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer in {} s", PORT_ANSWERS.as_secs())),
    };
    if let Some(problem) = problem {
        return failed(
            "port",
            &format!("listening on {listening}, but it cannot be reached: {problem}"),
            "look for a firewall on this machine, and restart the host",
        );
    }
    if facts.opens_when_paired {
        let found = format!(
            "listening on {listening} only; opens to other machines at the first `pilothouse pair`"
        );
        return ok("port", &found);
    }
    match listening.ip().is_loopback() {
        true => warning(
            "port",
            &format!("listening on {listening}: only this machine can connect"),
            "for a phone set `listen = \"0.0.0.0:7433\"` under [host], or use an SSH forward",
        ),
        false => ok("port", &format!("listening on {listening}")),
    }
}

fn free_port(address: SocketAddr) -> DoctorCheck {
    match std::net::TcpListener::bind(address) {
        Ok(_) => ok("port", &format!("{address} is free")),
        Err(error) => failed(
            "port",
            &format!("{address} cannot be used: {error}"),
            "stop the program that has it (`ss -ltnp`), or choose another with --listen",
        ),
    }
}

/// The names by which devices may ask for the host. A name that no device can ever send locks out who relies on it.
pub(super) fn allowed_hosts(configured: &[String], addresses: &[String]) -> DoctorCheck {
    let allowed = addresses::allowed(configured, addresses);
    let useless: Vec<&str> = configured
        .iter()
        .map(String::as_str)
        .filter(|name| {
            !allowed.allows(name) || name.contains(['/', '@']) || name.contains(char::is_whitespace)
        })
        .collect();
    if !useless.is_empty() {
        return warning(
            "allowed_hosts",
            &format!("no device can come by `{}`", useless.join("`, `")),
            "in `allow_hosts` write names alone, without scheme, port or blanks",
        );
    }
    let mut names = vec![addresses::machine_name()];
    names.extend(configured.iter().cloned());
    names.extend(addresses.iter().cloned());
    let found = format!("{}, and any IP address", names.join(", "));
    ok("allowed_hosts", &found)
}

/// Who is paired, and when they were here.
pub(super) fn devices(daemon: Option<&DaemonFacts>, paired: Option<usize>) -> DoctorCheck {
    let none = || {
        warning(
            "devices",
            "no device is paired",
            "pair one: run `pilothouse pair`",
        )
    };
    let Some(facts) = daemon else {
        return match paired {
            None => skipped("devices", "nothing is known before the first start"),
            Some(0) => none(),
            Some(paired) => ok(
                "devices",
                &format!("{paired} paired; when they were here last is known while the host runs"),
            ),
        };
    };
    if facts.devices.is_empty() {
        return none();
    }
    let seen = |device: &super::DeviceFacts| {
        let name: String = device.name.chars().filter(|c| !c.is_control()).collect();
        let when = match (device.connected, device.left) {
            (true, _) => "connected".to_owned(),
            (false, Some(ago)) => format!("last seen {} ago", roughly(ago)),
            (false, None) => "not seen since the host was started".to_owned(),
        };
        format!("{name}: {when}")
    };
    let mut lines: Vec<String> = facts.devices.iter().take(NAMED).map(seen).collect();
    if facts.devices.len() > NAMED {
        lines.push(format!("and {} more", facts.devices.len() - NAMED));
    }
    ok("devices", &lines.join("; "))
}

fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Programs of others that the host or its agents use.
pub(super) fn tools() -> [DoctorCheck; 2] {
    let path = std::env::var_os("PATH");
    let tool = |name: &str, program: &str, without: &str, step: &str| match find_program(
        program,
        path.as_deref(),
    ) {
        Some(found) => ok(name, &found.display().to_string()),
        None => warning(name, &format!("`{program}` is not there: {without}"), step),
    };
    [
        tool(
            "git",
            "git",
            "agents work without knowing what changed",
            "install it (e.g. `apt-get install git`)",
        ),
        tool(
            "sandbox",
            "bwrap",
            "agents confine their commands only by what they bring along",
            "install it (e.g. `apt-get install bubblewrap`)",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_wire::message::CheckOutcome;

    #[test]
    fn little_space_is_a_warning_and_next_to_none_a_failure() {
        let outcome = |free| space_left(free, "/").outcome;
        assert_eq!(outcome(2 << 30), CheckOutcome::Ok);
        assert_eq!(outcome(500 << 20), CheckOutcome::Warning);
        assert_eq!(outcome(10 << 20), CheckOutcome::Failed);
    }

    #[test]
    fn devices_are_told_with_when_they_were_here() {
        let device = |name: &str, connected, left: Option<u64>| super::super::DeviceFacts {
            name: name.to_owned(),
            connected,
            left: left.map(Duration::from_secs),
        };
        let mut facts = DaemonFacts {
            listening: (Ipv4Addr::LOCALHOST, 1).into(),
            opens_when_paired: false,
            devices: vec![
                device("phone\u{1b}", true, None),
                device("tablet", false, Some(600)),
                device("laptop", false, None),
            ],
        };
        let told = devices(Some(&facts), None).finding;
        assert_eq!(
            told,
            "phone: connected; tablet: last seen 10 min ago; laptop: not seen since the host was started"
        );
        facts.devices.clear();
        assert_eq!(devices(Some(&facts), None).outcome, CheckOutcome::Warning);
    }

    #[test]
    fn a_port_where_nobody_answers_is_a_failure() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut facts = DaemonFacts {
                listening: listener.local_addr().unwrap(),
                opens_when_paired: true,
                devices: Vec::new(),
            };
            assert_eq!(port(Some(&facts), None).await.outcome, CheckOutcome::Ok);
            facts.opens_when_paired = false;
            assert_eq!(
                port(Some(&facts), None).await.outcome,
                CheckOutcome::Warning
            );
            drop(listener);
            assert_eq!(port(Some(&facts), None).await.outcome, CheckOutcome::Failed);
        });
    }
}
