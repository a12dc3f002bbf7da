//! A far thread's log as an agent's events. Sans I/O: what is told goes in, events come out.

use super::FarTold;
use pilothouse_domain::{
    Entry, Event, ItemContent, ItemId, LoggedEvent, MessageId, NativeId, NodeId, ProviderEvent,
    ProviderEventKind, RequestId, RequestStatus, Row, RunId, RunStatus, RuntimeRequest, Subject,
    ThreadId, ThreadState, TurnItem,
    command::NoticeKind,
    event::RollbackOutcome,
    item::Body,
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    request::RiskHint,
    row::{LiveText, OpenItem},
    run::{NodeKind, NodeStatus, RunError},
    transfer::PlanKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// Messages of ours whose echo may still come.
const OWN_MESSAGES: usize = 256;
/// Runs that are told again when entries were missed.
const MISSED_RUNS: u32 = 8;

/// What came of something told.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Heard {
    /// For the ledger here.
    pub(super) events: Vec<ProviderEvent>,
    /// Requests that are closed.
    pub(super) closed: Vec<(RequestId, RequestStatus)>,
    /// What came of taking back runs.
    pub(super) rolled_back: Option<RollbackOutcome>,
    /// The far agent's version, where it was said.
    pub(super) version: Option<String>,
    /// What the far agent can do, where it was said.
    pub(super) capabilities: Option<pilothouse_domain::Capabilities>,
}

/// An item that is open there.
struct OpenedItem {
    run: RunId,
    node: NodeId,
    /// What it is, with no streamed text.
    shape: ItemContent,
    /// UTF-8 bytes of streamed text that were told; `None` while it is not known how much there was before we came.
    told: Option<u64>,
}

/// What is known of a far thread.
pub(super) struct Mirror {
    thread: NativeId,
    /// As told last; `None` before.
    pub(super) state: Option<Box<ThreadState>>,
    items: BTreeMap<ItemId, OpenedItem>,
    /// Subagents.
    children: BTreeSet<NodeId>,
    /// Marks of requests in the far timeline: the ledger here makes its own.
    marks: BTreeSet<ItemId>,
    requests: BTreeMap<RequestId, RuntimeRequest>,
    /// Our messages there, and the client ids under which we were given them.
    own: BTreeMap<MessageId, String>,
}

impl Mirror {
    pub(super) fn new(thread: ThreadId) -> Self {
        Self {
            thread: NativeId(thread.to_string()),
            state: None,
            items: BTreeMap::new(),
            children: BTreeSet::new(),
            marks: BTreeSet::new(),
            requests: BTreeMap::new(),
            own: BTreeMap::new(),
        }
    }

    /// Notes a message of ours before it is said.
    pub(super) fn say(&mut self, message: MessageId, client_id: String) {
        if self.own.len() >= OWN_MESSAGES {
            self.own.pop_first();
        }
        self.own.insert(message, client_id);
    }

    /// An open request.
    pub(super) fn request(&self, request: RequestId) -> Option<&RuntimeRequest> {
        self.requests.get(&request)
    }

    /// Requests that wait.
    pub(super) fn pending(&self) -> impl Iterator<Item = NativeId> {
        self.requests.keys().map(|id| NativeId(id.to_string()))
    }

    pub(super) fn take(&mut self, told: FarTold) -> Heard {
        let mut heard = Heard::default();
        match told {
            FarTold::Began { state, rows } => self.began(state, rows, &mut heard),
            FarTold::Entries { entries, state } => {
                for entry in entries {
                    self.entry(entry, &mut heard);
                }
                self.state = Some(state);
            }
            FarTold::Texts(texts) => {
                for text in texts {
                    self.text_of(&text, &mut heard);
                }
            }
            FarTold::Live(live) => self.live(&live, &mut heard),
            FarTold::Ended(_) => {}
        }
        heard
    }

    fn place(&self, run: Option<RunId>) -> NativePlace {
        NativePlace {
            thread: Some(self.thread.clone()),
            root: None,
            turn: run.map(|run| NativeId(run.to_string())),
        }
    }

