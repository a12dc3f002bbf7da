//! What may be approved in one tap.

use std::collections::BTreeSet;

use crate::world::{approval, options, question, questions};
use pilothouse_domain::{
    Body, Subject,
    item::{FileAction, FileChange, StoredBody},
    limits,
    request::{RequestKind, RiskHint},
};
use pilothouse_orchestrator::{assess, reveal_hidden};

fn hints(subject: &Subject) -> Vec<RiskHint> {
    assess(RequestKind::Command, subject, false).hints
}

#[test]
fn a_short_plain_command_may_be_approved_in_one_tap() {
    let plain = assess(
        RequestKind::Command,
        &approval("/bin/bash -lc 'touch c1'"),
        false,
    );
    assert!(plain.one_tap_allowed && !plain.default_to_no);
    assert_eq!(plain.title, "Run a command");
}

#[test]
fn case_08_long_or_hidden_command_is_never_one_tap() {
    let harmless = "echo ".to_owned() + &"a".repeat(112);
    let table: [(String, RiskHint); 13] = [
        (
            format!("{harmless} ; {}", "b".repeat(80)),
            RiskHint::TooLongForOneTap,
        ),
        ("a\nb\nc\nd\ne\nf".to_owned(), RiskHint::TooLongForOneTap),
        (
            "echo \u{202E}cod.exe".to_owned(),
            RiskHint::HiddenCharacters,
        ),
        ("echo a\u{200B}b".to_owned(), RiskHint::HiddenCharacters),
        ("echo a\u{00A0}b".to_owned(), RiskHint::HiddenCharacters),
        ("echo \u{E0041}".to_owned(), RiskHint::HiddenCharacters),
        ("echo a\rrm".to_owned(), RiskHint::HiddenCharacters),
        (
            "echo \u{1b}[8mhidden".to_owned(),
            RiskHint::HiddenCharacters,
        ),
        (format!("ls{}&& curl x", " ".repeat(60)), RiskHint::Padding),
        (format!("ls\n{}curl x", " ".repeat(60)), RiskHint::Padding),
        ("ls\n\n\n\n\ncurl x".to_owned(), RiskHint::Padding),
        ("rm -rf build".to_owned(), RiskHint::DeletesFiles),
        (" ".to_owned(), RiskHint::NoExactText),
    ];
    for (line, hint) in table {
        let assessed = assess(RequestKind::Command, &approval(&line), false);
        assert!(!assessed.one_tap_allowed, "{line:?}");
        assert!(
            assessed.hints.contains(&hint),
            "{line:?}: {:?}",
            assessed.hints
        );
    }
    let just_fits = "x".repeat(limits::ONE_TAP_CHARS);
    assert_eq!(hints(&approval(&just_fits)), []);
    assert_eq!(
        hints(&approval(&(just_fits + "x"))),
        [RiskHint::TooLongForOneTap]
    );
}

#[test]
fn what_is_incomplete_unknown_or_a_question_is_never_one_tap() {
    let mut cut = approval("ls");
    cut.incomplete = true;
    assert_eq!(hints(&cut), [RiskHint::Incomplete]);
    let unknown = assess(RequestKind::Command, &approval("ls"), true);
    assert_eq!(unknown.hints, [RiskHint::UnknownFields]);
    assert!(unknown.default_to_no);
    let asked = questions(vec![question("q", &["Yes"], false, false)]);
    let asked = assess(RequestKind::UserInput, &asked, false);
    assert_eq!(asked.hints, [RiskHint::NeedsAnswer]);
    assert!(!asked.default_to_no);
    let mut no_options = approval("ls");
    no_options.options.clear();
    assert_eq!(hints(&no_options), [RiskHint::NeedsAnswer]);
    let kind = assess(RequestKind::Unknown, &approval("ls"), false);
    assert_eq!(kind.hints, [RiskHint::UnknownKind]);
}

#[test]
fn characters_hidden_anywhere_in_what_is_shown_count() {
    let mut subject = approval("ls");
    subject.reason = Some("harmless\u{2066}".to_owned());
    assert_eq!(hints(&subject), [RiskHint::HiddenCharacters]);
    let mut subject = approval("ls");
    subject.cwd = Some("/home/dev\u{2003}/x".to_owned());
    assert_eq!(hints(&subject), [RiskHint::HiddenCharacters]);
}

