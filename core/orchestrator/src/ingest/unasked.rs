//! What an agent did without asking, though the mode of its thread is to ask (docs/decisions/024). Only what is certain is
//! found: whatever may have been granted, or was not seen from its beginning, is not judged.

use super::{Ingesting, Spot};
use pilothouse_domain::{
    Answer, Event, ItemContent, ItemId, ItemStatus, NativeId, RequestId, RequestStatus,
    RuntimeRequest, Subject,
    binding::{BindingKey, BindingTarget},
    event::Skippable,
    item::Anomaly,
    request::{OptionEffect, RequestKind},
    run::Origin,
};

/// What a request can be about, as far as a contract demands one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Command,
    Change,
}

impl Deed {
    const ALL: [Self; 2] = [Self::Command, Self::Change];

    fn name(self) -> &'static str {
        match self {
            Self::Command => "commands",
            Self::Change => "changes",
        }
    }

    /// Those that a request of a kind is about. One for more rights, for a plan or for anything else can be about both.
    fn of(kind: RequestKind) -> &'static [Self] {
        match kind {
            RequestKind::Command => &[Self::Command],
            RequestKind::FileChange | RequestKind::ApplyPatch => &[Self::Change],
            RequestKind::UserInput | RequestKind::Elicitation | RequestKind::Auth => &[],
            RequestKind::FileRead
            | RequestKind::Permission
            | RequestKind::Tool
            | RequestKind::Plan
            | RequestKind::Unknown => &Self::ALL,
        }
    }
}

/// How far an answer reaches beyond what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To the like of it, while the agent's process lives.
    Session,
    /// To the like of it, for good.
    Rule,
    /// To whatever it may be, while the agent's process lives.
    Anything,
}

