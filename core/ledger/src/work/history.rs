//! What a resumed conversation holds is compared with what the log knows: items that ended unseen are closed, and a message
//! whose delivery was unknown is resolved. Nothing is opened again, nothing is sent again.

use super::Work;
use crate::runtimes::SessionFacts;
use pilothouse_domain::{
    Body, Cause, EffectKind, EffectOutcome, Event, ItemContent, LoggedEvent, MessageId, NativeId,
    ProviderEvent, ProviderEventKind, ProviderTurnId, Row, RunId, ThreadId,
    binding::{Binding, BindingKey, BindingTarget},
    item::Position,
    policy::Contract,
    row::RowKind,
    run::{ErrorCode, RunAttempt, RunError},
    thread::Delivery,
};
use pilothouse_orchestrator::Decision;
use pilothouse_store::{LedgerTx, StoreError, StoredEffect};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of entries that are looked through for a session; behind more nothing is certain.
const SINCE_BYTES: usize = 1 << 20;

/// Bytes of blanks around a message that its agent may drop.
const AROUND: u64 = 256;

/// The last turns of a native conversation.
pub(crate) struct Past {
    pub(crate) conversation: NativeId,
    pub(crate) events: Vec<ProviderEvent>,
    /// How many of the newest turns were asked for.
    pub(crate) turns: u32,
    /// Whether turns that nobody here began are taken in.
    pub(crate) foreign: Foreign,
    /// See `History::proves_absence`.
    pub(crate) proves_absence: bool,
}

/// Whether turns of a conversation are taken in that nobody here began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// They are not: a run is on its way, and they cannot be put before it.
    No,
    /// Those after one that is known; if none of these turns is, more of them have to be read.
    AfterKnown,
    /// All but those before one that is known.
    All,
}

/// A turn of a conversation, as it was read back.
struct PastTurn<'e> {
    id: &'e NativeId,
    events: Vec<&'e ProviderEvent>,
    /// Whether it stands in the log.
    known: bool,
}

impl<'e> PastTurn<'e> {
    /// The turns of a history, in their order.
    fn all(events: &'e [ProviderEvent]) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for event in events {
            let Some(id) = &event.place.turn else {
                continue;
            };
            match turns.iter_mut().find(|turn| turn.id == id) {
                Some(turn) => turn.events.push(event),
                None => turns.push(Self {
                    id,
                    events: vec![event],
                    known: false,
                }),
            }
        }
        turns
    }

    /// What a person said in it without an id of ours.
    fn words(&self) -> Option<&Body> {
        self.events.iter().find_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::UserMessage { text, .. },
                client_id: None,
                ..
            } => Some(text),
            _ => None,
        })
    }
}