    /// Where what stands under a node belongs: a subagent has a conversation of its own.
    fn place_under(&self, node: NodeId, run: Option<RunId>) -> NativePlace {
        if self.children.contains(&node) {
            return NativePlace {
                thread: Some(NativeId(node.to_string())),
                root: Some(self.thread.clone()),
                turn: None,
            };
        }
        self.place(run)
    }

    fn tell(heard: &mut Heard, place: NativePlace, kind: ProviderEventKind) {
        heard.events.push(ProviderEvent { place, kind });
    }

    /// How it stands now. The first time only what is open is told: the rest is history, which is asked for. Later all that
    /// there is is told, because entries in between were missed; what was told before changes nothing.
    fn began(&mut self, state: Box<ThreadState>, rows: Vec<Row>, heard: &mut Heard) {
        let missed = self.state.is_some();
        Self::tell(heard, self.place(None), ProviderEventKind::ThreadBound);
        if missed {
            heard.events.extend(self.history(&rows, MISSED_RUNS));
        }
        if let Some(active) = &state.active {
            let place = self.place(Some(active.id));
            Self::tell(heard, place, ProviderEventKind::TurnStarted);
        }
        let slots = state.nodes.iter();
        let subagents = slots.filter(|node| node.kind == NodeKind::Subagent);
        self.children.extend(subagents.map(|node| node.id));
        let told: BTreeMap<ItemId, Option<u64>> = std::mem::take(&mut self.items)
            .into_iter()
            .map(|(id, item)| (id, item.told))
            .collect();
        let mut waited = std::mem::take(&mut self.requests);
        for row in rows {
            match row {
                Row::Item(item) if item.status.is_live() => self.opened(item, heard),
                Row::Item(item) => self.note_mark(&item),
                Row::Session(session) => {
                    heard.version = session.version;
                    let models = session.models;
                    if !models.is_empty() {
                        let kind = ProviderEventKind::ModelsOffered { models };
                        Self::tell(heard, self.place(None), kind);
                    }
                    let commands = session.commands;
                    if !commands.is_empty() {
                        let kind = ProviderEventKind::CommandsOffered { commands };
                        Self::tell(heard, self.place(None), kind);
                    }
                }
                Row::Request(request) if request.status.is_open() => {
                    waited.remove(&request.id);
                    self.asked(*request, heard);
                }
                Row::Request(request) => {
                    if let Some(known) = waited.remove(&request.id) {
                        self.request_closed(known, request.status, heard);
                    }
                }
                _ => {}
            }
        }
        for (id, item) in &mut self.items {
            item.told = told.get(id).copied().flatten();
        }
        self.state = Some(state);
    }

    fn entry(&mut self, entry: Entry, heard: &mut Heard) {
        for event in entry.events {
            match event {
                LoggedEvent::Known(event) => self.event(*event, heard),
                LoggedEvent::Unknown(event) => {
                    let kind = ProviderEventKind::Diagnostic {
                        message: format!(
                            "the other host says `{}`, which is not known here",
                            event.kind
                        ),
                    };
                    Self::tell(heard, NativePlace::default(), kind);
                }
            }
        }
    }

