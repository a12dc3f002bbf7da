//! Notifications: each of codex' 87 is either translated, or stands in [`PASSED_OVER`] with its reason; any other is kept
//! verbatim as unknown.

use super::{
    codec::{Codec, Received, patch_key},
    items,
    passed_over::{PASSED_OVER, Passed},
    replies::{self, Settings},
};
use crate::{
    mcp,
    rpc::{
        self, budget, event,
        frames::{RAW_LIMIT, bounded_id, cut, id_of, text_of, text_or_empty, texts},
    },
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    item::{TodoEntry, TodoStatus},
    limits,
    provider::{AccountLimit, TurnStatus},
    provider_event::NativePlace,
    run::Usage,
};
use serde_json::Value;

/// Tokens of a conversation before and at its current turn.
#[derive(Debug, Clone)]
pub(super) struct TurnUsage {
    turn: NativeId,
    before: Usage,
}

impl TurnUsage {
    /// Bytes that it holds beside itself.
    pub(super) fn weight(&self) -> usize {
        budget::id(Some(&self.turn))
    }
}

/// Turns a notification into events.
pub(super) fn read(codec: &mut Codec, method: &str, params: &Value, out: &mut Vec<Received>) {
    let thread = id_of(params, "threadId");
    let turn = id_of(params, "turnId");
    let understood = match (method, &thread) {
        ("turn/started", Some(thread)) => turn_started(codec, thread, params, out),
        ("turn/completed", Some(thread)) => turn_completed(codec, thread, params, out),
        ("item/started" | "item/completed", Some(thread)) => {
            item(codec, method, thread, turn, params, out)
        }
        ("serverRequest/resolved", _) => params.get("requestId").map(|id| {
            codec.resolved(thread, id, out);
        }),
        ("mcpServer/startupStatus/updated", Some(thread)) => {
            server_started(codec, thread, params, out)
        }
        ("account/rateLimits/updated", _) => account_limits(codec, params, out),
        ("account/login/completed", _) => codec.sign_in_ended(params, out),
        ("account/updated", _) => {
            let process = codec.lineage.place(None, None);
            event(out, process, ProviderEventKind::AbilitiesChanged);
            Some(())
        }
        ("thread/settings/updated", Some(thread)) => params.get("threadSettings").map(|settings| {
            let now = Settings::of(settings, "model", "effort");
            codec.settings.insert(thread.clone(), now);
        }),
        ("item/fileChange/patchUpdated", Some(thread)) => {
            let place = codec.lineage.place(Some(thread.clone()), turn);
            id_of(params, "itemId").map(|item| {
                let changes = items::file_changes(params);
                codec.patch_changed(thread, &item, &changes, out);
                let content = ItemContent::FileChange { changes };
                event(out, place, ProviderEventKind::ItemUpdated { item, content });
            })
        }
        (_, Some(_)) => {
            let place = codec.lineage.place(thread, turn);
            simple(codec, method, place, params, out)
        }
        _ => None,
    };
    if understood.is_some() {
        return;
    }
    let place = codec
        .lineage
        .place(id_of(params, "threadId"), id_of(params, "turnId"));
    match PASSED_OVER.iter().find(|(name, ..)| *name == method) {
        Some((_, Passed::Nothing, _)) => {}
        Some((name, Passed::Diagnostic, _)) => event(
            out,
            place,
            ProviderEventKind::Diagnostic {
                message: diagnostic(name, params),
            },
        ),
        None => event(
            out,
            place,
            ProviderEventKind::Unknown {
                label: cut(method, 120),
                raw: cut(&params.to_string(), RAW_LIMIT),
            },
        ),
    }
}

/// One line: the notification's own words where it has some.
fn diagnostic(method: &str, params: &Value) -> String {
    let words = ["message", "summary", "name", "threadName"]
        .iter()
        .find_map(|key| text_of(params, key));
    match words {
        Some(words) => format!("{method}: {}", cut(&words, 1024)),
        None => format!("{method}: {}", cut(&params.to_string(), 512)),
    }
}

