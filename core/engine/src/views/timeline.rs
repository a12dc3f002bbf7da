//! One thread's timeline: a window of stored items, predicted rows behind them, streamed text over them.

use crate::{
    api::Prediction,
    batch::{AppendText, Batch, ListOp, TimelineBatch},
    delivery::{Renderer, lock},
    diff,
    live::LiveBuffer,
    predict::Overlay,
    rows::{ActiveRow, QueueRow, RowContent, RowText, ThreadHeader, TimelineRow},
    shared::{Outstanding, Reading, Shared, StoredThread, asked_about},
    views::item::{message_row, preview, row_of, rows_of, tell_delivery},
};
use pilothouse_domain::{
    Command, CommandBody, Event, HostId, ItemContent, ItemId, MessageId, Policy, Position, Row,
    RowKey, RuntimeRequest, ThreadId, ThreadState,
    feed::NEWER,
    item::Body,
    provider::AccountLimit,
    row::{RowKind, WaitingCounts},
    run::Usage,
    thread::Delivery,
};
use pilothouse_store::StoreError;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Renders a timeline for one observer.
pub(crate) struct TimelineView {
    shared: Arc<Shared>,
    host: HostId,
    thread: ThreadId,
    tail: usize,
    /// The oldest item shown; the window grows downward from it.
    anchor: Option<Position>,
    /// What was delivered, without streamed text.
    rows: Vec<TimelineRow>,
    header: Option<ThreadHeader>,
    /// How far each open item's streamed text was delivered.
    sent: BTreeMap<ItemId, u64>,
    generation: u64,
    version: Option<u64>,
}

impl TimelineView {
    pub(crate) fn new(shared: Arc<Shared>, host: HostId, thread: ThreadId, tail: u32) -> Self {
        Self {
            shared,
            host,
            thread,
            tail: tail.clamp(1, 10_000) as usize,
            anchor: None,
            rows: Vec::new(),
            header: None,
            sent: BTreeMap::new(),
            generation: 0,
            version: None,
        }
    }

    /// The rows and header as they are now, without streamed text.
    fn load(
        &mut self,
        reads: &Reading<'_>,
        synchronised: bool,
        newer: bool,
    ) -> Result<(Vec<TimelineRow>, ThreadHeader), StoreError> {
        let stored = StoredThread::load(reads, self.host, self.thread, self.tail * 2)?;
        let outstanding = reads.outstanding(Some((self.host, self.thread)))?;
        let held = |key: RowKey| stored.row(key);
        let overlay =
            self.shared
                .overlay(reads, self.host, stored.state.clone(), &outstanding, &held)?;

        let mut items = stored.items.as_slice();
        let mut older = stored.older;
        let kept = self.anchor.map_or(0, |anchor| {
            items.partition_point(|item| item.position < anchor)
        });
        let from = if self.anchor.is_some() && items.len() - kept <= self.tail * 2 {
            kept
        } else {
            items.len().saturating_sub(self.tail)
        };
        older |= from > 0;
        items = &items[from..];
        self.anchor = items.first().map(|item| item.position);

        let mut rows = rows_of(items, |item| stored.about(item), |id| stored.request(id));
        tell_delivery(&mut rows, |id| stored.message(id));
        for waiting in stored.unshown_messages() {
            rows.push(message_row(
                waiting.id,
                waiting.run,
                &waiting.text,
                &waiting.attachments,
                waiting.delivery.clone(),
            ));
        }
        rows.extend(predicted_rows(&stored, &outstanding, &overlay));
        let policy = self.shared.policy(reads, self.host)?;
        let mut header = self.header_of(&stored, &outstanding, &overlay, policy.as_ref());
        header.older = older;
        header.synchronised = synchronised;
        if newer && header.read_only.is_none() {
            header.read_only = Some(NEWER.to_owned());
        }
        Ok((rows, header))
    }

    fn header_of(
        &self,
        stored: &StoredThread<'_>,
        outstanding: &[Outstanding],
        overlay: &Overlay<'_>,
        policy: Option<&Policy>,
    ) -> ThreadHeader {
        let base = stored.state.as_ref();
        let state = overlay.state.as_ref().or(base);
        let meta = state.and_then(|state| state.meta.as_ref());
        let on_their_way = outstanding.iter().filter(|held| held.is_on_its_way());
        ThreadHeader {
            host: self.host,
            thread: self.thread,
            title: meta.map(|meta| meta.title.clone()).unwrap_or_default(),
            workspace: meta.map(|meta| meta.workspace.clone()),
            selection: meta.map(|meta| meta.selection.clone()),
            lineage: meta.and_then(|meta| meta.lineage),
            active: state.and_then(|state| active_of(state, base, overlay)),
            last_run: state.and_then(|state| state.last_run),
            usage: state.and_then(|state| usage_of(state, overlay)),
            limits: base.map_or_else(Vec::new, |state| limits_of(state, stored)),
            queue: state.map_or_else(Vec::new, |state| queue_of(state, base, overlay)),
            // Queue edits name what the host has, not what is predicted.
            queue_revision: base.map_or(0, |state| state.queue_revision),
            held: state.and_then(|state| state.held),
            rolling_back: state.and_then(|state| state.rollback),
            waiting: base.map(waiting_of).unwrap_or_default(),
            affordances: state
                .zip(policy)
                .map(|(state, policy)| pilothouse_orchestrator::affordances(state, policy)),
            outstanding: u32::try_from(on_their_way.count()).unwrap_or(u32::MAX),
            read_only: base.and_then(|state| state.read_only.clone()),
            synchronised: false,
            older: false,
            cursor: stored.cursor,
            digest: stored
                .state
                .as_ref()
                .zip(stored.cursor)
                .map(|(state, cursor)| state.digest(&cursor)),
        }
    }
}

