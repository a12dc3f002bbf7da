//! The ends of turns and of what they leave open.

use super::{
    codec::{Codec, Received},
    conversation::Speaking,
    replies::CallError,
};
use crate::rpc::{
    event,
    frames::{cut, text_of},
    turn_end,
};
use pilothouse_domain::{
    ItemStatus, NativeId, ProviderEventKind,
    provider::TurnStatus,
    provider_event::NativePlace,
    run::{ErrorCode, RunError},
};
use serde_json::Value;

impl Codec {
    /// A prompt was answered: its turn is over, with all that it left open.
    pub(super) fn turn_over(
        &mut self,
        session: &NativeId,
        turn: &NativeId,
        result: Result<Value, CallError>,
        out: &mut Vec<Received>,
    ) {
        self.hush(session, out);
        let quirks = self.quirks;
        let place = NativePlace {
            turn: Some(turn.clone()),
            ..self.place(session)
        };
        let failures = self.failures.clone();
        let known = self.conversation(session);
        // A turn that failed took what was counted in passing.
        let told = result.as_ref().unwrap_or(&Value::Null);
        let usage = known.usage.of_turn(told, quirks.usage_adds_up);
        let (status, error) = match ending(result) {
            (TurnStatus::Completed, _)
                if failures
                    .iter()
                    .any(|words| known.last_words.starts_with(words)) =>
            {
                let error = RunError {
                    code: ErrorCode::ModelService,
                    message: known.last_words.clone(),
                };
                (TurnStatus::Failed, Some(error))
            }
            ending => ending,
        };
        let left_as = match status {
            TurnStatus::Interrupted => ItemStatus::Interrupted,
            _ => ItemStatus::Unfinished,
        };
        for (item, content) in known.leave_open(turn) {
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: left_as,
                content,
                client_id: None,
            };
            event(out, place.clone(), kind);
        }
        if known.turn.as_ref() == Some(turn) {
            known.turn = None;
        }
        known.last = Some(turn.clone());
        if let Some(usage) = usage {
            event(out, place.clone(), ProviderEventKind::Usage { usage });
        }
        let mut asked = self.requests.take_of(session, turn);
        // What a subagent asked names no turn; if the turn was stopped, it was answered with that.
        asked.extend(self.requests.take_where(|pending| {
            pending.answered && pending.place.root.as_ref() == Some(session)
        }));
        self.withdraw_all(asked, out);
        for kind in turn_end(status, error) {
            event(out, place.clone(), kind);
        }
    }

    /// Ends the words that are being spoken.
    pub(super) fn hush(&mut self, session: &NativeId, out: &mut Vec<Received>) {
        let spoken = self.conversation(session).speaking.take();
        let spoken = spoken.filter(|spoken| spoken.closed_at != Some(spoken.collected().len()));
        if let Some(Speaking { item, content, .. }) = spoken {
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: ItemStatus::Completed,
                content,
                client_id: None,
            };
            event(out, self.place(session), kind);
        }
    }
}

/// How a turn ended. An end that this version does not know is no success.
fn ending(result: Result<Value, CallError>) -> (TurnStatus, Option<RunError>) {
    let failed = |code, message: String| {
        let error = RunError { code, message };
        (TurnStatus::Failed, Some(error))
    };
    let result = match result {
        Ok(result) => result,
        Err(error @ CallError::SignIn { .. }) => {
            return failed(ErrorCode::SignIn, error.to_string());
        }
        Err(error @ CallError::NoConversation { .. }) => {
            return failed(ErrorCode::Resume, error.to_string());
        }
        Err(error) => return failed(ErrorCode::Agent, error.to_string()),
    };
    let reason = text_of(&result, "stopReason").unwrap_or_default();
    match reason.as_str() {
        "end_turn" => (TurnStatus::Completed, None),
        "cancelled" => (TurnStatus::Interrupted, None),
        "max_tokens" => failed(
            ErrorCode::Limit,
            "the model reached its limit of tokens (max_tokens)".to_owned(),
        ),
        "max_turn_requests" => failed(
            ErrorCode::Limit,
            "the agent reached its limit of requests in a turn (max_turn_requests)".to_owned(),
        ),
        "refusal" => failed(ErrorCode::Agent, "the agent refused to go on".to_owned()),
        other => failed(
            ErrorCode::Protocol,
            format!(
                "the turn ended for a reason that this version does not know: `{}`",
                cut(other, 120)
            ),
        ),
    }
}
