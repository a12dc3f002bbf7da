//! The table of rows: written by the orchestrator's `project`, read by screens. The same in ledger and replica.

use crate::{
    codec::{from_json, int, to_json},
    db::Db,
    error::Result,
};
use pilothouse_domain::{
    ItemContent, ItemId, Position, RequestStatus, Row, RowKey, ThreadId, ThreadState, TurnItem,
    row::RowKind, row::WaitingCounts,
};
use pilothouse_orchestrator::Rows;
use std::collections::BTreeSet;

/// What the wrapper around a row costs on the wire, bytes.
const ROW_OVERHEAD: usize = 40;

/// The number under which a kind is stored. Never reused.
fn kind_number(kind: RowKind) -> i64 {
    match kind {
        RowKind::Message => 1,
        RowKind::Run => 2,
        RowKind::Attempt => 3,
        RowKind::Node => 4,
        RowKind::Item => 5,
        RowKind::Request => 6,
        RowKind::Session => 7,
        RowKind::ProviderThread => 8,
        RowKind::Turn => 9,
        RowKind::Plan => 10,
    }
}

fn kind_of(number: i64) -> Option<RowKind> {
    Some(match number {
        1 => RowKind::Message,
        2 => RowKind::Run,
        3 => RowKind::Attempt,
        4 => RowKind::Node,
        5 => RowKind::Item,
        6 => RowKind::Request,
        7 => RowKind::Session,
        8 => RowKind::ProviderThread,
        9 => RowKind::Turn,
        10 => RowKind::Plan,
        _ => return None,
    })
}

/// What `open` says of a request: 1 approval waits, 2 question waits, 3 an answer is on its way.
pub(crate) fn open_mark(request: &pilothouse_domain::RuntimeRequest) -> Option<i64> {
    match request.status {
        RequestStatus::Pending if request.kind.is_question() => Some(2),
        RequestStatus::Pending => Some(1),
        RequestStatus::Answering { .. } => Some(3),
        _ => None,
    }
}

/// Adds up what [`open_mark`] counted.
pub(crate) fn waiting(marks: &[(i64, i64)]) -> WaitingCounts {
    let mut counts = WaitingCounts::default();
    for (mark, count) in marks {
        let count = u32::try_from(*count).unwrap_or(u32::MAX);
        match mark {
            1 => counts.approvals += count,
            2 => counts.questions += count,
            _ => {}
        }
    }
    counts
}

fn parse(db: &Db, kind: RowKind, json: &str) -> Result<Row> {
    let doing = "reading a row";
    Ok(match kind {
        RowKind::Message => Row::Message(from_json(db, doing, json)?),
        RowKind::Run => Row::Run(from_json(db, doing, json)?),
        RowKind::Attempt => Row::Attempt(from_json(db, doing, json)?),
        RowKind::Node => Row::Node(from_json(db, doing, json)?),
        RowKind::Item => Row::Item(from_json(db, doing, json)?),
        RowKind::Request => Row::Request(from_json(db, doing, json)?),
        RowKind::Session => Row::Session(from_json(db, doing, json)?),
        RowKind::ProviderThread => Row::ProviderThread(from_json(db, doing, json)?),
        RowKind::Turn => Row::Turn(from_json(db, doing, json)?),
        RowKind::Plan => Row::Plan(from_json(db, doing, json)?),
    })
}

/// A row and the size of its JSON in bytes.
fn find_sized(db: &Db, thread: i64, key: RowKey) -> Result<Option<(Row, usize)>> {
    let json = db.one(
        "reading a row",
        "SELECT json FROM rows WHERE thread = ?1 AND kind = ?2 AND id = ?3",
        (thread, kind_number(key.kind), key.id.as_bytes()),
        |row| row.get::<_, String>(0),
    )?;
    json.map(|json| Ok((parse(db, key.kind, &json)?, json.len() + ROW_OVERHEAD)))
        .transpose()
}

