//! All conversations of one process, in one budget of bytes.
//!
//! Those that this host opened are kept apart from those that an agent names by itself, its subagents': no number of the
//! latter pushes one of the former out.

use super::{conversation::Conversation, tools::Tool};
use crate::rpc::{bounded::Bounded, budget::HELD_LIMIT};
use pilothouse_domain::NativeId;

/// Conversations that this host opened and that are known.
const OURS: usize = 64;
/// Conversations of subagents that are known.
const OTHERS: usize = 256;
/// Bytes that are remembered of all conversations together, of the budget of their process; beyond, what is oldest where most
/// is held is given up.
const HELD: usize = HELD_LIMIT / 4;

#[derive(Debug, Clone)]
pub(super) struct Conversations {
    ours: Bounded<Conversation>,
    others: Bounded<Conversation>,
    /// Open tools of conversations that had to go, with those.
    dropped: Vec<(NativeId, Tool)>,
}

impl Default for Conversations {
    fn default() -> Self {
        Self {
            ours: Bounded::new(OURS),
            others: Bounded::new(OTHERS),
            dropped: Vec::new(),
        }
    }
}

impl Conversations {
    pub(super) fn get(&self, session: &NativeId) -> Option<&Conversation> {
        self.ours.get(session).or_else(|| self.others.get(session))
    }

    /// A conversation's state, made if it is new.
    pub(super) fn entry(&mut self, session: &NativeId) -> &mut Conversation {
        if self.ours.contains(session) {
            return self.ours.entry(session);
        }
        if !self.others.contains(session)
            && self.others.is_full()
            && let Some((gone, known)) = self.others.pop_oldest()
        {
            let open = known.into_open();
            self.dropped.extend(open.map(|tool| (gone.clone(), tool)));
        }
        self.others.entry(session)
    }

    /// The state of a conversation that this host opens, made if it is new. What came of it before is kept.
    pub(super) fn ours(&mut self, session: &NativeId) -> &mut Conversation {
        if let Some(known) = self.others.remove(session) {
            self.ours.insert(session.clone(), known);
        }
        self.ours.entry(session)
    }

    /// Whether this host opened it.
    pub(super) fn is_ours(&self, session: &NativeId) -> bool {
        self.ours.contains(session)
    }

    /// Those that this host opened.
    pub(super) fn all_ours(&self) -> impl Iterator<Item = (&NativeId, &Conversation)> {
        self.ours.iter()
    }

    /// Forgets a subagent's conversation.
    pub(super) fn forget(&mut self, session: &NativeId) {
        self.others.remove(session);
    }

    /// Gives up what is remembered beyond the budget: open tools that had to go, with their conversations, and how many
    /// tools and lists went in all.
    pub(super) fn fit(&mut self) -> (Vec<(NativeId, Tool)>, usize) {
        let mut open = std::mem::take(&mut self.dropped);
        let mut gone = open.len();
        while self.held() > HELD {
            let ours = self.ours.iter_mut().map(|(id, known)| (id, known, true));
            let others = self.others.iter_mut().map(|(id, known)| (id, known, false));
            let all = ours.chain(others);
            let Some((session, most, is_ours)) = all.max_by_key(|(_, known, _)| known.held())
            else {
                break;
            };
            let Some(given_up) = most.give_up(is_ours) else {
                break;
            };
            gone += 1;
            open.extend(given_up.map(|tool| (session.clone(), tool)));
        }
        (open, gone)
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.ours.weight(Conversation::held) + self.others.weight(Conversation::held)
    }
}
