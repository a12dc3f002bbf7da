//! `system` frames: beginnings of turns, states, retries, compactions, tasks.

use super::{
    codec::{Codec, MODE, Received},
    tasks, turns,
};
use crate::{
    mcp,
    rpc::{
        self, event,
        frames::{cut, list, text_of, text_or_empty},
    },
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    provider::AccountLimit,
    provider_event::NativePlace,
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// Servers of tools that are looked at.
const SERVERS: usize = 64;
/// Bytes of a directory's path.
const PATH: usize = 4096;

/// Reads `system`.
pub(super) fn read(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    let Some(subtype) = text_of(frame, "subtype") else {
        return codec.unknown("system without a subtype", frame, out);
    };
    let understood = match subtype.as_str() {
        "init" => {
            init(codec, frame, out);
            Some(())
        }
        "status" => {
            status(codec, frame, out);
            Some(())
        }
        "api_retry" => {
            retry(codec, frame, out);
            Some(())
        }
        "compact_boundary" => {
            compacted(codec, frame, out);
            Some(())
        }
        "task_started" => tasks::started(codec, frame, out),
        "task_updated" => tasks::updated(codec, frame, out),
        "task_notification" => tasks::notified(codec, frame, out),
        "model_fallback" | "model_refusal_fallback" | "model_consent_fallback" => {
            rerouted(codec, frame, out)
        }
        _ => None,
    };
    if understood.is_none() {
        codec.other(&format!("system {}", cut(&subtype, 80)), frame, out);
    }
}

/// The agent begins something, and says what is in force.
fn init(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    codec.beginning |= codec.turn.is_none();
    if let Some(mode) = text_of(frame, "permissionMode") {
        codec.settings.mode = cut(&mode, MODE);
    }
    if let Some(cwd) = text_of(frame, "cwd") {
        codec.cwd = cut(&cwd, PATH);
    }
    if codec.sent.waits_unnamed() {
        codec.ensure_turn(out);
    }
    servers(codec, frame, out);
}

/// Says once of each server that was named to the agent at its start that it is not there when a turn begins.
fn servers(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    for server in list(frame, "mcp_servers").iter().take(SERVERS) {
        if text_of(server, "source").as_deref() != Some("dynamic") {
            continue;
        }
        let name = cut(&text_or_empty(server, "name"), 64);
        let status = cut(&text_or_empty(server, "status"), 64);
        let id = NativeId(name.clone());
        let was = codec.servers.get(&id).cloned();
        codec.servers.insert(id, status.clone());
        if status == "connected" || was.as_ref() == Some(&status) {
            continue;
        }
        let problem = match status.as_str() {
            "pending" => "it has not started yet".to_owned(),
            "failed" => "it did not start; `claude mcp list` on the host says more".to_owned(),
            "needs-auth" => "it needs a sign-in on the host".to_owned(),
            status => format!("the agent calls it `{status}`"),
        };
        let kind = rpc::notice(mcp::not_started(&name, &problem));
        event(out, codec.place(None), kind);
    }
}

fn status(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    if let Some(mode) = text_of(frame, "permissionMode") {
        let mode = cut(&mode, MODE);
        let message = format!("the agent's mode is now `{mode}`");
        codec.settings.mode = mode;
        codec.diagnostic(message, out);
    }
    if text_of(frame, "status").as_deref() == Some("compacting") && codec.compaction_ended {
        let item = NativeId(codec.mint("compaction"));
        codec.compaction = Some(item.clone());
        codec.compaction_ended = false;
        let kind = ProviderEventKind::ItemOpened {
            item,
            content: compaction(),
            client_id: None,
        };
        event(out, codec.place(None), kind);
    }
    if text_of(frame, "compact_result").as_deref() == Some("failed")
        && !codec.compaction_ended
        && let Some(item) = codec.compaction.clone()
    {
        codec.compaction_ended = true;
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Failed,
            content: ItemContent::Compaction {
                text: Body::inline(cut(&text_or_empty(frame, "compact_error"), PATH)),
            },
            client_id: None,
        };
        event(out, codec.place(None), kind);
    }
}

fn compaction() -> ItemContent {
    ItemContent::Compaction {
        text: Body::default(),
    }
}

