//! A watched thread as running text: batches in, lines out. What was printed is never printed again, so it reads the same
//! on a terminal, in a pipe and in a file.

use super::{item, request, words};
use crate::client::{
    style::{Style, Tone},
    text::{behind, columns, neutral, one_line, since},
};
use pilothouse_domain::{
    ContentHash, ItemId, ItemStatus, RequestId, RequestStatus, RunStatus, run::BlockedOn,
    thread::Delivery,
};
use pilothouse_engine::{InboxRow, RowContent, ThreadHeader, TimelineBatch, TimelineRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Lines of one command's output that are shown as they come; the rest is counted.
const OUTPUT_LINES: usize = 200;
const INDENT: &str = "  ";

/// A thread as it has been told so far.
pub(crate) struct Live {
    style: Style,
    rows: Vec<TimelineRow>,
    header: Option<ThreadHeader>,
    shown: BTreeMap<ItemId, Shown>,
    /// The item whose lines come last in the output.
    current: Option<ItemId>,
    flow: Flow,
    requests: BTreeSet<(RequestId, ContentHash)>,
    standing: String,
}

/// What was printed of an item.
#[derive(Default)]
struct Shown {
    heading: String,
    details: String,
    /// The streamed text printed so far, and where in the whole it begins.
    printed: String,
    printed_from: u64,
    lines: usize,
    ended: bool,
}

impl Live {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            rows: Vec::new(),
            header: None,
            shown: BTreeMap::new(),
            current: None,
            flow: Flow::new(style.width),
            requests: BTreeSet::new(),
            standing: String::new(),
        }
    }

    /// Whether the output ends with a whole line, so that something can be put below it.
    pub(crate) fn at_line_start(&self) -> bool {
        self.flow.column == 0
    }

    /// Takes a batch and gives what is to be printed.
    pub(crate) fn timeline(&mut self, batch: &TimelineBatch) -> String {
        let mut touched: Vec<ItemId> = Vec::new();
        for op in &batch.ops {
            if let pilothouse_engine::ListOp::Insert { row, .. }
            | pilothouse_engine::ListOp::Update { row, .. } = op
            {
                touched.push(row.id);
            }
        }
        touched.extend(batch.texts.iter().map(|append| append.id));
        batch.apply(&mut self.rows);
        let mut out = String::new();
        let mut done = BTreeSet::new();
        for id in touched {
            if done.insert(id)
                && let Some(at) = self.rows.iter().position(|row| row.id == id)
            {
                let row = self.rows[at].clone();
                self.row(&row, &mut out);
            }
        }
        self.header = Some(batch.header.clone());
        self.standing(&mut out);
        out
    }

    /// Takes what waits in this thread and gives what is to be printed: each request once, in full.
    pub(crate) fn inbox(
        &mut self,
        rows: &[InboxRow],
        short: impl Fn(RequestId) -> String,
        now_ms: u64,
    ) -> String {
        let mut out = String::new();
        for row in rows {
            if self.requests.insert((row.request, row.content_hash)) {
                self.close_line(&mut out);
                self.current = None;
                out.push_str(&request::render(
                    &watched(row),
                    &short(row.request),
                    now_ms,
                    self.style,
                ));
            }
        }
        out
    }

    fn row(&mut self, row: &TimelineRow, out: &mut String) {
        let key = key(row);
        let heading = item::heading(row, self.style);
        let details = item::details(row);
        let mut shown = self.shown.remove(&key);
        let first = shown.is_none();
        let state = shown.get_or_insert_with(Shown::default);
        let changed = first || (state.heading != heading && heading_matters(row));
        let new_heading = changed && !is_told_by_its_card(row);
        if new_heading {
            self.line(&heading, out);
            self.current = Some(key);
        }
        state.heading = heading;
        if state.details != details && !details.is_empty() {
            self.heading_again(key, &state.heading, out);
            out.push_str(&coloured(
                &behind(INDENT, details.trim_end_matches('\n'), self.style.width),
                row,
                self.style,
            ));
        }
        state.details = details;
        let text = fresh(state, row);
        if !text.is_empty() {
            self.heading_again(key, &state.heading, out);
            let text = limited(state, row, &text);
            out.push_str(&self.flow.push(&neutral(&text)));
        }
        if !state.ended
            && !matches!(row.status, ItemStatus::Open)
            && let Some(ending) = item::ending(row, self.style)
        {
            self.heading_again(key, &state.heading, out);
            self.close_line(out);
            let _ = writeln!(out, "{INDENT}{ending}");
        }
        if !matches!(row.status, ItemStatus::Open) {
            state.ended = true;
            if self.current == Some(key) {
                self.close_line(out);
            }
        }
        if let Some(state) = shown {
            self.shown.insert(key, state);
        }
    }

    /// Says again whose lines follow, if something else was printed in between.
    fn heading_again(&mut self, key: ItemId, heading: &str, out: &mut String) {
        if self.current != Some(key) {
            self.line(
                &format!("{heading} {}", self.style.paint(Tone::Dim, "(goes on)")),
                out,
            );
            self.current = Some(key);
        }
    }

    fn line(&mut self, line: &str, out: &mut String) {
        self.close_line(out);
        out.push_str(line);
        out.push('\n');
    }

    fn close_line(&mut self, out: &mut String) {
        if self.flow.column > 0 {
            out.push('\n');
            self.flow.column = 0;
        }
    }

    /// A line whenever the thread's standing has changed.
    fn standing(&mut self, out: &mut String) {
        let Some(header) = &self.header else { return };
        let standing = standing(header);
        if standing.is_empty() || standing == self.standing {
            return;
        }
        let tone = standing_tone(header);
        let line = self.style.paint(tone, &format!("— {standing}"));
        self.standing = standing;
        if self.flow.column > 0 {
            // It breaks into a line: what goes on after it says again whose words they are.
            self.current = None;
        }
        self.line(&line, out);
    }

    /// The line at the bottom of a terminal: what runs and for how long, what waits and since when.
    pub(crate) fn bottom(&self, now_ms: u64) -> Option<String> {
        let header = self.header.as_ref()?;
        let mut parts = Vec::new();
        if let Some(active) = &header.active {
            let time = active
                .since_ms
                .map(|ms| format!(" for {}", since(now_ms, ms)))
                .unwrap_or_default();
            parts.push(format!(
                "{}{time}",
                words::run(active.status, active.blocked_on)
            ));
        }
        for row in &self.rows {
            if let Some(what) = item::acting(row) {
                parts.push(format!("{what} ({})", since(now_ms, row.opened_at_ms)));
            }
        }
        if !header.queue.is_empty() {
            parts.push(format!("{} queued", header.queue.len()));
        }
        if header.outstanding > 0 {
            parts.push(format!("{} not confirmed by the host", header.outstanding));
        }
        if !header.synchronised {
            parts.push("not up to date: connecting".to_owned());
        }
        if parts.is_empty() {
            return None;
        }
        Some(self.style.paint(
            Tone::Dim,
            &one_line(&parts.join(" · "), self.style.width.unwrap_or(80)),
        ))
    }

    /// Whether nothing runs or waits to run, and the device surely knows.
    pub(crate) fn is_idle(&self) -> bool {
        self.header.as_ref().is_some_and(is_idle)
    }

    /// How the last run ended, if one did.
    pub(crate) fn last_status(&self) -> Option<RunStatus> {
        self.header.as_ref()?.last_run.map(|run| run.status)
    }
}

