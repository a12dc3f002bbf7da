//! The fixtures: ledgers written by the product itself (commands, effects, an agent's events, ingest, append) from a
//! seed, and kept under `target/bench-fixtures` until the generator, the seed or the log's format changes.

use crate::{
    agent::Author,
    content::{self, Shape},
    desk::Desk,
    rng::Rng,
};
use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use pilothouse_domain::{Epoch, ThreadId, entry::LOG_FORMAT};
use pilothouse_store::{LedgerReader, LedgerStore};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Raise it when what is generated changes.
const GENERATOR: u32 = 3;
/// The seed of every fixture.
pub(crate) const SEED: u64 = 20_261_130;
/// Threads made at a time.
const AT_ONCE: usize = 256;

/// Which fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Name {
    /// Half of [`Self::S`]: for growth tests.
    Xs,
    /// One thread of 200 turns, 12 MB.
    S,
    /// One thread of 1,000 turns and 20,000 items, 105 MB.
    L,
    /// 500 threads.
    Few,
    /// 50,000 threads.
    Many,
    /// One thread of 170,000 items and more than 600,000 entries.
    Deep,
    /// A turn of 22,000 items that still runs.
    A,
    /// One thread of 10,000 turns, 1 GB.
    Huge,
    /// Half of [`Self::L`]: for growth tests.
    Half,
}

/// What was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Made {
    /// The thread that is measured.
    pub(crate) thread: ThreadId,
    /// Entries of its log.
    pub(crate) entries: u64,
    /// Items of it.
    pub(crate) items: u64,
    /// Bytes of its log: events and bodies kept by hash.
    pub(crate) log_bytes: u64,
    /// Bytes of the database.
    pub(crate) file_bytes: u64,
    /// Threads in the ledger.
    pub(crate) threads: u64,
}

/// A fixture that is there.
#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub(crate) dir: PathBuf,
    pub(crate) made: Made,
}

impl Fixture {
    pub(crate) fn reader(&self) -> Result<LedgerReader> {
        LedgerReader::open(&self.dir).with_context(|| format!("opening {}", self.dir.display()))
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.made.thread
    }

    /// Of its log, for people.
    pub(crate) fn megabytes(&self) -> u64 {
        self.made.log_bytes.div_ceil(1_000_000)
    }

    /// Of its log, for ratios.
    #[expect(clippy::cast_precision_loss, reason = "sizes of megabytes")]
    pub(crate) fn log_mb(&self) -> f64 {
        self.made.log_bytes as f64 / 1e6
    }

    /// A copy that may be written to.
    pub(crate) fn copy(&self, to: &Path) -> Result<()> {
        fs::create_dir_all(to)?;
        fs::copy(self.dir.join("ledger.db"), to.join("ledger.db"))?;
        Ok(())
    }
}

fn folder(root: &Path, name: Name) -> PathBuf {
    root.join(format!("{name:?}-g{GENERATOR}-s{SEED}-f{LOG_FORMAT}").to_lowercase())
}

/// What the documentation says of a fixture: log, MB; items of all its threads; threads.
fn documented(name: Name) -> (f64, u64, u64) {
    match name {
        Name::Xs => (5.5, 1_100, 1),
        Name::S => (11.8, 2_200, 1),
        Name::Half => (54.5, 10_000, 1),
        Name::L => (105.9, 20_000, 1),
        Name::Huge => (1_059.0, 200_000, 1),
        Name::Few => (0.89, 200, 500),
        Name::Many => (88.7, 20_000, 50_000),
        Name::Deep => (256.0, 170_000, 1),
        Name::A => (35.5, 22_000, 1),
    }
}

/// Share by which a fixture may differ from what is documented.
const TOLERANCE: f64 = 0.05;

/// Checks that a fixture is as large as its rows say.
#[expect(clippy::cast_precision_loss, reason = "sizes of megabytes")]
fn as_documented(name: Name, made: &Made) -> Result<()> {
    let (megabytes, items, threads) = documented(name);
    let near = |is: f64, said: f64| (is / said - 1.0).abs() <= TOLERANCE;
    ensure!(
        near(made.log_bytes as f64 / 1e6, megabytes)
            && near(made.items as f64, items as f64)
            && made.threads == threads,
        "fixture {name:?} has a log of {:.2} MB, {} items and {} threads; documented are {megabytes} MB, {items} and \
         {threads}",
        made.log_bytes as f64 / 1e6,
        made.items,
        made.threads,
    );
    ensure!(
        name != Name::Deep || made.entries > 600_000,
        "fixture {name:?} has {} entries, more than 600,000 are documented",
        made.entries
    );
    Ok(())
}

