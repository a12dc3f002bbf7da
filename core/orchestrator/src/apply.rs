//! `apply`: what an event does to a thread's state. Total: it never fails and never panics, whatever comes in whatever
//! order; what makes no sense changes nothing.

use pilothouse_domain::{
    Entry, Event, ItemContent, ItemStatus, LoggedEvent, RunStatus, ThreadState,
    event::{QueuePlace, RollbackOutcome},
    limits,
    provider::{ProviderThreadStatus, SessionStatus, TurnEnd, TurnStatus},
    run::{AttemptStatus, BlockedOn, NodeKind, NodeStatus},
    state::{
        ActiveRun, AttemptSlot, Barrier, EndedRun, Import, ItemKind, ItemSlot, NodeSlot,
        ProviderThreadSlot, QueuedRun, RequestSlot, SessionSlot, ThreadMeta, TransferSlot,
    },
    thread::Lifecycle,
    transfer::{PlanKind, TransferStatus},
};

/// The word of [`Event::InterruptStep`] that says that the agent did not take the interrupt, so that it may be asked again.
pub const STEP_REFUSED: &str = "refused";

/// Folds one entry, events of newer versions included.
pub fn apply_entry(state: &mut ThreadState, entry: &Entry) {
    for logged in &entry.events {
        match logged {
            LoggedEvent::Known(event) => apply(state, event),
            LoggedEvent::Unknown(unknown) if unknown.skippable => {}
            LoggedEvent::Unknown(unknown) => {
                state.read_only.get_or_insert_with(|| {
                    let kind: String = unknown.kind.chars().take(80).collect();
                    format!("it holds `{kind}`, which this version does not know")
                });
            }
        }
    }
}

