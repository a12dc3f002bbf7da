//! Tasks: subagents, commands that go on in the background, and the todo list.

use super::{
    codec::{Codec, Received},
    conversation::Conversation,
};
use crate::rpc::{
    budget, event,
    frames::{cut, list, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    item::{TodoEntry, TodoStatus},
    provider::TurnStatus,
};
use serde_json::Value;

/// Bytes of a title and of a line of a todo list.
const TITLE: usize = 500;
const TODO: usize = 4096;
/// Bytes of an id.
const ID: usize = 512;

/// A subagent.
#[derive(Debug, Clone, Default)]
pub(super) struct Child {
    pub(super) conversation: Conversation,
    /// The tool that started it.
    tool: Option<NativeId>,
    announced: bool,
    ended: bool,
}

impl Child {
    /// Bytes that it holds beside itself.
    pub(super) fn weight(&self) -> usize {
        self.conversation.weight() + budget::id(self.tool.as_ref())
    }

    /// Whether it works no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

/// Reads `task_started`.
pub(super) fn started(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) -> Option<()> {
    let task = NativeId(cut(&text_of(frame, "task_id")?, ID));
    let tool = text_of(frame, "tool_use_id").map(|tool| NativeId(cut(&tool, ID)));
    let background = frame.get("is_backgrounded") == Some(&Value::Bool(true));
    let parent = tool.as_ref().and_then(|tool| codec.owner_of(tool));
    if let Some(tool) = tool.as_ref().filter(|_| background)
        && let Some(tool) = codec.conversation(parent.as_ref()).tool_mut(tool)
    {
        tool.background = !tool.ended;
    }
    let is_agent = text_of(frame, "task_type").as_deref() == Some("local_agent")
        || frame.get("subagent_type").is_some_and(Value::is_string);
    if !is_agent {
        if let Some(tool) = tool {
            codec.tasks.insert(task, tool);
        }
        return Some(());
    }
    if let Some(tool) = &tool {
        codec.by_tool.insert(tool.clone(), task.clone());
    }
    let title = cut(&text_or_empty(frame, "description"), TITLE);
    let conversation = codec.conversation(parent.as_ref());
    let known = tool.as_ref().and_then(|call| conversation.tool(call));
    let item = known.map(|tool| tool.item.clone());
    let child = codec.children.entry(&task);
    child.tool.clone_from(&tool);
    // One that is resumed works once more.
    child.ended = false;
    child.announced = true;
    let kind = ProviderEventKind::ChildOpened {
        child: task,
        item: item.or(tool),
        title: if title.is_empty() {
            "subagent".to_owned()
        } else {
            title
        },
    };
    event(out, codec.place(parent.as_ref()), kind);
    Some(())
}

/// Reads `task_updated`.
pub(super) fn updated(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) -> Option<()> {
    let task = NativeId(cut(&text_of(frame, "task_id")?, ID));
    let patch = frame.get("patch")?;
    if patch.get("is_backgrounded") == Some(&Value::Bool(true)) {
        let tool = codec.tool_of(&task);
        if let Some((parent, tool)) = tool
            && let Some(tool) = codec.conversation(parent.as_ref()).tool_mut(&tool)
        {
            tool.background = !tool.ended;
        }
    }
    if let Some(status) = text_of(patch, "status").and_then(|status| terminal(&status)) {
        child_ended(codec, &task, status, out);
    }
    Some(())
}

/// Reads `task_notification`: a task is over, with its report.
pub(super) fn notified(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) -> Option<()> {
    let task = NativeId(cut(&text_of(frame, "task_id")?, ID));
    let status = terminal(&text_of(frame, "status")?)?;
    child_ended(codec, &task, status, out);
    let Some((parent, call)) = codec.tool_of(&task) else {
        return Some(());
    };
    let place = codec.place(parent.as_ref());
    let tool = codec.conversation(parent.as_ref()).tool_mut(&call);
    let Some(tool) = tool.filter(|tool| tool.background) else {
        return Some(());
    };
    let item = tool.item.clone();
    let report = Body::inline(text_or_empty(frame, "summary"));
    let content = match tool.end() {
        ItemContent::Subagent { child, title, .. } => ItemContent::Subagent {
            child,
            title,
            result: report,
        },
        ItemContent::Command { command, cwd, .. } => ItemContent::Command {
            command,
            cwd,
            output: report,
            agent_output: None,
            exit_code: None,
            duration_ms: None,
        },
        ItemContent::Tool {
            server,
            name,
            arguments,
            ..
        } => ItemContent::Tool {
            server,
            name,
            arguments,
            result: report,
        },
        other => other,
    };
    let kind = ProviderEventKind::ItemClosed {
        item,
        status: match status {
            TurnStatus::Completed => ItemStatus::Completed,
            TurnStatus::Interrupted => ItemStatus::Interrupted,
            TurnStatus::Failed => ItemStatus::Failed,
        },
        content,
        client_id: None,
    };
    event(out, place, kind);
    codec.tasks.remove(&task);
    Some(())
}

/// A task's status, if it says that the task is over.
fn terminal(status: &str) -> Option<TurnStatus> {
    match status {
        "completed" => Some(TurnStatus::Completed),
        "failed" => Some(TurnStatus::Failed),
        "killed" | "stopped" | "cancelled" => Some(TurnStatus::Interrupted),
        _ => None,
    }
}

fn child_ended(codec: &mut Codec, task: &NativeId, status: TurnStatus, out: &mut Vec<Received>) {
    let parent = codec.tool_of(task).and_then(|(parent, _)| parent);
    let place = codec.place(parent.as_ref());
    let inside = codec.place(Some(task));
    let Some(child) = codec.children.get_mut(task) else {
        return;
    };
    if child.ended || !child.announced {
        return;
    }
    child.ended = true;
    for (item, content) in child.conversation.leave_open() {
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Unfinished,
            content,
            client_id: None,
        };
        event(out, inside.clone(), kind);
    }
    let kind = ProviderEventKind::ChildClosed {
        child: task.clone(),
        status,
    };
    event(out, place, kind);
}

/// A todo tool did what it was asked: the list as it is now.
pub(super) fn todo(
    codec: &mut Codec,
    child: Option<&NativeId>,
    name: &str,
    input: &Value,
    frame: &Value,
    out: &mut Vec<Received>,
) {
    let told = frame.get("tool_use_result").unwrap_or(&Value::Null);
    let conversation = codec.conversation(child);
    let entries = match name {
        "TodoWrite" => {
            let todos = list(input, "todos").iter();
            Some(conversation.set_todos(todos.map(|todo| entry(todo, "content"))))
        }
        "TaskCreate" => {
            let made = told.get("task").unwrap_or(&Value::Null);
            let Some(id) = text_of(made, "id").map(|id| cut(&id, 64)) else {
                return;
            };
            conversation.todo(&id, |_| Some(entry(input, "subject")))
        }
        "TaskUpdate" => {
            let Some(id) = text_of(input, "taskId").map(|id| cut(&id, 64)) else {
                return;
            };
            let status = text_of(input, "status");
            let subject = text_of(input, "subject");
            if status.is_none() && subject.is_none() {
                return;
            }
            conversation.todo(&id, |before| {
                if status.as_deref() == Some("deleted") {
                    return None;
                }
                let mut now = before?;
                if let Some(status) = &status {
                    now.status = todo_status(status);
                }
                if let Some(subject) = subject {
                    now.text = cut(&subject, TODO);
                }
                Some(now)
            })
        }
        _ => return,
    };
    // A line of a list that was forgotten says nothing of the others.
    let Some(entries) = entries else { return };
    let place = codec.place(child);
    event(out, place, ProviderEventKind::TodoList { entries });
}

fn entry(todo: &Value, text: &str) -> TodoEntry {
    TodoEntry {
        text: cut(&text_or_empty(todo, text), TODO),
        status: todo_status(&text_or_empty(todo, "status")),
    }
}

fn todo_status(status: &str) -> TodoStatus {
    match status {
        "completed" => TodoStatus::Completed,
        "in_progress" => TodoStatus::InProgress,
        _ => TodoStatus::Pending,
    }
}

impl Codec {
    /// The subagent in whose conversation a tool was called; `None` for the main one.
    fn owner_of(&self, tool: &NativeId) -> Option<NativeId> {
        if self.main.tool(tool).is_some() {
            return None;
        }
        self.children
            .iter()
            .find(|(_, child)| child.conversation.tool(tool).is_some())
            .map(|(id, _)| id.clone())
    }

    /// The tool that a task began as, and the subagent that called it.
    fn tool_of(&self, task: &NativeId) -> Option<(Option<NativeId>, NativeId)> {
        let tool = match self.children.get(task) {
            Some(child) => child.tool.clone()?,
            None => self.tasks.get(task)?.clone(),
        };
        Some((self.owner_of(&tool), tool))
    }
}