/// The context was shortened; what is left of it follows as a message to the model.
fn compacted(codec: &mut Codec, _frame: &Value, out: &mut Vec<Received>) {
    let begun = codec.compaction.clone().filter(|_| !codec.compaction_ended);
    let item = begun.unwrap_or_else(|| NativeId(codec.mint("compaction")));
    codec.compaction = Some(item.clone());
    codec.compaction_ended = true;
    let kind = ProviderEventKind::ItemClosed {
        item,
        status: ItemStatus::Completed,
        content: compaction(),
        client_id: None,
    };
    event(out, codec.place(None), kind);
}

fn retry(codec: &Codec, frame: &Value, out: &mut Vec<Received>) {
    let number = |key: &str| frame.get(key).and_then(Value::as_u64);
    let status = number("error_status");
    let what = text_of(frame, "error").unwrap_or_default();
    let error = RunError {
        code: match turns::code_of(status) {
            ErrorCode::Agent => ErrorCode::ModelService,
            code => code,
        },
        message: format!(
            "{} ({}{}); attempt {} of {} in {} ms",
            match turns::code_of(status) {
                ErrorCode::SignIn => "its sign-in is refused, it tries again",
                _ => "the model's service failed",
            },
            status.map_or_else(String::new, |status| format!("{status} ")),
            cut(&what, 200),
            number("attempt").unwrap_or(0),
            number("max_retries").unwrap_or(0),
            number("retry_delay_ms").unwrap_or(0),
        ),
    };
    let kind = ProviderEventKind::Error {
        error,
        will_retry: true,
    };
    event(out, codec.place(None), kind);
}

/// Windows that the agent names, and how long each is in minutes, where its name says so.
const WINDOWS: [(&str, Option<u64>); 6] = [
    ("five_hour", Some(300)),
    ("seven_day", Some(10_080)),
    ("seven_day_opus", Some(10_080)),
    ("seven_day_sonnet", Some(10_080)),
    ("seven_day_overage_included", Some(10_080)),
    ("overage", None),
];

/// Reads `rate_limit_event`: the windows that are watched all the time, and the one that counts at the moment.
pub(super) fn limits(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    let Some(told) = frame.get("rate_limit_info").filter(|told| told.is_object()) else {
        return codec.unknown("rate_limit_event", frame, out);
    };
    let current = text_of(told, "rateLimitType");
    let mut all = codec.limits.clone();
    for (name, window_minutes) in WINDOWS {
        let window = told
            .get("unifiedWindows")
            .and_then(|windows| windows.get(name));
        let Some(window) = window.or_else(|| (current.as_deref() == Some(name)).then_some(told))
        else {
            continue;
        };
        let Some(used_percent) = window.get("utilization").and_then(percent) else {
            continue;
        };
        let seconds = window.get("resetsAt").and_then(Value::as_u64);
        let limit = AccountLimit {
            name: name.to_owned(),
            used_percent,
            window_minutes,
            resets_at_ms: seconds.map(|seconds| seconds.saturating_mul(1000)),
            reached: text_of(window, "status").as_deref() == Some("rejected"),
        };
        match all.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = limit,
            None => all.push(limit),
        }
    }
    if all != codec.limits {
        codec.limits.clone_from(&all);
        let kind = ProviderEventKind::Limits { limits: all };
        event(out, NativePlace::default(), kind);
    }
}

/// A fraction as whole percents, over 100 where more was used than there is.
fn percent(fraction: &Value) -> Option<u32> {
    let fraction = fraction.as_f64().filter(|fraction| *fraction >= 0.0)?;
    Some(
        format!("{:.0}", fraction * 100.0)
            .parse()
            .unwrap_or(u32::MAX),
    )
}

fn rerouted(codec: &Codec, frame: &Value, out: &mut Vec<Received>) -> Option<()> {
    let name = |keys: [&str; 2]| keys.iter().find_map(|key| text_of(frame, key));
    let kind = ProviderEventKind::ModelRerouted {
        from: cut(&name(["original_model", "from_model"])?, 200),
        to: cut(&name(["fallback_model", "to_model"])?, 200),
    };
    event(out, codec.place(None), kind);
    Some(())
}
