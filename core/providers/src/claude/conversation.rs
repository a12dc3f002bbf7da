//! What is known of one conversation, the main one or a subagent's: the words being spoken, its tools, its todo list.
//!
//! Everything is bounded: of the tools the oldest are forgotten, and all conversations of a process share its budget of bytes.

use super::tools::Tool;
use crate::rpc::{
    bounded::Bounded,
    budget::{self, Excess},
};
use pilothouse_domain::{ItemContent, NativeId, item::TodoEntry};
use std::collections::BTreeMap;

/// Tools that are remembered.
const TOOLS: usize = 256;
/// Blocks of one message that are spoken at a time.
const SPOKEN: usize = 64;
/// Lines of a todo list, and bytes of them: all of it is told whenever one changes.
const TODOS: usize = 512;
const TODO_BYTES: usize = 64 * 1024;

/// One conversation of the process.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    /// The message that is streamed.
    message: String,
    /// Blocks of it that are being spoken, by their index.
    speaking: BTreeMap<u64, (NativeId, ItemContent)>,
    /// The message of which whole blocks came last, and how many.
    whole: (String, u64),
    /// The todo list, by the agent's ids.
    todos: Vec<(String, TodoEntry)>,
    tools: Bounded<Tool>,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            message: String::new(),
            speaking: BTreeMap::new(),
            whole: (String::new(), 0),
            todos: Vec::new(),
            tools: Bounded::new(TOOLS),
        }
    }
}

impl Conversation {
    /// A message begins to be streamed. Gives back what of the one before was never said whole.
    pub(super) fn message_begins(&mut self, id: String) -> Vec<(NativeId, ItemContent)> {
        self.message = id;
        std::mem::take(&mut self.speaking).into_values().collect()
    }

    /// A piece of a block came: its item, and its shape.
    pub(super) fn speak(
        &mut self,
        index: u64,
        shape: impl FnOnce() -> ItemContent,
    ) -> Option<(NativeId, ItemContent)> {
        if self.message.is_empty() {
            return None;
        }
        if let Some(known) = self.speaking.get(&index) {
            return Some(known.clone());
        }
        if self.speaking.len() >= SPOKEN {
            return None;
        }
        let known = (item_id(&self.message, index), shape());
        self.speaking.insert(index, known.clone());
        Some(known)
    }

    /// A block came whole: its item, and whether pieces of it came before. A message's blocks come in their order.
    pub(super) fn whole(&mut self, message: &str) -> (NativeId, bool) {
        if self.whole.0 != message {
            self.whole = (message.to_owned(), 0);
        }
        let index = self.whole.1;
        self.whole.1 += 1;
        let spoken = self.message == message && self.speaking.remove(&index).is_some();
        (item_id(message, index), spoken)
    }

    /// What is being spoken is given up.
    pub(super) fn hush(&mut self) -> Vec<(NativeId, ItemContent)> {
        self.message.clear();
        std::mem::take(&mut self.speaking).into_values().collect()
    }

    pub(super) fn tool(&self, call: &NativeId) -> Option<&Tool> {
        self.tools.get(call)
    }

    pub(super) fn tool_mut(&mut self, call: &NativeId) -> Option<&mut Tool> {
        self.tools.get_mut(call)
    }

    /// A person refused the call of an item, if it is one of these.
    pub(super) fn decline(&mut self, item: &NativeId) {
        let mut tools = self.tools.values_mut();
        if let Some(tool) = tools.find(|tool| tool.item == *item) {
            tool.declined = true;
        }
    }

    /// Remembers a tool; gives back those that had to go for it while they were open.
    pub(super) fn put_tool(&mut self, call: NativeId, tool: Tool) -> Vec<Tool> {
        let gone = self.tools.insert(call, tool).into_iter();
        gone.filter(Tool::is_open).collect()
    }

    /// Gives up tools that have ended, as long as there is an excess.
    pub(super) fn shed_ended(&mut self, excess: &mut Excess) {
        self.tools
            .shed_where(excess, Tool::weight, |tool| tool.ended);
    }