/// A request as a watcher is shown it: how the link stands is told in lines of its own.
pub(crate) fn watched(row: &InboxRow) -> InboxRow {
    InboxRow {
        online: true,
        ..row.clone()
    }
}

/// Whether nothing runs or waits to run, and the device surely knows.
pub(crate) fn is_idle(header: &ThreadHeader) -> bool {
    header.synchronised
        && header.outstanding == 0
        && header.active.is_none()
        && (header.queue.is_empty() || header.held.is_some())
        && header.waiting == pilothouse_domain::row::WaitingCounts::default()
}

/// A predicted row has its message's id, the real one an item's: both are the same message to a reader.
fn key(row: &TimelineRow) -> ItemId {
    match &row.content {
        RowContent::UserMessage {
            message: Some(message),
            ..
        } => ItemId::from_bytes(*message.as_bytes()),
        _ => row.id,
    }
}

/// A message's way to the agent is told by the thread's standing, unless it went wrong.
fn heading_matters(row: &TimelineRow) -> bool {
    match &row.content {
        RowContent::UserMessage { .. } => matches!(
            row.delivery,
            Some(Delivery::Failed { .. } | Delivery::Unknown)
        ),
        _ => true,
    }
}

/// A request that waits is shown in full where it comes in; its item tells what became of it.
fn is_told_by_its_card(row: &TimelineRow) -> bool {
    match &row.content {
        RowContent::Approval { asked, .. } | RowContent::Question { asked, .. } => asked
            .as_ref()
            .is_none_or(|asked| asked.status == RequestStatus::Pending),
        _ => false,
    }
}

/// The part of a row's text that was not printed yet.
fn fresh(shown: &mut Shown, row: &TimelineRow) -> String {
    let text = &row.text;
    let printed_to = shown.printed_from + shown.printed.len() as u64;
    if row.status.is_live() {
        let end = text.from + text.text.len() as u64;
        if end <= printed_to {
            return String::new();
        }
        if text.from <= printed_to {
            let known = usize::try_from(printed_to - text.from).unwrap_or(usize::MAX);
            let new = text.text.get(known..).unwrap_or_default().to_owned();
            if shown.printed.is_empty() {
                shown.printed_from = printed_to;
            }
            shown.printed.push_str(&new);
            return new;
        }
        let skipped = text.from - printed_to;
        shown.printed_from = text.from;
        shown.printed = text.text.clone();
        return format!("[{skipped} bytes are not shown]\n{}", text.text);
    }
    if shown.ended {
        // Closed again by the agent after we had closed it: only a text that differs is worth a second look.
        let same = text.bytes == printed_to;
        shown.printed.clear();
        shown.printed_from = text.bytes;
        return if same {
            String::new()
        } else {
            format!("\n[final text]\n{}", item::part(text))
        };
    }
    let new = closing_text(shown, row);
    // The text itself is not needed any more, only its length.
    shown.printed = String::new();
    shown.printed_from = text.bytes;
    new
}