/// A server of tools starts, or did not. One that is being stopped is no problem.
fn server_started(
    codec: &mut Codec,
    thread: &NativeId,
    params: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let name = text_of(params, "name")?;
    if text_of(params, "status")? == "failed" {
        let problem = text_of(params, "error").unwrap_or_else(|| "codex does not say why".into());
        // What follows is advice for codex' own configuration.
        let problem = problem.lines().next().unwrap_or_default();
        let told = mcp::not_started(&cut(&name, 64), &cut(problem, 512));
        codec.tell(thread, vec![told]);
        tell(codec, thread, out);
    }
    Some(())
}

/// Tells what waits to be told in a conversation, if a turn goes on in it.
fn tell(codec: &mut Codec, thread: &NativeId, out: &mut Vec<Received>) {
    let Some(turn) = codec.lineage.active_turn(thread).cloned() else {
        return;
    };
    let place = codec.lineage.place(Some(thread.clone()), Some(turn));
    for told in codec.untold.remove(thread).unwrap_or_default() {
        event(out, place.clone(), rpc::notice(told));
    }
}

fn turn_started(
    codec: &mut Codec,
    thread: &NativeId,
    params: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let turn = params.get("turn")?;
    let id = id_of(turn, "id")?;
    let root = id_of(turn, "rootTurnId");
    let id = codec.lineage.name_of_turn(thread, id, root.as_ref());
    if let Some(parent) = codec.lineage.turn_started(thread, &id, root.as_ref()) {
        open_child(codec, thread, &parent, None, String::new(), out);
    }
    let place = codec.lineage.place(Some(thread.clone()), Some(id));
    event(out, place, ProviderEventKind::TurnStarted);
    tell(codec, thread, out);
    Some(())
}

fn turn_completed(
    codec: &mut Codec,
    thread: &NativeId,
    params: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let turn = params.get("turn")?;
    let id = id_of(turn, "id")?;
    // A status that is none of the three ends is not guessed at: the frame is shown as unknown.
    let (status, error) = replies::turn_end(turn)?;
    codec.lineage.turn_ended(thread, &id);
    if status == TurnStatus::Interrupted {
        codec.turn_stopped(thread, &id, out);
    }
    let place = codec.lineage.place(Some(thread.clone()), Some(id));
    event(out, place, ProviderEventKind::TurnEnded { status, error });
    if let Some(parent) = codec.lineage.close_child(thread) {
        event(
            out,
            parent,
            ProviderEventKind::ChildClosed {
                child: thread.clone(),
                status,
            },
        );
    }
    Some(())
}

fn open_child(
    codec: &mut Codec,
    child: &NativeId,
    parent: &NativePlace,
    item: Option<NativeId>,
    title: String,
    out: &mut Vec<Received>,
) {
    if codec.lineage.open_child(child, parent) {
        event(
            out,
            parent.clone(),
            ProviderEventKind::ChildOpened {
                child: child.clone(),
                item,
                title: if title.is_empty() {
                    "subagent".to_owned()
                } else {
                    title
                },
            },
        );
    }
}

fn item(
    codec: &mut Codec,
    method: &str,
    thread: &NativeId,
    turn: Option<NativeId>,
    params: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let item = params.get("item")?;
    let mut id = id_of(item, "id")?;
    let place = codec.lineage.place(Some(thread.clone()), turn);
    let content = items::content(item);
    // What a subagent is told is never a message of ours: an id that fits none says so, where none would invite a guess.
    let client_id = text_of(item, "clientId").or_else(|| place.root.is_some().then(String::new));
    if let ItemContent::FileChange { changes } = &content {
        if method == "item/started" {
            codec.patch_changed(thread, &id, changes, out);
        } else {
            codec.patches.remove(&patch_key(thread, &id));
        }
    }
    if let (ItemContent::Command { command, .. }, Some(turn)) = (&content, &place.turn) {
        id = if method == "item/started" {
            codec.command_began(thread, turn, &id, command)
        } else {
            codec.command_ended(thread, turn, &id, command)
        };
    }
    let kind = if method == "item/started" {
        ProviderEventKind::ItemOpened {
            item: id.clone(),
            content,
            client_id,
        }
    } else {
        ProviderEventKind::ItemClosed {
            item: id.clone(),
            // A completed item that says it goes on is not finished by codex' own word.
            status: items::ended_as(item).unwrap_or(ItemStatus::Unfinished),
            content,
            client_id,
        }
    };
    event(out, place.clone(), kind);
    children(codec, &place, id, item, out);
    Some(())
}