    fn event(&mut self, event: Event, heard: &mut Heard) {
        match event {
            Event::RunStarted { run, .. } => {
                Self::tell(heard, self.place(Some(run)), ProviderEventKind::TurnStarted);
            }
            Event::RunEnded { run, status, error } => self.ended(run, status, error, heard),
            Event::UsageRecorded { run, usage } => Self::tell(
                heard,
                self.place(Some(run)),
                ProviderEventKind::Usage { usage },
            ),
            Event::CapabilitiesLearned { capabilities, .. } => {
                heard.capabilities = Some(capabilities);
            }
            Event::SessionChanged { session } => heard.version = session.version,
            Event::ModelsOffered { models, .. } => Self::tell(
                heard,
                self.place(None),
                ProviderEventKind::ModelsOffered { models },
            ),
            Event::CommandsOffered { commands, .. } => Self::tell(
                heard,
                self.place(None),
                ProviderEventKind::CommandsOffered { commands },
            ),
            Event::LimitsReported { limits, .. } => Self::tell(
                heard,
                NativePlace::default(),
                ProviderEventKind::Limits { limits },
            ),
            Event::ItemOpened { item } => self.opened(item, heard),
            Event::ItemUpdated { item, content } => self.updated(item, content, heard),
            Event::ItemClosed {
                item,
                status,
                content,
                streamed,
            } => self.closed(item, status, content, streamed, heard),
            Event::NodeOpened { node } if self.children.contains(&node.id) => {
                let kind = ProviderEventKind::ChildOpened {
                    child: NativeId(node.id.to_string()),
                    item: None,
                    title: node.title,
                };
                Self::tell(heard, self.place(Some(node.run)), kind);
            }
            Event::NodeStatusChanged { node, status } => self.node_status(node, status, heard),
            Event::RequestOpened { request } => self.asked(*request, heard),
            Event::RequestChanged {
                request,
                subject,
                content_hash,
                ..
            } => {
                if let Some(mut known) = self.requests.get(&request).cloned() {
                    known.subject = subject;
                    known.content_hash = content_hash;
                    self.asked(known, heard);
                }
            }
            Event::RequestClosed { request, status } => {
                if let Some(known) = self.requests.remove(&request) {
                    self.request_closed(known, status, heard);
                }
            }
            Event::PlanUpdated { plan } => {
                if let PlanKind::TodoList { entries } = plan.kind {
                    let place = self.place_under(plan.node, Some(plan.run));
                    Self::tell(heard, place, ProviderEventKind::TodoList { entries });
                }
            }
            Event::RollbackEnded { outcome, .. } => heard.rolled_back = Some(outcome),
            Event::NoticeRaised { notice } => {
                if let NoticeKind::Agent { message } = notice.what {
                    let kind = ProviderEventKind::Diagnostic { message };
                    Self::tell(heard, self.place(None), kind);
                }
            }
            Event::FrameUnreadable { detail } => {
                let kind = ProviderEventKind::Diagnostic { message: detail };
                Self::tell(heard, self.place(None), kind);
            }
            // The far ledger's own bookkeeping: queue, attempts, deliveries, sessions, devices.
            _ => {}
        }
    }

    fn ended(&self, run: RunId, status: RunStatus, error: Option<RunError>, heard: &mut Heard) {
        let status = match status {
            RunStatus::Completed => TurnStatus::Completed,
            RunStatus::Failed => TurnStatus::Failed,
            _ => TurnStatus::Interrupted,
        };
        let kind = ProviderEventKind::TurnEnded { status, error };
        Self::tell(heard, self.place(Some(run)), kind);
    }

    /// Whether the ledger here makes an item of its own in place of this one.
    fn is_bookkeeping(content: &ItemContent) -> bool {
        matches!(
            content,
            ItemContent::Question { .. }
                | ItemContent::Approval { .. }
                | ItemContent::Interrupt { .. }
                | ItemContent::Fork { .. }
                | ItemContent::Rollback { .. }
                | ItemContent::Todo { .. }
        )
    }

    fn note_mark(&mut self, item: &TurnItem) {
        let about_request = matches!(
            item.content,
            ItemContent::Question { .. } | ItemContent::Approval { .. }
        );
        if about_request {
            self.marks.insert(item.id);
        }
    }

    /// The content without the far ledger's ids; with it the client id of a message of ours and the subagent that it names.
    fn ours(&self, content: &mut ItemContent) -> (Option<String>, Option<(NodeId, String)>) {
        match content {
            ItemContent::UserMessage { message, .. } => {
                let client = message.take().and_then(|id| self.own.get(&id).cloned());
                (client, None)
            }
            ItemContent::Subagent { child, title, .. } => {
                (None, child.take().map(|node| (node, title.clone())))
            }
            ItemContent::Plan { plan, .. } => {
                *plan = None;
                (None, None)
            }
            _ => (None, None),
        }
    }

