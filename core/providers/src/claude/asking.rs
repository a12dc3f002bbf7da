//! Requests of the agent: opened, answered and closed.

use super::{
    codec::{Codec, Received},
    outgoing, passed_over, requests,
};
use crate::rpc::{
    answers::Answers,
    asked::{AnswerProblem, Opened, is_bounded},
    event,
    frames::{cut, text_of},
};
use pilothouse_domain::{Answer, NativeId, ProviderEventKind, provider_event::Resolution};
use serde_json::Value;

impl Codec {
    /// The frame for a person's answer. The agent confirms it by sending it back.
    ///
    /// # Errors
    /// [`AnswerProblem::NotPending`] if the agent does not wait for it or it was answered already, [`AnswerProblem::Unfit`]
    /// if the answer does not fit what was asked.
    pub fn answer(
        &mut self,
        request: &NativeId,
        answer: &Answer,
    ) -> Result<Vec<u8>, AnswerProblem> {
        let (id, result) = self.requests.answer(request, answer)?;
        let asked = self.requests.get(request).map(|pending| &pending.opened);
        if let Some(words) = text_of(&result, requests::ERROR) {
            return Ok(outgoing::error_line(&id, &words));
        }
        let refuses = text_of(&result, "behavior").as_deref() == Some("deny");
        self.stopping |= result.get("interrupt") == Some(&Value::Bool(true));
        let item = asked.and_then(|opened| opened.item.clone());
        let result = match asked.map(|opened| (&opened.answers, &opened.subject)) {
            Some((Answers::Within { input, .. }, subject))
                if matches!(answer, Answer::Reply { .. }) =>
            {
                requests::answered(input, subject, &result)
            }
            _ => result,
        };
        let result = without_nulls(result);
        if let Some(item) = item.filter(|_| refuses) {
            self.declined(&item);
        }
        Ok(outgoing::result_line(&id, &result))
    }

    fn declined(&mut self, item: &NativeId) {
        let children = self
            .children
            .values_mut()
            .map(|child| &mut child.conversation);
        for conversation in std::iter::once(&mut self.main).chain(children) {
            conversation.decline(item);
        }
    }

    /// Reads `control_request`.
    pub(super) fn ask(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let request = frame.get("request").unwrap_or(&Value::Null);
        // One whose id is too long to be told from every other cannot be answered.
        let id = frame.get("request_id");
        let id = id.filter(|id| id.is_string() && is_bounded(id)).cloned();
        let (Some(id), Some(subtype)) = (id, text_of(request, "subtype")) else {
            return self.unknown("control request without an id or a subtype", frame, out);
        };
        if let Some(passed) = passed_over::refused(&subtype) {
            out.push(Received::Send(outgoing::error_line(&id, passed)));
            let message = format!("refused `{subtype}`: {passed}");
            return self.diagnostic(message, out);
        }
        let child = self.child_of(request);
        let Some(thread) = child.clone().or_else(|| self.session().cloned()) else {
            let message = "it belongs to no conversation";
            out.push(Received::Send(outgoing::error_line(&id, message)));
            return self.unknown("control request of no conversation", frame, out);
        };
        let call = text_of(request, "tool_use_id").map(NativeId);
        let opened = match subtype.as_str() {
            "can_use_tool" => {
                if child.is_none() {
                    self.ensure_turn(out);
                }
                let cwd = self.cwd.clone();
                let conversation = self.conversation(child.as_ref());
                let tool = call.as_ref().and_then(|call| conversation.tool(call));
                requests::tool(thread, request, tool, &cwd)
            }
            "elicitation" => requests::elicitation(thread, request),
            subtype => requests::unknown(thread, subtype, request),
        };
        self.open(id, &subtype, child.as_ref(), opened, out);
    }

    fn open(
        &mut self,
        id: Value,
        subtype: &str,
        child: Option<&NativeId>,
        mut opened: Opened,
        out: &mut Vec<Received>,
    ) {
        let place = self.place(child);
        if !self
            .requests
            .takes(&id, &place, &mut opened, |place, kind| {
                event(out, place, kind)
            })
        {
            let message = "too many requests wait already";
            out.push(Received::Send(outgoing::error_line(&id, message)));
            let message = format!("refused `{}`: {message}", cut(subtype, 120));
            return self.diagnostic(message, out);
        }
        opened.turn.clone_from(&place.turn);
        self.requests.open(id, place, opened, out);
    }

    /// The agent no longer waits for an answer.
    pub(super) fn close(
        &mut self,
        request: &NativeId,
        resolution: Resolution,
        out: &mut Vec<Received>,
    ) {
        let Some(pending) = self.requests.take(request) else {
            return;
        };
        let kind = ProviderEventKind::RequestClosed {
            request: request.clone(),
            resolution,
        };
        event(out, pending.place, kind);
    }
}

/// Fields that say nothing make an answer that the agent does not take.
fn without_nulls(mut result: Value) -> Value {
    if let Value::Object(fields) = &mut result {
        fields.retain(|_, value| !value.is_null());
    }
    result
}
