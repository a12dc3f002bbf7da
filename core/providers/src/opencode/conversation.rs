//! What is known of one conversation: its turn, its messages, its parts. Everything is bounded; the oldest is forgotten.

use crate::rpc::{
    bounded::Bounded,
    budget::{self, Excess},
    growth::Growth,
};
use pilothouse_domain::{
    Mode, NativeId,
    item::FileChange,
    run::{RunError, Usage},
};

/// Messages of one conversation that are remembered.
const MESSAGES: usize = 512;
/// Parts of one conversation that are remembered.
const PARTS: usize = 1024;
/// Tool calls of one conversation that are remembered.
const CALLS: usize = 512;
/// Bytes of changes that are kept for the tool that they were asked for, and of a permission that waits for its tool.
pub(super) const KEPT: usize = 64 * 1024;
/// Bytes of such changes in one conversation.
pub(super) const HELD: usize = 1024 * 1024;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
    /// The assistant, where it sums up what it forgets.
    Summary,
    /// Somebody in the conversation that this one is a copy of: nothing of it happens here.
    Copied,
}

/// What a tool is called with and a permission for it does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unsaid {
    /// The arguments of a tool that is asked for by its name, as JSON.
    Arguments(String),
    /// Where a command runs.
    Directory(String),
}

impl Unsaid {
    /// Bytes of it.
    pub(super) fn len(&self) -> usize {
        let (Self::Arguments(text) | Self::Directory(text)) = self;
        text.len()
    }
}

/// A part of a message that became an item.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) opened: bool,
    pub(super) ended: bool,
    /// It holds the agent's reasoning.
    pub(super) reasoning: bool,
    /// Output that was given on.
    pub(super) output: Growth,
    /// The changes that a permission showed for it.
    pub(super) changes: Vec<FileChange>,
    /// What a permission for its tool does not say.
    pub(super) unsaid: Option<Unsaid>,
    /// A person refused it.
    pub(super) declined: bool,
}

impl Part {
    /// Bytes that it holds beside itself.
    fn weight(&self) -> usize {
        let unsaid = self.unsaid.as_ref().map_or(0, Unsaid::len);
        budget::changes(&self.changes) + budget::block(unsaid)
    }
}

/// A turn that goes on.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// The id of the message that started it.
    pub(super) id: NativeId,
    /// opencode has said that it took the message, which is no promise.
    pub(super) accepted: bool,
    /// opencode has shown the message.
    pub(super) seen: bool,
    /// opencode has begun to work on it: an end that comes before is that of something else.
    pub(super) alive: bool,
    /// The assistant's message that is not complete.
    pub(super) open_message: Option<NativeId>,
    /// opencode said that it was aborted.
    pub(super) aborted: bool,
    /// It said so and then that it was idle, before the aborted message was complete: it says so again.
    pub(super) ended_once: bool,
    /// A person asked to stop it.
    pub(super) stopping: bool,
    /// It waits to try again.
    pub(super) retrying: bool,
    /// What a person refused without words ended it.
    pub(super) refused: bool,
    pub(super) error: Option<RunError>,
    pub(super) usage: Usage,
}

impl Turn {
    pub(super) fn new(id: NativeId) -> Self {
        Self {
            id,
            accepted: false,
            seen: false,
            alive: false,
            open_message: None,
            aborted: false,
            ended_once: false,
            stopping: false,
            retrying: false,
            refused: false,
            error: None,
            usage: Usage::default(),
        }
    }
}

/// One conversation.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    /// The conversation that it works for.
    pub(super) parent: Option<NativeId>,
    /// What a subagent is for.
    pub(super) title: String,
    /// A subagent whose beginning was told, and whose end was not.
    pub(super) announced: bool,
    /// When it was made, Unix ms; 0 if opencode did not say.
    pub(super) created_ms: u64,
    /// Where it works.
    pub(super) directory: String,
    /// What the thread may do without asking.
    pub(super) mode: Mode,
    pub(super) turn: Option<Turn>,
    /// The turn before.
    pub(super) last: Option<NativeId>,
    /// A refusal of ours that takes everything with it that waits in this conversation.
    pub(super) rejecting: bool,
    /// Messages from here on were taken back.
    pub(super) reverted: Option<NativeId>,
    pub(super) messages: Bounded<Speaker>,
    pub(super) parts: Bounded<Part>,
    /// The part of a tool call.
    pub(super) calls: Bounded<NativeId>,
}

impl Conversation {
    pub(super) fn new(parent: Option<NativeId>, directory: String) -> Self {
        Self {
            parent,
            title: String::new(),
            announced: false,
            created_ms: 0,
            directory,
            mode: Mode::Ask,
            turn: None,
            last: None,
            rejecting: false,
            reverted: None,
            messages: Bounded::new(MESSAGES),
            parts: Bounded::new(PARTS),
            calls: Bounded::new(CALLS),
        }
    }

    /// The turn that something belongs to that comes now.
    pub(super) fn current(&self) -> Option<&NativeId> {
        self.turn
            .as_ref()
            .map(|turn| &turn.id)
            .or(self.last.as_ref())
    }

    /// The part that a tool call became.
    pub(super) fn part_of_call(&mut self, call: &NativeId) -> Option<(NativeId, &mut Part)> {
        let id = self.calls.get(call)?.clone();
        let part = self.parts.get_mut(&id)?;
        Some((id, part))
    }

    /// Bytes that it holds beside itself.
    pub(super) fn weight(&self) -> usize {
        budget::id(self.parent.as_ref())
            + budget::block(self.title.len())
            + budget::block(self.directory.len())
            + self.messages.weight(|_| 0)
            + self.parts.weight(Part::weight)
            + self.calls.weight(|part| budget::id(Some(part)))
    }

    /// Gives up parts that have ended and their calls, as long as there is an excess.
    pub(super) fn shed_ended(&mut self, excess: &mut Excess) {
        let parts = &self.parts;
        let is_over = |part: &NativeId| parts.get(part).is_none_or(|part| part.ended);
        self.calls
            .shed_where(excess, |part| budget::id(Some(part)), is_over);
        self.parts
            .shed_where(excess, Part::weight, |part| part.ended);
    }

    /// Gives up the oldest messages, parts and calls, as long as there is an excess. opencode tells a part whole whenever it
    /// changes: one that goes on is told anew then, with all that it wrote, and what a person refused of it is a failure.
    pub(super) fn shed(&mut self, excess: &mut Excess) {
        self.messages.shed(excess, |_| 0);
        self.calls.shed(excess, |part| budget::id(Some(part)));
        self.parts.shed(excess, Part::weight);
    }

    /// Bytes of changes and inputs that are kept for requests.
    pub(super) fn held(&self) -> usize {
        self.parts.values().map(Part::weight).sum()
    }
}
