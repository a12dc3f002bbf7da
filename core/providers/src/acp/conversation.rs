//! What is known of one conversation: its turn, the words being spoken, its tools, its settings.
//!
//! Everything is bounded: of the tools the oldest are forgotten, and all conversations share one budget of bytes
//! ([`super::conversations`]).

use super::{
    settings::Settings,
    tools::{self, Stage, Tool},
};
use crate::rpc::{bounded::Bounded, budget};
use pilothouse_domain::{ItemContent, NativeId, item::TodoEntry, run::Usage};
use serde_json::Value;
use std::collections::BTreeMap;

/// Tools that are remembered.
const TOOLS: usize = 256;
/// Plans, compactions and the like that are remembered, each.
pub(super) const NAMED: usize = 32;
/// Bytes of a text that is collected because only its end is an item.
pub(super) const COLLECTED: usize = 256 * 1024;

/// Words that are being spoken.
#[derive(Debug, Clone)]
pub(super) struct Speaking {
    pub(super) item: NativeId,
    /// The kind of update and the message's id, if the agent gives one.
    pub(super) said_as: (String, Option<NativeId>),
    /// With which it ends: empty for what was given on piece by piece.
    pub(super) content: ItemContent,
    /// Bytes of it with which the item was closed already; `None` if it was not.
    pub(super) closed_at: Option<usize>,
}

impl Speaking {
    /// What is collected of it.
    pub(super) fn collected(&self) -> &str {
        match &self.content {
            ItemContent::UserMessage { text, .. }
            | ItemContent::AssistantMessage { text }
            | ItemContent::Reasoning { text } => text.preview(),
            _ => "",
        }
    }
}

/// One conversation of the process.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    /// The turn that is going on.
    pub(super) turn: Option<NativeId>,
    /// The turn before.
    pub(super) last: Option<NativeId>,
    /// Being loaded: what the agent tells is its history.
    pub(super) loading: bool,
    pub(super) speaking: Option<Speaking>,
    /// The beginning of the last words of the agent in this turn: some say there why it failed.
    pub(super) last_words: String,
    pub(super) settings: Settings,
    pub(super) usage: Tokens,
    /// Todo lists by the agent's id; most have only one, without an id.
    pub(super) todos: BTreeMap<NativeId, TodoList>,
    /// Items and collected texts of what has an id of the agent's own: plans in words, compactions.
    pub(super) named: Bounded<(NativeId, String)>,
    tools: Bounded<Tool>,
    /// Bytes held for tools.
    tools_held: usize,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            turn: None,
            last: None,
            loading: false,
            speaking: None,
            last_words: String::new(),
            settings: Settings::default(),
            usage: Tokens::default(),
            todos: BTreeMap::new(),
            named: Bounded::new(NAMED),
            tools: Bounded::new(TOOLS),
            tools_held: 0,
        }
    }
}

impl Conversation {
    pub(super) fn tool(&self, call: &NativeId) -> Option<&Tool> {
        self.tools.get(call)
    }

    /// Changes a tool that is known.
    pub(super) fn alter<T>(
        &mut self,
        call: &NativeId,
        change: impl FnOnce(&mut Tool) -> T,
    ) -> Option<T> {
        let tool = self.tools.get_mut(call)?;
        let before = tool.held();
        let outcome = change(tool);
        self.tools_held = (self.tools_held + tool.held()).saturating_sub(before);
        Some(outcome)
    }

    /// Remembers a tool; gives back those that had to go for it while they were open.
    pub(super) fn put_tool(&mut self, call: NativeId, tool: Tool) -> Vec<Tool> {
        let replaced = self.tools.remove(&call).map(|tool| (call.clone(), tool));
        let oldest = match self.tools.is_full() {
            true => self.tools.pop_oldest(),
            false => None,
        };
        self.tools_held += held(&call, &tool);
        self.tools.insert(call, tool);
        let gone = replaced.into_iter().chain(oldest);
        gone.filter_map(|(call, tool)| self.let_go(&call, tool))
            .collect()
    }

    /// Gives up the oldest tool, or else the lists and texts that are collected, for others to have room, and what a
    /// conversation is set to that nobody here can set; `None` if there is nothing to give up. Gives back a tool that was open.
    pub(super) fn give_up(&mut self, is_ours: bool) -> Option<Option<Tool>> {
        if let Some((call, tool)) = self.tools.pop_oldest() {
            return Some(self.let_go(&call, tool));
        }
        let held = self.held();
        self.todos.clear();
        self.named = Bounded::new(NAMED);
        if !is_ours {
            self.settings = Settings::default();
        }
        (self.held() < held).then_some(None)
    }

    /// The tools that were open, when all of it is forgotten.
    pub(super) fn into_open(mut self) -> impl Iterator<Item = Tool> {
        std::iter::from_fn(move || {
            let (call, tool) = self.tools.pop_oldest()?;
            Some(self.let_go(&call, tool))
        })
        .flatten()
    }

    fn let_go(&mut self, call: &NativeId, tool: Tool) -> Option<Tool> {
        self.tools_held = self.tools_held.saturating_sub(held(call, &tool));
        Some(tool).filter(|tool| tool.opened && tool.stage == Stage::Open)
    }

