//! Requests: opened, asked again, changed and closed.

use super::{Ingesting, Spot};
use crate::{answer, assess::assess};
use pilothouse_domain::{
    Answer, ContentHash, DeviceId, EffectKind, Event, ItemContent, ItemId, ItemStatus, NativeId,
    NodeId, RequestId, RequestStatus, RuntimeRequest, Subject,
    binding::{BindingKey, BindingTarget},
    item::Body,
    limits,
    provider_event::{NativePlace, Resolution},
    request::{AnswerDelivery, RequestKind, Respondability, RiskHint},
    shorten::{fit_subject, subject_text},
    state::{Cap, RequestSlot},
};

impl Ingesting<'_> {
    /// The answer recorded for an open request, and who gave it.
    pub(super) fn recorded(&self, slot: &RequestSlot) -> Option<(Answer, DeviceId)> {
        if !slot.answering {
            return None;
        }
        match self.known.request(slot.id)?.status {
            RequestStatus::Answering { answer, by, .. } => Some((answer, by)),
            _ => None,
        }
    }

    fn request_key(
        &self,
        place: &NativePlace,
        native: &NativeId,
        named: bool,
    ) -> Option<BindingKey> {
        Some(BindingKey::Request {
            incarnation: self.session?.incarnation,
            thread: place.thread.clone().unwrap_or_else(|| NativeId::from("")),
            turn: place.turn.clone().filter(|_| named),
            request: native.clone(),
        })
    }

    pub(super) fn request_opened(
        &mut self,
        place: &NativePlace,
        native: &NativeId,
        item: Option<&NativeId>,
        kind: RequestKind,
        subject: &Subject,
        unknown_fields: bool,
    ) {
        let Some(key) = self.request_key(place, native, true) else {
            return;
        };
        let spot = self.spot(place);
        let item = item.and_then(|item| self.item_of_request(place, item, kind, subject));
        let mut subject = subject.clone();
        if subject.changes.is_empty()
            && matches!(kind, RequestKind::FileChange | RequestKind::ApplyPatch)
            && let Some(row) = item.and_then(|item| self.item_row(item))
            && let ItemContent::FileChange { changes } = row.content
        {
            subject.changes = changes;
            self.same_as_shown(&key, &mut subject);
        }
        let text = fit_subject(&mut subject);
        let hash = ContentHash::of(&text);

        let mut occurrence = 0;
        if let Some(BindingTarget::Request {
            request,
            occurrence: before,
            ..
        }) = self.target(&key)
        {
            if let Some(slot) = self.state().request(request).copied()
                && !self.asked_anew(&slot, hash)
            {
                // That an answer goes out again stands in the log too: an effect needs an entry.
                if slot.content != hash.mark() || !self.draft.effects.is_empty() {
                    self.request_changed(request, kind, &subject, text, hash, unknown_fields);
                }
                return;
            }
            occurrence = before.saturating_add(1);
        }
        if self.state().is_full(Cap::Requests) {
            let raw = Body::Inline(super::cut(&text, limits::INLINE_BODY));
            let label = format!("request {native}");
            self.fact(
                place,
                ItemContent::Unknown { label, raw },
                ItemStatus::Unfinished,
            );
            self.overflow(place, "requests", limits::OPEN_REQUESTS);
            return;
        }
        let request: RequestId = self.mint.mint();
        let node = spot.map_or_else(|| self.mint.mint::<NodeId>(), |spot| spot.node);
        self.note_asked(spot, item, request, kind);
        let item = item.or_else(|| self.marker(spot, request, kind));
        let assessment = assess(kind, &subject, unknown_fields);
        let incarnation = self.session.map(|s| s.incarnation).unwrap_or_default();
        self.emit(Event::RequestOpened {
            request: Box::new(RuntimeRequest {
                id: request,
                run: spot.map(|spot| spot.run),
                node,
                item,
                kind,
                title: assessment.title,
                subject: text,
                content_hash: hash,
                respondability: Respondability::Live,
                one_tap_allowed: assessment.one_tap_allowed,
                default_to_no: assessment.default_to_no,
                hints: assessment.hints,
                asked_before: occurrence,
                incarnation,
                status: RequestStatus::Pending,
                opened_at_ms: 0,
                expires_at_ms: None,
            }),
        });
        let target = BindingTarget::Request {
            request,
            occurrence,
            open: true,
        };
        // Some agents close a request without naming its turn.
        if place.turn.is_some()
            && let Some(alias) = self.request_key(place, native, false)
        {
            self.bind(alias, target.clone());
        }
        self.bind(key, target);
    }

    /// A request that is asked again without the changes that it is about, which stand in its item only, is the one that was
    /// shown with them.
    fn same_as_shown(&mut self, key: &BindingKey, subject: &mut Subject) {
        let Some(BindingTarget::Request { request, .. }) = self.target(key) else {
            return;
        };
        let whole = Subject {
            incomplete: false,
            ..subject.clone()
        };
        let shown = self.state().request(request).map(|slot| slot.content);
        if shown == Some(ContentHash::of(&subject_text(&whole)).mark()) {
            *subject = whole;
        }
    }

    /// Whether a request that is asked while it is open counts as a new one. A recorded answer is delivered again, to
    /// exactly what was answered; one that holds a secret cannot be, for the secret is not in the log.
    fn asked_anew(&mut self, slot: &RequestSlot, asked: ContentHash) -> bool {
        let Some((answer, _)) = self.recorded(slot) else {
            return false;
        };
        if answer::is_masked(&answer) || slot.content != asked.mark() {
            self.emit(Event::RequestClosed {
                request: slot.id,
                status: RequestStatus::Withdrawn,
            });
            return true;
        }
        let id = self.mint.mint();
        self.draft.effect(
            id,
            EffectKind::Respond {
                request: slot.id,
                answer,
            },
        );
        false
    }

    /// The item a request is about; a command that nobody announced is opened from what is asked.
    fn item_of_request(
        &mut self,
        place: &NativePlace,
        native: &NativeId,
        kind: RequestKind,
        subject: &Subject,
    ) -> Option<ItemId> {
        let key = BindingKey::Item {
            thread: place.thread.clone()?,
            item: native.clone(),
        };
        if let Some(bound) = self.bound_item(&key) {
            return Some(bound.item);
        }
        let content = match kind {
            RequestKind::Command => ItemContent::Command {
                command: subject.command.clone()?,
                cwd: subject.cwd.clone().unwrap_or_default(),
                output: Body::default(),
                agent_output: None,
                exit_code: None,
                duration_ms: None,
            },
            RequestKind::FileChange | RequestKind::ApplyPatch => ItemContent::FileChange {
                changes: subject.changes.clone(),
            },
            _ => return None,
        };
        self.item_opened(place, native, &content, None);
        self.bound_item(&key).map(|bound| bound.item)
    }

    /// The place in the timeline of a request that is about no item.
    fn marker(
        &mut self,
        spot: Option<Spot>,
        request: RequestId,
        kind: RequestKind,
    ) -> Option<ItemId> {
        let spot = spot?;
        let id = self.mint.mint();
        let content = if kind.is_question() {
            ItemContent::Question { request }
        } else {
            ItemContent::Approval { request }
        };
        self.open_item(id, spot, content, ItemStatus::Completed);
        Some(id)
    }

    fn request_changed(
        &mut self,
        request: RequestId,
        kind: RequestKind,
        subject: &Subject,
        text: String,
        hash: ContentHash,
        unknown_fields: bool,
    ) {
        let assessment = assess(kind, subject, unknown_fields);
        self.emit(Event::RequestChanged {
            request,
            subject: text,
            content_hash: hash,
            one_tap_allowed: assessment.one_tap_allowed,
            default_to_no: assessment.default_to_no,
            hints: assessment.hints,
        });
    }

    /// The diff of an item changed: what was asked about it is no longer what was shown.
    pub(super) fn changes_changed(&mut self, item: ItemId, content: &ItemContent) {
        let ItemContent::FileChange { changes } = content else {
            return;
        };
        let about: Vec<RequestSlot> = self
            .state()
            .requests
            .iter()
            // An answer on its way is for what was shown; the agent's side refuses it if that has changed.
            .filter(|slot| slot.item == Some(item) && !slot.answering)
            .copied()
            .collect();
        for slot in about {
            let Some(row) = self.known.request(slot.id) else {
                continue;
            };
            let Ok(mut subject) = pilothouse_json::from_str::<Subject>(&row.subject) else {
                continue;
            };
            if subject.changes == *changes {
                continue;
            }
            subject.changes.clone_from(changes);
            let unknown_fields = row.hints.contains(&RiskHint::UnknownFields);
            let text = fit_subject(&mut subject);
            let hash = ContentHash::of(&text);
            self.request_changed(slot.id, slot.kind, &subject, text, hash, unknown_fields);
        }
    }

    pub(super) fn request_closed(
        &mut self,
        place: &NativePlace,
        native: &NativeId,
        resolution: Resolution,
    ) {
        let named = self.request_key(place, native, true);
        let unnamed = self.request_key(place, native, false);
        // What a turn asked is closed by its own name: numbers come again in later turns.
        let found =
            [named, unnamed]
                .into_iter()
                .flatten()
                .find_map(|key| match self.target(&key)? {
                    BindingTarget::Request {
                        request,
                        occurrence,
                        ..
                    } => Some((key, request, occurrence)),
                    _ => None,
                });
        let Some((key, request, occurrence)) = found else {
            return;
        };
        let Some(slot) = self.state().request(request).copied() else {
            return;
        };
        let status = match (resolution, self.recorded(&slot)) {
            (Resolution::Answered | Resolution::Unsaid, Some((answer, by))) => {
                RequestStatus::Answered {
                    answer: Some(answer),
                    by: Some(by),
                    delivery: match resolution {
                        Resolution::Answered => AnswerDelivery::Confirmed,
                        // Another's answer may have been there first.
                        _ => AnswerDelivery::Inferred,
                    },
                    at_ms: 0,
                }
            }
            (Resolution::Answered, None) => RequestStatus::Answered {
                answer: None,
                by: None,
                delivery: AnswerDelivery::Confirmed,
                at_ms: 0,
            },
            (Resolution::Withdrawn, _) | (Resolution::Unsaid, None) => RequestStatus::Withdrawn,
            (Resolution::Expired, _) => RequestStatus::Expired,
        };
        self.emit(Event::RequestClosed {
            request: slot.id,
            status,
        });
        self.bind(
            key,
            BindingTarget::Request {
                request: slot.id,
                occurrence,
                open: false,
            },
        );
    }
}