impl Renderer for TimelineView {
    fn render(&mut self) -> Result<Option<Batch>, String> {
        let (generation, version, synchronised, newer) = {
            let live = lock(&self.shared.live);
            live.threads
                .get(&(self.host, self.thread))
                .map_or((0, 0, false, false), |thread| {
                    (
                        thread.generation,
                        thread.version,
                        thread.synchronised,
                        thread.newer,
                    )
                })
        };
        let first = self.version.is_none();
        let reset = first || generation != self.generation;
        if reset {
            self.anchor = None;
        }
        let fresh = if reset || self.version != Some(version) {
            let shared = self.shared.clone();
            let loaded = shared
                .view(|reads| self.load(reads, synchronised, newer))
                .map_err(|error| error.to_string())?;
            if loaded.is_none() {
                return Ok(None);
            }
            loaded
        } else {
            None
        };
        self.generation = generation;
        self.version = Some(version);

        let mut ops = Vec::new();
        let mut restated = false;
        if let Some((rows, header)) = fresh {
            ops = if reset {
                self.sent.clear();
                diff::inserts(&rows)
            } else {
                diff::diff(&self.rows, &rows, |row| row.id)
            };
            self.rows = rows;
            restated = self.header.as_ref() != Some(&header);
            self.header = Some(header);
        }
        let appended = self.stream(&mut ops);
        let Some(header) = self.header.clone() else {
            return Ok(None);
        };
        if !reset && ops.is_empty() && appended.is_empty() && !restated {
            return Ok(None);
        }
        Ok(Some(Batch::Timeline(Box::new(TimelineBatch {
            reset,
            ops,
            texts: appended,
            header,
        }))))
    }
}

impl TimelineView {
    /// Puts streamed text over new rows, and gives what came in since for those shown before. It is read after the rows:
    /// whatever streamed before a row came to be is in this batch or an earlier one. Copies what is new and nothing else.
    fn stream(&mut self, ops: &mut Vec<ListOp<TimelineRow>>) -> Vec<AppendText> {
        let shared = self.shared.clone();
        let live = lock(&shared.live);
        let none = BTreeMap::new();
        let texts = live
            .threads
            .get(&(self.host, self.thread))
            .map_or(&none, |thread| &thread.texts);
        for op in ops.iter_mut() {
            if let ListOp::Insert { row, .. } | ListOp::Update { row, .. } = op {
                overlay_text(row, texts, &mut self.sent);
            }
        }
        self.appended(texts, ops)
    }

    /// Text that came in since, for rows that are shown. A text that began anew is shown by an update of its row.
    fn appended(
        &mut self,
        texts: &BTreeMap<ItemId, LiveBuffer>,
        ops: &mut Vec<ListOp<TimelineRow>>,
    ) -> Vec<AppendText> {
        let mut appended = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let Some(buffer) = texts.get(&row.id).filter(|_| row.status.is_live()) else {
                continue;
            };
            let sent = self.sent.get(&row.id).copied().unwrap_or(0);
            if buffer.end() < sent {
                let mut row = row.clone();
                overlay_text(&mut row, texts, &mut self.sent);
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                ops.push(ListOp::Update { index, row });
            } else if let Some((at, text)) = buffer.since(sent) {
                appended.push(AppendText {
                    id: row.id,
                    at,
                    text: text.to_owned(),
                });
                self.sent.insert(row.id, buffer.end());
            }
        }
        appended
    }
}

/// Puts an open item's streamed text into its row, and notes how far it was delivered.
fn overlay_text(
    row: &mut TimelineRow,
    texts: &BTreeMap<ItemId, LiveBuffer>,
    sent: &mut BTreeMap<ItemId, u64>,
) {
    if !row.status.is_live() {
        sent.remove(&row.id);
        return;
    }
    match texts.get(&row.id) {
        Some(buffer) => {
            row.text = RowText {
                text: buffer.text().to_owned(),
                from: buffer.from(),
                bytes: buffer.end(),
                ..RowText::default()
            };
            sent.insert(row.id, buffer.end());
        }
        None => {
            sent.insert(row.id, row.text.bytes);
        }
    }
}