/// The fixture, made in a process of its own if it is not there; as large as [`documented`] within 5 %.
pub(crate) fn get(root: &Path, name: Name) -> Result<Fixture> {
    let dir = folder(root, name);
    if !dir.join("made.json").exists() {
        eprintln!("making fixture {name:?} …");
        let status = Command::new(std::env::current_exe()?)
            .arg("--fixtures")
            .arg(root)
            .arg("make")
            .arg(format!("{name:?}").to_lowercase())
            .status()?;
        ensure!(status.success(), "fixture {name:?} could not be made");
        // A writer that was killed leaves its log behind, which every reader would have to go through first.
        let db = rusqlite::Connection::open(dir.join("ledger.db"))?;
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    let made =
        fs::read(dir.join("made.json")).with_context(|| format!("reading {}", dir.display()))?;
    let made: Made = serde_json::from_slice(&made)?;
    as_documented(name, &made)?;
    Ok(Fixture { made, dir })
}

fn shape(name: Name) -> (u64, Shape) {
    let plain = Shape {
        items: 19,
        longest: 32 * 1024,
        chatty: false,
        ends: true,
    };
    match name {
        Name::Xs => (100, Shape { items: 10, ..plain }),
        Name::S => (200, Shape { items: 10, ..plain }),
        Name::Half => (500, plain),
        Name::L => (1_000, plain),
        Name::Huge => (10_000, plain),
        Name::Few | Name::Many => (
            1,
            Shape {
                items: 3,
                longest: 2_048,
                ..plain
            },
        ),
        Name::Deep => (
            170,
            Shape {
                items: 1_000,
                longest: 1_024,
                chatty: true,
                ends: true,
            },
        ),
        Name::A => (
            1,
            Shape {
                items: 22_000,
                longest: 4_096,
                chatty: false,
                ends: false,
            },
        ),
    }
}

/// Makes a fixture in this process, which has to end afterwards.
pub(crate) fn make(root: &Path, name: Name) -> Result<()> {
    let dir = folder(root, name);
    let part = dir.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir_all(&part)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (turns, shape) = shape(name);
    let thread = runtime.block_on(write(&part, name, turns, shape))?;
    // Moves the write-ahead log into the database, as the last connection that closes does.
    let mut store = LedgerStore::open(&part, Epoch::from_bytes([1; 16]))?;
    store.checkpoint()?;
    drop(store);
    let made = describe(&part, thread)?;
    fs::write(part.join("made.json"), serde_json::to_vec_pretty(&made)?)?;
    let _ = fs::remove_dir_all(&dir);
    fs::rename(&part, &dir)?;
    Ok(())
}

async fn write(dir: &Path, name: Name, turns: u64, shape: Shape) -> Result<ThreadId> {
    let author = Author::new(move |_, turn| {
        let number = turn.rsplit('-').next().and_then(|n| n.parse().ok());
        let mut rng = Rng::of(SEED, &[name as u64, number.unwrap_or(0)]);
        content::turn(&mut rng, &shape, turn)
    });
    let desk = Desk::open(dir, SEED ^ name as u64, author)?;
    let count: u64 = match name {
        Name::Few => 500,
        Name::Many => 50_000,
        _ => 1,
    };
    let threads: Vec<ThreadId> = stream::iter(0..count)
        .map(|n| {
            let desk = &desk;
            async move {
                desk.create(&format!("thread {n}: a title as people write them"))
                    .await
            }
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let first = *threads.first().context("a thread")?;
    // In a large ledger most threads are old and short; every tenth has a run.
    let (speak, skip) = if count == 1 { (1, 1) } else { (count / 10, 10) };
    for thread in threads.iter().step_by(skip).take(usize::try_from(speak)?) {
        desk.talk(*thread, turns).await?;
    }
    let last = *threads
        .iter()
        .step_by(skip)
        .take(usize::try_from(speak)?)
        .next_back()
        .context("a thread")?;
    if shape.ends {
        desk.until(last, "the last turn to end", |state| {
            state.active.is_none() && state.queue.is_empty()
        })
        .await?;
        desk.ledger.shutdown().await;
    } else {
        // Left as a host leaves it that is killed: the turn still runs.
        desk.until(last, "the last item", |state| {
            state.next_arrival > shape.items && state.items.is_empty()
        })
        .await?;
        std::mem::forget(desk);
        // The lock goes with this process; the database is whole after every commit.
        fs::remove_file(dir.join("ledger.lock"))?;
    }
    Ok(first)
}

fn describe(dir: &Path, thread: ThreadId) -> Result<Made> {
    let db = rusqlite::Connection::open(dir.join("ledger.db"))?;
    let one = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
    };
    Ok(Made {
        thread,
        entries: one("SELECT max(seq) FROM threads")?,
        items: one("SELECT count(*) FROM rows WHERE kind = 5")?,
        log_bytes: one(
            "SELECT sum(octet_length(events) + octet_length(cause) + length(hashes)) FROM entries",
        )? + one("SELECT coalesce(sum(bytes), 0) FROM blobs")?,
        file_bytes: fs::metadata(dir.join("ledger.db"))?.len(),
        threads: one("SELECT count(*) FROM threads WHERE seq > 0")?,
    })
}
