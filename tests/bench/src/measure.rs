//! What the operating system and SQLite's own files say of work that was done.

use anyhow::{Context as _, Result, ensure};
use std::{collections::BTreeMap, fs, io::Read as _, path::Path, time::Duration};

/// Bytes of a database page.
pub(crate) const PAGE: u64 = 4096;

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

fn status(pid: &str, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    field(&text, name).with_context(|| format!("{path} has no {name}"))
}

/// Resident memory of a process, bytes.
pub(crate) fn rss(pid: u32) -> Result<u64> {
    Ok(status(&pid.to_string(), "VmRSS:")? * 1024)
}

/// Resident memory that a process has filled itself, bytes: without the program's file, whose size is the build's.
pub(crate) fn own_pages(pid: u32) -> Result<u64> {
    Ok(status(&pid.to_string(), "RssAnon:")? * 1024)
}

/// Resident memory of this process, bytes.
pub(crate) fn own_rss() -> Result<u64> {
    Ok(status("self", "VmRSS:")? * 1024)
}

/// Begins to note this process's peak of resident memory anew.
pub(crate) fn reset_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("resetting the peak of memory")
}

/// This process's peak of resident memory, bytes.
pub(crate) fn own_peak() -> Result<u64> {
    Ok(status("self", "VmHWM:")? * 1024)
}

/// Bytes that this process has read by system calls, whether they came from a disk or from the page cache.
pub(crate) fn own_reads() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("reading /proc/self/io")?;
    field(&text, "rchar:").context("/proc/self/io has no rchar")
}

/// Bytes that this process has moved by system calls, read and written.
pub(crate) fn own_moved() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("reading /proc/self/io")?;
    let of = |name| field(&text, name).with_context(|| format!("/proc/self/io has no {name}"));
    Ok(of("rchar:")? + of("wchar:")?)
}

/// Processor time that a process has used, ended threads included; counted in ticks of 10 ms.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold spaces; what follows it does not.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> = rest
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    ensure!(fields.len() > 12, "/proc/{pid}/stat is cut");
    Ok(Duration::from_millis(10 * (fields[11] + fields[12])))
}

/// How often each thread of a process was switched to because it had waited for something.
pub(crate) fn wake_ups(pid: u32) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        // A thread that ends meanwhile has no file any more.
        if let Ok(text) = fs::read_to_string(task.path().join("status")) {
            let count = field(&text, "voluntary_ctxt_switches:").unwrap_or(0);
            all.insert(task.file_name().to_string_lossy().into_owned(), count);
        }
    }
    Ok(all)
}

/// Wake-ups between two looks, of the threads that there are; a thread that has ended counts as one.
pub(crate) fn woken(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> u64 {
    let lived: u64 = after
        .iter()
        .map(|(task, count)| count - before.get(task).copied().unwrap_or(0).min(*count))
        .sum();
    let ended = before
        .keys()
        .filter(|task| !after.contains_key(*task))
        .count();
    lived + ended as u64
}

/// Processor time that this thread has used. What other processes do does not add to it, unlike to a wall clock.
pub(crate) fn thread_cpu() -> Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let spent = text.split_whitespace().next().and_then(|n| n.parse().ok());
    spent
        .map(Duration::from_nanos)
        .context("/proc/thread-self/schedstat cannot be read")
}

/// What stands in a write-ahead log, by its format (sqlite.org/fileformat2.html#walformat): frames since its last
/// beginning, and those of them that end a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wal {
    pub(crate) pages: u64,
    pub(crate) commits: u64,
    /// Bytes of the file, old frames included.
    pub(crate) bytes: u64,
    /// Which beginning; another one means that the log was begun anew.
    pub(crate) salt: u64,
}

/// Bytes of a log's header.
const WAL_HEADER: usize = 32;

fn open_wal(database: &Path) -> Result<fs::File> {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    fs::File::open(&path).with_context(|| format!("opening {}", Path::new(&path).display()))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(four)
}

fn salts(header: &[u8]) -> (u32, u32) {
    (word(header, 16), word(header, 20))
}

fn one_salt((first, second): (u32, u32)) -> u64 {
    (u64::from(first) << 32) | u64::from(second)
}

/// Which beginning of the write-ahead log this is: another number means that it was begun anew.
pub(crate) fn wal_beginning(database: &Path) -> Result<u64> {
    let mut header = [0; WAL_HEADER];
    open_wal(database)?
        .read_exact(&mut header)
        .context("reading the header of the write-ahead log")?;
    Ok(one_salt(salts(&header)))
}

/// Reads the write-ahead log beside a database.
pub(crate) fn wal(database: &Path) -> Result<Wal> {
    let mut bytes = Vec::new();
    open_wal(database)?.read_to_end(&mut bytes)?;
    let word = |at: usize| word(&bytes, at);
    let mut found = Wal {
        bytes: bytes.len() as u64,
        ..Wal::default()
    };
    if bytes.len() < WAL_HEADER {
        return Ok(found);
    }
    let page = word(8) as usize;
    let salts = salts(&bytes);
    found.salt = one_salt(salts);
    let mut at = WAL_HEADER;
    while at + 24 + page <= bytes.len() && (word(at + 8), word(at + 12)) == salts {
        found.pages += 1;
        found.commits += u64::from(word(at + 4) > 0);
        at += 24 + page;
    }
    Ok(found)
}

/// The value that a part of all values does not exceed: 0.5 is the median.
pub(crate) fn quantile<T: PartialOrd + Copy>(values: &mut [T], part: f64) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let last = values.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place among a few thousand values"
    )]
    let at = (part * last as f64).round() as usize;
    values.get(at).copied()
}

/// Milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Megabytes, 10⁶ bytes.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Mebibytes.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
