//! `ingest`: what an agent did becomes facts with our ids. Native ids end here: they go into bindings, never into
//! events. Everything is an upsert, nothing is taken on trust: turns end twice, items end after their turn or never,
//! text comes for items nobody announced.

mod children;
mod items;
mod loss;
mod merge;
mod operations;
mod outcome;
mod requests;
mod transfers;
mod turns;
mod unasked;

pub use loss::runtime_lost;
pub use outcome::ingest_outcome;

use crate::{Bindings, Ingested, LiveAppend, draft::Draft};
use pilothouse_domain::{
    AgentName, Capabilities, Event, Incarnation, ItemContent, ItemId, ItemStatus, NativeId, NodeId,
    Position, ProviderEvent, ProviderEventKind, RequestId, Row, RowKey, RunId, RuntimeRequest,
    SessionId, ThreadState, TurnItem,
    binding::{Binding, BindingKey, BindingTarget},
    command::{Notice, NoticeKind},
    ids::IdMint,
    item::Body,
    policy::Contract,
    provider::{ProviderSession, SessionStatus},
    provider_event::NativePlace,
    row::RowKind,
    run::RunError,
};

/// Bytes of an agent's words that stand in state or in a notice.
const WORDS: usize = 500;

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionContext {
    /// The agent instance.
    pub agent: AgentName,
    /// Its protocol family, e.g. `codex`.
    pub family: String,
    /// The session of ours that stands for the process and this thread.
    pub session: SessionId,
    /// Which life of the process.
    pub incarnation: Incarnation,
    /// The host's clock, Unix ms. Facts do not depend on it; `project` gets the entry's own.
    pub host_time_ms: u64,
    /// Before what it has to ask; nothing for what is read back, where nobody saw here how it came about.
    pub contract: Contract,
}

/// Turns something an agent did into facts. May give nothing; never fails.
pub fn ingest(
    state: &ThreadState,
    bindings: &dyn Bindings,
    session: &SessionContext,
    event: &ProviderEvent,
    mint: &mut IdMint,
) -> Ingested {
    let mut ingesting = Ingesting::new(state, bindings, Some(session), mint);
    ingesting.take(&event.place, &event.kind);
    ingesting.done()
}

/// Bindings of a thread that has none.
pub(crate) struct NoBindings;

impl Bindings for NoBindings {
    fn get(&self, _: &BindingKey) -> Option<BindingTarget> {
        None
    }
    fn streamed(&self, _: ItemId) -> Option<Body> {
        None
    }
    fn request(&self, _: RequestId) -> Option<RuntimeRequest> {
        None
    }
    fn row(&self, _: RowKey) -> Option<Row> {
        None
    }
    fn last_items(&self, _: usize) -> Vec<TurnItem> {
        Vec::new()
    }
}

pub(crate) struct Ingesting<'a> {
    draft: Draft<'a>,
    known: &'a dyn Bindings,
    bound: Vec<Binding>,
    live: Vec<LiveAppend>,
    session: Option<&'a SessionContext>,
    mint: &'a mut IdMint,
}

/// Where an item or request belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    run: RunId,
    ordinal: u32,
    node: NodeId,
}

impl<'a> Ingesting<'a> {
    pub(crate) fn new(
        state: &'a ThreadState,
        known: &'a dyn Bindings,
        session: Option<&'a SessionContext>,
        mint: &'a mut IdMint,
    ) -> Self {
        Self {
            draft: Draft::on(state),
            known,
            bound: Vec::new(),
            live: Vec::new(),
            session,
            mint,
        }
    }

    pub(crate) fn done(mut self) -> Ingested {
        if !self.draft.events.is_empty() {
            self.draft.settle();
        }
        Ingested {
            events: self.draft.events,
            bindings: self.bound,
            live: self.live,
            effects: self.draft.effects,
        }
    }

    fn state(&self) -> &ThreadState {
        &self.draft.state
    }

    fn emit(&mut self, event: Event) {
        if let Event::RequestClosed { request, status } = &event {
            self.note_grant(*request, status);
        }
        self.draft.emit(event);
    }

