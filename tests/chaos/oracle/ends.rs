//! Which agent processes ended when, and which effects that leaves in doubt.
//!
//! An effect is in doubt only if a process that had it, or was to get it, ended after it was asked for and before the
//! agent's own word of it can have been recorded. The end of any other process explains nothing.

use crate::{journal::Journal, stage::Kill};
use std::collections::BTreeSet;

/// How long the host may take to record what the agent told it, ms, while neither stands still nor a disk is full. Generous:
/// the machine may be busy.
const RECORDED_WITHIN_MS: u64 = 10_000;

/// How long the host may take to notice that an agent has ended, ms: what is asked for meanwhile goes to a dead process.
const NOTICED_WITHIN_MS: u64 = 1_000;

/// Stands for an agent that its host was just starting when it was killed: it has no line in the log. Nobody but that host
/// could know how far it had come.
pub(super) const STARTING: u32 = 0;

/// An agent process that ended by a kill: its own, or that of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Unix ms.
    pub(super) at: u64,
    pub(super) process: u32,
    /// Which kill, by its place in time.
    pub(super) kill: usize,
}

/// Something that was to reach the agent once: a message, or an answer.
#[derive(Debug, Clone)]
pub(super) struct Effect {
    /// When it was asked for, Unix ms.
    pub(super) from: u64,
    /// The agent's own word that it has it, or that it never will, Unix ms; `None`: there is none.
    pub(super) acknowledged: Option<u64>,
    /// The agent processes that had it or were to get it.
    pub(super) processes: BTreeSet<u32>,
}

/// Everything that ended, and what the host could not record meanwhile.
#[derive(Debug, Default)]
pub(super) struct Ends {
    ends: Vec<End>,
    /// Spans in which the host or the agent stood still or the host's disk was full, Unix ms.
    stalls: Vec<(u64, u64)>,
}

impl Ends {
    /// What each kill ended. That of a host ends every agent that runs then, since agents are bound to it.
    pub(super) fn of(kills: &[Kill], stalls: &[(u64, u64)], journal: &Journal) -> Self {
        let mut kills = kills.to_vec();
        kills.extend(journal.exits().into_iter().map(|(at, pid)| Kill {
            at,
            agent: Some(pid),
        }));
        kills.sort_by_key(|kill| kill.at);
        let started = journal.started();
        let mut gone = BTreeSet::new();
        let mut ends = Vec::new();
        for (number, kill) in kills.iter().enumerate() {
            if kill.agent.is_none() {
                ends.push(End {
                    at: kill.at,
                    process: STARTING,
                    kill: number,
                });
            }
            for (process, at) in &started {
                let hit = kill.agent.is_none_or(|agent| agent == *process);
                if hit && *at <= kill.at && gone.insert(*process) {
                    ends.push(End {
                        at: kill.at,
                        process: *process,
                        kill: number,
                    });
                }
            }
        }
        let mut stalls = stalls.to_vec();
        stalls.sort_unstable();
        Self { ends, stalls }
    }

    /// Until when something that the agent told at `at` may not have been recorded.
    pub(super) fn recorded(&self, at: u64) -> u64 {
        self.after(at, RECORDED_WITHIN_MS)
    }

    /// A time after a moment, without what stood still meanwhile.
    fn after(&self, at: u64, ms: u64) -> u64 {
        let mut until = at.saturating_add(ms);
        for (from, to) in &self.stalls {
            if *to > at && *from <= until {
                until = until.max(to.saturating_add(ms));
            }
        }
        until
    }

    /// The first end of one of these processes in a span of time, both ends included.
    pub(super) fn between(&self, processes: &BTreeSet<u32>, from: u64, until: u64) -> Option<End> {
        let mut ends = self.ends.iter().copied();
        ends.find(|end| (from..=until).contains(&end.at) && processes.contains(&end.process))
    }

    /// The ends at which nobody could know whether an effect had taken place.
    pub(super) fn in_doubt(&self, effect: &Effect) -> impl Iterator<Item = End> {
        let until = effect.acknowledged.map_or(u64::MAX, |at| self.recorded(at));
        let ends = self.ends.iter().copied();
        ends.filter(move |end| {
            effect.processes.contains(&end.process)
                && self.after(end.at, NOTICED_WITHIN_MS) >= effect.from
                && end.at <= until
        })
    }
}