impl Work {
    /// Takes in what happened while nobody listened: what belongs to turns of ours, and, where it is asked for, turns that
    /// somebody else began. `false`: none of the turns is known, and more have to be read to know where they belong.
    pub(super) fn take_history(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
        past: &Past,
    ) -> Result<bool, StoreError> {
        self.load(tx, thread)?;
        // Whether what is read back was asked for was not seen here.
        let facts = &SessionFacts {
            contract: Contract::default(),
            ..facts.clone()
        };
        let agent = facts.agent.as_str();
        let turn_key = |turn: &NativeId| BindingKey::Turn {
            thread: past.conversation.clone(),
            turn: turn.clone(),
        };
        let mut ours = messages(&past.events);
        let mut turns = PastTurn::all(&past.events);
        for turn in &mut turns {
            turn.known = is_known(tx, agent, &past.conversation, turn)?;
            // An agent that keeps no id of ours: a message of which it is not known whether it arrived.
            if !turn.known
                && let Some(words) = turn.words()
                && let Some(message) = undelivered(tx, thread, words)?
            {
                ours.entry(message).or_insert_with(|| turn.id.clone());
            }
        }
        for (message, turn) in &ours {
            let key = turn_key(turn);
            if tx.binding(agent, &key)?.is_none()
                && let Some(target) = self.turn_of(tx, thread, *message)?
            {
                tx.put_binding(agent, thread, &Binding { key, target })?;
            }
        }
        for turn in &mut turns {
            let bound = tx.binding(agent, &turn_key(turn.id))?.is_some();
            turn.known |= bound;
            let ended = turn.events.iter().filter(|event| {
                bound && matches!(event.kind, ProviderEventKind::ItemClosed { .. })
            });
            for event in ended {
                self.ingest(tx, thread, facts, event)?;
            }
        }
        self.resolve_delivery(tx, thread, facts, &ours, past)?;
        let first_known = turns.iter().position(|turn| turn.known);
        // A fork's conversation begins with turns of its source, which stand there.
        let is_fork = self
            .state(thread)
            .and_then(|state| state.meta.as_ref()?.lineage)
            .is_some();
        let from = match (past.foreign, first_known) {
            (Foreign::No, _) => return Ok(true),
            (Foreign::AfterKnown, None) => return Ok(false),
            (_, Some(first)) => first,
            (Foreign::All, None) if is_fork => turns.len(),
            (Foreign::All, None) => 0,
        };
        for turn in turns.iter().skip(from).filter(|turn| !turn.known) {
            for event in &turn.events {
                self.ingest(tx, thread, facts, event)?;
            }
        }
        Ok(true)
    }

    /// The attempt that sent a message, as the target of its turn's binding.
    fn turn_of(
        &self,
        tx: &LedgerTx<'_>,
        thread: ThreadId,
        message: MessageId,
    ) -> Result<Option<BindingTarget>, StoreError> {
        let Some(run) = run_of(tx, thread, message)? else {
            return Ok(None);
        };
        let Some(Row::Run(row)) = tx.row(thread, RowKind::Run.key(run.as_bytes()))? else {
            return Ok(None);
        };
        let (Some(ordinal), Some(attempt)) = (row.ordinal, row.attempt) else {
            return Ok(None);
        };
        let Some(Row::Attempt(RunAttempt { root_node, .. })) =
            tx.row(thread, RowKind::Attempt.key(attempt.as_bytes()))?
        else {
            return Ok(None);
        };
        let turn: ProviderTurnId = self.mint(thread).mint();
        Ok(Some(BindingTarget::Turn {
            turn,
            attempt,
            run,
            ordinal,
            node: root_node,
            ended: true,
        }))
    }

    /// Records that a message was never handed over, where that is certain after the host's death: a conversation is bound,
    /// on disk, before anything is said in it, and this thread has none; or its agent was still being started. `false`: it
    /// is not certain, or no message.
    pub(crate) fn never_sent(
        &mut self,
        tx: &mut LedgerTx<'_>,
        StoredEffect {
            thread,
            seq,
            effect,
        }: &StoredEffect,
    ) -> Result<bool, StoreError> {
        let thread = *thread;
        let EffectKind::SendTurn { message, .. } = &effect.kind else {
            return Ok(false);
        };
        self.load(tx, thread)?;
        let bound = self
            .state(thread)
            .is_none_or(|state| state.provider_thread.is_some());
        if bound && !self.had_no_session(tx, thread, *seq)? {
            return Ok(false);
        }
        let reason = "it had not reached the agent when the host stopped".to_owned();
        tx.effect_done(
            effect.id,
            &EffectOutcome::Failed {
                error: RunError {
                    code: ErrorCode::RuntimeLost,
                    message: reason.clone(),
                },
            },
        )?;
        let delivery = Delivery::Failed { reason };
        self.deliver(
            tx,
            thread,
            Cause::Effect { effect: effect.id },
            *message,
            delivery,
        )?;
        Ok(true)
    }