    /// What a native id stands for, those bound just now included.
    fn target(&self, key: &BindingKey) -> Option<BindingTarget> {
        self.bound
            .iter()
            .rev()
            .find(|binding| binding.key == *key)
            .map(|binding| binding.target.clone())
            .or_else(|| self.known.get(key))
    }

    fn bind(&mut self, key: BindingKey, target: BindingTarget) {
        self.bound.retain(|binding| binding.key != key);
        self.bound.push(Binding { key, target });
    }

    fn row(&self, kind: RowKind, id: &[u8; 16]) -> Option<Row> {
        self.known.row(kind.key(id))
    }

    fn item_row(&self, item: ItemId) -> Option<TurnItem> {
        // One that was opened just now is not a row yet.
        let fresh = self
            .draft
            .events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::ItemOpened { item: opened } if opened.id == item => Some(opened.clone()),
                _ => None,
            });
        fresh.or_else(|| match self.row(RowKind::Item, item.as_bytes()) {
            Some(Row::Item(row)) => Some(row),
            _ => None,
        })
    }

    fn take(&mut self, place: &NativePlace, kind: &ProviderEventKind) {
        match kind {
            ProviderEventKind::SessionReady {
                incarnation,
                version,
                capabilities,
            } => {
                let Some(session) = self.session else { return };
                // Sent anew when sign-in, mode or model may have changed what it can do: what is nothing new is no entry, what
                // else it said stays.
                let known = self.draft.state.session.as_ref();
                let known = known.filter(|slot| slot.id == session.session && slot.live);
                let row = self.session_row();
                let said = row.as_ref().and_then(|row| row.version.as_deref());
                if known.is_some_and(|slot| slot.capabilities == capabilities.set())
                    && said.unwrap_or_default() == version
                {
                    return;
                }
                let capabilities = Capabilities {
                    version: known.map_or(capabilities.version, |slot| slot.capability_version + 1),
                    facts: capabilities.facts.clone(),
                };
                let (models, commands, limits) = match row {
                    Some(known) => (known.models, known.commands, known.limits),
                    None => Default::default(),
                };
                self.emit(Event::SessionChanged {
                    session: ProviderSession {
                        id: session.session,
                        agent: session.agent.clone(),
                        driver: session.family.clone(),
                        version: Some(version.clone()).filter(|v| !v.is_empty()),
                        incarnation: *incarnation,
                        status: SessionStatus::Ready,
                        capability_version: capabilities.version,
                        models,
                        commands,
                        limits,
                    },
                });
                self.emit(Event::CapabilitiesLearned {
                    session: session.session,
                    capabilities,
                });
            }
            ProviderEventKind::ModelsOffered { models } => self.models_offered(models),
            ProviderEventKind::CommandsOffered { commands } => self.commands_offered(commands),
            ProviderEventKind::Limits { limits } => self.limits_reported(limits),
            ProviderEventKind::SessionEnded { reason, detail } => {
                // The end of an earlier life says nothing of the one that serves the thread now.
                let current = match (&self.state().session, self.session) {
                    (Some(slot), Some(session)) => slot.incarnation == session.incarnation,
                    _ => true,
                };
                if current {
                    self.lose_runtime(*reason, detail);
                }
            }
            ProviderEventKind::ThreadBound => {
                if let Some(conversation) = self.conversation(place) {
                    self.loaded(conversation.id, conversation.child.map(|(node, _)| node));
                    if conversation.child.is_none() {
                        self.resolve_fork(conversation.id);
                    }
                }
            }
            ProviderEventKind::TurnStarted => match (&place.turn, self.conversation(place)) {
                (None, Some(conversation)) if conversation.child.is_none() => {
                    self.unnamed_turn(conversation.id);
                }
                _ => {
                    self.turn(place);
                }
            },
            ProviderEventKind::TurnEnded { status, error } => {
                self.turn_ended(place, *status, error.clone());
            }
            ProviderEventKind::ItemOpened {
                item,
                content,
                client_id,
            } => self.item_opened(place, item, content, client_id.as_deref()),
            ProviderEventKind::ItemUpdated { item, content } => {
                self.item_opened(place, item, content, None);
            }
            ProviderEventKind::ItemAppended { item, text, shape } => {
                self.item_appended(place, item, text, shape);
            }
            ProviderEventKind::ItemClosed {
                item,
                status,
                content,
                client_id,
            } => self.item_closed(place, item, *status, content, client_id.as_deref()),
            ProviderEventKind::RequestOpened {
                request,
                item,
                kind,
                subject,
                unknown_fields,
            } => self.request_opened(
                place,
                request,
                item.as_ref(),
                *kind,
                subject,
                *unknown_fields,
            ),
            ProviderEventKind::RequestClosed {
                request,
                resolution,
            } => self.request_closed(place, request, *resolution),
            ProviderEventKind::TodoList { entries } => self.todo_list(place, entries),
            ProviderEventKind::ChildOpened { child, item, title } => {
                self.child_opened(place, child, item.as_ref(), title);
            }
            ProviderEventKind::ChildClosed { child, status } => {
                self.child_closed(place, child, *status);
            }
            ProviderEventKind::Usage { usage } => {
                if let Some(spot) = self.spot(place) {
                    self.emit(Event::UsageRecorded {
                        run: spot.run,
                        usage: *usage,
                    });
                }
            }
            ProviderEventKind::ModelRerouted { from, to } => self.fact(
                place,
                ItemContent::ModelRerouted {
                    from: from.clone(),
                    to: to.clone(),
                },
                ItemStatus::Completed,
            ),
            ProviderEventKind::Error { error, will_retry } => {
                self.error_item(place, error, *will_retry)
            }
            ProviderEventKind::Unknown { label, raw } => self.fact(
                place,
                ItemContent::Unknown {
                    label: label.clone(),
                    raw: Body::inline(raw.clone()),
                },
                ItemStatus::Completed,
            ),
            ProviderEventKind::SignInFailed { message } => self.sign_in_failed(message),
            // The last two are for the ledger: it looks at the agent again, and lets its threads go on.
            ProviderEventKind::Diagnostic { .. }
            | ProviderEventKind::AbilitiesChanged
            | ProviderEventKind::SignedIn => {}
        }
    }

    /// An error shown where it happened; without a run to show it in, a notice.
    fn error_item(&mut self, place: &NativePlace, error: &RunError, will_retry: bool) {
        self.fact(
            place,
            ItemContent::Error {
                code: error.code,
                message: error.message.clone(),
                will_retry,
            },
            ItemStatus::Failed,
        );
    }

    /// Something complete at once, in the current run; without a run it is kept outside the timeline.
    fn fact(&mut self, place: &NativePlace, content: ItemContent, status: ItemStatus) {
        if let Some(spot) = self.spot(place) {
            let id = self.mint.mint();
            self.open_item(id, spot, content, status);
            return;
        }
        match content {
            ItemContent::Error { message, .. } => {
                let notice = Notice {
                    id: self.mint.mint(),
                    what: NoticeKind::Agent {
                        message: cut(&message, WORDS),
                    },
                };
                self.emit(Event::NoticeRaised { notice });
            }
            ItemContent::Unknown { label, raw } => self.emit(Event::FrameUnreadable {
                detail: cut(&format!("{label}: {}", raw.preview()), WORDS),
            }),
            _ => {}
        }
    }

    /// Puts an item at the end of its run. One that begins after its turn has ended goes on in the background.
    fn open_item(&mut self, id: ItemId, spot: Spot, content: ItemContent, status: ItemStatus) {
        let late = status == ItemStatus::Open && self.state().node(spot.node).is_none();
        let status = if late { ItemStatus::Background } else { status };
        let arrival = self.state().next_arrival;
        self.emit(Event::ItemOpened {
            item: TurnItem {
                id,
                position: Position {
                    run: spot.ordinal,
                    arrival,
                },
                run: spot.run,
                node: spot.node,
                status,
                content,
                opened_at_ms: 0,
                closed_at_ms: None,
                anomaly: None,
            },
        });
        if late {
            self.keep_in_background(id, spot.run, spot.node);
        }
    }
}

/// Our binding of something that has no native id: within the conversation, with a mark that no agent's id begins with.
fn own_key(thread: &NativeId, name: &str) -> BindingKey {
    BindingKey::Item {
        thread: thread.clone(),
        item: NativeId(format!("#{name}")),
    }
}

/// The text, cut at a character so that it has at most `bytes` bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}