/// Rows for what is on its way: what `decide` says, or the bare message where nothing can be said.
fn predicted_rows(
    stored: &StoredThread<'_>,
    outstanding: &[Outstanding],
    overlay: &Overlay<'_>,
) -> Vec<TimelineRow> {
    let mut rows = Vec::new();
    let mut queued = BTreeSet::new();
    for waiting in outstanding {
        let delivery = waiting.delivery();
        let decision =
            overlay
                .predictions
                .iter()
                .find_map(|(command, prediction)| match prediction {
                    Prediction::Events(decision) if *command == waiting.command.id => {
                        Some(decision)
                    }
                    _ => None,
                });
        let Some(decision) = decision else {
            rows.extend(bare_message(&waiting.command, delivery, stored));
            continue;
        };
        for event in &decision.events {
            match event {
                Event::ItemOpened { item } if !stored.has_item(item.id) => {
                    let mut item = item.clone();
                    if let ItemContent::UserMessage {
                        message: Some(id),
                        text,
                        attachments,
                    } = &mut item.content
                        && let Some(message) = overlay.message(*id)
                    {
                        *text = message.text;
                        *attachments = message.attachments;
                    }
                    rows.push(TimelineRow {
                        position: None,
                        pending: true,
                        delivery: Some(delivery.clone()),
                        ..row_of(&item, |id| overlay.request(id))
                    });
                }
                Event::RunQueued { message, .. } => {
                    queued.insert(*message);
                }
                _ => {}
            }
        }
    }
    // What waits in the queue is shown there.
    rows.retain(|row| {
        !matches!(&row.content, RowContent::UserMessage { message: Some(id), .. } if queued.contains(id))
    });
    rows
}

fn bare_message(
    command: &Command,
    delivery: Delivery,
    stored: &StoredThread<'_>,
) -> Option<TimelineRow> {
    let CommandBody::MessageSend {
        text, attachments, ..
    } = &command.body
    else {
        return None;
    };
    let message: MessageId = command.id.derive("message");
    (!stored.has_item(pilothouse_orchestrator::user_item(message))).then(|| {
        message_row(
            message,
            command.id.derive("run"),
            &Body::inline(text),
            attachments,
            delivery,
        )
    })
}

fn active_of(
    state: &ThreadState,
    base: Option<&ThreadState>,
    overlay: &Overlay<'_>,
) -> Option<ActiveRow> {
    let active = state.active.as_ref()?;
    let pending = base
        .and_then(|base| base.active.as_ref())
        .is_none_or(|known| known.id != active.id);
    Some(ActiveRow {
        run: active.id,
        ordinal: (!pending).then_some(active.ordinal),
        attempt: active.attempt.as_ref().map(|attempt| attempt.id),
        status: active.status,
        blocked_on: active.blocked_on,
        since_ms: overlay
            .run(active.id)
            .filter(|_| !pending)
            .and_then(|run| run.started_at_ms),
        interrupting: active.interrupting.is_some(),
        pending,
    })
}

fn usage_of(state: &ThreadState, overlay: &Overlay<'_>) -> Option<Usage> {
    let active = state.active.as_ref().map(|active| active.id);
    let run = active.or(state.last_run.map(|last| last.id))?;
    overlay.run(run)?.usage
}

fn limits_of(state: &ThreadState, stored: &StoredThread<'_>) -> Vec<AccountLimit> {
    let session = state.session.as_ref().map(|session| session.id);
    let key = session.map(|id| RowKind::Session.key(id.as_bytes()));
    match key.and_then(|key| stored.row(key)) {
        Some(Row::Session(row)) => row.limits,
        _ => Vec::new(),
    }
}

fn queue_of(
    state: &ThreadState,
    base: Option<&ThreadState>,
    overlay: &Overlay<'_>,
) -> Vec<QueueRow> {
    state
        .queue
        .iter()
        .map(|queued| QueueRow {
            run: queued.run,
            message: queued.message,
            preview: overlay
                .message(queued.message)
                .map(|message| preview(message.text.preview()))
                .unwrap_or_default(),
            dispatch: queued.dispatch,
            pending: base.is_none_or(|base| !base.queue.iter().any(|q| q.run == queued.run)),
        })
        .collect()
}

fn waiting_of(state: &ThreadState) -> WaitingCounts {
    let mut counts = WaitingCounts::default();
    for request in state.requests.iter().filter(|slot| !slot.answering) {
        if request.kind.is_question() {
            counts.questions += 1;
        } else {
            counts.approvals += 1;
        }
    }
    counts
}

/// Items of a page of older rows.
pub(crate) fn page_rows(rows: &[Row]) -> Vec<TimelineRow> {
    let requests: Vec<&RuntimeRequest> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Request(request) => Some(&**request),
            _ => None,
        })
        .collect();
    let items = rows.iter().filter_map(|row| match row {
        Row::Item(item) => Some(item),
        _ => None,
    });
    let mut shown = rows_of(
        items,
        |item| asked_about(requests.iter().copied(), item),
        |id| {
            requests
                .iter()
                .find(|request| request.id == id)
                .map(|request| (*request).clone())
        },
    );
    tell_delivery(&mut shown, |id| {
        rows.iter().find_map(|row| match row {
            Row::Message(message) if message.id == id => Some(message.clone()),
            _ => None,
        })
    });
    shown
}
