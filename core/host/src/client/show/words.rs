//! The words for statuses and reasons, one place for all views.

use crate::client::style::Tone;
use pilothouse_domain::{
    ItemStatus, RunStatus, ThreadId,
    event::HoldReason,
    item::Anomaly,
    policy::Sandbox,
    request::{Answer, AnswerDelivery, LostReason, OptionEffect, RequestKind, RiskHint},
    run::BlockedOn,
};

/// That an agent does not ask, and in what it runs.
pub(crate) fn unasked(sandbox: Sandbox) -> String {
    match sandbox {
        Sandbox::None => "does not ask, in no sandbox".to_owned(),
        sandbox => format!("does not ask, in {}", sandbox.name()),
    }
}

/// A thread, short enough for a line and long enough for a command.
pub(crate) fn thread(thread: ThreadId) -> String {
    thread.to_string()[..8].to_owned()
}

/// What a run is doing.
pub(crate) fn run(status: RunStatus, blocked_on: BlockedOn) -> &'static str {
    match (status, blocked_on) {
        (RunStatus::Waiting | RunStatus::Running, BlockedOn::Approval) => "waits for your approval",
        (RunStatus::Waiting | RunStatus::Running, BlockedOn::Question) => "waits for your answer",
        (RunStatus::Waiting, BlockedOn::Background) => "waits for background work",
        (RunStatus::Waiting, BlockedOn::Checkpoint) => "waits for a checkpoint",
        (RunStatus::Waiting, BlockedOn::Limit) => "waits for a usage limit",
        (RunStatus::Waiting, BlockedOn::None) => "waits",
        (RunStatus::Queued, _) => "queued",
        (RunStatus::Preparing, _) => "preparing",
        (RunStatus::Starting, _) => "starting",
        (RunStatus::Running, _) => "running",
        (RunStatus::Finalizing, _) => "finishing",
        (RunStatus::Completed, _) => "completed",
        (RunStatus::Interrupted, _) => "interrupted",
        (RunStatus::Failed, _) => "failed",
        (RunStatus::Cancelled, _) => "cancelled",
        (RunStatus::RolledBack, _) => "rolled back",
    }
}

/// How a run's status is meant.
pub(crate) fn run_tone(status: RunStatus, blocked_on: BlockedOn) -> Tone {
    match status {
        _ if matches!(blocked_on, BlockedOn::Approval | BlockedOn::Question)
            && !status.is_terminal() =>
        {
            Tone::Waits
        }
        RunStatus::Completed => Tone::Good,
        RunStatus::Failed | RunStatus::Interrupted => Tone::Bad,
        RunStatus::Cancelled | RunStatus::RolledBack | RunStatus::Queued => Tone::Dim,
        _ => Tone::Strong,
    }
}

/// How an item ended; `None` while it is live.
pub(crate) fn item_end(status: ItemStatus) -> Option<&'static str> {
    match status {
        ItemStatus::Open => None,
        ItemStatus::Background => Some("goes on in the background"),
        ItemStatus::Completed => Some("done"),
        ItemStatus::Failed => Some("failed"),
        ItemStatus::Declined => Some("declined"),
        ItemStatus::Interrupted => Some("interrupted"),
        ItemStatus::Unfinished => Some("never ended by the agent"),
    }
}

/// What is wrong with an item.
pub(crate) fn anomaly(anomaly: Anomaly) -> &'static str {
    match anomaly {
        Anomaly::Unasked => {
            "without asking you, though this thread's mode is to ask: look at what it did, and whether the agent's own settings allow it"
        }
    }
}

/// Why a queue does not go on.
pub(crate) fn held(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Interrupted => "a run was interrupted",
        HoldReason::Failed => "a run failed",
        HoldReason::SignIn => "waits for the agent's sign-in",
        HoldReason::RuntimeLost => "the agent's process was lost",
        HoldReason::SteerMissed => "a steering message came too late",
        HoldReason::Person => "somebody held it",
    }
}

/// What a request asks for.
pub(crate) fn kind(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Command => "run a command",
        RequestKind::FileRead => "read files",
        RequestKind::FileChange | RequestKind::ApplyPatch => "change files",
        RequestKind::Permission => "get a permission",
        RequestKind::Tool => "use a tool",
        RequestKind::Plan => "go on with a plan",
        RequestKind::UserInput => "get an answer",
        RequestKind::Auth => "be signed in",
        RequestKind::Elicitation => "get an input",
        RequestKind::Unknown => "something this version does not know",
    }
}

/// What an option does.
pub(crate) fn effect(effect: OptionEffect) -> &'static str {
    match effect {
        OptionEffect::AllowOnce => "allow once",
        OptionEffect::AllowSession => "allow for the session",
        OptionEffect::AllowRule => "allow by a rule that stays",
        OptionEffect::Deny => "deny",
        OptionEffect::DenyAll => "deny all that the conversation waits for",
        OptionEffect::DenyAndStop => "deny and stop the turn",
        OptionEffect::DenyRule => "deny by a rule that stays",
        OptionEffect::Other => "other",
    }
}

/// What to know before approving.
pub(crate) fn hint(hint: RiskHint) -> &'static str {
    match hint {
        RiskHint::TooLongForOneTap => "long: read it to the end",
        RiskHint::HiddenCharacters => "holds hidden or look-alike characters, shown as ⟨U+…⟩",
        RiskHint::Padding => "long runs of blanks push part of it out of sight",
        RiskHint::Incomplete => "the agent sent only part of what it asks for",
        RiskHint::NeedsAnswer => "needs words or choices",
        RiskHint::UnknownKind => "a kind of request this version does not know",
        RiskHint::UnknownFields => "has parts this version does not know: read the raw text",
        RiskHint::LeavesSandbox => "leaves the sandbox or the workspace",
        RiskHint::DeletesFiles => "deletes files",
        RiskHint::NoExactText => "nothing says what exactly would happen",
    }
}

/// Why a request was lost.
pub(crate) fn lost(reason: LostReason) -> String {
    // The names are stable and readable; a sentence per reason would only repeat them.
    serde_json::to_value(reason)
        .ok()
        .and_then(|value| value.as_str().map(|name| name.replace('_', " ")))
        .unwrap_or_default()
}

/// How sure it is that the agent has an answer.
pub(crate) fn delivery(delivery: AnswerDelivery) -> &'static str {
    match delivery {
        AnswerDelivery::Confirmed => "the agent confirmed it",
        AnswerDelivery::Written => "handed to the agent, which does not confirm answers",
        AnswerDelivery::Inferred => "concluded from what the agent did next",
    }
}

/// A given answer, without secrets.
pub(crate) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Choose { option, note: None } => option.to_string(),
        Answer::Choose {
            option,
            note: Some(note),
        } => format!("{option}, “{}”", crate::client::text::one_line(note, 80)),
        Answer::Reply { replies } if replies.len() == 1 => "1 reply".to_owned(),
        Answer::Reply { replies } => format!("{} replies", replies.len()),
    }
}