/// Folds one event.
pub fn apply(state: &mut ThreadState, event: &Event) {
    match event {
        Event::ThreadCreated {
            title,
            workspace,
            selection,
            lineage,
            ..
        } => {
            state.meta = Some(ThreadMeta {
                title: title.clone(),
                workspace: workspace.clone(),
                selection: selection.clone(),
                lineage: *lineage,
                lifecycle: Lifecycle::Active,
            });
        }
        Event::ThreadSelected { selection, .. } => {
            if let Some(meta) = &mut state.meta {
                if let Some(active) = &mut state.active {
                    active.mode_changed |= meta.selection.mode != selection.mode;
                }
                meta.selection = selection.clone();
            }
        }
        Event::MessageAdded { message } => {
            if let Some(active) = &mut state.active
                && active.id == message.run
                && active.message != Some(message.id)
                && !active.steering.contains(&message.id)
            {
                active.steering.push(message.id);
                // Needed only to match echoes by order, so the last few do.
                if active.steering.len() > limits::REMEMBERED {
                    active.steering.remove(0);
                }
            }
        }
        Event::RunQueued {
            run,
            message,
            dispatch,
            place,
            origin,
        } => {
            if let Some(active) = &mut state.active {
                active.steering.retain(|m| m != message);
                if active.restart_pending == Some(*message) {
                    active.restart_pending = None;
                }
            }
            state.queue.retain(|queued| queued.run != *run);
            let at = match place {
                QueuePlace::Head => 0,
                QueuePlace::Tail => state.queue.len(),
                QueuePlace::After { run } => state
                    .queue
                    .iter()
                    .position(|queued| queued.run == *run)
                    .map_or(state.queue.len(), |i| i + 1),
            };
            state.queue.insert(
                at,
                QueuedRun {
                    run: *run,
                    message: *message,
                    dispatch: *dispatch,
                    origin: *origin,
                },
            );
            state.queue_revision += 1;
        }
        Event::RunDequeued { run, .. } => dequeue(state, *run),
        Event::RunStarted {
            run,
            message,
            ordinal,
            origin,
            ..
        } => {
            dequeue(state, *run);
            state.next_ordinal = state.next_ordinal.max(ordinal.saturating_add(1));
            state.active = Some(ActiveRun {
                id: *run,
                ordinal: *ordinal,
                message: *message,
                origin: *origin,
                status: RunStatus::Starting,
                blocked_on: BlockedOn::None,
                attempt: None,
                attempts: 0,
                interrupting: None,
                stop_holds_queue: false,
                restart_pending: None,
                steering: Vec::new(),
                answered: false,
                barrier: None,
                mode_changed: false,
            });
        }
        Event::RunStatusChanged {
            run,
            status,
            blocked_on,
        } => {
            if let Some(active) = active_run(state, *run) {
                active.status = *status;
                active.blocked_on = *blocked_on;
            }
        }
        Event::InterruptRequested {
            run,
            attempt,
            hold_queue,
            ..
        } => {
            if let Some(active) = active_run(state, *run) {
                active.interrupting = Some(*attempt);
                active.stop_holds_queue |= hold_queue;
            }
        }
        Event::InterruptStep { run, step, .. } => {
            if let Some(active) = active_run(state, *run)
                && step == STEP_REFUSED
            {
                active.interrupting = None;
            }
        }
        Event::RestartPending { run, message } => {
            if let Some(active) = active_run(state, *run) {
                active.restart_pending = Some(*message);
                active.steering.retain(|m| m != message);
                active.interrupting = active.attempt.as_ref().map(|a| a.id);
            }
        }
        Event::RunEnded { run, status, .. } => {
            if let Some(active) = active_run(state, *run) {
                let ended = EndedRun {
                    id: active.id,
                    ordinal: active.ordinal,
                    status: *status,
                };
                state.active = None;
                state.last_run = Some(ended);
            }
        }
        Event::AttemptStarted {
            attempt,
            run,
            ordinal,
            root_node,
            message,
            ..
        } => {
            if let Some(active) = active_run(state, *run) {
                active.attempt = Some(AttemptSlot {
                    id: *attempt,
                    message: message.or(active.message),
                    root_node: *root_node,
                    status: AttemptStatus::Starting,
                    turn: None,
                });
                active.attempts = *ordinal;
                active.status = RunStatus::Starting;
                active.blocked_on = BlockedOn::None;
                active.interrupting = None;
                active.stop_holds_queue = false;
                active.restart_pending = None;
                active.barrier = None;
                put_node(
                    state,
                    NodeSlot {
                        id: *root_node,
                        parent: None,
                        run: *run,
                        kind: NodeKind::RootTurn,
                        status: NodeStatus::Running,
                        provider_thread: None,
                    },
                );
            }
        }
        Event::AttemptBound {
            attempt,
            provider_thread,
            turn,
        } => {
            let Some(active) = &mut state.active else {
                return;
            };
            let Some(slot) = active.attempt.as_mut().filter(|slot| slot.id == *attempt) else {
                return;
            };
            slot.turn = Some(*turn);
            slot.status = AttemptStatus::Running;
            if active.status == RunStatus::Starting {
                active.status = RunStatus::Running;
            }
            let (ordinal, root) = (active.ordinal, slot.root_node);
            state.provider_thread = Some(*provider_thread);
            for thread in &mut state.provider_threads {
                if thread.id == *provider_thread {
                    thread.coverage = thread.coverage.max(ordinal);
                }
            }
            for node in &mut state.nodes {
                if node.id == root {
                    node.provider_thread = Some(*provider_thread);
                }
            }
        }
        Event::AttemptEnded {
            attempt,
            status,
            correlation,
            error,
        } => {
            let Some(active) = &mut state.active else {
                return;
            };
            let Some(slot) = active.attempt.as_mut().filter(|slot| slot.id == *attempt) else {
                return;
            };
            slot.status = *status;
            active.status = RunStatus::Finalizing;
            active.blocked_on = BlockedOn::None;
            active.barrier = Some(Barrier {
                end: TurnEnd {
                    status: match status {
                        AttemptStatus::Completed => TurnStatus::Completed,
                        AttemptStatus::Failed => TurnStatus::Failed,
                        _ => TurnStatus::Interrupted,
                    },
                    correlation: *correlation,
                },
                error: error.clone(),
            });
            let root = slot.root_node;
            state.nodes.retain(|node| node.id != root);
        }
        Event::QueueHeld { reason } => state.held = *reason,
        Event::SessionChanged { session } => {
            let capabilities = match &state.session {
                Some(slot) if slot.id == session.id => slot.capabilities,
                _ => Default::default(),
            };
            state.session = Some(SessionSlot {
                id: session.id,
                agent: session.agent.clone(),
                incarnation: session.incarnation,
                live: is_live(&session.status),
                capability_version: session.capability_version,
                capabilities,
            });
        }
        Event::SessionStatusChanged { session, status } => {
            if let Some(slot) = &mut state.session
                && slot.id == *session
            {
                slot.live = is_live(status);
            }
        }
        Event::CapabilitiesLearned {
            session,
            capabilities,
        } => {
            if let Some(slot) = &mut state.session
                && slot.id == *session
            {
                slot.capabilities = capabilities.set();
                slot.capability_version = capabilities.version;
            }
        }
        Event::ProviderThreadChanged { provider_thread } => {
            let slot = ProviderThreadSlot {
                id: provider_thread.id,
                agent: provider_thread.agent.clone(),
                coverage: provider_thread.coverage,
                status: provider_thread.status.clone(),
                owner: provider_thread.owner,
            };
            if slot.owner.is_none() && slot.status == ProviderThreadStatus::Ready {
                state.provider_thread = Some(slot.id);
            }
            for node in &mut state.nodes {
                if Some(node.id) == slot.owner {
                    node.provider_thread = Some(slot.id);
                }
            }
            // A subagent's stands with its node: there may be many.
            if slot.owner.is_none() {
                state.provider_threads.retain(|known| known.id != slot.id);
                state.provider_threads.push(slot);
                forget_provider_threads(state);
            }
        }
        Event::ProviderThreadStatusChanged {
            provider_thread,
            status,
        } => {
            for slot in &mut state.provider_threads {
                if slot.id == *provider_thread {
                    slot.status = status.clone();
                }
            }
        }
        Event::ItemOpened { item } => {
            state.next_arrival = state
                .next_arrival
                .max(item.position.arrival.saturating_add(1));
            state.items.retain(|slot| slot.id != item.id);
            if item.status.is_live() {
                state.items.push(ItemSlot {
                    id: item.id,
                    node: item.node,
                    background: item.status == ItemStatus::Background,
                    kind: kind_of(&item.content),
                });
            }
            note_answer(state, item.node, item.status, Some(&item.content));
        }
        Event::ItemUpdated { .. } => {}
        Event::ItemClosed {
            item,
            status,
            content,
            ..
        } => {
            if let Some(i) = state.items.iter().position(|slot| slot.id == *item) {
                let slot = state.items.remove(i);
                note_answer(state, slot.node, *status, content.as_ref());
            }
        }
        Event::ItemBackground { item, .. } => {
            for slot in &mut state.items {
                if slot.id == *item {
                    slot.background = true;
                }
            }
        }
        Event::NodeOpened { node } => {
            let provider_thread = state.node(node.id).and_then(|known| known.provider_thread);
            put_node(
                state,
                NodeSlot {
                    id: node.id,
                    parent: node.parent,
                    run: node.run,
                    kind: node.kind,
                    status: node.status,
                    provider_thread,
                },
            );
        }
        Event::NodeStatusChanged { node, status } => {
            if is_terminal(*status) {
                state.nodes.retain(|slot| slot.id != *node);
            } else {
                for slot in &mut state.nodes {
                    if slot.id == *node {
                        slot.status = *status;
                    }
                }
            }
        }
        Event::RequestOpened { request } => {
            let slot = RequestSlot {
                id: request.id,
                kind: request.kind,
                answering: false,
                content: request.content_hash.mark(),
                node: request.node,
                item: request.item,
            };
            match state.requests.iter_mut().find(|r| r.id == request.id) {
                Some(known) => *known = slot,
                None => state.requests.push(slot),
            }
        }
        Event::RequestChanged {
            request,
            content_hash,
            ..
        } => {
            for slot in &mut state.requests {
                if slot.id == *request {
                    slot.content = content_hash.mark();
                }
            }
        }
        Event::RequestAnswering { request, .. } => {
            for slot in &mut state.requests {
                if slot.id == *request {
                    slot.answering = true;
                }
            }
        }
        Event::RequestClosed { request, .. } => state.requests.retain(|slot| slot.id != *request),
        Event::PlanUpdated { plan } => {
            let of_root = state.active.as_ref().is_some_and(|active| {
                active
                    .attempt
                    .as_ref()
                    .is_some_and(|attempt| attempt.root_node == plan.node)
            });
            if of_root && !matches!(plan.kind, PlanKind::Questions { .. }) {
                state.plan = Some(plan.id);
            }
        }
        Event::TransferRecorded { transfer } => {
            if transfer.status == TransferStatus::Pending
                && state.transfers.len() < limits::REMEMBERED
            {
                state.transfers.push(TransferSlot {
                    id: transfer.id,
                    kind: transfer.kind,
                    source: transfer.source,
                    run: transfer.source_run,
                });
            }
        }
        Event::TransferStatusChanged { transfer, status } => {
            if *status != TransferStatus::Pending {
                state.transfers.retain(|slot| slot.id != *transfer);
            }
        }
        Event::ImportRequested {
            provider_thread, ..
        } => {
            state.import = Some(Import::Reading);
            state.provider_thread = Some(*provider_thread);
        }
        Event::ImportEnded { .. } => state.import = Some(Import::Done),
        Event::RollbackRequested { before, .. } => state.rollback = Some(*before),
        Event::RollbackEnded { outcome, .. } => {
            state.rollback = None;
            if let RollbackOutcome::Applied { runs, head } = outcome {
                taken_back(state, runs, *head);
            }
        }
        Event::MessageDelivery { .. }
        | Event::ModelsOffered { .. }
        | Event::CommandsOffered { .. }
        | Event::LimitsReported { .. }
        | Event::UsageRecorded { .. }
        | Event::TurnEnded { .. }
        | Event::NoticeRaised { .. }
        | Event::SignInAsked { .. }
        | Event::SignInFailed { .. }
        | Event::AnomalyFound { .. }
        | Event::FrameUnreadable { .. }
        | Event::DevicePaired { .. }
        | Event::DeviceRevoked { .. } => {}
    }
}

