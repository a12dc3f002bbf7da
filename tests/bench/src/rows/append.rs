//! Appending: 64 entries in one transaction, against node:sqlite doing the same work; the size of the write-ahead log; and
//! how many syncs a command costs.

use super::{Context, Spent};
use crate::{
    agent::Author,
    content::Shape,
    desk::Desk,
    fixture::{Fixture, Name, SEED},
    measure::{self, quantile},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{
    Body, Cause, Epoch, Event, LoggedEvent, Row as ThreadRow, RowKey, ThreadId, ThreadState,
    ThreadSummary,
};
use pilothouse_orchestrator::{Rows, apply, project, summarise};
use pilothouse_store::{Durability, LedgerReads, LedgerStore, LedgerTx, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufWriter, Write as _},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Entries in one transaction, as many as the ledger's writer takes jobs.
const BATCH: usize = 64;
/// Entries after which a state is kept, as the ledger does.
const STATE_EVERY: u64 = 64;

/// One entry to be appended.
pub(super) struct Work {
    cause: Cause,
    time: u64,
    pub(super) events: Vec<Event>,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let fixture = context.fixture(Name::S)?;
    let work = load(&fixture)?;
    let scratch = context.scratch()?;
    let mut table = Vec::new();

    if !context.quick {
        let operations = scratch.path().join("operations.jsonl");
        describe(&work, &operations, &scratch.path().join("described"))?;
        let mut rival = context.rival("append.mjs", &[&operations, scratch.path()])?;
        // Both warm up once.
        rival.go()?;
        time(&work, scratch.path())?;
        let (mut ours, mut theirs, mut ratios, mut walls) = (vec![], vec![], vec![], vec![]);
        for _ in 0..7 {
            let (a, b) = (time(&work, scratch.path())?.0, rival.go()?);
            ours.push(a.cpu);
            theirs.push(b.cpu);
            ratios.push(a.cpu / b.cpu);
            walls.push(a.wall / b.wall);
        }
        let ratio = quantile(&mut ratios, 0.5).context("rounds")?;
        let each =
            |values: &mut [f64]| 1000.0 * quantile(values, 0.5).unwrap_or(0.0) / f64_of(work.len());
        table.push(
            Row::at_most(
                "batch 64, processor time by that of node:sqlite",
                ratio,
                1.5,
                "×",
            )
            .gate()
            .note(format!(
                "{:.1} µs an entry, node {:.1}; by the wall {:.2} ×; medians of 7 pairs, {} entries",
                each(&mut ours),
                each(&mut theirs),
                quantile(&mut walls, 0.5).unwrap_or(0.0),
                work.len()
            )),
        );
        let mut growth = vec![];
        for _ in 0..5 {
            let half = time(&work[..work.len() / 2], scratch.path())?.0.cpu;
            growth.push(time(&work, scratch.path())?.0.cpu / half);
        }
        table.push(
            Row::at_most(
                "append, twice the entries",
                quantile(&mut growth, 0.5).context("rounds")?,
                2.6,
                "× the time",
            )
            .gate(),
        );
    }
    let (_, wal) = time(&work, scratch.path())?;
    table.push(Row::at_most("largest write-ahead log", measure::mib(wal), 16.0, "MiB").gate());
    table.push(syncs(scratch.path())?);
    Ok(table)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
fn f64_of(count: usize) -> f64 {
    count as f64
}

/// The fixture's entries as they were before their long bodies went to the blob table.
pub(super) fn load(fixture: &Fixture) -> Result<Vec<Work>> {
    let reader = fixture.reader()?;
    reader.consistent(|reads| {
        let (mut out, mut seq) = (Vec::new(), 0);
        loop {
            let page = reads.entries_after(fixture.thread(), seq, 1 << 20)?;
            let Some(last) = page.last() else {
                return Ok(out);
            };
            seq = last.seq;
            for entry in page {
                let mut events = Vec::new();
                for logged in entry.events {
                    if let LoggedEvent::Known(mut event) = logged {
                        restore(reads, &mut event)?;
                        events.push(*event);
                    }
                }
                out.push(Work {
                    cause: entry.cause,
                    time: entry.host_time_ms,
                    events,
                });
            }
        }
    })
}

fn restore(reads: &LedgerReads, event: &mut Event) -> Result<()> {
    let bodies = match event {
        Event::ItemOpened { item } => item.content.bodies_mut(),
        Event::ItemUpdated { content, .. } => content.bodies_mut(),
        Event::ItemClosed {
            content: Some(content),
            ..
        } => content.bodies_mut(),
        _ => return Ok(()),
    };
    for body in bodies {
        if let Body::Stored(stored) = body {
            let bytes = reads
                .blob(stored.hash, 0, usize::try_from(stored.bytes)?)?
                .context("a body is missing")?;
            *body = Body::inline(String::from_utf8(bytes)?);
        }
    }
    Ok(())
}

/// What a thread is while it grows.
struct Growing {
    state: ThreadState,
    summary: Option<ThreadSummary>,
}

impl Growing {
    fn new(thread: ThreadId) -> Self {
        Self {
            state: ThreadState::empty(thread),
            summary: None,
        }
    }

    /// Everything the ledger does for an entry; `seen` is told the rows that are written.
    fn append(
        &mut self,
        tx: &LedgerTx<'_>,
        work: &Work,
        events: Vec<Event>,
        seen: &mut dyn FnMut(&ThreadRow),
    ) -> Result<pilothouse_domain::Entry, StoreError> {
        let thread = self.state.thread;
        let entry = tx.append(thread, work.cause.clone(), work.time, events)?;
        let mut rows = Watched {
            rows: tx.rows(thread)?,
            seen,
        };
        for event in &entry.events {
            if let LoggedEvent::Known(event) = event {
                project(&mut rows, &self.state, work.time, event);
                apply(&mut self.state, event);
            }
        }
        let summary = summarise(self.summary.as_ref(), &self.state, &entry, &rows);
        tx.put_summary(&summary)?;
        self.summary = Some(summary);
        if entry.seq % STATE_EVERY == 0 {
            tx.put_state(thread, &self.state, &entry.cursor())?;
        }
        Ok(entry)
    }
}

struct Watched<'a, R> {
    rows: R,
    seen: &'a mut dyn FnMut(&ThreadRow),
}

impl<R: Rows> Rows for Watched<'_, R> {
    fn get(&self, key: RowKey) -> Option<ThreadRow> {
        self.rows.get(key)
    }

    fn put(&mut self, row: ThreadRow) {
        (self.seen)(&row);
        self.rows.put(row);
    }
}