    /// Gives up the todo list, if there is an excess.
    pub(super) fn shed_todos(&mut self, excess: &mut Excess) {
        if !excess.is_gone() && !self.todos.is_empty() {
            excess.give_up(self.todos_weight());
            self.todos = Vec::new();
        }
    }

    /// Gives up the oldest tools, as long as there is an excess; gives those that were open.
    pub(super) fn shed(&mut self, excess: &mut Excess) -> Vec<Tool> {
        let gone = self.tools.shed(excess, Tool::weight).into_iter();
        gone.map(|(_, tool)| tool).filter(Tool::is_open).collect()
    }

    /// Tools that go on in the background, in words for a person.
    pub(super) fn in_background(&self) -> Vec<String> {
        let tools = self.tools.values();
        tools
            .filter(|tool| tool.background && !tool.ended)
            .map(Tool::in_words)
            .collect()
    }

    /// Tools that were not ended and are no background work.
    pub(super) fn leave_open(&mut self) -> Vec<(NativeId, ItemContent)> {
        self.tools
            .values_mut()
            .filter(|tool| !tool.ended && !tool.background)
            .filter_map(|tool| {
                let content = tool.end();
                tool.opened.then(|| (tool.item.clone(), content))
            })
            .collect()
    }

    /// Changes the todo list, and gives it as it is now; `None` if it has no such line.
    pub(super) fn todo(
        &mut self,
        id: &str,
        change: impl FnOnce(Option<TodoEntry>) -> Option<TodoEntry>,
    ) -> Option<Vec<TodoEntry>> {
        let at = self.todos.iter().position(|(known, _)| known == id);
        let before = at
            .and_then(|at| self.todos.get(at))
            .map(|(_, todo)| todo.clone());
        match (at, change(before)) {
            (Some(at), Some(entry)) => {
                if let Some(slot) = self.todos.get_mut(at) {
                    slot.1 = entry;
                }
            }
            (Some(at), None) => {
                self.todos.remove(at);
            }
            (None, Some(entry)) => self.todos.push((id.to_owned(), entry)),
            (None, None) => return None,
        }
        self.bound_todos();
        Some(self.todos.iter().map(|(_, todo)| todo.clone()).collect())
    }

    /// Puts another todo list in the place of the one that is known, and gives it as it is now.
    pub(super) fn set_todos(&mut self, entries: impl Iterator<Item = TodoEntry>) -> Vec<TodoEntry> {
        let numbered = entries.take(TODOS).enumerate();
        self.todos = numbered
            .map(|(at, entry)| (at.to_string(), entry))
            .collect();
        self.bound_todos();
        self.todos.iter().map(|(_, todo)| todo.clone()).collect()
    }

    /// What is too much of the todo list is left out at its end.
    fn bound_todos(&mut self) {
        let mut room = TODO_BYTES;
        let fitting = self.todos.iter().take(TODOS).take_while(|(_, todo)| {
            let fits = todo.text.len() <= room;
            room = room.saturating_sub(todo.text.len());
            fits
        });
        self.todos.truncate(fitting.count());
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        let spoken = |(item, _): &(NativeId, ItemContent)| {
            2 * size_of::<(NativeId, ItemContent)>() + budget::id(Some(item))
        };
        size_of::<Self>()
            + budget::block(self.message.len())
            + budget::block(self.whole.0.len())
            + self.todos_weight()
            + self.speaking.values().map(spoken).sum::<usize>()
            + self.tools.weight(Tool::weight)
    }

    fn todos_weight(&self) -> usize {
        let todo = |(id, todo): &(String, TodoEntry)| {
            2 * size_of::<(String, TodoEntry)>()
                + budget::block(id.len())
                + budget::block(todo.text.len())
        };
        self.todos.iter().map(todo).sum()
    }
}

fn item_id(message: &str, index: u64) -> NativeId {
    NativeId(format!("{message}/{index}"))
}
