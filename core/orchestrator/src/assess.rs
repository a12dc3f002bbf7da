//! What is to be known before a request is approved: computed by the host, and again by the device, which may only
//! lower it. Never the agent's words: those stand in the subject.

use pilothouse_domain::{
    item::Body,
    item::FileAction,
    limits::{ONE_TAP_CHARS, ONE_TAP_LINES, SUBJECT_TEXT},
    request::{OptionEffect, RequestKind, RiskHint, Subject},
};

/// What is to be known of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// Whether one tap outside the app may approve it.
    pub one_tap_allowed: bool,
    /// Whether the safe default is to refuse.
    pub default_to_no: bool,
    /// Why.
    pub hints: Vec<RiskHint>,
    /// One line for a list.
    pub title: String,
}

/// Assesses a request. `unknown_fields` says that the agent's frame held fields its codec does not know.
pub fn assess(kind: RequestKind, subject: &Subject, unknown_fields: bool) -> Assessment {
    let mut hints = Vec::new();
    let mut note = |hint: RiskHint, applies: bool| {
        if applies && !hints.contains(&hint) {
            hints.push(hint);
        }
    };
    let shown = exact_text(subject);
    let all = all_text(subject);
    note(RiskHint::TooLongForOneTap, is_long(&shown));
    note(
        RiskHint::HiddenCharacters,
        all.iter().any(|text| text.chars().any(is_marked)),
    );
    note(RiskHint::Padding, all.iter().any(|text| is_padded(text)));
    note(RiskHint::Incomplete, subject.incomplete);
    let approvable = subject
        .options
        .iter()
        .any(|option| option.effect == OptionEffect::AllowOnce);
    note(
        RiskHint::NeedsAnswer,
        kind.is_question() || !subject.questions.is_empty() || !approvable,
    );
    note(RiskHint::UnknownKind, kind == RequestKind::Unknown);
    note(RiskHint::UnknownFields, unknown_fields);
    note(
        RiskHint::LeavesSandbox,
        kind == RequestKind::Permission || !subject.reach.is_empty(),
    );
    note(
        RiskHint::DeletesFiles,
        subject
            .changes
            .iter()
            .any(|change| change.action == FileAction::Delete)
            || subject.command.as_deref().is_some_and(deletes),
    );
    note(
        RiskHint::NoExactText,
        !kind.is_question() && !says_exactly(kind, subject),
    );
    let default_to_no = hints
        .iter()
        .any(|hint| !matches!(hint, RiskHint::TooLongForOneTap | RiskHint::NeedsAnswer));
    Assessment {
        one_tap_allowed: hints.is_empty(),
        default_to_no,
        title: title(kind, subject),
        hints,
    }
}

/// The texts that say what would happen and must be read in full before approving.
fn exact_text(subject: &Subject) -> Vec<&str> {
    let mut texts: Vec<&str> = Vec::new();
    texts.extend(subject.command.as_deref());
    for change in &subject.changes {
        texts.push(&change.path);
        texts.extend(change.moved_to.as_deref());
        texts.push(change.diff.preview());
    }
    texts.extend(subject.reach.iter().map(String::as_str));
    texts.extend(subject.text.as_deref());
    if let Some(steps) = &subject.sign_in {
        texts.push(&steps.url);
        texts.extend(steps.code.as_deref());
    }
    texts
}

/// Every text that is shown.
fn all_text(subject: &Subject) -> Vec<&str> {
    let mut texts = exact_text(subject);
    texts.extend(subject.cwd.as_deref());
    texts.extend(subject.reason.as_deref());
    for option in &subject.options {
        texts.push(&option.label);
        texts.push(&option.reach);
    }
    for question in &subject.questions {
        texts.push(&question.header);
        texts.push(&question.text);
        texts.extend(question.choices.iter().map(|choice| choice.label.as_str()));
    }
    texts
}

fn is_long(texts: &[&str]) -> bool {
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
    chars > ONE_TAP_CHARS || lines > ONE_TAP_LINES
}

/// Whether the subject says what exactly would happen. A diff kept by hash is not in the text that was hashed in full.
fn says_exactly(kind: RequestKind, subject: &Subject) -> bool {
    let size: usize = exact_text(subject).iter().map(|text| text.len()).sum();
    let inline = subject
        .changes
        .iter()
        .all(|change| matches!(change.diff, Body::Inline(_)));
    let something = match kind {
        RequestKind::Command => subject
            .command
            .as_deref()
            .is_some_and(|command| !command.trim().is_empty()),
        RequestKind::FileChange | RequestKind::ApplyPatch => !subject.changes.is_empty(),
        _ => size > 0,
    };
    something && inline && size <= SUBJECT_TEXT
}