fn thread() -> ThreadId {
    ThreadId::from_bytes([9; 16])
}

/// Appends all in batches; what it took, and the largest size that the write-ahead log had.
fn time(work: &[Work], scratch: &Path) -> Result<(Spent, u64)> {
    let dir = tempfile::tempdir_in(scratch)?;
    let mut store = LedgerStore::open(dir.path(), Epoch::from_bytes([1; 16]))?;
    let wal = dir.path().join("ledger.db-wal");
    let copies: Vec<Vec<Event>> = work.iter().map(|work| work.events.clone()).collect();
    let mut batches = work
        .chunks(BATCH)
        .zip(copies.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>());
    let mut growing = Growing::new(thread());
    let (mut largest, mut wall) = (0, Duration::ZERO);
    // Over all batches at once: the system counts a thread's time in ticks.
    let before = measure::thread_cpu()?;
    for (batch, events) in &mut batches {
        let began = Instant::now();
        store.transaction(
            |tx| {
                for (work, events) in batch.iter().zip(events) {
                    growing.append(tx, work, events, &mut |_| {})?;
                }
                Ok::<_, StoreError>(())
            },
            Durability::Lazy,
        )?;
        wall += began.elapsed();
        largest = largest.max(fs::metadata(&wal)?.len());
    }
    let cpu = measure::thread_cpu()?;
    ensure!(
        store.cursor(thread())?.seq == work.len() as u64,
        "not everything was appended"
    );
    let spent = Spent {
        wall: measure::ms(wall),
        cpu: measure::ms(cpu.saturating_sub(before)),
    };
    Ok((spent, largest))
}

