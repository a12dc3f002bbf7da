//! How fast the golden texts are read, by the one reader and by serde's own code, in turns in one process.
//!
//!     cargo run --release -p pilothouse-plain --example speed
//!
//! A text is read alone, as frames and rows are. Each figure is of the fastest of the rounds, which is the one that was
//! least disturbed by what else the machine did. Values are dropped within the time.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]
#![expect(clippy::expect_used, reason = "golden files are there and read")]

use serde::de::DeserializeOwned;
use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

const ROUNDS: u32 = 300;
/// Times that a round reads every text.
const TIMES: u32 = 20;

fn ours<T: DeserializeOwned>(text: &str) {
    black_box(pilothouse_json::from_str::<T>(black_box(text)).expect("a golden text"));
}

fn theirs<T: DeserializeOwned>(text: &str) {
    black_box(serde_json::from_str::<T>(black_box(text)).expect("a golden text"));
}

fn once(texts: &[String], read: fn(&str)) -> Duration {
    let began = Instant::now();
    for _ in 0..TIMES {
        for text in texts {
            read(text);
        }
    }
    began.elapsed()
}

/// Prints a line, and gives what both took of one reading of every text, ns.
fn compare(name: &str, texts: &[String], ours: fn(&str), theirs: fn(&str)) -> (f64, f64) {
    let (mut own, mut other) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        own = own.min(once(texts, ours));
        other = other.min(once(texts, theirs));
    }
    let each = |took: Duration| took.as_secs_f64() * 1e9 / f64::from(TIMES);
    let bytes: usize = texts.iter().map(String::len).sum();
    line(name, bytes, each(own), each(other));
    (each(own), each(other))
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand bytes")]
fn line(name: &str, bytes: usize, own: f64, other: f64) {
    let speed = |ns: f64| bytes as f64 * 1000.0 / ns;
    println!(
        "{name:18} {bytes:7} {:8.0} {:8.0} {:8.2}",
        speed(own),
        speed(other),
        own / other
    );
}

fn golden(of: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../core")
        .join(of)
}

fn lines(file: &str) -> Vec<String> {
    let text = fs::read_to_string(golden("domain/golden").join(file)).expect("a golden file");
    text.lines().map(str::to_owned).collect()
}

/// As they are sent: without the line breaks of the golden files.
fn messages(side: &str) -> Vec<String> {
    let files = fs::read_dir(golden("wire/golden")).expect("golden files");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let named = |path: &std::path::PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(side))
    };
    let compact = |path| {
        let text = fs::read_to_string(path).expect("a golden file");
        let value: Box<serde_json::value::RawValue> = serde_json::from_str(&text).expect("JSON");
        let lines = value.get().lines().map(|line| {
            let line = line.trim_start();
            line.split_once("\": ")
                .map_or_else(|| line.to_owned(), |(key, rest)| format!("{key}\":{rest}"))
        });
        lines.collect::<String>()
    };
    files.into_iter().filter(named).map(compact).collect()
}

fn main() {
    use pilothouse_domain as own;
    use pilothouse_plain_domain as plain;
    println!(
        "{:18} {:>7} {:>8} {:>8} {:>8}",
        "texts", "bytes", "ours", "serde's", "time"
    );
    println!(
        "{:18} {:>7} {:>8} {:>8} {:>8}",
        "", "", "MB/s", "MB/s", "ratio"
    );
    let (mut sum, mut other) = (0.0, 0.0);
    macro_rules! rows {
        ($($name:literal, $texts:expr, $ours:ty, $theirs:ty;)*) => {
            $(let (a, b) = compare($name, &$texts, ours::<$ours>, theirs::<$theirs>);
            sum += a;
            other += b;)*
        };
    }
    rows! {
        "commands", lines("commands.jsonl"), own::Command, plain::Command;
        "entries", lines("entries.jsonl"), own::Entry, plain::Entry;
        "events", lines("events.jsonl"), own::Event, plain::Event;
        "provider events", lines("provider_events.jsonl"), own::ProviderEvent, plain::ProviderEvent;
        "rows", lines("rows.jsonl"), own::Row, plain::Row;
        "states", lines("state.jsonl"), own::ThreadState, plain::ThreadState;
        "summaries", lines("summaries.jsonl"), own::ThreadSummary, plain::ThreadSummary;
        "a device's frames", messages("device."), pilothouse_wire::message::DeviceMessage, pilothouse_plain_wire::message::DeviceMessage;
        "a host's frames", messages("host."), pilothouse_wire::message::HostMessage, pilothouse_plain_wire::message::HostMessage;
    }
    println!(
        "{:18} {:>7} {:>8} {:>8} {:8.2}",
        "all",
        "",
        "",
        "",
        sum / other
    );
}
