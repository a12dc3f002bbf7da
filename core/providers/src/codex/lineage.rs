//! Which conversation works for which, and which turn is going on: what codex tells only in passing.
//!
//! A subagent's conversation is never announced. It is seen first in an item of its parent, or in a `turn/started` whose
//! `rootTurnId` is another conversation's turn. Every map is bounded: the oldest links are forgotten.

use crate::rpc::{
    bounded::Bounded,
    budget::{self, Excess},
};
use pilothouse_domain::{NativeId, provider_event::NativePlace};

/// Conversations, links and turns that are remembered, each.
pub(crate) const REMEMBERED: usize = 4096;

/// A subagent's link.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    /// The conversation at the top.
    pub(crate) root: NativeId,
    /// Where its parent opened it.
    pub(crate) parent: NativePlace,
    /// Whether its end was not seen yet.
    pub(crate) open: bool,
}

impl Child {
    /// Bytes that it holds beside itself.
    fn weight(&self) -> usize {
        let NativePlace { thread, root, turn } = &self.parent;
        let ids = [thread.as_ref(), root.as_ref(), turn.as_ref()];
        ids.map(budget::id).iter().sum::<usize>() + budget::id(Some(&self.root))
    }
}

/// Links and running turns of one codex process.
#[derive(Debug, Clone)]
pub(crate) struct Lineage {
    children: Bounded<Child>,
    /// Turn to its conversation.
    turns: Bounded<NativeId>,
    /// Conversation to the turn that is going on.
    active: Bounded<NativeId>,
    /// Conversations that we opened.
    opened: Bounded<()>,
    /// Turns that were seen to end.
    ended: Bounded<()>,
}

impl Lineage {
    pub(crate) fn new() -> Self {
        Self {
            children: Bounded::new(REMEMBERED),
            turns: Bounded::new(REMEMBERED),
            active: Bounded::new(REMEMBERED),
            opened: Bounded::new(REMEMBERED),
            ended: Bounded::new(REMEMBERED),
        }
    }

    /// Bytes of all of it.
    pub(crate) fn weight(&self) -> usize {
        self.children.weight(Child::weight)
            + self.turns.weight(|of| budget::id(Some(of)))
            + self.active.weight(|turn| budget::id(Some(turn)))
            + self.opened.weight(|()| 0)
            + self.ended.weight(|()| 0)
    }

    /// Gives up the oldest of what is over, as long as there is an excess. What a subagent that goes on asks is told to the
    /// conversation at its top, so its link stays.
    pub(crate) fn shed(&mut self, excess: &mut Excess) {
        self.ended.shed(excess, |()| 0);
        self.turns.shed(excess, |of| budget::id(Some(of)));
        self.children
            .shed_where(excess, Child::weight, |child| !child.open);
    }

    /// Where something of that conversation and turn happened.
    pub(crate) fn place(&self, thread: Option<NativeId>, turn: Option<NativeId>) -> NativePlace {
        let root = thread
            .as_ref()
            .and_then(|thread| self.children.get(thread))
            .map(|child| child.root.clone());
        NativePlace { thread, root, turn }
    }

    /// Remembers a conversation of our own.
    pub(crate) fn thread_opened(&mut self, thread: NativeId) {
        self.opened.insert(thread, ());
    }

    /// By what name a turn of a conversation goes on: a review begins under a name of its own, and all that follows names its
    /// root (docs/agents-probes.md, section 12).
    pub(crate) fn name_of_turn(
        &self,
        thread: &NativeId,
        turn: NativeId,
        root_turn: Option<&NativeId>,
    ) -> NativeId {
        let root = root_turn.filter(|root| {
            self.opened.contains(thread) && self.turns.get(root).is_none_or(|of| of == thread)
        });
        root.cloned().unwrap_or(turn)
    }

    /// A turn began. Gives the place of the parent if its conversation thereby turned out to be a subagent's.
    pub(crate) fn turn_started(
        &mut self,
        thread: &NativeId,
        turn: &NativeId,
        root_turn: Option<&NativeId>,
    ) -> Option<NativePlace> {
        self.active.insert(thread.clone(), turn.clone());
        self.turns.insert(turn.clone(), thread.clone());
        if self.opened.contains(thread) {
            return None;
        }
        let root_turn = root_turn.filter(|root| *root != turn)?;
        let parent_thread = self.turns.get(root_turn)?.clone();
        if parent_thread == *thread {
            return None;
        }
        let known = self.children.get(thread).map(|child| child.parent.clone());
        Some(known.unwrap_or_else(|| self.place(Some(parent_thread), Some(root_turn.clone()))))
    }

    /// Links a child. `false` if it is open already or cannot be one.
    pub(crate) fn open_child(&mut self, child: &NativeId, parent: &NativePlace) -> bool {
        let Some(root) = parent.home().cloned() else {
            return false;
        };
        // An agent that names itself, or the root, as its child is not believed.
        if *child == root || parent.thread.as_ref() == Some(child) || self.opened.contains(child) {
            return false;
        }
        if let Some(known) = self.children.get_mut(child) {
            let was_open = known.open;
            known.open = true;
            return !was_open;
        }
        self.children.insert(
            child.clone(),
            Child {
                root,
                parent: parent.clone(),
                open: true,
            },
        );
        true
    }