/// At the close, the final text replaces what was streamed: the rest of it, or all of it where it differs.
fn closing_text(shown: &Shown, row: &TimelineRow) -> String {
    let text = &row.text;
    let printed_to = shown.printed_from + shown.printed.len() as u64;
    if shown.printed.is_empty() && shown.printed_from == 0 {
        return item::part(text);
    }
    if text.is_whole() {
        let from = usize::try_from(shown.printed_from).unwrap_or(usize::MAX);
        if let Some(rest) = text
            .text
            .get(from..)
            .and_then(|rest| rest.strip_prefix(shown.printed.as_str()))
        {
            return rest.to_owned();
        }
    } else if text.bytes == printed_to {
        return String::new();
    } else if text.bytes > printed_to && shown.printed.starts_with(&text.text) {
        let tail = text.tail.as_deref().unwrap_or_default();
        let missing = text.bytes - printed_to;
        let shown_of_tail = usize::try_from(missing).unwrap_or(usize::MAX);
        if let Some(rest) = tail
            .len()
            .checked_sub(shown_of_tail)
            .and_then(|from| tail.get(from..))
        {
            return rest.to_owned();
        }
        return format!(
            "\n[{} bytes are not shown]\n{tail}",
            missing.saturating_sub(tail.len() as u64)
        );
    }
    format!("\n[final text]\n{}", item::part(text))
}

/// A flood of output is counted, not printed.
fn limited(shown: &mut Shown, row: &TimelineRow, text: &str) -> String {
    if !matches!(row.content, RowContent::Command { .. }) {
        return text.to_owned();
    }
    let room = OUTPUT_LINES.saturating_sub(shown.lines);
    let before = shown.lines;
    shown.lines += text.matches('\n').count();
    if shown.lines <= OUTPUT_LINES {
        return text.to_owned();
    }
    let mut out: String = text.split_inclusive('\n').take(room).collect();
    if before <= OUTPUT_LINES {
        out.push_str("[more output, not shown here]\n");
    }
    out
}

/// Colours the lines of a diff.
fn coloured(lines: &str, row: &TimelineRow, style: Style) -> String {
    if !style.colour || !matches!(row.content, RowContent::FileChange { .. }) {
        return lines.to_owned();
    }
    let mut out = String::new();
    for line in lines.lines() {
        let tone = match line.trim_start().as_bytes().first() {
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            _ => Tone::Dim,
        };
        let _ = writeln!(out, "{}", style.paint(tone, line));
    }
    out
}

/// How a thread stands, in one line without times.
pub(crate) fn standing(header: &ThreadHeader) -> String {
    let mut parts = Vec::new();
    if header.active.as_ref().is_some_and(|active| active.pending) {
        parts.push("waits for the host".to_owned());
    } else if let Some(active) = &header.active {
        let ordinal = active
            .ordinal
            .map(|ordinal| format!(" {ordinal}"))
            .unwrap_or_default();
        let stop = if active.interrupting {
            ", asked to stop"
        } else {
            ""
        };
        parts.push(format!(
            "run{ordinal} {}{stop}",
            words::run(active.status, active.blocked_on)
        ));
    } else if let Some(last) = &header.last_run {
        parts.push(format!(
            "run {} {}",
            last.ordinal,
            words::run(last.status, BlockedOn::None)
        ));
    }
    if !header.queue.is_empty() {
        parts.push(format!("{} queued", header.queue.len()));
    }
    if let Some(reason) = header.held
        && !header.queue.is_empty()
    {
        parts.push(format!("the queue is held: {}", words::held(reason)));
    }
    if let Some(reason) = &header.read_only {
        parts.push(format!("read-only: {}", one_line(reason, 200)));
    }
    parts.join(" · ")
}

fn standing_tone(header: &ThreadHeader) -> Tone {
    match (&header.active, &header.last_run) {
        (Some(active), _) => words::run_tone(active.status, active.blocked_on),
        (None, Some(last)) => words::run_tone(last.status, BlockedOn::None),
        (None, None) => Tone::Dim,
    }
}

/// Prose in columns: every line is indented, and broken at a blank before the terminal would break it.
struct Flow {
    width: Option<usize>,
    column: usize,
}

impl Flow {
    fn new(width: Option<usize>) -> Self {
        Self { width, column: 0 }
    }

    fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            if c == '\n' {
                out.push('\n');
                self.column = 0;
                continue;
            }
            let c = if c == '\t' { ' ' } else { c };
            if let Some(width) = self.width {
                let late = self.column + 14 > width && c == ' ';
                if late || self.column + columns(c) > width {
                    out.push('\n');
                    self.column = 0;
                    if late {
                        continue;
                    }
                }
            }
            if self.column == 0 {
                out.push_str(INDENT);
                self.column = INDENT.len();
            }
            out.push(c);
            self.column += columns(c);
        }
        out
    }
}