    /// Whether a tool is one that a request in that turn can be about: numbers come again in later turns.
    pub(super) fn is_current(&self, call: &NativeId, turn: Option<&NativeId>) -> bool {
        self.tool(call)
            .is_some_and(|tool| tool.stage == Stage::Open && tool.turn.as_ref() == turn)
    }

    /// The id of the tool that a request must be about though it names another one.
    pub(super) fn about(&self, asked: &Tool, turn: Option<&NativeId>) -> Option<NativeId> {
        let mut fitting = self
            .tools
            .iter()
            .filter(|(_, tool)| tool.turn.as_ref() == turn && tools::is_about(tool, asked));
        let (call, _) = fitting.next()?;
        // Of two that would fit none is guessed.
        fitting.next().is_none().then(|| call.clone())
    }

    /// A person refused what was asked for a tool.
    pub(super) fn declined(&mut self, item: &NativeId) {
        if let Some(tool) = self.tools.values_mut().find(|tool| tool.item == *item) {
            tool.declined = true;
        }
    }

    /// Tools of a turn that were not ended: they are left, and no later request is about one of them.
    pub(super) fn leave_open(&mut self, turn: &NativeId) -> Vec<(NativeId, ItemContent)> {
        let mut left = Vec::new();
        for tool in self.tools.values_mut() {
            if tool.turn.as_ref() == Some(turn) && tool.stage == Stage::Open {
                tool.stage = Stage::Left;
                if tool.opened {
                    left.push((tool.item.clone(), tool.unfinished()));
                }
            }
        }
        left
    }

    /// Bytes held for tools, lists and texts.
    pub(super) fn held(&self) -> usize {
        let todo = |(id, list): (&NativeId, &TodoList)| {
            2 * size_of::<(NativeId, TodoList)>() + budget::id(Some(id)) + list.bytes
        };
        let spoken = self.speaking.as_ref();
        self.tools_held
            + self.todos.iter().map(todo).sum::<usize>()
            + self
                .named
                .weight(|(item, text)| budget::id(Some(item)) + budget::block(text.len()))
            + spoken.map_or(0, |spoken| budget::block(spoken.collected().len()))
            + budget::block(self.last_words.len())
            + self.settings.held()
    }
}

/// Bytes of a tool that is remembered.
fn held(call: &NativeId, tool: &Tool) -> usize {
    budget::entry::<Tool>(call) + tool.held()
}

/// A todo list.
#[derive(Debug, Clone)]
pub(super) struct TodoList {
    entries: Vec<TodoEntry>,
    bytes: usize,
}

impl TodoList {
    pub(super) fn new(entries: Vec<TodoEntry>) -> Self {
        let bytes = entries
            .iter()
            .map(|entry| 2 * size_of::<TodoEntry>() + budget::block(entry.text.len()))
            .sum();
        Self { entries, bytes }
    }

    pub(super) fn entries(&self) -> &[TodoEntry] {
        &self.entries
    }
}

/// Tokens as far as the agent counts them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    /// Size of the model's context.
    pub(super) window: Option<u64>,
    /// Counted in passing during the turn, for agents that give no sum at its end.
    pub(super) in_passing: Usage,
    /// The sum at the end of the turn before.
    before: Usage,
}

impl Tokens {
    /// Adds what a piece of the turn took.
    pub(super) fn add(&mut self, told: &Value) {
        let told = tokens(told);
        let sum = &mut self.in_passing;
        sum.input = sum.input.saturating_add(told.input);
        sum.cached_input = sum.cached_input.saturating_add(told.cached_input);
        sum.output = sum.output.saturating_add(told.output);
        sum.reasoning = sum.reasoning.saturating_add(told.reasoning);
    }

    /// The turn's tokens as its end tells them; `adds_up` if the agent counts over the whole conversation.
    pub(super) fn of_turn(&mut self, end: &Value, adds_up: bool) -> Option<Usage> {
        let in_passing = std::mem::take(&mut self.in_passing);
        let quota = || end.get("_meta")?.get("quota")?.get("token_count");
        let told = end
            .get("usage")
            .filter(|usage| usage.is_object())
            .or_else(|| quota().filter(|usage| usage.is_object()));
        let mut usage = match told {
            Some(told) if adds_up => {
                let total = tokens(told);
                let before = std::mem::replace(&mut self.before, total);
                Usage {
                    input: total.input.saturating_sub(before.input),
                    cached_input: total.cached_input.saturating_sub(before.cached_input),
                    output: total.output.saturating_sub(before.output),
                    reasoning: total.reasoning.saturating_sub(before.reasoning),
                    ..Usage::default()
                }
            }
            Some(told) => tokens(told),
            None if in_passing != Usage::default() => in_passing,
            None => return None,
        };
        usage.context_window = self.window;
        Some(usage)
    }
}

fn tokens(told: &Value) -> Usage {
    let count = |keys: [&str; 2]| {
        keys.iter()
            .find_map(|key| told.get(*key).and_then(Value::as_u64))
            .unwrap_or(0)
    };
    let cached = count(["cachedReadTokens", "cached_input_tokens"]);
    Usage {
        input: count(["inputTokens", "input_tokens"]),
        cached_input: cached,
        output: count(["outputTokens", "output_tokens"]),
        reasoning: count(["thoughtTokens", "reasoning_output_tokens"]),
        ..Usage::default()
    }
}