/// A row of a thread.
pub(crate) fn find(db: &Db, thread: i64, key: RowKey) -> Result<Option<Row>> {
    Ok(find_sized(db, thread, key)?.map(|(row, _)| row))
}

/// Puts a row in the place of one with the same key.
pub(crate) fn put(db: &Db, thread: i64, row: &Row) -> Result<()> {
    let key = row.key();
    let (mut position, mut open) = (None, None);
    let json = match row {
        Row::Message(value) => to_json(value),
        Row::Run(value) => to_json(value),
        Row::Attempt(value) => to_json(value),
        Row::Node(value) => to_json(value),
        Row::Item(value) => {
            position = Some(value.position);
            to_json(value)
        }
        Row::Request(value) => {
            open = open_mark(value);
            to_json(value)
        }
        Row::Session(value) => to_json(value),
        Row::ProviderThread(value) => to_json(value),
        Row::Turn(value) => to_json(value),
        Row::Plan(value) => to_json(value),
    };
    db.write(
        "writing a row",
        "INSERT INTO rows (thread, kind, id, run, arrival, open, json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
         ON CONFLICT (thread, kind, id) DO UPDATE SET \
         run = excluded.run, arrival = excluded.arrival, open = excluded.open, json = excluded.json",
        (
            thread,
            kind_number(key.kind),
            key.id.as_bytes(),
            position.map(|p| p.run),
            position.map(|p| int(p.arrival)),
            open,
            json,
        ),
    )?;
    Ok(())
}

/// Every row of a thread, in the order of keys.
pub(crate) fn all(db: &Db, thread: i64) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    db.scan(
        "reading rows",
        "SELECT kind, json FROM rows WHERE thread = ?1 ORDER BY kind, id",
        [thread],
        |row| {
            let kind: i64 = row.get(0).map_err(db.fail("reading rows"))?;
            let json: String = row.get(1).map_err(db.fail("reading rows"))?;
            let kind = kind_of(kind)
                .ok_or_else(|| db.corrupt("reading rows", format!("unknown row kind {kind}")))?;
            out.push(parse(db, kind, &json)?);
            Ok(true)
        },
    )?;
    Ok(out)
}

/// Forgets every row of a thread.
pub(crate) fn clear(db: &Db, thread: i64) -> Result<()> {
    db.write(
        "clearing rows",
        "DELETE FROM rows WHERE thread = ?1",
        [thread],
    )?;
    Ok(())
}

/// A part of a thread's list of items with the rows that are needed to draw it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Runs, nodes, messages, requests and plans that the items name, then the items, oldest first.
    pub rows: Vec<Row>,
    /// Whether there are older items.
    pub more: bool,
    /// Size of the rows as JSON, bytes.
    pub bytes: usize,
}

/// The items at the end of a thread, the last one first, at most `most`.
pub(crate) fn last_items(db: &Db, thread: i64, most: usize) -> Result<Vec<TurnItem>> {
    let mut items = Vec::new();
    db.scan(
        "reading the last items",
        "SELECT json FROM rows WHERE thread = ?1 AND arrival IS NOT NULL ORDER BY run DESC, arrival DESC LIMIT ?2",
        (thread, int(most as u64)),
        |row| {
            let json = row
                .get_ref(0)
                .and_then(|value| value.as_str().map_err(Into::into))
                .map_err(db.fail("reading the last items"))?;
            items.push(from_json(db, "reading the last items", json)?);
            Ok(true)
        },
    )?;
    Ok(items)
}