/// What stands once runs were taken back: the one before them is the last, and no conversation has seen more than that.
fn taken_back(state: &mut ThreadState, runs: &[pilothouse_domain::RunId], head: Option<EndedRun>) {
    if state.last_run.is_some_and(|last| runs.contains(&last.id)) {
        state.last_run = head;
    }
    state.plan = None;
    let seen = head.map_or(0, |head| head.ordinal);
    let current = state.provider_thread;
    for slot in &mut state.provider_threads {
        if Some(slot.id) == current {
            slot.coverage = slot.coverage.min(seen);
        } else if slot.coverage > seen {
            slot.status = ProviderThreadStatus::Divergent;
        }
    }
}

/// The part of an item's content that state needs: what the barrier does with it.
pub(crate) fn kind_of(content: &ItemContent) -> ItemKind {
    match content {
        ItemContent::AssistantMessage { .. }
        | ItemContent::Reasoning { .. }
        | ItemContent::Plan { .. } => ItemKind::Text,
        ItemContent::Command { .. }
        | ItemContent::FileChange { .. }
        | ItemContent::FileSearch { .. }
        | ItemContent::WebSearch { .. }
        | ItemContent::Tool { .. } => ItemKind::Tool,
        ItemContent::Subagent { .. } => ItemKind::Subagent,
        _ => ItemKind::Other,
    }
}