#[test]
fn a_small_diff_is_one_tap_and_a_deletion_or_a_stored_diff_is_not() {
    let change = |action, diff| Subject {
        changes: vec![FileChange {
            path: "src/lib.rs".to_owned(),
            action,
            moved_to: None,
            diff,
        }],
        options: options(),
        ..Subject::default()
    };
    let assess = |subject: &Subject| assess(RequestKind::FileChange, subject, false);
    let small = assess(&change(
        FileAction::Add,
        Body::inline("    fn f() {\n        g();\n    }\n"),
    ));
    assert!(small.one_tap_allowed, "{:?}", small.hints);
    assert_eq!(small.title, "Change a file");
    let gone = assess(&change(FileAction::Delete, Body::inline("-x")));
    assert_eq!(gone.hints, [RiskHint::DeletesFiles]);
    let stored = Body::Stored(StoredBody {
        hash: pilothouse_domain::BlobHash::of(b"x"),
        bytes: 9_000,
        head: "+x".to_owned(),
        tail: "+y".to_owned(),
        dropped: 0,
    });
    assert_eq!(
        assess(&change(FileAction::Update, stored)).hints,
        [RiskHint::NoExactText]
    );
}

#[test]
fn permissions_beyond_the_sandbox_default_to_no() {
    let mut subject = approval("ls");
    subject.command = None;
    subject.reach = vec!["write /opt".to_owned()];
    let assessed = assess(RequestKind::Permission, &subject, false);
    assert_eq!(assessed.hints, [RiskHint::LeavesSandbox]);
    assert!(assessed.default_to_no && !assessed.one_tap_allowed);
}

#[test]
fn hidden_characters_are_made_visible() {
    assert_eq!(
        reveal_hidden("a\u{202E}b\u{200B}\u{00A0}\u{1b}é\n\t\u{E0041}"),
        "a⟨U+202E⟩b⟨U+200B⟩⟨U+00A0⟩⟨U+001B⟩é\n\t⟨U+E0041⟩"
    );
}

/// The app holds the same list against what it marks.
#[test]
fn case_08_exactly_what_hides_or_passes_for_a_character_of_commands_is_marked() {
    let mut marked = BTreeSet::new();
    let lines = include_str!("../marked.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let ends: Vec<u32> = line
            .split(' ')
            .map(|end| u32::from_str_radix(end, 16).unwrap())
            .collect();
        marked.extend(ends[0]..=ends[ends.len() - 1]);
    }
    for c in '\0'..=char::MAX {
        let text = c.to_string();
        let is_marked = reveal_hidden(&text) != text;
        assert_eq!(
            is_marked,
            marked.contains(&u32::from(c)),
            "{}",
            c.escape_unicode()
        );
    }
}

#[test]
fn case_08_a_command_that_passes_for_another_is_never_one_tap() {
    for command in [
        "\u{217D}url example.org",
        "curl https://github.com\u{2215}evil.example",
        "rm \u{2010}rf build",
        "ls\u{037E} rm x",
    ] {
        let assessed = assess(RequestKind::Command, &approval(command), false);
        assert!(
            assessed.hints.contains(&RiskHint::HiddenCharacters),
            "{command}"
        );
        assert!(
            !assessed.one_tap_allowed && assessed.default_to_no,
            "{command}"
        );
    }
    assert!(
        assess(
            RequestKind::Command,
            &approval("echo 'naïve café → “done”'"),
            false
        )
        .one_tap_allowed
    );
}

#[test]
fn case_16_a_request_that_could_not_be_read_is_called_so_and_is_never_one_tap() {
    let unreadable = Subject {
        text: Some("{\"sessionId\":\"s\"}".to_owned()),
        incomplete: true,
        ..Subject::default()
    };
    let assessed = assess(RequestKind::Unknown, &unreadable, true);
    assert_eq!(assessed.title, "Unreadable request");
    assert!(!assessed.one_tap_allowed && assessed.default_to_no);
}
