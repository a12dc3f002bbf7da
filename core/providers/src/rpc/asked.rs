//! Requests of an agent that wait for a person.

use super::{Received, answers::Answers, budget, event, frames::cut};
use pilothouse_domain::{
    Answer, NativeId, ProviderEventKind, Subject, limits,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
    shorten::fit_subject,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Requests of an agent that may wait at a time in one process, and as many in one conversation as a thread may have open;
/// beyond, they are refused at once.
pub(crate) const PENDING_REQUESTS: usize = 1024;

/// Bytes of what they show, and of the answers that fit them, that may wait together; one that has no room is refused at once.
pub const PENDING_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a request's id; one that is longer could not be told from another.
const ID: usize = 256;

/// Why an answer was not turned into a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerProblem {
    /// The agent does not wait for it (any more).
    #[error("the agent does not wait for an answer to request {request}")]
    NotPending {
        /// The request.
        request: NativeId,
    },
    /// The answer does not fit the request.
    #[error("the answer does not fit: {problem}")]
    Unfit {
        /// What is wrong with it.
        problem: String,
    },
}

/// What an agent asks of a person.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Opened {
    pub(crate) thread: NativeId,
    /// `None`: the codec takes the turn that is going on, if any.
    pub(crate) turn: Option<NativeId>,
    pub(crate) item: Option<NativeId>,
    pub(crate) kind: RequestKind,
    pub(crate) subject: Subject,
    pub(crate) unknown_fields: bool,
    pub(crate) answers: Answers,
}

impl Opened {
    /// As the event that opens it, or opens it anew with what changed.
    pub(crate) fn event(&self, request: &NativeId) -> ProviderEventKind {
        ProviderEventKind::RequestOpened {
            request: request.clone(),
            item: self.item.clone(),
            kind: self.kind,
            subject: Box::new(self.subject.clone()),
            unknown_fields: self.unknown_fields,
        }
    }
}

/// A request that waits.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    /// The id as the agent wrote it.
    pub(crate) id: Value,
    pub(crate) place: NativePlace,
    pub(crate) opened: Opened,
    pub(crate) answered: bool,
    /// Whether the changes to files that it shows are its own, not those of its item.
    pub(crate) own_changes: bool,
    /// Bytes of what it shows.
    weight: usize,
}

impl Pending {
    /// How it is over where its id stands for something else, or is refused.
    fn resolution(&self) -> Resolution {
        match self.answered {
            true => Resolution::Answered,
            false => Resolution::Withdrawn,
        }
    }
}

/// All requests of one process that wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests {
    pending: BTreeMap<NativeId, Pending>,
    /// Bytes of what they show.
    held: usize,
}

impl Requests {
    /// Whether one that is asked there may wait, in the place of that which waits under its id. What it shows is shortened to
    /// what a person can be shown, so that it is what their answer is compared with. One that waits already has its room: asked
    /// again it is shown as before, or as far as that room goes. If not even that is possible, the one that waited is over,
    /// which is told: its id is refused.
    pub(crate) fn takes(
        &mut self,
        id: &Value,
        place: &NativePlace,
        opened: &mut Opened,
        tell: impl FnOnce(NativePlace, ProviderEventKind),
    ) -> bool {
        let request = request_id(id);
        if self.has_room(&request, place, opened) {
            return true;
        }
        if let Some(gone) = self.take(&request) {
            let resolution = gone.resolution();
            let kind = ProviderEventKind::RequestClosed {
                request,
                resolution,
            };
            tell(gone.place, kind);
        }
        false
    }

    fn has_room(&self, request: &NativeId, place: &NativePlace, opened: &mut Opened) -> bool {
        let at_home = |pending: &&Pending| pending.place.home() == place.home();
        fit_subject(&mut opened.subject);
        if let Some(same) = self.pending.get(request).filter(at_home) {
            let mut as_shown = opened.clone();
            if shorten_until(&mut as_shown, |again| is_again(again, &same.opened)) {
                *opened = as_shown;
                return true;
            }
            let room = PENDING_BYTES.saturating_sub(self.held - same.weight);
            return shorten_until(opened, |opened| weight(opened) <= room);
        }
        // What the log of a thread has no room for would never be answered.
        self.pending.len() < PENDING_REQUESTS
            && self.pending.values().filter(at_home).count() < limits::OPEN_REQUESTS
            && self.held + weight(opened) <= PENDING_BYTES
    }

