//! The processes that an agent left behind: commands in sessions of their own (codex' sandbox is one) are not in its group,
//! outlive it, and belong to init as soon as it is gone.
//!
//! They are found in two ways. What an agent starts inherits its environment, and in it a **mark** that only this life of the
//! agent has: that finds them also after the agent, or the host, was killed. While the agent lives, its **children's children**
//! are walked, which finds those that run with another environment. Out of reach is what does both, clears its environment and
//! outlives an agent that somebody else killed; and, unless the host is root, what hides its environment from its own user.

use super::held::Held;
use rustix::process::Pid;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// The variable that holds the mark.
pub(super) const VARIABLE: &str = "PILOTHOUSE_AGENT_MARK";
/// How long a sweep may take: killed processes need a moment to go, and one that forks meanwhile is found again.
const SWEEP_WITHIN: Duration = Duration::from_secs(2);

/// A mark that no other process on this machine has.
pub(super) fn new_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!(
        "{}-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed),
        since.unwrap_or_default().as_nanos()
    )
}

fn hold(pid: u32) -> Option<Held> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    Held::open(pid).ok()
}

/// Every process but this one.
fn all() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(move |pid| *pid != own)
}

fn is_marked(pid: u32, wanted: &str) -> bool {
    // Empty for one that has ended, unreadable for another user's.
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == wanted.as_bytes())
}

/// Kills every process that has the mark, until there is none; how many were found.
pub(super) fn kill_marked(mark: &str) -> usize {
    let wanted = format!("{VARIABLE}={mark}");
    let began = Instant::now();
    let mut found = BTreeSet::new();
    loop {
        let mut left = false;
        for pid in all() {
            // Held first: what is then read is of the process that will be killed.
            if let Some(held) = hold(pid)
                && is_marked(pid, &wanted)
                && held.kill()
            {
                left = true;
                found.insert(pid);
            }
        }
        if !left || began.elapsed() > SWEEP_WITHIN {
            return found.len();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The children of a living process, their children, and so on.
pub(super) fn of(pid: u32) -> Vec<Held> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for child in all() {
        if let Some(parent) = super::pid_file::parent(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut reached = vec![pid];
    let mut next = 0;
    while let Some(parent) = reached.get(next) {
        reached.extend(children.remove(parent).unwrap_or_default());
        next += 1;
    }
    // Each is held before its parent is asked for again: a number given away meanwhile is not followed.
    let is_child = |child: &u32| {
        super::pid_file::parent(*child).is_some_and(|parent| reached.contains(&parent))
    };
    let held = reached[1..].iter().filter_map(|child| {
        let held = hold(*child)?;
        is_child(child).then_some(held)
    });
    held.collect()
}