    /// A child ended: where it was opened, if it was open.
    pub(crate) fn close_child(&mut self, child: &NativeId) -> Option<NativePlace> {
        let known = self.children.get_mut(child).filter(|known| known.open)?;
        known.open = false;
        Some(known.parent.clone())
    }

    /// Links a conversation to the one that began it, as codex says it of both.
    pub(crate) fn adopt(&mut self, child: &NativeId, parent: &NativeId) {
        let turn = self.active_turn(parent).cloned();
        let parent = self.place(Some(parent.clone()), turn);
        self.open_child(child, &parent);
    }

    /// Takes over what the history says of a turn. One that was seen to end does not begin again.
    pub(crate) fn turn_is(&mut self, thread: &NativeId, turn: &NativeId, goes_on: bool) {
        if !goes_on {
            self.turn_ended(thread, turn);
        } else if !self.ended.contains(turn) {
            self.turn_started(thread, turn, None);
        }
    }

    /// A turn ended.
    pub(crate) fn turn_ended(&mut self, thread: &NativeId, turn: &NativeId) {
        self.ended.insert(turn.clone(), ());
        if self.active.get(thread) == Some(turn) {
            self.active.remove(thread);
        }
    }

    /// The turn that is going on in a conversation.
    pub(crate) fn active_turn(&self, thread: &NativeId) -> Option<&NativeId> {
        self.active.get(thread)
    }

    /// All turns that are going on, with their conversations.
    pub(crate) fn active_turns(&self) -> impl Iterator<Item = NativePlace> {
        self.active
            .iter()
            .map(|(thread, turn)| self.place(Some(thread.clone()), Some(turn.clone())))
    }

    /// Whether this turn was seen before.
    pub(crate) fn knows_turn(&self, turn: &NativeId) -> bool {
        self.turns.contains(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> NativeId {
        NativeId::from(text)
    }

    #[test]
    fn a_grandchild_is_at_home_in_the_root_conversation() {
        let mut lineage = Lineage::new();
        lineage.thread_opened(id("root"));
        assert_eq!(
            lineage.turn_started(&id("root"), &id("t1"), Some(&id("t1"))),
            None
        );
        let parent = lineage
            .turn_started(&id("kid"), &id("t2"), Some(&id("t1")))
            .unwrap();
        assert!(lineage.open_child(&id("kid"), &parent));
        let kid = lineage.place(Some(id("kid")), Some(id("t2")));
        assert!(lineage.open_child(&id("grandkid"), &kid));
        let place = lineage.place(Some(id("grandkid")), None);
        assert_eq!(place.home(), Some(&id("root")));
    }

    #[test]
    fn a_conversation_that_names_itself_as_its_child_is_not_believed() {
        let mut lineage = Lineage::new();
        lineage.thread_opened(id("root"));
        let place = lineage.place(Some(id("root")), None);
        assert!(!lineage.open_child(&id("root"), &place));
    }

    #[test]
    fn a_review_ends_by_the_name_that_it_goes_by() {
        let mut lineage = Lineage::new();
        lineage.thread_opened(id("root"));
        let turn = lineage.name_of_turn(&id("root"), id("inner"), Some(&id("review")));
        assert_eq!(turn, id("review"));
        lineage.turn_started(&id("root"), &turn, Some(&id("review")));
        lineage.turn_ended(&id("root"), &id("review"));
        assert_eq!(lineage.active_turn(&id("root")), None);
        // A subagent's turn keeps its own: its root is another conversation's.
        lineage.turn_started(&id("root"), &id("t1"), Some(&id("t1")));
        assert_eq!(
            lineage.name_of_turn(&id("kid"), id("t2"), Some(&id("t1"))),
            id("t2")
        );
    }

    #[test]
    fn a_subagent_that_goes_on_keeps_its_root_whatever_is_to_be_given_up() {
        let mut lineage = Lineage::new();
        let parent = lineage.place(Some(id("root")), Some(id("t1")));
        for child in ["live", "over"] {
            assert!(lineage.open_child(&id(child), &parent));
        }
        lineage.close_child(&id("over"));
        lineage.shed(&mut Excess::of(usize::MAX));
        let home = |child: &str| lineage.place(Some(id(child)), None).home().cloned();
        assert_eq!(home("live"), Some(id("root")));
        assert_eq!(home("over"), Some(id("over")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut lineage = Lineage::new();
        for n in 0..3 * REMEMBERED {
            lineage.turn_started(&id(&format!("c{n}")), &id(&format!("t{n}")), None);
        }
        assert_eq!(lineage.turns.len(), REMEMBERED);
        assert_eq!(lineage.active.len(), REMEMBERED);
    }
}
