//! What an agent asks and tells beside its updates: requests, and their ends.

use super::{
    codec::{Codec, Received},
    content::id_of,
    outgoing,
    requests::{self, Permission},
    updates,
};
use crate::rpc::{
    asked::{Opened, Pending, is_bounded, request_id},
    event,
    frames::{RAW_LIMIT, cut, text_of},
};
use pilothouse_domain::{
    ItemContent, NativeId, ProviderEventKind,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
};
use serde_json::Value;

impl Codec {
    pub(super) fn notice(&mut self, method: &str, params: &Value, out: &mut Vec<Received>) {
        match method {
            "session/update" => updates::read(self, params, out),
            "$/cancel_request" => {
                self.withdraw(params.get("requestId"), Resolution::Withdrawn, out)
            }
            "elicitation/complete" => {
                let link = id_of(params, "elicitationId");
                if let Some(request) = link.and_then(|link| self.links.remove(&link)) {
                    self.close(&request, Resolution::Answered, out);
                }
            }
            _ => updates::other(self, method, params, out),
        }
    }

    /// `$/cancel_request`: the agent no longer waits. It still gets an answer, as JSON-RPC demands.
    fn withdraw(&mut self, id: Option<&Value>, how: Resolution, out: &mut Vec<Received>) {
        if let Some(id) = id {
            self.close(&request_id(id), how, out);
        }
    }

    fn close(&mut self, request: &NativeId, resolution: Resolution, out: &mut Vec<Received>) {
        let Some(pending) = self.take_request(request) else {
            return;
        };
        if !pending.answered {
            out.push(Received::Send(match resolution {
                // What was done behind the link was not accepted here: nobody answered.
                Resolution::Answered => {
                    outgoing::result_line(&pending.id, &requests::withdrawn(&pending.opened))
                }
                _ => outgoing::error_line(&pending.id, -32800, "the request was cancelled"),
            }));
        }
        let kind = ProviderEventKind::RequestClosed {
            request: request.clone(),
            resolution,
        };
        event(out, pending.place, kind);
    }

    /// Takes a request out, and the link that it asked to open.
    pub(super) fn take_request(&mut self, request: &NativeId) -> Option<Pending> {
        let pending = self.requests.take(request)?;
        self.links.retain(|asked| asked != request);
        Some(pending)
    }

    /// Closes requests that nobody can answer any more, and tells the agent so unless it was told.
    pub(super) fn withdraw_all(
        &mut self,
        taken: Vec<(NativeId, Pending)>,
        out: &mut Vec<Received>,
    ) {
        for (request, pending) in taken {
            self.links.retain(|asked| *asked != request);
            if !pending.answered {
                let result = requests::withdrawn(&pending.opened);
                out.push(Received::Send(outgoing::result_line(&pending.id, &result)));
            }
            let kind = ProviderEventKind::RequestClosed {
                request,
                resolution: Resolution::Withdrawn,
            };
            event(out, pending.place, kind);
        }
    }

    pub(super) fn ask(&mut self, id: Value, method: &str, params: &Value, out: &mut Vec<Received>) {
        if !is_bounded(&id) {
            self.refuse(&id, method, params, -32600, "its id is too long", out);
            return;
        }
        match method {
            "session/request_permission" => {
                let Some(session) = self.session_of(params) else {
                    self.refuse(&id, method, params, -32602, "it names no session", out);
                    return;
                };
                let Permission {
                    opened,
                    own_changes,
                    ..
                } = self.permission(session, params, out);
                self.open(id, method, opened, own_changes, out);
            }
            "elicitation/create" => {
                let Some(session) = self.session_of(params) else {
                    self.refuse(&id, method, params, -32602, "it names no session", out);
                    return;
                };
                let turn = self.place(&session).turn;
                let item = id_of(params, "toolCallId")
                    .zip(self.conversations.get(&session))
                    .filter(|(call, known)| known.is_current(call, turn.as_ref()))
                    .and_then(|(call, known)| known.tool(&call))
                    .filter(|tool| tool.opened)
                    .map(|tool| tool.item.clone());
                let opened = requests::elicitation(session, params, item);
                let opens_link = text_of(params, "mode").as_deref() == Some("url");
                let link = id_of(params, "elicitationId").filter(|_| opens_link);
                let request = request_id(&id);
                self.open(id, method, opened, false, out);
                if let Some(link) = link
                    && self.requests.get(&request).is_some()
                {
                    self.links.insert(link, request);
                }
            }
            _ if updates::is_unoffered(method) => {
                let message = "not offered by this client, as its handshake said";
                out.push(Received::Send(outgoing::error_line(&id, -32601, message)));
                let message = format!("refused `{}`: {message}", cut(method, 120));
                let place = NativePlace::default();
                event(out, place, ProviderEventKind::Diagnostic { message });
            }
            _ if updates::passed_over(method).is_some() => {
                out.push(Received::Send(outgoing::error_line(
                    &id,
                    -32601,
                    "method not found",
                )));
            }
            _ => self.refuse(&id, method, params, -32601, "method not found", out),
        }
    }

