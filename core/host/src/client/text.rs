//! Text from agents and hosts made fit for a terminal: nothing in it can move the cursor, hide, reorder what stands
//! around it, or pass for a line of ours.
//!
//! Two degrees. [`reveal`] is for what is judged (a command, a diff): everything that draws nothing or looks like
//! something else is shown as its code point. [`neutral`] is for prose and output: only what a terminal would act on.

use std::fmt::Write as _;

use pilothouse_engine::is_marked;

/// A text to be judged, with all that could deceive the eye made visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revealed {
    /// What is shown.
    pub(crate) text: String,
    /// How many characters had to be made visible.
    pub(crate) marked: usize,
    /// Whether blanks push part of it out of sight.
    pub(crate) padded: bool,
}

/// Marks hidden characters and letters that pass for others.
pub(crate) fn reveal(raw: &str) -> Revealed {
    let mut text = String::with_capacity(raw.len());
    let mut marked = 0;
    for (at, c) in raw.char_indices() {
        if hides(c) || is_marked(c) || looks_alike(raw, at, c) {
            mark(&mut text, c);
            marked += 1;
        } else {
            text.push(c);
        }
    }
    Revealed {
        text,
        marked,
        padded: is_padded(raw),
    }
}

/// Makes prose or output safe to print; lines stay lines. Joined emoji and variation selectors stay as they are.
pub(crate) fn neutral(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' | '\u{a0}' | '\u{202f}' => text.push(c),
            c if hides(c) => mark(&mut text, c),
            c => text.push(c),
        }
    }
    text
}

/// One line of at most `max` characters, for lists and headings; what is cut is shown as cut.
pub(crate) fn one_line(raw: &str, max: usize) -> String {
    let revealed = reveal(raw).text;
    let mut line = String::new();
    for (length, c) in revealed.chars().enumerate() {
        if length + 1 >= max && max > 0 {
            line.push('…');
            return line;
        }
        line.push(if c == '\n' {
            '⏎'
        } else if c == '\t' {
            ' '
        } else {
            c
        });
    }
    line
}

fn mark(text: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = write!(text, "⟨U+{:04X}⟩", u32::from(c));
}

/// Draws nothing, or moves what is around it. Fillers and variation selectors are letters or marks to Unicode.
fn hides(c: char) -> bool {
    match c {
        '\n' | '\t' | ' ' => false,
        c if c.is_control() => true,
        c => matches!(u32::from(c),
            0xA0 | 0xAD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x1680 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x2000..=0x200F | 0x2028..=0x202F | 0x205F..=0x206F | 0x2800 | 0x3000 | 0x3164
            | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
            | 0xE000..=0xF8FF | 0xE0000..=0xE0FFF | 0xF0000..=0x10_FFFF),
    }
}

/// A letter of another script inside a word with Latin letters, or a full-width form of an ASCII character.
fn looks_alike(text: &str, at: usize, c: char) -> bool {
    if matches!(u32::from(c), 0xFF01..=0xFF5E) {
        return true;
    }
    if !passes_for_latin(c) {
        return false;
    }
    let ends = |c: char| c.is_whitespace() || "/'\"=:;|&()".contains(c);
    let before = text[..at].chars().rev().take_while(|&c| !ends(c));
    let after = text[at..].chars().take_while(|&c| !ends(c));
    before.chain(after).any(|c| c.is_ascii_alphabetic())
}

/// Letters of scripts with shapes like Latin ones: Greek, Coptic, Cyrillic, Armenian, Cherokee, Lisu, mathematical letters.
fn passes_for_latin(c: char) -> bool {
    c.is_alphabetic()
        && matches!(u32::from(c),
            0x0370..=0x03FF | 0x0400..=0x052F | 0x0531..=0x0588 | 0x10A0..=0x10FF | 0x13A0..=0x13FF | 0x1C80..=0x1C8F
            | 0x1F00..=0x1FFF | 0x2C80..=0x2CFF | 0x2DE0..=0x2DFF | 0xA4D0..=0xA4FF | 0xA640..=0xA69F | 0xAB70..=0xABBF
            | 0x1D400..=0x1D7FF)
}

/// Runs of blanks that push the rest out of sight; indentation at the beginning of a line is none.
fn is_padded(text: &str) -> bool {
    let mut blank_lines = 0;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            blank_lines += 1;
            continue;
        }
        if blank_lines >= 3 && index > blank_lines {
            return true;
        }
        blank_lines = 0;
        let inner = line.trim();
        let mut run = 0;
        for c in inner.chars() {
            run = if c == ' ' || c == '\t' { run + 1 } else { 0 };
            if run >= 8 {
                return true;
            }
        }
    }
    false
}

/// Puts every line behind `gutter`, and breaks lines at `width` columns (if given) so that a terminal cannot break them
/// itself and let the rest of a line of the agent's begin where ours begin.
pub(crate) fn behind(gutter: &str, text: &str, width: Option<usize>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let room = width.map(|columns| columns.saturating_sub(gutter.chars().count()).max(16));
    for line in text.split('\n') {
        out.push_str(gutter);
        let mut column = 0;
        for c in line.chars() {
            let c = if c == '\t' { ' ' } else { c };
            let wide = columns(c);
            if room.is_some_and(|room| column + wide > room) {
                out.push('\n');
                out.push_str(gutter);
                out.push('↳');
                column = 1;
            }
            out.push(c);
            column += wide;
        }
        out.push('\n');
    }
    out
}

/// Columns that a terminal surely does not exceed for this character.
pub(crate) fn columns(c: char) -> usize {
    if u32::from(c) < 0x1100 { 1 } else { 2 }
}

/// A span of time for a person: `4 s`, `2 min 05 s`, `3 h 07 min`, `2 d 4 h`.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// How long ago something was, by this device's clock; clocks of two machines may differ, so never negative.
pub(crate) fn since(now_ms: u64, then_ms: u64) -> String {
    span(now_ms.saturating_sub(then_ms))
}