    /// Bytes of what they show.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn get(&self, request: &NativeId) -> Option<&Pending> {
        self.pending.get(request)
    }

    /// Counts anew what a request shows, after it was changed. What there is no room for is not shown.
    fn weigh(&mut self, request: &NativeId) {
        let Some(pending) = self.pending.get_mut(request) else {
            return;
        };
        self.held -= pending.weight;
        fit_subject(&mut pending.opened.subject);
        let room = PENDING_BYTES.saturating_sub(self.held);
        shorten_until(&mut pending.opened, |opened| weight(opened) <= room);
        pending.weight = weight(&pending.opened);
        self.held += pending.weight;
    }

    /// Their ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &NativeId> {
        self.pending.keys()
    }

    /// Whether one that is not answered waits in the conversation that something belongs to.
    pub(crate) fn waits_in(&self, place: &NativePlace) -> bool {
        self.pending
            .values()
            .any(|pending| !pending.answered && pending.place.home() == place.home())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NativeId, &Pending)> {
        self.pending.iter()
    }

    /// Changes what those show that are wanted and wait for an answer, and tells them anew.
    pub(crate) fn change(
        &mut self,
        wanted: impl Fn(&Pending) -> bool,
        change: impl Fn(&mut Pending),
        mut tell: impl FnMut(NativePlace, ProviderEventKind),
    ) {
        let waiting = self.pending.iter();
        let ids: Vec<NativeId> = waiting
            .filter(|(_, pending)| !pending.answered && wanted(pending))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            if let Some(pending) = self.pending.get_mut(&id) {
                change(pending);
                self.weigh(&id);
            }
            if let Some(pending) = self.pending.get(&id) {
                tell(pending.place.clone(), pending.opened.event(&id));
            }
        }
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&NativeId, &mut Pending)> {
        self.pending.iter_mut()
    }

    /// Opens a request. One that is asked again is opened again; under the same number something else is another one.
    pub(crate) fn open<R, E>(
        &mut self,
        id: Value,
        place: NativePlace,
        opened: Opened,
        out: &mut Vec<Received<R, E>>,
    ) {
        self.open_showing(id, place, opened, false, out);
    }

    /// As [`Self::open`]; `own_changes` if the changes to files that it shows are its own, not those of its item.
    pub(crate) fn open_showing<R, E>(
        &mut self,
        id: Value,
        place: NativePlace,
        opened: Opened,
        own_changes: bool,
        out: &mut Vec<Received<R, E>>,
    ) {
        let request = request_id(&id);
        if let Some(known) = self.pending.get(&request) {
            if known.opened == opened && known.place == place {
                if !known.answered {
                    event(out, place, opened.event(&request));
                }
                return;
            }
            event(
                out,
                known.place.clone(),
                ProviderEventKind::RequestClosed {
                    request: request.clone(),
                    resolution: known.resolution(),
                },
            );
        }
        event(out, place.clone(), opened.event(&request));
        self.take(&request);
        let weight = weight(&opened);
        self.held += weight;
        self.pending.insert(
            request,
            Pending {
                id,
                place,
                opened,
                answered: false,
                own_changes,
                weight,
            },
        );
    }

    /// The id and the result for a person's answer. The request stays until it is taken out.
    pub(crate) fn answer(
        &mut self,
        request: &NativeId,
        answer: &Answer,
    ) -> Result<(Value, Value), AnswerProblem> {
        let not_pending = || AnswerProblem::NotPending {
            request: request.clone(),
        };
        let pending = self.pending.get_mut(request).ok_or_else(not_pending)?;
        if pending.answered {
            return Err(not_pending());
        }
        let result = pending
            .opened
            .answers
            .result(&pending.opened.subject, answer)
            .map_err(|problem| AnswerProblem::Unfit { problem })?;
        pending.answered = true;
        Ok((pending.id.clone(), result))
    }

    /// An answer did not arrive, as far as is known: another may be given. The conversation of one that waits.
    pub(crate) fn not_taken(&mut self, request: &NativeId) -> Option<NativeId> {
        let pending = self.pending.get_mut(request)?;
        pending.answered = false;
        Some(pending.opened.thread.clone())
    }

    /// Whether a pending request is the one that was shown: an agent may use a number again for something else.
    pub(crate) fn is_same(
        &self,
        request: &NativeId,
        thread: &NativeId,
        kind: RequestKind,
        shown: &Subject,
    ) -> bool {
        self.pending.get(request).is_some_and(|pending| {
            let opened = &pending.opened;
            is_of(&pending.place, thread)
                && opened.kind == kind
                && is_what_was_shown(&opened.subject, shown)
        })
    }

    /// Takes a request out.
    pub(crate) fn take(&mut self, request: &NativeId) -> Option<Pending> {
        let pending = self.pending.remove(request)?;
        self.held = self.held.saturating_sub(pending.weight);
        Some(pending)
    }

    /// Takes out those that are wanted.
    pub(crate) fn take_where(
        &mut self,
        wanted: impl Fn(&Pending) -> bool,
    ) -> Vec<(NativeId, Pending)> {
        let ids: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| wanted(pending))
            .map(|(id, _)| id.clone())
            .collect();
        ids.into_iter()
            .filter_map(|id| self.take(&id).map(|pending| (id, pending)))
            .collect()
    }

    /// Takes out what is asked in a conversation itself, whatever its turn; not in those that work for it, and no sign-in, which is
    /// no turn's.
    pub(crate) fn take_in(&mut self, thread: &NativeId) -> Vec<(NativeId, Pending)> {
        self.take_where(|pending| {
            pending.place.thread.as_ref() == Some(thread)
                && pending.opened.kind != RequestKind::Auth
        })
    }

    /// Takes out what is asked in a turn of a conversation.
    pub(crate) fn take_of(
        &mut self,
        thread: &NativeId,
        turn: &NativeId,
    ) -> Vec<(NativeId, Pending)> {
        self.take_where(|pending| {
            is_of(&pending.place, thread) && pending.place.turn.as_ref() == Some(turn)
        })
    }
}