    fn opened(&mut self, mut item: TurnItem, heard: &mut Heard) {
        if Self::is_bookkeeping(&item.content) {
            return self.note_mark(&item);
        }
        let place = self.place_under(item.node, Some(item.run));
        let (client_id, child) = self.ours(&mut item.content);
        let native = NativeId(item.id.to_string());
        if item.status.is_live() {
            let mut shape = item.content.clone();
            if let Some(text) = shape.streamed_mut() {
                *text = Body::default();
            }
            let kind = ProviderEventKind::ItemOpened {
                item: native.clone(),
                content: shape.clone(),
                client_id,
            };
            Self::tell(heard, place.clone(), kind);
            let opened = OpenedItem {
                run: item.run,
                node: item.node,
                shape,
                told: Some(0),
            };
            self.items.insert(item.id, opened);
        } else {
            let kind = ProviderEventKind::ItemClosed {
                item: native.clone(),
                status: item.status,
                content: item.content,
                client_id,
            };
            Self::tell(heard, place.clone(), kind);
        }
        self.child(place, native, child, heard);
    }

    fn child(
        &mut self,
        place: NativePlace,
        item: NativeId,
        child: Option<(NodeId, String)>,
        heard: &mut Heard,
    ) {
        if let Some((node, title)) = child
            && self.children.insert(node)
        {
            let kind = ProviderEventKind::ChildOpened {
                child: NativeId(node.to_string()),
                item: Some(item),
                title,
            };
            Self::tell(heard, place, kind);
        }
    }

    fn updated(&mut self, id: ItemId, mut content: ItemContent, heard: &mut Heard) {
        let Some((run, node)) = self.items.get(&id).map(|item| (item.run, item.node)) else {
            return;
        };
        let place = self.place_under(node, Some(run));
        let (_, child) = self.ours(&mut content);
        if let Some(text) = content.streamed_mut() {
            *text = Body::default();
        }
        if let Some(item) = self.items.get_mut(&id) {
            item.shape = content.clone();
        }
        let native = NativeId(id.to_string());
        let kind = ProviderEventKind::ItemUpdated {
            item: native.clone(),
            content,
        };
        Self::tell(heard, place.clone(), kind);
        self.child(place, native, child, heard);
    }

    fn closed(
        &mut self,
        id: ItemId,
        status: pilothouse_domain::ItemStatus,
        content: Option<ItemContent>,
        streamed: Option<Body>,
        heard: &mut Heard,
    ) {
        // Ended a second time: the first end is told already, and who reads history finds the second.
        let Some(item) = self.items.remove(&id) else {
            return;
        };
        let mut content = content.unwrap_or(item.shape);
        if let Some(text) = streamed
            && let Some(slot) = content.streamed_mut()
        {
            *slot = text;
        }
        let (client_id, _) = self.ours(&mut content);
        let place = self.place_under(item.node, Some(item.run));
        let kind = ProviderEventKind::ItemClosed {
            item: NativeId(id.to_string()),
            status,
            content,
            client_id,
        };
        Self::tell(heard, place, kind);
    }

    fn node_status(&mut self, node: NodeId, status: NodeStatus, heard: &mut Heard) {
        let status = match status {
            NodeStatus::Running | NodeStatus::Waiting | NodeStatus::Background => return,
            NodeStatus::Completed => TurnStatus::Completed,
            NodeStatus::Interrupted | NodeStatus::Declined => TurnStatus::Interrupted,
            NodeStatus::Failed => TurnStatus::Failed,
        };
        if self.children.contains(&node) {
            let child = NativeId(node.to_string());
            let kind = ProviderEventKind::ChildClosed { child, status };
            Self::tell(heard, self.place(None), kind);
        }
    }