    /// Refuses a request and shows it.
    fn refuse(
        &self,
        id: &Value,
        method: &str,
        params: &Value,
        code: i64,
        message: &str,
        out: &mut Vec<Received>,
    ) {
        out.push(Received::Send(outgoing::error_line(id, code, message)));
        let label = cut(&format!("request {method}"), 120);
        self.unknown(params, label, cut(&params.to_string(), RAW_LIMIT), out);
    }

    fn permission(
        &mut self,
        session: NativeId,
        params: &Value,
        out: &mut Vec<Received>,
    ) -> Permission {
        let quirks = self.quirks;
        let place = self.place(&session);
        let turn = place.turn.clone();
        let known = self.conversation(&session);
        let mut changed = None;
        let asked = requests::permission(session.clone(), params, quirks, |id, asked, told| {
            let own = known.is_current(id, turn.as_ref());
            let call = if own {
                id.clone()
            } else {
                known.about(asked, turn.as_ref())?
            };
            let content = known.alter(&call, |tool| tool.asked(own.then_some(told), asked))?;
            let tool = known.tool(&call)?;
            changed = content
                .filter(|_| tool.opened)
                .map(|content| (tool.item.clone(), content));
            Some(tool)
        });
        if let Some((item, content)) = changed {
            self.item_changed(&session, &item, &content, place, out);
        }
        // The request may be the first that is heard of the tool: its later pieces say less.
        if let (Some(call), Some(tool)) = (&asked.call, &asked.tool)
            && asked.opened.item.is_none()
            && !self.conversation(&session).is_current(call, turn.as_ref())
        {
            let item = NativeId(self.mint("tool"));
            let tool = tool.clone().renamed(item, turn);
            updates::put_tool(self, &session, call.clone(), tool, out);
        }
        asked
    }

    /// An item is now this; what waits about its changes to files is opened anew with them.
    pub(super) fn item_changed(
        &mut self,
        session: &NativeId,
        item: &NativeId,
        content: &ItemContent,
        place: NativePlace,
        out: &mut Vec<Received>,
    ) {
        let kind = ProviderEventKind::ItemUpdated {
            item: item.clone(),
            content: content.clone(),
        };
        event(out, place, kind);
        self.ask_anew(session, item, content, out);
    }

    /// The changes to files of an item were told: what waits about it is opened anew. It shows what the request itself
    /// named, or else what the item is now; either way the answer is to what was shown last.
    pub(super) fn ask_anew(
        &mut self,
        session: &NativeId,
        item: &NativeId,
        content: &ItemContent,
        out: &mut Vec<Received>,
    ) {
        let ItemContent::FileChange { changes } = content else {
            return;
        };
        self.requests.change(
            |pending| {
                let opened = &pending.opened;
                opened.thread == *session
                    && opened.item.as_ref() == Some(item)
                    && (opened.kind == RequestKind::FileChange || pending.own_changes)
                    && opened.subject.changes != *changes
            },
            |pending| {
                if !pending.own_changes {
                    requests::show_changes(&mut pending.opened.subject, changes);
                }
            },
            |place, kind| event(out, place, kind),
        );
    }

    fn open(
        &mut self,
        id: Value,
        method: &str,
        mut opened: Opened,
        own_changes: bool,
        out: &mut Vec<Received>,
    ) {
        let session = opened.thread.clone();
        self.hush(&session, out);
        let place = self.place(&session);
        if !self
            .requests
            .takes(&id, &place, &mut opened, |place, kind| {
                event(out, place, kind)
            })
        {
            let message = "too many requests wait already";
            out.push(Received::Send(outgoing::error_line(&id, -32600, message)));
            let message = format!("refused `{method}`: {message}");
            event(out, place, ProviderEventKind::Diagnostic { message });
            return;
        }
        opened.turn.clone_from(&place.turn);
        self.requests
            .open_showing(id, place, opened, own_changes, out);
    }
}