    /// Whether no session served a thread at any time after an entry. A new one is told to its thread, on disk, before
    /// anything is said to it: there was nobody then to whom an effect of that entry can have been handed.
    fn had_no_session(
        &self,
        tx: &LedgerTx<'_>,
        thread: ThreadId,
        seq: u64,
    ) -> Result<bool, StoreError> {
        let live = self
            .state(thread)
            .and_then(|state| state.session.as_ref())
            .is_some_and(|session| session.live);
        if live {
            return Ok(false);
        }
        let entries = tx.entries_after(thread, seq, SINCE_BYTES)?;
        let read = entries.last().map_or(seq, |last| last.seq);
        let other = |event: &LoggedEvent| match event {
            LoggedEvent::Known(event) => !matches!(
                **event,
                Event::SessionChanged { .. } | Event::SessionStatusChanged { .. }
            ),
            LoggedEvent::Unknown(_) => false,
        };
        let silent = entries.iter().flat_map(|entry| &entry.events).all(other);
        Ok(silent && read == tx.cursor(thread)?.seq)
    }

    /// Appends how far a message got.
    fn deliver(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        cause: Cause,
        message: MessageId,
        delivery: Delivery,
    ) -> Result<(), StoreError> {
        let events = vec![Event::MessageDelivery { message, delivery }];
        self.append(
            tx,
            thread,
            cause,
            Decision {
                events,
                ..Decision::default()
            },
        )
    }

    /// Resolves deliveries that are unknown: of every message that the conversation holds, and of those that began a recent
    /// run where the conversation proves that it holds them not.
    fn resolve_delivery(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
        ours: &BTreeMap<MessageId, NativeId>,
        past: &Past,
    ) -> Result<(), StoreError> {
        let absent = if past.proves_absence {
            absent(&recent_messages(tx, thread)?, ours, past)
        } else {
            Vec::new()
        };
        for message in ours.keys().copied().chain(absent) {
            let unknown = matches!(
                tx.row(thread, RowKind::Message.key(message.as_bytes()))?,
                Some(Row::Message(row)) if row.delivery == Delivery::Unknown
            );
            if !unknown {
                continue;
            }
            let delivery = if ours.contains_key(&message) {
                Delivery::Started
            } else {
                Delivery::Failed {
                    reason: "it had not reached the agent when the host stopped".into(),
                }
            };
            let cause = Cause::Provider {
                session: self.context(thread, facts).session,
            };
            self.deliver(tx, thread, cause, message, delivery)?;
        }
        Ok(())
    }
}

/// Bytes of rows that are looked through for recent runs.
const RECENT_BYTES: usize = 256 * 1024;

/// Those of the newest messages that the conversation surely lacks: their turns would be among those that were read,
/// because all were, or because the turn of an older message is among them. Turns that somebody else put into the
/// conversation take up room, so that a number of turns alone proves nothing.
fn absent(
    recent: &[(u32, MessageId)],
    ours: &BTreeMap<MessageId, NativeId>,
    past: &Past,
) -> Vec<MessageId> {
    let turns = past
        .events
        .iter()
        .filter_map(|event| event.place.turn.as_ref());
    let everything = turns.collect::<BTreeSet<_>>().len() < past.turns as usize;
    let seen = recent
        .iter()
        .filter(|(_, message)| ours.contains_key(message));
    let oldest_seen = seen.map(|(ordinal, _)| *ordinal).min();
    let reached = |ordinal: u32| everything || oldest_seen.is_some_and(|seen| seen < ordinal);
    let missing = recent
        .iter()
        .filter(|(ordinal, message)| reached(*ordinal) && !ours.contains_key(message));
    missing.map(|(_, message)| *message).collect()
}

/// The messages that began the newest runs, with the runs' ordinals, oldest first.
fn recent_messages(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
) -> Result<Vec<(u32, MessageId)>, StoreError> {
    let end = Position {
        run: u32::MAX,
        arrival: u64::MAX >> 1,
    };
    let rows = tx.items_before(thread, end, RECENT_BYTES)?.rows;
    let mut runs: Vec<_> = rows
        .into_iter()
        .filter_map(|row| match row {
            Row::Run(run) => Some((run.ordinal?, run.message?)),
            _ => None,
        })
        .collect();
    runs.sort_unstable();
    Ok(runs)
}