/// Whether a node can no longer change.
pub(crate) fn is_terminal(status: NodeStatus) -> bool {
    !matches!(
        status,
        NodeStatus::Running | NodeStatus::Waiting | NodeStatus::Background
    )
}

/// Whether a session can be used.
fn is_live(status: &SessionStatus) -> bool {
    matches!(
        status,
        SessionStatus::Starting | SessionStatus::Ready | SessionStatus::Idle
    )
}

fn active_run(state: &mut ThreadState, run: pilothouse_domain::RunId) -> Option<&mut ActiveRun> {
    state.active.as_mut().filter(|active| active.id == run)
}

fn dequeue(state: &mut ThreadState, run: pilothouse_domain::RunId) {
    let before = state.queue.len();
    state.queue.retain(|queued| queued.run != run);
    if state.queue.len() != before {
        state.queue_revision += 1;
    }
}

fn put_node(state: &mut ThreadState, node: NodeSlot) {
    match state.nodes.iter_mut().find(|known| known.id == node.id) {
        Some(known) => *known = node,
        None => state.nodes.push(node),
    }
}

/// A user-meaningful answer: an assistant message that the agent closed, with at least one visible character.
fn note_answer(
    state: &mut ThreadState,
    node: pilothouse_domain::NodeId,
    status: ItemStatus,
    content: Option<&ItemContent>,
) {
    let (ItemStatus::Completed, Some(ItemContent::AssistantMessage { text })) = (status, content)
    else {
        return;
    };
    if let Some(active) = &mut state.active
        && active.attempt.as_ref().is_some_and(|a| a.root_node == node)
        && text
            .preview()
            .chars()
            .any(|c| !c.is_whitespace() && !c.is_control())
    {
        active.answered = true;
    }
}

/// Keeps the one in use and the last few others.
fn forget_provider_threads(state: &mut ThreadState) {
    let current = state.provider_thread;
    let mut surplus = state
        .provider_threads
        .len()
        .saturating_sub(limits::REMEMBERED);
    state.provider_threads.retain(|slot| {
        let forget = surplus > 0 && Some(slot.id) != current;
        surplus -= usize::from(forget);
        !forget
    });
}