/// Whether a command's words name a program that deletes. A hint for its reader, not a proof of anything.
fn deletes(command: &str) -> bool {
    command
        .split(|c: char| {
            c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '\'' | '"' | '`')
        })
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .any(|word| matches!(word, "rm" | "rmdir" | "unlink" | "shred" | "-delete"))
}

/// Long runs of blanks that could push text out of sight (CASES 8). Indentation is allowed more than gaps.
fn is_padded(text: &str) -> bool {
    const GAP: usize = 12;
    const INDENT: usize = 40;
    const EMPTY_LINES: usize = 4;
    let mut empty = 0;
    for line in text.lines() {
        if line.trim().is_empty() {
            empty += 1;
            if empty >= EMPTY_LINES || line.chars().count() >= INDENT {
                return true;
            }
            continue;
        }
        empty = 0;
        // A diff's own mark is not part of the line.
        let line = line.strip_prefix(['+', '-', ' ']).unwrap_or(line);
        let mut run = 0;
        let mut indented = true;
        for c in line.chars() {
            if c == ' ' || c == '\t' {
                run += 1;
            } else {
                if run >= if indented { INDENT } else { GAP } {
                    return true;
                }
                run = 0;
                indented = false;
            }
        }
        if run >= INDENT {
            return true;
        }
    }
    false
}

/// Whether a reader cannot see the character, or would take it for a space: control characters (but not line feed and
/// tab), zero-width and direction characters, and spaces that are not a space.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{00A0}'
        | '\u{00AD}'
        | '\u{034F}'
        | '\u{061C}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{1680}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{2000}'..='\u{200F}'
        | '\u{2028}'..='\u{202F}'
        | '\u{205F}'..='\u{206F}'
        | '\u{2800}'
        | '\u{3000}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF9}'..='\u{FFFC}'
        | '\u{16FE4}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D159}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        _ => false,
    }
}

/// Whether a reader would take the character for one that commands are made of: a Roman numeral for a letter, signs for a
/// slash, a hyphen, a colon. Not for letters of other scripts and full-width forms, which whole texts are written in.
fn is_look_alike(c: char) -> bool {
    matches!(
        c,
        '\u{01C0}'
            | '\u{01C3}'
            | '\u{037E}'
            | '\u{0589}'
            | '\u{2010}'..='\u{2012}'
            | '\u{2024}'
            | '\u{2039}'..='\u{203A}'
            | '\u{2043}'..='\u{2044}'
            | '\u{204E}'
            | '\u{2160}'..='\u{2188}'
            | '\u{2212}'
            | '\u{2215}'..='\u{2217}'
            | '\u{2223}'
            | '\u{2236}'
            | '\u{223C}'
            | '\u{29F5}'
            | '\u{29F8}'
            | '\u{A789}'..='\u{A78A}'
            | '\u{FE50}'..='\u{FE6B}'
    )
}

/// Whether the character stands as its code point in a text that is to be judged: it is hidden, or passes for another.
pub fn is_marked(c: char) -> bool {
    is_hidden(c) || is_look_alike(c)
}

/// The text with every character that is hidden or passes for another made visible, e.g. `⟨U+202E⟩`.
pub fn reveal_hidden(text: &str) -> String {
    use std::fmt::Write;
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_marked(c) {
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn title(kind: RequestKind, subject: &Subject) -> String {
    let counted = |n: usize, one: &str, many: &str| match n {
        1 => one.to_owned(),
        n => format!("{n} {many}"),
    };
    match kind {
        RequestKind::Command => "Run a command".to_owned(),
        RequestKind::FileRead => "Read files".to_owned(),
        RequestKind::FileChange | RequestKind::ApplyPatch => match subject.changes.len() {
            0 => "Change files".to_owned(),
            n => format!("Change {}", counted(n, "a file", "files")),
        },
        RequestKind::Permission => "More permissions".to_owned(),
        RequestKind::Tool => "Use a tool".to_owned(),
        RequestKind::Plan => "Carry out a plan".to_owned(),
        RequestKind::UserInput => match subject.questions.len() {
            0 | 1 => "Answer a question".to_owned(),
            n => format!("Answer {n} questions"),
        },
        RequestKind::Auth => "Sign in".to_owned(),
        RequestKind::Elicitation => "Give details".to_owned(),
        RequestKind::Unknown if subject.incomplete => "Unreadable request".to_owned(),
        RequestKind::Unknown => "Something this version cannot show".to_owned(),
    }
}