/// Items before a position (all, if there is none), the newest of them up to `max_bytes`, at least one; rows of
/// `already` are neither repeated nor counted.
pub(crate) fn window(
    db: &Db,
    thread: i64,
    before: Option<Position>,
    max_bytes: usize,
    already: &mut BTreeSet<RowKey>,
    spent: usize,
) -> Result<Window> {
    let (run, arrival) = before.map_or((i64::MAX, i64::MAX), |position| {
        (i64::from(position.run), int(position.arrival))
    });
    let mut needed = Vec::new();
    let mut items = Vec::new();
    let mut bytes = spent;
    let mut more = false;
    db.scan(
        "reading items",
        "SELECT json FROM rows WHERE thread = ?1 AND arrival IS NOT NULL AND (run, arrival) < (?2, ?3) \
         ORDER BY run DESC, arrival DESC",
        (thread, run, arrival),
        |row| {
            let json = row
                .get_ref(0)
                .and_then(|value| value.as_str().map_err(Into::into))
                .map_err(db.fail("reading items"))?;
            let item: TurnItem = from_json(db, "reading items", json)?;
            let known = already.contains(&RowKind::Item.key(item.id.as_bytes()));
            let mut size = if known { 0 } else { json.len() + ROW_OVERHEAD };
            let mut fresh: Vec<(Row, usize)> = Vec::new();
            let mut named = names(&item);
            if can_be_asked_about(&item.content) {
                named.extend(about(db, thread, item.id)?);
            }
            for key in named {
                collect(db, thread, key, already, &mut fresh)?;
            }
            size += fresh.iter().map(|(_, size)| size).sum::<usize>();
            if bytes + size > max_bytes && !items.is_empty() {
                more = true;
                return Ok(false);
            }
            bytes += size;
            for (row, _) in fresh {
                already.insert(row.key());
                needed.push(row);
            }
            if !known {
                already.insert(RowKind::Item.key(item.id.as_bytes()));
            }
            items.push((known, item));
            Ok(true)
        },
    )?;
    needed.extend(
        items
            .into_iter()
            .rev()
            .filter(|(known, _)| !known)
            .map(|(_, item)| Row::Item(item)),
    );
    Ok(Window {
        rows: needed,
        more,
        bytes,
    })
}