/// Subagents that an item speaks of.
fn children(
    codec: &mut Codec,
    place: &NativePlace,
    id: NativeId,
    item: &Value,
    out: &mut Vec<Received>,
) {
    match item.get("type").and_then(Value::as_str) {
        Some("subAgentActivity") => {
            let Some(child) = id_of(item, "agentThreadId") else {
                return;
            };
            match text_of(item, "kind").as_deref() {
                Some("started") => {
                    let title = items::title(&text_or_empty(item, "agentPath"));
                    open_child(codec, &child, place, Some(id), title, out);
                }
                Some("interrupted") => close_child(codec, &child, TurnStatus::Interrupted, out),
                Some("completed") => close_child(codec, &child, TurnStatus::Completed, out),
                _ => {}
            }
        }
        Some("collabAgentToolCall") => {
            if text_of(item, "tool").as_deref() == Some("spawnAgent") {
                let title = items::title(&text_or_empty(item, "prompt"));
                for child in texts(item, "receiverThreadIds") {
                    let child = bounded_id(&child);
                    open_child(codec, &child, place, Some(id.clone()), title.clone(), out);
                }
            }
            let states = item.get("agentsStates").and_then(Value::as_object);
            for (child, state) in states.into_iter().flatten() {
                let status = match text_of(state, "status").as_deref() {
                    Some("interrupted" | "shutdown" | "notFound") => TurnStatus::Interrupted,
                    Some("errored") => TurnStatus::Failed,
                    _ => continue,
                };
                close_child(codec, &bounded_id(child), status, out);
            }
        }
        _ => {}
    }
}

fn close_child(codec: &mut Codec, child: &NativeId, status: TurnStatus, out: &mut Vec<Received>) {
    // While its turn goes on, the turn's own end closes it.
    if codec.lineage.active_turn(child).is_some() {
        return;
    }
    if let Some(parent) = codec.lineage.close_child(child) {
        let child = child.clone();
        event(
            out,
            parent,
            ProviderEventKind::ChildClosed { child, status },
        );
    }
}

/// Notifications that need no memory but the place.
fn simple(
    codec: &mut Codec,
    method: &str,
    place: NativePlace,
    params: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let empty = Body::default();
    let kind = match method {
        "item/agentMessage/delta" => {
            appended(params, ItemContent::AssistantMessage { text: empty })?
        }
        "item/plan/delta" => appended(
            params,
            ItemContent::Plan {
                plan: None,
                text: empty,
            },
        )?,
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
            appended(params, ItemContent::Reasoning { text: empty })?
        }
        "item/reasoning/summaryPartAdded" => {
            // The parts are joined as they are in the item's end.
            if params.get("summaryIndex").and_then(Value::as_u64) == Some(0) {
                return Some(());
            }
            ProviderEventKind::ItemAppended {
                item: id_of(params, "itemId")?,
                text: "\n\n".to_owned(),
                shape: Box::new(ItemContent::Reasoning { text: empty }),
            }
        }
        "item/commandExecution/outputDelta" => appended(
            params,
            ItemContent::Command {
                command: String::new(),
                cwd: String::new(),
                output: empty,
                agent_output: None,
                exit_code: None,
                duration_ms: None,
            },
        )?,
        "turn/plan/updated" => ProviderEventKind::TodoList {
            entries: params
                .get("plan")?
                .as_array()?
                .iter()
                .map(|step| TodoEntry {
                    text: text_or_empty(step, "step"),
                    status: match text_of(step, "status").as_deref() {
                        Some("completed") => TodoStatus::Completed,
                        Some("inProgress" | "in_progress") => TodoStatus::InProgress,
                        _ => TodoStatus::Pending,
                    },
                })
                .collect(),
        },
        "thread/tokenUsage/updated" => {
            let usage = usage(codec, &place, params.get("tokenUsage")?)?;
            // A conversation that is resumed tells it of its last turn anew, and by then of that turn's last answer only.
            let goes_on = place.thread.as_ref().and_then(|t| codec.active_turn(t));
            if goes_on != place.turn.as_ref() {
                return Some(());
            }
            ProviderEventKind::Usage { usage }
        }
        "model/rerouted" => ProviderEventKind::ModelRerouted {
            from: text_of(params, "fromModel")?,
            to: text_of(params, "toModel")?,
        },
        "error" => ProviderEventKind::Error {
            error: items::run_error(params.get("error")?),
            will_retry: params.get("willRetry") == Some(&Value::Bool(true)),
        },
        _ => return None,
    };
    event(out, place, kind);
    Some(())
}