    fn asked(&mut self, request: RuntimeRequest, heard: &mut Heard) {
        // One that cannot be read cannot be shown, so it cannot be answered here.
        let Ok(subject) = pilothouse_json::from_str::<Subject>(&request.subject) else {
            let message = "a request of the other host cannot be read".to_owned();
            let kind = ProviderEventKind::Diagnostic { message };
            return Self::tell(heard, self.place(None), kind);
        };
        let about = request.item.filter(|item| !self.marks.contains(item));
        let kind = ProviderEventKind::RequestOpened {
            request: NativeId(request.id.to_string()),
            item: about.map(|item| NativeId(item.to_string())),
            kind: request.kind,
            subject: Box::new(subject),
            unknown_fields: request.hints.contains(&RiskHint::UnknownFields),
        };
        let place = self.place_under(request.node, request.run);
        Self::tell(heard, place, kind);
        self.requests.insert(request.id, request);
    }

    fn request_closed(&self, known: RuntimeRequest, status: RequestStatus, heard: &mut Heard) {
        let kind = ProviderEventKind::RequestClosed {
            request: NativeId(known.id.to_string()),
            resolution: match status {
                RequestStatus::Answered { .. } => Resolution::Answered,
                _ => Resolution::Withdrawn,
            },
        };
        Self::tell(heard, self.place_under(known.node, known.run), kind);
        heard.closed.push((known.id, status));
    }

    /// What of an open item's text was not told yet.
    fn text_of(&mut self, text: &OpenItem, heard: &mut Heard) {
        let live = LiveText {
            item: text.item,
            offset: text.from,
            text: text.text.clone(),
        };
        let end = text.from.saturating_add(text.text.len() as u64);
        match self.items.get_mut(&text.item) {
            // It streamed before it was followed: from here on.
            Some(item) if item.told.is_none() => item.told = Some(end),
            Some(_) => self.live(&live, heard),
            None => {}
        }
    }

    fn live(&mut self, live: &LiveText, heard: &mut Heard) {
        let Some(item) = self.items.get_mut(&live.item) else {
            return;
        };
        let end = live.offset.saturating_add(live.text.len() as u64);
        let told = item.told.unwrap_or(live.offset);
        if end <= told {
            return;
        }
        // What was skipped on the way is filled in at the item's close.
        let known = usize::try_from(told.saturating_sub(live.offset)).unwrap_or(usize::MAX);
        let Some(new) = live.text.get(known..) else {
            return;
        };
        item.told = Some(end);
        let (run, node, shape) = (item.run, item.node, item.shape.clone());
        let kind = ProviderEventKind::ItemAppended {
            item: NativeId(live.item.to_string()),
            text: new.to_owned(),
            shape: Box::new(shape),
        };
        Self::tell(heard, self.place_under(node, Some(run)), kind);
    }

    /// The last `turns` runs as a conversation's history, from how the thread stands and its newest rows.
    pub(super) fn history(&mut self, rows: &[Row], turns: u32) -> Vec<ProviderEvent> {
        let mut runs: Vec<_> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Run(run) if run.ordinal.is_some() => Some(run),
                _ => None,
            })
            .filter(|run| run.status != RunStatus::RolledBack)
            .collect();
        runs.sort_by_key(|run| run.ordinal);
        let skipped = runs.len().saturating_sub(turns as usize);
        let mut heard = Heard::default();
        for run in &runs[skipped..] {
            Self::tell(
                &mut heard,
                self.place(Some(run.id)),
                ProviderEventKind::TurnStarted,
            );
            let mut items: Vec<_> = rows
                .iter()
                .filter_map(|row| match row {
                    Row::Item(item) if item.run == run.id && !item.status.is_live() => Some(item),
                    _ => None,
                })
                .filter(|item| !Self::is_bookkeeping(&item.content))
                .collect();
            items.sort_by_key(|item| item.position);
            for item in items {
                self.opened(item.clone(), &mut heard);
            }
            for row in rows {
                if let Row::Node(node) = row
                    && node.run == run.id
                {
                    self.node_status(node.id, node.status, &mut heard);
                }
            }
            if run.status.is_terminal() {
                self.ended(run.id, run.status, run.error.clone(), &mut heard);
            }
        }
        heard.events
    }
}
