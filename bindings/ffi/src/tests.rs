//! Writes down what batches make of a list, by the engine's own `apply`: the vectors that the Kotlin applier is tested
//! against (bindings/kotlin/src/test/resources/batches.txt). `UPDATE_GOLDEN=1` writes the file anew.

use pilothouse_domain::{HostId, ItemId, ItemStatus, ThreadId, row::WaitingCounts};
use pilothouse_engine::{
    AppendText, ListOp, RowContent, RowText, ThreadHeader, TimelineBatch, TimelineRow,
};
use std::{fmt::Write as _, path::Path};

const CASES: u64 = 40;
const BATCHES: u64 = 10;
const HEAD: &str = "\
# What batches make of a timeline, by the engine itself. Written by the tests of bindings/ffi, read by DifferTest.kt.
# A text stands after its colon up to the end of the line.
#   case SEED              an empty list
#   batch | reset          a batch begins, without or with a reset
#   + INDEX ID FROM BYTES :TEXT    insert        ~ …  update        - INDEX  remove
#   & ID AT :TEXT          text appended
#   = ID FROM BYTES :TEXT  a row of the list after the batch, in order; `.` ends it
";

/// Numerical Recipes' generator: the same numbers everywhere, for ever.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Up to eight characters of one to four UTF-8 bytes.
    fn text(&mut self) -> String {
        let count = self.below(9);
        let letters = ['a', 'b', ' ', 'é', '€', '😀'];
        (0..count)
            .map(|_| letters[usize::try_from(self.below(6)).unwrap_or(0)])
            .collect()
    }

    /// Mostly inside a list of this length, sometimes beyond it.
    fn index(&mut self, len: usize) -> u32 {
        u32::try_from(self.below(len as u64 + 2)).unwrap_or(0)
    }
}

fn id(number: u64) -> ItemId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ItemId::from_bytes(bytes)
}

fn number(id: ItemId) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

fn row(numbers: &mut Numbers, next: &mut u64) -> TimelineRow {
    *next += 1;
    let text = numbers.text();
    let from = if numbers.below(3) == 0 {
        numbers.below(20)
    } else {
        0
    };
    let bytes = from + text.len() as u64 + if numbers.below(4) == 0 { 7 } else { 0 };
    TimelineRow {
        id: id(*next),
        position: None,
        run: None,
        node: None,
        status: ItemStatus::Open,
        content: RowContent::AssistantMessage,
        text: RowText {
            text,
            from,
            bytes,
            ..RowText::default()
        },
        opened_at_ms: 0,
        closed_at_ms: None,
        anomaly: None,
        pending: false,
        delivery: None,
    }
}

fn batch(numbers: &mut Numbers, next: &mut u64, held: &[TimelineRow]) -> TimelineBatch {
    let reset = numbers.below(8) == 0;
    let mut rows = if reset { Vec::new() } else { held.to_vec() };
    let mut ops = Vec::new();
    for _ in 0..numbers.below(5) {
        let index = numbers.index(rows.len());
        let op = match numbers.below(if rows.is_empty() { 1 } else { 4 }) {
            0 | 1 => ListOp::Insert {
                index,
                row: row(numbers, next),
            },
            2 => ListOp::Update {
                index,
                row: row(numbers, next),
            },
            _ => ListOp::Remove { index },
        };
        op.apply(&mut rows);
        ops.push(op);
    }
    let mut texts = Vec::new();
    for _ in 0..numbers.below(4) {
        let known = (!rows.is_empty())
            .then(|| &rows[usize::from(numbers.index(rows.len()) as u8) % rows.len()]);
        // Sometimes a row that is not there, any more or at all.
        let (id, end) = known.filter(|_| numbers.below(6) > 0).map_or_else(
            || (id(numbers.below(*next + 2)), 0),
            |row| (row.id, row.text.from + row.text.text.len() as u64),
        );
        let at = match numbers.below(4) {
            0 => end + numbers.below(6),
            1 => end.saturating_sub(numbers.below(6)),
            _ => end,
        };
        texts.push(AppendText {
            id,
            at,
            text: numbers.text(),
        });
    }
    TimelineBatch {
        reset,
        ops,
        texts,
        header: header(),
    }
}

fn header() -> ThreadHeader {
    ThreadHeader {
        host: HostId::default(),
        thread: ThreadId::default(),
        title: String::new(),
        workspace: None,
        selection: None,
        lineage: None,
        rolling_back: None,
        usage: None,
        limits: Vec::new(),
        active: None,
        last_run: None,
        queue: Vec::new(),
        queue_revision: 0,
        held: None,
        waiting: WaitingCounts::default(),
        affordances: None,
        outstanding: 0,
        read_only: None,
        synchronised: false,
        older: false,
        cursor: None,
        digest: None,
    }
}

fn words(row: &TimelineRow) -> String {
    let text = &row.text;
    format!(
        "{} {} {} :{}",
        number(row.id),
        text.from,
        text.bytes,
        text.text
    )
}

fn vectors() -> Result<String, std::fmt::Error> {
    let mut out = HEAD.to_owned();
    for seed in 0..CASES {
        let mut numbers = Numbers(seed);
        let mut next = 0;
        let mut rows = Vec::new();
        writeln!(out, "case {seed}")?;
        for _ in 0..BATCHES {
            let batch = batch(&mut numbers, &mut next, &rows);
            writeln!(out, "{}", if batch.reset { "reset" } else { "batch" })?;
            for op in &batch.ops {
                match op {
                    ListOp::Insert { index, row } => writeln!(out, "+ {index} {}", words(row))?,
                    ListOp::Update { index, row } => writeln!(out, "~ {index} {}", words(row))?,
                    ListOp::Remove { index } => writeln!(out, "- {index}")?,
                }
            }
            for text in &batch.texts {
                writeln!(out, "& {} {} :{}", number(text.id), text.at, text.text)?;
            }
            batch.apply(&mut rows);
            for row in &rows {
                writeln!(out, "= {}", words(row))?;
            }
            writeln!(out, ".")?;
        }
    }
    Ok(out)
}

#[test]
fn the_vectors_for_the_kotlin_applier_are_what_the_engine_does() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../kotlin/src/test/resources/batches.txt");
    let made = vectors().expect("a string takes everything");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "{} is not what the engine does (if the change is meant: UPDATE_GOLDEN=1)",
        path.display()
    );
}