impl Ingesting<'_> {
    /// A request is about an item: what is done then was asked for. One that names none may be about any of its run.
    pub(super) fn note_asked(
        &mut self,
        spot: Option<Spot>,
        item: Option<ItemId>,
        request: RequestId,
        kind: RequestKind,
    ) {
        let target = BindingTarget::Request {
            request,
            occurrence: 0,
            open: true,
        };
        match (item, spot) {
            (Some(item), _) => self.bind(asked_key(item), target),
            (None, Some(spot)) => {
                for deed in Deed::of(kind) {
                    let key = own(&format!("asked/{}/{}", spot.run, deed.name()));
                    self.bind(key, target.clone());
                }
            }
            (None, None) => {}
        }
    }

    /// A request is closed: what its answer allows beyond it is noted.
    pub(super) fn note_grant(&mut self, request: RequestId, status: &RequestStatus) {
        let Some(row) = self.known.request(request) else {
            return;
        };
        let answer = match status {
            RequestStatus::Answered { answer, .. } => answer.clone(),
            RequestStatus::Lost {
                answer: Some(answer),
                ..
            } => Some(answer.clone()),
            _ => match &row.status {
                RequestStatus::Answering { answer, .. } => Some(answer.clone()),
                _ => return,
            },
        };
        for key in self.granted_by(&row, answer.as_ref()) {
            let target = BindingTarget::Request {
                request,
                occurrence: 0,
                open: false,
            };
            self.bind(key, target);
        }
    }

    /// The keys of what an answer grants beyond the one thing that was asked.
    fn granted_by(&self, row: &RuntimeRequest, answer: Option<&Answer>) -> Vec<BindingKey> {
        let session = row.incarnation.to_string();
        let (deeds, scope) = match reach(row, answer) {
            None => return Vec::new(),
            Some(Reach::Session) => (Deed::of(row.kind), session),
            Some(Reach::Rule) => (Deed::of(row.kind), "ever".to_owned()),
            Some(Reach::Anything) => (&Deed::ALL[..], session),
        };
        deeds
            .iter()
            .map(|deed| own(&format!("granted/{scope}/{}", deed.name())))
            .collect()
    }

    /// Whether somebody granted such a thing: noted, or by an answer that is on its way.
    fn is_granted(&self, deed: Deed) -> bool {
        let Some(session) = self.session else {
            return true;
        };
        let keys = [session.incarnation.to_string(), "ever".to_owned()]
            .map(|scope| own(&format!("granted/{scope}/{}", deed.name())));
        if keys.iter().any(|key| self.target(key).is_some()) {
            return true;
        }
        let answering = self.state().requests.iter().filter(|slot| slot.answering);
        answering
            .filter_map(|slot| self.known.request(slot.id))
            .any(|row| match &row.status {
                RequestStatus::Answering { answer, .. } => self
                    .granted_by(&row, Some(answer))
                    .iter()
                    .any(|key| keys.contains(key)),
                _ => false,
            })
    }

    /// Looks at something that ended, and says so if it should have been asked for and was not.
    pub(super) fn judge(
        &mut self,
        item: ItemId,
        spot: Spot,
        status: ItemStatus,
        content: &ItemContent,
    ) {
        let Some(session) = self.session else {
            return;
        };
        let (Some(active), Some(meta)) = (&self.state().active, &self.state().meta) else {
            return;
        };
        // A turn that nobody here began works in a mode of its own, and so does what outlives its run.
        let here = active.id == spot.run
            && active.origin != Origin::External
            && !active.mode_changed
            && meta.selection.sandbox.is_none();
        if !here {
            return;
        }
        let must_ask = session.contract.of(meta.selection.mode);
        let (deed, demanded) = match (content, status) {
            (ItemContent::Command { .. }, ItemStatus::Completed)
            | (
                ItemContent::Command {
                    exit_code: Some(_), ..
                },
                ItemStatus::Failed,
            ) => (Deed::Command, must_ask.commands),
            (ItemContent::FileChange { changes }, ItemStatus::Completed) => {
                let theirs = changes
                    .iter()
                    .any(|change| !session.contract.is_own(&change.path));
                (Deed::Change, must_ask.changes && theirs)
            }
            _ => return,
        };
        let in_run = own(&format!("asked/{}/{}", spot.run, deed.name()));
        let found = demanded
            && self.target(&asked_key(item)).is_none()
            && self.target(&in_run).is_none()
            && !self.is_granted(deed)
            && self.item_row(item).is_none_or(|row| row.anomaly.is_none());
        if found {
            self.emit(Event::AnomalyFound {
                item,
                anomaly: Anomaly::Unasked,
                skippable: Skippable,
            });
        }
    }
}

/// How far an answer reaches beyond what was asked; `None` if it allows that alone, or nothing.
fn reach(row: &RuntimeRequest, answer: Option<&Answer>) -> Option<Reach> {
    let option = match answer {
        // Answered elsewhere: what was said is not known.
        None => return Some(Reach::Anything),
        Some(Answer::Reply { .. }) => return None,
        Some(Answer::Choose { option, .. }) => option,
    };
    let subject: Option<Subject> = pilothouse_json::from_str(&row.subject).ok();
    let effect = subject
        .iter()
        .flat_map(|subject| &subject.options)
        .find(|offered| offered.id == *option)
        .map_or(OptionEffect::Other, |offered| offered.effect);
    match effect {
        OptionEffect::Deny
        | OptionEffect::DenyAll
        | OptionEffect::DenyAndStop
        | OptionEffect::DenyRule => None,
        // More rights for a turn, and a plan that is carried out, are more than one thing.
        OptionEffect::AllowOnce => matches!(
            row.kind,
            RequestKind::Permission | RequestKind::Plan | RequestKind::Unknown
        )
        .then_some(Reach::Anything),
        OptionEffect::AllowSession => Some(Reach::Session),
        OptionEffect::AllowRule => Some(Reach::Rule),
        OptionEffect::Other => Some(Reach::Anything),
    }
}

/// Our note that an item was asked for.
fn asked_key(item: ItemId) -> BindingKey {
    own(&format!("asked/{item}"))
}

/// Our note of an agent, of no conversation: with a mark that no agent's id begins with.
fn own(name: &str) -> BindingKey {
    BindingKey::Item {
        thread: NativeId::from("#requests"),
        item: NativeId(format!("#{name}")),
    }
}
