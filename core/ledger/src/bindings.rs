//! What `ingest` and `decide` look up, read from the transaction they run in.

use crate::open_text::OpenTexts;
use pilothouse_domain::{
    Body, ItemId, RequestId, Row, RowKey, RunId, RuntimeRequest, SessionId, ThreadId, TurnItem,
    binding::{BindingKey, BindingTarget},
    limits,
    provider::OfferedModel,
    row::RowKind,
};
use pilothouse_orchestrator::{Bindings, LookupKeys, Lookups, RollbackRuns, rollback_of};
use pilothouse_store::{LedgerTx, StoreError, ThreadBindings};

/// Live text of the transaction at work, in order: thread, entry before it, item, text.
pub(crate) type LiveText = [(ThreadId, u64, ItemId, String)];

/// Bindings, rows and streamed texts as of the transaction; what was streamed in it is not saved yet. A read that fails
/// is kept by the store, which then refuses the commit.
pub(crate) struct View<'a> {
    stored: ThreadBindings<'a>,
    texts: &'a OpenTexts,
    live: &'a LiveText,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        tx: &'a LedgerTx<'a>,
        agent: &'a str,
        thread: ThreadId,
        texts: &'a OpenTexts,
        live: &'a LiveText,
    ) -> Self {
        Self {
            stored: tx.bindings(agent, thread),
            texts,
            live,
        }
    }
}

/// What of an item's streamed text is not saved yet, in order.
pub(crate) fn following<'a>(
    texts: &'a OpenTexts,
    live: &'a LiveText,
    item: ItemId,
) -> Vec<&'a str> {
    let now = live
        .iter()
        .filter(|(_, _, of, _)| *of == item)
        .map(|(_, _, _, piece)| piece.as_str());
    std::iter::once(texts.unsaved(item)).chain(now).collect()
}

impl Bindings for View<'_> {
    fn get(&self, key: &BindingKey) -> Option<BindingTarget> {
        self.stored.get(key)
    }

    fn streamed(&self, item: ItemId) -> Option<Body> {
        let more = following(self.texts, self.live, item);
        self.stored.streamed_with(item, &more)
    }

    fn request(&self, request: RequestId) -> Option<RuntimeRequest> {
        self.stored.request(request)
    }

    fn row(&self, key: RowKey) -> Option<Row> {
        self.stored.row(key)
    }

    fn last_items(&self, most: usize) -> Vec<TurnItem> {
        self.stored.last_items(most)
    }
}

/// The models that a session's agent offers.
pub(crate) fn models(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
    session: SessionId,
) -> Result<Vec<OfferedModel>, StoreError> {
    Ok(
        match tx.row(thread, RowKind::Session.key(session.as_bytes()))? {
            Some(Row::Session(row)) => row.models,
            _ => Vec::new(),
        },
    )
}

/// What a rollback from a run on takes back; `None` if there is no such run.
pub(crate) fn taken_back(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
    before: RunId,
) -> Result<Option<RollbackRuns>, StoreError> {
    let Some(Row::Run(first)) = tx.row(thread, RowKind::Run.key(before.as_bytes()))? else {
        return Ok(None);
    };
    // A run without an ordinal has not begun: nothing came after it.
    let from = first.ordinal.unwrap_or(u32::MAX);
    let runs = tx.runs_from(thread, from, limits::ROLLED_BACK + 1)?;
    let head = tx.run_standing_before(thread, from)?;
    Ok(Some(rollback_of(first, runs, head)))
}

/// Reads the rows that a decision needs.
pub(crate) fn look_up(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
    keys: &LookupKeys,
) -> Result<Lookups, StoreError> {
    let mut found = Lookups::default();
    if let Some(request) = keys.request
        && let Some(Row::Request(row)) = tx.row(thread, RowKind::Request.key(request.as_bytes()))?
    {
        found.request = Some(*row);
    }
    if let Some(run) = keys.run
        && let Some(Row::Run(row)) = tx.row(thread, RowKind::Run.key(run.as_bytes()))?
    {
        found.run = Some(row);
    }
    for message in &keys.messages {
        if let Some(Row::Message(row)) = tx.row(thread, RowKind::Message.key(message.as_bytes()))? {
            found.messages.push(row);
        }
    }
    Ok(found)
}
