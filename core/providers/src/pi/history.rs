//! A session read back: its active branch as turns with the ids that they had when they happened.
//!
//! Only words are told, a person's and the model's. What pi keeps of a tool is less than it said of it when it ran (no exit
//! code), and would replace what is known better.

use super::{
    messages::{self, TIMES},
    replies::{Entries, PastTurn},
    turns::Stop,
};
use crate::rpc::{bounded::Bounded, frames::text_of};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus, provider_event::NativePlace,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads the entries of a session; the branch is the one that ends at `leaf`.
pub(super) fn read(home: Option<&NativeId>, entries: &[Value], leaf: Option<&str>) -> Entries {
    let mut turns: Vec<PastTurn> = Vec::new();
    let mut times = Bounded::new(TIMES);
    // Until when the run goes on that the last message belongs to, Unix ms; a tool's result always belongs to one.
    let mut busy_until = None;
    for entry in branch(entries, leaf) {
        let Some(message) = entry.get("message").filter(|message| message.is_object()) else {
            continue;
        };
        match message.get("role").and_then(Value::as_str) {
            Some("user") => {
                let Some(item) = messages::id(&mut times, 'u', message) else {
                    continue;
                };
                let time = message.get("timestamp").and_then(Value::as_u64);
                // What was said while the agent was at work was put into its turn.
                let steers = busy_until.is_some_and(|until| time.is_some_and(|time| time <= until));
                if !steers || turns.is_empty() {
                    turns.push(PastTurn {
                        id: messages::turn_id(&item),
                        entry: text_of(entry, "id").unwrap_or_default(),
                        events: Vec::new(),
                        stop: None,
                    });
                }
                let kind = ProviderEventKind::ItemClosed {
                    item,
                    status: ItemStatus::Completed,
                    content: ItemContent::UserMessage {
                        message: None,
                        text: Body::inline(messages::said(message)),
                        attachments: Vec::new(),
                    },
                    client_id: None,
                };
                tell(&mut turns, home, [kind]);
            }
            Some("assistant") => {
                let Some(id) = messages::id(&mut times, 'a', message) else {
                    continue;
                };
                let whole: Vec<_> = messages::parts(message).collect();
                let stop = Stop::of(message);
                let status = stop.leaves();
                if let Some(turn) = turns.last_mut() {
                    turn.stop = Some(stop);
                }
                let closed = messages::closed(&id, &whole, status);
                tell(&mut turns, home, closed.into_iter().map(|(kind, _)| kind));
                let began = message.get("timestamp").and_then(Value::as_u64);
                let took = message.get("durationMs").and_then(Value::as_u64);
                busy_until = began.map(|began| began.saturating_add(took.unwrap_or(0)));
            }
            Some("toolResult") => busy_until = Some(u64::MAX),
            _ => {}
        }
    }
    for turn in &mut turns {
        let place = NativePlace {
            thread: home.cloned(),
            root: None,
            turn: Some(turn.id.clone()),
        };
        let at = |kind| ProviderEvent {
            place: place.clone(),
            kind,
        };
        turn.events.insert(0, at(ProviderEventKind::TurnStarted));
        let (status, error) = match turn.stop.take() {
            Some(Stop::Well | Stop::Length) => (TurnStatus::Completed, None),
            Some(Stop::Aborted) | None => (TurnStatus::Interrupted, None),
            Some(Stop::Failed(error)) => (TurnStatus::Failed, Some(error)),
        };
        let ended = ProviderEventKind::TurnEnded { status, error };
        turn.events.push(at(ended));
    }
    Entries { turns }
}

fn tell(
    turns: &mut [PastTurn],
    home: Option<&NativeId>,
    kinds: impl IntoIterator<Item = ProviderEventKind>,
) {
    let Some(turn) = turns.last_mut() else { return };
    let place = NativePlace {
        thread: home.cloned(),
        root: None,
        turn: Some(turn.id.clone()),
    };
    let events = kinds.into_iter().map(|kind| ProviderEvent {
        place: place.clone(),
        kind,
    });
    turn.events.extend(events);
}

/// The entries from the root to a leaf; all of them in their order if the leaf is not said or not there.
fn branch<'e>(entries: &'e [Value], leaf: Option<&str>) -> Vec<&'e Value> {
    let id = |entry: &'e Value| entry.get("id").and_then(Value::as_str);
    let by_id: BTreeMap<&str, &Value> = entries
        .iter()
        .filter_map(|entry| Some((id(entry)?, entry)))
        .collect();
    let mut next = leaf.and_then(|leaf| by_id.get(leaf));
    if next.is_none() {
        return entries.iter().collect();
    }
    let mut branch = Vec::new();
    // No longer than there are entries, whatever their parents claim.
    while let Some(entry) = next
        && branch.len() < entries.len()
    {
        branch.push(*entry);
        next = entry
            .get("parentId")
            .and_then(Value::as_str)
            .and_then(|parent| by_id.get(parent));
    }
    branch.reverse();
    branch
}

impl Entries {
    /// The events of the last turns, oldest first.
    pub fn last(self, turns: u32) -> Vec<ProviderEvent> {
        let skipped = self.turns.len().saturating_sub(turns as usize);
        let kept = self.turns.into_iter().skip(skipped);
        kept.flat_map(|turn| turn.events).collect()
    }

    /// The entry of the message that began a turn.
    pub(super) fn entry(&self, turn: &NativeId) -> Option<&str> {
        let found = self.turns.iter().find(|past| past.id == *turn);
        found.map(|past| past.entry.as_str())
    }

    /// The entry of the message that follows a turn; `Err` if that turn is not there, `None` if nothing follows it.
    pub(super) fn after(&self, turn: &NativeId) -> Result<Option<&str>, ()> {
        let at = self.turns.iter().position(|past| past.id == *turn);
        let at = at.ok_or(())?;
        Ok(self.turns.get(at + 1).map(|past| past.entry.as_str()))
    }
}