fn appended(params: &Value, shape: ItemContent) -> Option<ProviderEventKind> {
    Some(ProviderEventKind::ItemAppended {
        item: id_of(params, "itemId")?,
        text: text_of(params, "delta")?,
        shape: Box::new(shape),
    })
}

/// Comes with every response of the model, and mostly says the same; names the windows of one limit at a time.
fn account_limits(codec: &mut Codec, params: &Value, out: &mut Vec<Received>) -> Option<()> {
    let snapshot = params.get("rateLimits")?;
    let id = text_of(snapshot, "limitId").map_or("codex".to_owned(), |id| cut(&id, 100));
    let reached = snapshot
        .get("rateLimitReachedType")
        .is_some_and(|kind| !kind.is_null());
    let window = |which: &str| {
        let window = snapshot.get(which).filter(|window| !window.is_null())?;
        let number = |key: &str| window.get(key).and_then(Value::as_u64);
        Some(AccountLimit {
            name: format!("{id} {which}"),
            used_percent: u32::try_from(number("usedPercent")?).unwrap_or(u32::MAX),
            window_minutes: number("windowDurationMins"),
            resets_at_ms: number("resetsAt").map(|seconds| seconds.saturating_mul(1000)),
            reached,
        })
    };
    let said: Vec<AccountLimit> = ["primary", "secondary"]
        .into_iter()
        .filter_map(window)
        .collect();
    let prefix = format!("{id} ");
    let mut all: Vec<AccountLimit> = codec
        .limits
        .iter()
        .filter(|limit| !limit.name.starts_with(&prefix))
        .cloned()
        .collect();
    all.extend(said);
    all.truncate(limits::ACCOUNT_LIMITS);
    if all != codec.limits {
        codec.limits.clone_from(&all);
        let kind = ProviderEventKind::Limits { limits: all };
        event(out, NativePlace::default(), kind);
    }
    Some(())
}

/// Codex counts over the whole conversation; a run wants its own turn's tokens.
fn usage(codec: &mut Codec, place: &NativePlace, tokens: &Value) -> Option<Usage> {
    let (thread, turn) = (place.thread.clone()?, place.turn.clone()?);
    let total = breakdown(tokens.get("total")?);
    let last = breakdown(tokens.get("last")?);
    if codec
        .usage
        .get(&thread)
        .is_none_or(|known| known.turn != turn)
    {
        let before = minus(total, last);
        codec
            .usage
            .insert(thread.clone(), TurnUsage { turn, before });
    }
    let before = codec.usage.get(&thread)?.before;
    let mut usage = minus(total, before);
    usage.context_window = tokens.get("modelContextWindow").and_then(Value::as_u64);
    Some(usage)
}

fn breakdown(tokens: &Value) -> Usage {
    let count = |key: &str| tokens.get(key).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: count("inputTokens"),
        cached_input: count("cachedInputTokens"),
        output: count("outputTokens"),
        reasoning: count("reasoningOutputTokens"),
        ..Usage::default()
    }
}

fn minus(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input.saturating_sub(b.input),
        cached_input: a.cached_input.saturating_sub(b.cached_input),
        output: a.output.saturating_sub(b.output),
        reasoning: a.reasoning.saturating_sub(b.reasoning),
        ..Usage::default()
    }
}