/// Writes down what an append does, for the rival: one line an entry.
fn describe(work: &[Work], file: &Path, dir: &Path) -> Result<()> {
    let mut out = BufWriter::new(fs::File::create(file)?);
    let mut store = LedgerStore::open(dir, Epoch::from_bytes([1; 16]))?;
    let mut growing = Growing::new(thread());
    for batch in work.chunks(BATCH) {
        store.transaction::<_, anyhow::Error>(
            |tx| {
                for work in batch {
                    let blobs = bodies(&work.events);
                    let mut rows: Vec<Value> = Vec::new();
                    let mut failed = None;
                    let entry = growing.append(tx, work, work.events.clone(), &mut |row| {
                        match line(row) {
                            Ok(line) => rows.push(line),
                            Err(error) => failed = Some(error),
                        }
                    })?;
                    if let Some(error) = failed {
                        return Err(error);
                    }
                    let state = (entry.seq % STATE_EVERY == 0).then_some(&growing.state);
                    serde_json::to_writer(
                        &mut out,
                        &json!({
                            "time": work.time, "cause": entry.cause, "events": entry.events, "rows": rows,
                            "summary": growing.summary, "state": state, "blobs": blobs,
                        }),
                    )?;
                    out.write_all(b"\n")?;
                }
                Ok(())
            },
            Durability::Lazy,
        )?;
    }
    out.flush()?;
    Ok(())
}

fn bodies(events: &[Event]) -> Vec<String> {
    let mut out = Vec::new();
    for event in events {
        let mut event = event.clone();
        let bodies = match &mut event {
            Event::ItemOpened { item } => item.content.bodies_mut(),
            Event::ItemUpdated { content, .. } => content.bodies_mut(),
            Event::ItemClosed {
                content: Some(content),
                ..
            } => content.bodies_mut(),
            _ => Vec::new(),
        };
        out.extend(
            bodies
                .into_iter()
                .filter_map(|body| body.offload().map(|(_, text)| text.to_owned())),
        );
    }
    out
}

fn line(row: &ThreadRow) -> Result<Value> {
    let key = row.key();
    let position = match row {
        ThreadRow::Item(item) => Some(item.position),
        _ => None,
    };
    Ok(json!({
        "kind": key.kind as u8 + 1, "id": key.id.as_bytes(),
        "run": position.map(|p| p.run), "arrival": position.map(|p| p.arrival), "value": row,
    }))
}

/// What the traced commands saw of the write-ahead log.
#[derive(Deserialize)]
struct Traced {
    /// Beginnings anew while commands were marked.
    resets: usize,
}

/// Syncs of single commands, by strace: of the write-ahead log one each, two where it begins anew.
fn syncs(scratch: &Path) -> Result<Row> {
    const WHAT: &str = "syncs of the log a command, by strace";
    if std::env::var_os("PILOTHOUSE_NO_STRACE").is_some() {
        return Ok(Row::told(
            WHAT,
            "left out, as PILOTHOUSE_NO_STRACE says".into(),
        ));
    }
    let (trace, dir) = (scratch.join("trace"), scratch.join("synced"));
    let mut command = Command::new("strace");
    command
        .args([
            "-f",
            "-y",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,unlink,unlinkat",
            "-o",
        ])
        .arg(&trace)
        .arg(std::env::current_exe()?)
        .args(["child", "commands", "--"])
        .arg(&dir);
    let output = command
        .output()
        .context("starting strace; install it (Debian: strace), or set PILOTHOUSE_NO_STRACE=1 to leave this out")?;
    ensure!(
        output.status.success(),
        "the traced ledger failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let Traced { resets } = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "the traced ledger printed {}",
            String::from_utf8_lossy(&output.stdout)
        )
    })?;
    let Syncs { counts, moves } = read_trace(&fs::read_to_string(&trace)?);
    ensure!(
        counts.len() == COMMANDS,
        "{} commands are in the trace",
        counts.len()
    );
    ensure!(
        resets > 0,
        "the write-ahead log was never begun anew: what that costs was not seen"
    );
    let of = |n: u64| counts.iter().filter(|&&count| count == n).count();
    let more = counts.iter().filter(|&&count| count > 2).count();
    Ok(Row::holds(
        WHAT,
        "1, 2 after a reset of the log",
        format!(
            "{} × 1, {} × 2, {} × 0, {more} × more; {resets} resets of the log, by its header; besides, {moves} moves of it \
             into the database, a sync of each",
            of(1),
            of(2),
            of(0)
        ),
        more == 0 && of(0) == 0 && of(2) <= resets && moves <= resets + 1,
    ))
}