fn run_of(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
    message: MessageId,
) -> Result<Option<RunId>, StoreError> {
    Ok(
        match tx.row(thread, RowKind::Message.key(message.as_bytes()))? {
            Some(Row::Message(row)) => Some(row.run),
            _ => None,
        },
    )
}

/// Whether a turn stands in the log: it does, or something of it.
fn is_known(
    tx: &LedgerTx<'_>,
    agent: &str,
    conversation: &NativeId,
    turn: &PastTurn<'_>,
) -> Result<bool, StoreError> {
    let key = BindingKey::Turn {
        thread: conversation.clone(),
        turn: turn.id.clone(),
    };
    if tx.binding(agent, &key)?.is_some() {
        return Ok(true);
    }
    for event in &turn.events {
        if let ProviderEventKind::ItemClosed { item, .. } = &event.kind {
            let key = BindingKey::Item {
                thread: conversation.clone(),
                item: item.clone(),
            };
            if tx.binding(agent, &key)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The newest message with these words of which it is not known whether it arrived.
fn undelivered(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
    words: &Body,
) -> Result<Option<MessageId>, StoreError> {
    for (_, message) in recent_messages(tx, thread)?.into_iter().rev() {
        if let Some(Row::Message(row)) = tx.row(thread, RowKind::Message.key(message.as_bytes()))?
            && row.delivery == Delivery::Unknown
            && is_same_text(&row.text, words)
        {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// Whether a message's text is what its agent keeps of it, but for blanks around it. A long one is known by its size and by
/// both its ends.
fn is_same_text(ours: &Body, kept: &Body) -> bool {
    let (ours, kept) = match (ours, kept) {
        (Body::Stored(ours), Body::Stored(kept)) => return ours.hash == kept.hash,
        (Body::Stored(stored), Body::Inline(text)) | (Body::Inline(text), Body::Stored(stored)) => {
            let text = text.trim();
            let around = (stored.bytes + stored.dropped).checked_sub(text.len() as u64);
            return around.is_some_and(|around| around <= AROUND)
                && text.starts_with(stored.head.trim_start())
                && text.ends_with(stored.tail.trim_end());
        }
        (Body::Inline(ours), Body::Inline(kept)) => (ours, kept),
    };
    ours.trim() == kept.trim()
}

/// Messages of ours in the history, with their turns.
fn messages(events: &[ProviderEvent]) -> BTreeMap<MessageId, NativeId> {
    let ours = events.iter().filter_map(|event| {
        let ProviderEventKind::ItemClosed {
            client_id: Some(id),
            ..
        } = &event.kind
        else {
            return None;
        };
        Some((id.parse().ok()?, event.place.turn.clone()?))
    });
    ours.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_domain::{BlobHash, item::StoredBody};

    fn stored(text: &str) -> Body {
        Body::Stored(StoredBody {
            hash: BlobHash::of(text.as_bytes()),
            bytes: text.len() as u64,
            head: text[..100].to_owned(),
            tail: text[text.len() - 100..].to_owned(),
            dropped: 0,
        })
    }

    #[test]
    fn a_long_message_is_known_by_what_its_agent_keeps_of_it() {
        let log: String = (0..1000)
            .map(|line| format!("line {line} of a log\n"))
            .collect();
        let ours = stored(&log);
        assert!(is_same_text(&ours, &Body::inline(&log)));
        assert!(is_same_text(&ours, &Body::inline(log.trim())));
        assert!(is_same_text(&ours, &stored(&log)));
        assert!(!is_same_text(&ours, &Body::inline(&log[..8000])));
        assert!(!is_same_text(
            &ours,
            &Body::inline(log.replace("line 999", "line 998"))
        ));
        assert!(!is_same_text(&ours, &Body::inline(format!("{log}{log}"))));
    }
}
