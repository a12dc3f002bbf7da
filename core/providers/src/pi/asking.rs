//! Dialogs of extensions: opened for a person, and given up after their time. pi gives them up without a word, so that it is
//! watched here.

use super::{
    codec::{Codec, Received},
    dialogs, gate, outgoing,
    passed_over::passed_over,
};
use crate::rpc::{
    asked::{is_bounded, request_id},
    event,
    frames::{RAW_LIMIT, cut, text_of, text_or_empty},
};
use pilothouse_domain::{NativeId, ProviderEventKind, provider_event::Resolution};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

/// Dialogs that have a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Timed {
    next: u64,
    /// Which dialog each number stands for: an id of pi's may be used again for another.
    waiting: BTreeMap<u64, NativeId>,
    /// Those whose time nobody watches yet.
    fresh: Vec<(u64, Duration)>,
}

impl Timed {
    /// A dialog was opened, in the place of one that had its id. Those that do not wait any more are forgotten.
    pub(super) fn opened(
        &mut self,
        request: NativeId,
        time: Option<Duration>,
        waits: impl Fn(&NativeId) -> bool,
    ) {
        self.waiting
            .retain(|_, known| *known != request && waits(known));
        if let Some(time) = time {
            self.next += 1;
            self.waiting.insert(self.next, request);
            self.fresh.push((self.next, time));
        }
    }
}

impl Codec {
    /// Reads `extension_ui_request`.
    pub(super) fn ui(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let method = text_or_empty(frame, "method");
        if method == "setStatus" && text_of(frame, "statusKey").as_deref() == Some(gate::NAME) {
            self.gate = gate::state(frame);
            return;
        }
        if !dialogs::is_dialog(&method) {
            let name = cut(&format!("extension_ui_request {method}"), 120);
            // A dialog that is not known must not be waited for in vain.
            if passed_over(&name).is_none()
                && let Some(id) = frame.get("id").filter(|id| !id.is_null())
            {
                let line = outgoing::response_line(id, outgoing::dismissed());
                out.push(Received::Send(line));
            }
            self.other(&name, frame, out);
            return;
        }
        let id = frame
            .get("id")
            .filter(|id| (id.is_string() || id.is_number()) && is_bounded(id));
        let (Some(id), Some(home)) = (id.cloned(), self.home.clone()) else {
            // Between two sessions there is nobody whom it could be shown to.
            if let Some(id) = frame.get("id").filter(|id| !id.is_null()) {
                let line = outgoing::response_line(id, outgoing::dismissed());
                out.push(Received::Send(line));
            }
            let raw = cut(&frame.to_string(), RAW_LIMIT);
            self.unknown(format!("{method} that cannot be answered"), raw, out);
            return;
        };
        self.ensure_turn(out);
        let place = self.place();
        let mut opened = dialogs::read(&home, &method, frame, &mut self.tools);
        if !self
            .requests
            .takes(&id, &place, &mut opened.opened, |place, kind| {
                event(out, place, kind)
            })
        {
            let line = outgoing::response_line(&id, outgoing::dismissed());
            out.push(Received::Send(line));
            self.diagnostic(
                format!("dismissed `{method}`: too many requests wait already"),
                out,
            );
            return;
        }
        if let Some(call) = opened.call.take() {
            opened.opened.item = self.shown_tool(&call, out);
        }
        opened.opened.turn.clone_from(&place.turn);
        let request = request_id(&id);
        let known = self.requests.get(&request).is_some();
        self.requests.open(id, place, opened.opened, out);
        let requests = &self.requests;
        self.timed.opened(request, dialogs::time(frame), |waits| {
            requests.get(waits).is_some()
        });
        if known {
            self.diagnostic("the agent used the id of a request again".to_owned(), out);
        }
    }

    /// Dialogs opened since this was last asked that have a time: a number for each, and how long it waits.
    pub fn timed(&mut self) -> Vec<(u64, Duration)> {
        std::mem::take(&mut self.timed.fresh)
    }

    /// The time of a dialog is over: if it was not answered, nobody waits for that any more.
    pub fn expire(&mut self, timed: u64) -> Vec<Received> {
        let mut out = Vec::new();
        let request = self.timed.waiting.remove(&timed);
        let Some(request) = request.filter(|request| {
            let pending = self.requests.get(request);
            pending.is_some_and(|pending| !pending.answered)
        }) else {
            return out;
        };
        if let Some(pending) = self.requests.take(&request) {
            let kind = ProviderEventKind::RequestClosed {
                request,
                resolution: Resolution::Expired,
            };
            event(&mut out, pending.place, kind);
        }
        out
    }
}
