//! Several processes on one data directory: what the others look at, and what they are told.
//!
//! A process without the links says in the replica which timelines it observes, again and again while it does; the
//! owner follows those as well, saves their streamed text piece by piece, and notes which of them are current.

use crate::{
    actor::Actor,
    delivery::lock,
    live::{LIVE_TEXT, LiveBuffer},
};
use pilothouse_domain::{HostId, ThreadId};
use pilothouse_store::{Durability, ReplicaTx, StoreError};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Setting under which processes without the links say what they observe.
const OBSERVED: &str = "observed_elsewhere";
/// Setting under which the owner says what of it is current.
const CURRENT: &str = "current_elsewhere";
/// How often an observing process says so again.
pub(crate) const SAY_AGAIN: Duration = Duration::from_secs(5);
/// How long its word holds, ms: three times as long.
const HOLDS_MS: u64 = 15_000;

/// What a process without the links observes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Interest {
    until_ms: u64,
    timelines: Vec<(HostId, ThreadId)>,
}

type Interests = BTreeMap<String, Interest>;

impl Actor {
    /// Says what this process observes, or that it observes nothing.
    pub(crate) fn announce(&mut self) {
        if self.is_owner() || (self.observed.is_empty() && !self.announced) {
            return;
        }
        let until_ms = self.shared.platform.now_ms().saturating_add(HOLDS_MS);
        let interest = (!self.observed.is_empty()).then(|| Interest {
            until_ms,
            timelines: self.observed.keys().copied().collect(),
        });
        self.announced = interest.is_some();
        let holder = self.holder.clone();
        let said = self.store.transaction(
            |tx| {
                let mut all = interests(tx)?;
                match interest {
                    Some(interest) => all.insert(holder, interest),
                    None => all.remove(&holder),
                };
                keep(tx, OBSERVED, &all)
            },
            Durability::Lazy,
        );
        self.note("saying what is observed", said);
    }

    /// The owner looks at what others observe: follows it, and lets go of what nobody observes any more.
    pub(crate) fn serve_others(&mut self) {
        if !self.is_owner() {
            return;
        }
        let now = self.shared.platform.now_ms();
        let held = self.store.setting(OBSERVED);
        let Some(held) = self.note("reading what others observe", held) else {
            return;
        };
        let wanted: BTreeSet<(HostId, ThreadId)> = read::<Interests>(held)
            .into_values()
            .filter(|interest| interest.until_ms > now)
            .flat_map(|interest| interest.timelines)
            .collect();
        let before = std::mem::replace(&mut self.elsewhere, wanted);
        let fresh: Vec<_> = self.elsewhere.difference(&before).copied().collect();
        let gone: Vec<_> = before
            .difference(&self.elsewhere)
            .filter(|key| !self.observed.contains_key(key))
            .copied()
            .collect();
        for (host, thread) in &fresh {
            self.follow(*host, *thread);
            self.save_texts(*host, *thread);
        }
        for (host, thread) in &gone {
            self.unfollow(*host, *thread);
        }
        if !fresh.is_empty() || !gone.is_empty() {
            self.tell_current();
        }
    }

    /// Whether anybody, here or elsewhere, observes a timeline.
    pub(crate) fn is_observed(&self, host: HostId, thread: ThreadId) -> bool {
        self.observed.contains_key(&(host, thread)) || self.elsewhere.contains(&(host, thread))
    }

    /// All timelines of a host that anybody observes.
    pub(crate) fn observed_of(&self, host: HostId) -> Vec<ThreadId> {
        let all: BTreeSet<ThreadId> = self
            .observed
            .keys()
            .chain(&self.elsewhere)
            .filter(|(of, _)| *of == host)
            .map(|(_, thread)| *thread)
            .collect();
        all.into_iter().collect()
    }

    /// The owner notes which timelines that others observe are current.
    pub(crate) fn tell_current(&mut self) {
        if self.elsewhere.is_empty() {
            return;
        }
        let current: Vec<(HostId, ThreadId)> = {
            let live = lock(&self.shared.live);
            self.elsewhere
                .iter()
                .filter(|key| live.threads.get(key).is_some_and(|held| held.synchronised))
                .copied()
                .collect()
        };
        if self.told_current.as_ref() == Some(&current) {
            return;
        }
        let told = self
            .store
            .transaction(|tx| keep(tx, CURRENT, &current), Durability::Lazy);
        if self.note("saying what is current", told).is_some() {
            self.told_current = Some(current);
        }
    }

    /// Saves the streamed texts of a timeline that others observe.
    pub(crate) fn save_texts(&mut self, host: HostId, thread: ThreadId) {
        if !self.elsewhere.contains(&(host, thread)) {
            return;
        }
        let texts: Vec<_> = {
            let live = lock(&self.shared.live);
            live.threads
                .get(&(host, thread))
                .map(|held| {
                    held.texts
                        .iter()
                        .map(|(item, buffer)| pilothouse_domain::row::OpenItem {
                            item: *item,
                            from: buffer.from(),
                            text: buffer.text().to_owned(),
                        })
                        .collect()
                })
                .unwrap_or_default()
        };
        let saved = self.store.transaction(
            |tx| {
                if tx.state(thread)?.is_none() {
                    return Ok(());
                }
                for text in &texts {
                    tx.put_open_item(thread, text)?;
                }
                Ok::<_, StoreError>(())
            },
            Durability::Lazy,
        );
        self.note("saving streamed text", saved);
    }

    /// A process without the links takes over what the owner has saved.
    pub(crate) fn learn_from_owner(&mut self) {
        if self.is_owner() || self.observed.is_empty() {
            return;
        }
        let current = self.store.setting(CURRENT);
        let Some(current) = self.note("reading what is current", current) else {
            return;
        };
        let current: BTreeSet<(HostId, ThreadId)> = read(current);
        let keys: Vec<_> = self.observed.keys().copied().collect();
        for (host, thread) in keys {
            let open = self.store.open_items(thread, LIVE_TEXT);
            let Some(open) = self.note("reading streamed text", open) else {
                continue;
            };
            let mut live = lock(&self.shared.live);
            let held = live.thread(host, thread);
            held.synchronised = current.contains(&(host, thread));
            held.texts = open
                .iter()
                .map(|item| (item.item, LiveBuffer::new(item.from, &item.text)))
                .collect();
        }
    }
}

fn interests(tx: &ReplicaTx<'_>) -> Result<Interests, StoreError> {
    Ok(read(tx.setting(OBSERVED)?))
}

/// A setting of ours; one that does not read is as good as none.
fn read<T: Default + for<'de> Deserialize<'de>>(text: Option<String>) -> T {
    text.and_then(|text| pilothouse_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn keep<T: Serialize>(tx: &ReplicaTx<'_>, key: &str, value: &T) -> Result<(), StoreError> {
    let text = serde_json::to_string(value).unwrap_or_default();
    tx.put_setting(key, &text)
}