/// Bytes of what a request shows and of the answers that fit it.
fn weight(opened: &Opened) -> usize {
    let shown = budget::written(&opened.subject);
    let ids = [
        Some(&opened.thread),
        opened.turn.as_ref(),
        opened.item.as_ref(),
    ];
    // They stand in its place, too, which may name a conversation above.
    let ids = ids.into_iter().map(budget::id).sum::<usize>();
    2 * (size_of::<Pending>() + ID + ids) + 2 * shown + opened.answers.bytes()
}

/// Shortens what a request shows until it is as wanted: its changes to files go first, which stand in their item, then its
/// text. Whether it is as wanted.
fn shorten_until(opened: &mut Opened, is_wanted: impl Fn(&Opened) -> bool) -> bool {
    let steps: [fn(&mut Subject); 2] = [|shown| shown.changes.clear(), |shown| shown.text = None];
    for shorten in steps {
        if is_wanted(opened) {
            return true;
        }
        shorten(&mut opened.subject);
        opened.subject.incomplete = true;
    }
    is_wanted(opened)
}

/// Whether a request asks for what another one asked for, and shows the same of it.
fn is_again(opened: &Opened, before: &Opened) -> bool {
    opened.thread == before.thread
        && opened.kind == before.kind
        && opened.answers == before.answers
        && opened.subject == before.subject
}

/// Whether an id of a request can be told from every other.
pub(crate) fn is_bounded(id: &Value) -> bool {
    id.to_string().len() <= ID
}

/// Whether a place belongs to a conversation.
fn is_of(place: &NativePlace, thread: &NativeId) -> bool {
    place.thread.as_ref() == Some(thread) || place.root.as_ref() == Some(thread)
}

/// A request's id as text: a number as it is, a text in quotes, so that `0` and `"0"` differ.
pub(crate) fn request_id(id: &Value) -> NativeId {
    NativeId(cut(&id.to_string(), ID))
}

/// Whether a request asks for exactly what was shown. Only changes may have been filled in from their item, where the
/// request itself names none.
fn is_what_was_shown(opened: &Subject, shown: &Subject) -> bool {
    let mut now = opened.clone();
    if now.changes.is_empty() {
        now.changes.clone_from(&shown.changes);
        now.incomplete = shown.incomplete;
    }
    now == *shown
}
