//! Which process a host left behind: id, start time and boot, so that only the same process is killed.

use super::descendants;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

/// How long a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) pid: u32,
    /// Clock ticks since boot: field 22 of `/proc/PID/stat`.
    start_time: u64,
    boot_id: String,
    /// What its descendants carry in their environment; empty in records of earlier versions.
    #[serde(default)]
    pub(super) mark: String,
}

impl Record {
    /// Of a process that runs now.
    pub(super) fn of(pid: u32, mark: &str) -> io::Result<Self> {
        let start_time = start_time(pid).ok_or_else(|| {
            io::Error::other(format!("cannot read when process {pid} was started"))
        })?;
        Ok(Self {
            pid,
            start_time,
            boot_id: boot_id()?,
            mark: mark.to_owned(),
        })
    }

    /// Whether its number still means the same process, and that has not ended.
    pub(super) fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
            && start_time(self.pid) == Some(self.start_time)
            && !is_zombie(self.pid)
    }
}

/// What became of a recorded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing was recorded.
    Nothing,
    /// It had ended before: another process, or none, has its number.
    Gone,
    /// It was alive, or processes that it had started were, and they have been killed.
    Killed,
}

/// Records a process. Written aside and renamed, so that a file is whole or not there.
pub(super) fn write(path: &Path, pid: u32, mark: &str) -> io::Result<()> {
    let record = Record::of(pid, mark)?;
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let aside = path.with_extension(format!("{pid}.part"));
    fs::write(&aside, serde_json::to_vec(&record)?)?;
    fs::rename(&aside, path)
}

/// Removes the record if it is of that process.
pub(super) fn remove(path: &Path, pid: u32) {
    if read(path).is_some_and(|record| record.pid == pid) {
        let _ = fs::remove_file(path);
    }
}

/// Kills the group of the process that a former host recorded, if it is still the same process, and everything that it left
/// behind, and removes the record. Called at boot, before anything is reconciled; blocks until the process is gone, at most
/// 5 s.
///
/// # Errors
/// If it could not be killed, or is not gone within 5 s.
pub fn kill_recorded(path: &Path) -> io::Result<Recorded> {
    let Some(record) = read(path) else {
        // A file that cannot be read names nobody; it is of no use.
        let was_there = fs::remove_file(path).is_ok();
        return Ok(if was_there {
            Recorded::Gone
        } else {
            Recorded::Nothing
        });
    };
    let same = || start_time(record.pid) == Some(record.start_time);
    let this_boot = record.boot_id == boot_id()?;
    let mut outcome = if !this_boot || !same() {
        Recorded::Gone
    } else {
        let below = descendants::of(record.pid);
        let pid = i32::try_from(record.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the recorded process id is out of range"))?;
        match kill_process_group(pid, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        for held in below {
            held.kill();
        }
        let began = Instant::now();
        while same() && !is_zombie(record.pid) {
            if began.elapsed() > GONE_WITHIN {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("process {} of a former host does not end", record.pid),
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Recorded::Killed
    };
    if this_boot && !record.mark.is_empty() && descendants::kill_marked(&record.mark) > 0 {
        outcome = Recorded::Killed;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(outcome),
    }
}

fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// The fields of `/proc/PID/stat` after the program's name, which may hold blanks and brackets.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn start_time(pid: u32) -> Option<u64> {
    // Field 22 of the line is the 20th after the name.
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// The process that started it, or that it was given to.
pub(super) fn parent(pid: u32) -> Option<u32> {
    // Field 4 of the line is the second after the name.
    stat_fields(pid)?.get(1)?.parse().ok()
}

fn is_zombie(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields.first().is_some_and(|state| state == "Z"))
}