/// What a trace shows.
struct Syncs {
    /// Of the write-ahead log while a command was marked, a number a command.
    counts: Vec<u64>,
    /// Moves of the log into the database: each syncs the log, then the database. They follow a commit, in whosever time.
    moves: usize,
}

fn read_trace(trace: &str) -> Syncs {
    let (mut counts, mut moves, mut inside) = (Vec::<u64>::new(), 0, false);
    // The command that each thread last synced the log for, until it syncs something else.
    let mut last: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    for line in trace.lines() {
        let thread = line.split_whitespace().next().unwrap_or_default();
        if line.contains(MARK) {
            inside = !line.contains("-end");
            if inside {
                counts.push(0);
            }
        } else if line.contains("sync(") && line.contains("ledger.db-wal>") {
            let command = if inside {
                counts.len().checked_sub(1)
            } else {
                None
            };
            if let Some(count) = command.and_then(|command| counts.get_mut(command)) {
                *count += 1;
            }
            last.insert(thread, command);
        } else if line.contains("sync(")
            && line.contains("ledger.db>")
            && let Some(command) = last.remove(thread)
        {
            moves += 1;
            if let Some(count) = command.and_then(|command| counts.get_mut(command)) {
                *count -= 1;
            }
        }
    }
    Syncs { counts, moves }
}

/// Name of a file that is never there: its removal marks a place in the trace.
const MARK: &str = "pilothouse-bench-mark";
/// Commands that are traced.
const COMMANDS: usize = 120;

/// Sends commands one after the other, each marked in the trace; together more than the log may hold, so that it is
/// reset on the way.
pub(crate) fn child(arguments: &[String]) -> Result<Value> {
    let dir = Path::new(arguments.first().context("a directory")?);
    fs::create_dir_all(dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let shape = Shape {
            items: 0,
            longest: 64,
            chatty: false,
            ends: false,
        };
        let author = Author::new(move |_, name| {
            crate::content::turn(&mut crate::rng::Rng::of(SEED, &[]), &shape, name)
        });
        let desk = Desk::open(dir, SEED, author)?;
        let text = crate::content::text(&mut crate::rng::Rng::of(SEED, &[1]), 200_000);
        let mark = |end: &str| drop(fs::remove_file(dir.join(format!("{MARK}{end}"))));
        let database = dir.join("ledger.db");
        let mut resets = 0;
        for _ in 0..COMMANDS / 60 {
            let thread = desk.create("traced").await?;
            desk.send(thread, "begin").await?;
            desk.until(thread, "the turn to run", |state| {
                state
                    .active
                    .as_ref()
                    .is_some_and(|run| run.status == pilothouse_domain::RunStatus::Running)
            })
            .await?;
            for n in 0..60 {
                let before = measure::wal_beginning(&database)?;
                mark("");
                desk.send(thread, &format!("{n} {text}")).await?;
                mark("-end");
                resets += usize::from(measure::wal_beginning(&database)? != before);
            }
        }
        Ok(json!({"resets": resets}))
    })
}