/// Reads a row and those it names in turn, unless they are there already.
fn collect(
    db: &Db,
    thread: i64,
    key: RowKey,
    already: &BTreeSet<RowKey>,
    fresh: &mut Vec<(Row, usize)>,
) -> Result<()> {
    if already.contains(&key) || fresh.iter().any(|(row, _)| row.key() == key) {
        return Ok(());
    }
    let Some((row, size)) = find_sized(db, thread, key)? else {
        return Ok(());
    };
    let further: Vec<RowKey> = match &row {
        Row::Run(run) => [
            run.message.map(|id| RowKind::Message.key(id.as_bytes())),
            run.attempt.map(|id| RowKind::Attempt.key(id.as_bytes())),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Row::Node(node) => node
            .parent
            .map(|id| RowKind::Node.key(id.as_bytes()))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    };
    fresh.push((row, size));
    for key in further {
        collect(db, thread, key, already, fresh)?;
    }
    Ok(())
}

/// The rows that an item names.
fn names(item: &TurnItem) -> Vec<RowKey> {
    let mut keys = vec![
        RowKind::Run.key(item.run.as_bytes()),
        RowKind::Node.key(item.node.as_bytes()),
    ];
    match &item.content {
        ItemContent::UserMessage {
            message: Some(message),
            ..
        } => keys.push(RowKind::Message.key(message.as_bytes())),
        ItemContent::Question { request } | ItemContent::Approval { request } => {
            keys.push(RowKind::Request.key(request.as_bytes()));
        }
        ItemContent::Plan {
            plan: Some(plan), ..
        } => keys.push(RowKind::Plan.key(plan.as_bytes())),
        ItemContent::Subagent {
            child: Some(child), ..
        } => keys.push(RowKind::Node.key(child.as_bytes())),
        _ => {}
    }
    keys
}

/// Whether a request can be about the item; then its entry shows who allowed it.
fn can_be_asked_about(content: &ItemContent) -> bool {
    matches!(
        content,
        ItemContent::Command { .. } | ItemContent::FileChange { .. } | ItemContent::Tool { .. }
    )
}

/// The requests that are about an item, open and closed.
fn about(db: &Db, thread: i64, item: ItemId) -> Result<Vec<RowKey>> {
    db.all(
        "looking for what was asked about an item",
        "SELECT id FROM rows WHERE kind = 6 AND thread = ?1 AND json_extract(json, '$.item') = ?2",
        (thread, item.to_string()),
        |row| row.get(0).map(|id: [u8; 16]| RowKind::Request.key(&id)),
    )
}

/// The rows that a state points at: what later entries change, so that a device has to have them.
pub(crate) fn live(db: &Db, thread: i64, state: &ThreadState) -> Result<(Vec<Row>, usize)> {
    let mut keys = Vec::new();
    if let Some(active) = &state.active {
        keys.push(RowKind::Run.key(active.id.as_bytes()));
        keys.extend(
            active
                .message
                .iter()
                .chain(&active.restart_pending)
                .chain(&active.steering)
                .map(|id| RowKind::Message.key(id.as_bytes())),
        );
        if let Some(attempt) = &active.attempt {
            keys.push(RowKind::Attempt.key(attempt.id.as_bytes()));
            keys.extend(attempt.turn.map(|id| RowKind::Turn.key(id.as_bytes())));
        }
    }
    for queued in &state.queue {
        keys.push(RowKind::Run.key(queued.run.as_bytes()));
        keys.push(RowKind::Message.key(queued.message.as_bytes()));
    }
    keys.extend(
        state
            .nodes
            .iter()
            .map(|slot| RowKind::Node.key(slot.id.as_bytes())),
    );
    keys.extend(
        state
            .items
            .iter()
            .map(|slot| RowKind::Item.key(slot.id.as_bytes())),
    );
    keys.extend(
        state
            .requests
            .iter()
            .map(|slot| RowKind::Request.key(slot.id.as_bytes())),
    );
    keys.extend(
        state
            .session
            .iter()
            .map(|slot| RowKind::Session.key(slot.id.as_bytes())),
    );
    keys.extend(
        state
            .provider_threads
            .iter()
            .map(|slot| RowKind::ProviderThread.key(slot.id.as_bytes())),
    );
    keys.extend(state.plan.iter().map(|id| RowKind::Plan.key(id.as_bytes())));
    let mut found = Vec::new();
    let none = BTreeSet::new();
    for key in keys {
        collect(db, thread, key, &none, &mut found)?;
    }
    let bytes = found.iter().map(|(_, size)| size).sum();
    Ok((found.into_iter().map(|(row, _)| row).collect(), bytes))
}

/// The rows of one thread inside a transaction, as the orchestrator's `project` reads and writes them.
///
/// [`Rows`] cannot return an error; one that happens is kept, and the transaction will not commit.
pub struct ThreadRows<'a> {
    db: &'a Db,
    thread: i64,
    id: ThreadId,
}

impl<'a> ThreadRows<'a> {
    pub(crate) fn new(db: &'a Db, thread: i64, id: ThreadId) -> Self {
        Self { db, thread, id }
    }

    /// The thread whose rows these are.
    pub fn thread(&self) -> ThreadId {
        self.id
    }

    /// An item's row.
    pub fn item(&self, item: ItemId) -> Option<TurnItem> {
        match self.get(RowKind::Item.key(item.as_bytes())) {
            Some(Row::Item(item)) => Some(item),
            _ => None,
        }
    }
}

impl std::fmt::Debug for ThreadRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ThreadRows").field(&self.id).finish()
    }
}

impl Rows for ThreadRows<'_> {
    fn get(&self, key: RowKey) -> Option<Row> {
        find(self.db, self.thread, key).unwrap_or_else(|error| {
            self.db.note_fault(error);
            None
        })
    }

    fn put(&mut self, row: Row) {
        if let Err(error) = put(self.db, self.thread, &row) {
            self.db.note_fault(error);
        }
    }
}
