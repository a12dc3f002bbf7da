//! Text that would deceive.

use crate::client::text::{behind, neutral, one_line, reveal, since, span};

#[test]
fn what_the_core_keeps_from_one_tap_for_its_looks_is_marked() {
    for c in ('\0'..=char::MAX).filter(|&c| pilothouse_engine::is_marked(c)) {
        let shown = reveal(&format!("rm {c}rf"));
        assert_eq!(shown.text, format!("rm ⟨U+{:04X}⟩rf", u32::from(c)));
    }
    assert_eq!(reveal("\u{217D}url a\u{2215}b").marked, 2);
}

#[test]
fn what_draws_nothing_or_moves_things_is_shown_as_its_code_point() {
    for hidden in [
        '\u{0}',
        '\u{7}',
        '\u{1b}',
        '\r',
        '\u{9b}',
        '\u{a0}',
        '\u{ad}',
        '\u{200b}',
        '\u{200d}',
        '\u{202e}',
        '\u{2066}',
        '\u{2800}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{e0041}',
    ] {
        let revealed = reveal(&format!("rm -rf ./build{hidden}gone"));
        assert_eq!(
            revealed.text,
            format!("rm -rf ./build⟨U+{:04X}⟩gone", u32::from(hidden))
        );
        assert_eq!(revealed.marked, 1);
    }
}

#[test]
fn letters_that_pass_for_others_are_shown_as_their_code_points() {
    assert_eq!(
        reveal("\u{441}url https://\u{430}pple.com").text,
        "⟨U+0441⟩url https://⟨U+0430⟩pple.com"
    );
    assert_eq!(reveal("rm \u{ff0d}rf").text, "rm ⟨U+FF0D⟩rf");
    assert_eq!(reveal("git commit -m 'Привет'").marked, 0);
    assert_eq!(reveal("echo 'größer, 日本語, ελληνικά'").marked, 0);
}

#[test]
fn blanks_that_push_the_rest_out_of_sight_are_noticed() {
    assert!(reveal(&format!("echo ok{}; rm -rf ~", " ".repeat(80))).padded);
    assert!(reveal("echo ok\n\n\n\n\nrm -rf ~").padded);
    assert!(!reveal("if true; then\n            echo ok\nfi").padded);
    assert!(!reveal("a\n\nb\n").padded);
}

#[test]
fn prose_keeps_its_emoji_and_loses_its_escapes() {
    assert_eq!(
        neutral("ok ✔\u{fe0f} 👩\u{200d}💻\r\n\u{1b}[2Jgone\u{202e}"),
        "ok ✔\u{fe0f} 👩\u{200d}💻\n⟨U+001B⟩[2Jgone⟨U+202E⟩"
    );
}

#[test]
fn a_title_is_one_line_and_shows_where_it_was_cut() {
    assert_eq!(one_line("a\nb\tc", 20), "a⏎b c");
    assert_eq!(one_line("abcdefghij", 5), "abcd…");
    assert_eq!(one_line("abcdefghij", 0), "abcdefghij");
    assert_eq!(
        one_line("x\u{1b}]0;evil\u{7}", 80),
        "x⟨U+001B⟩]0;evil⟨U+0007⟩"
    );
}

#[test]
fn no_line_of_an_agents_text_can_begin_where_ours_begin() {
    let shown = behind("  │ ", "one\ntwo\n\nfour", None);
    assert_eq!(shown, "  │ one\n  │ two\n  │ \n  │ four\n");
    let long = "x".repeat(50) + "Approved by the host";
    let broken = behind("  │ ", &long, Some(40));
    assert!(
        broken
            .lines()
            .all(|line| line.starts_with("  │ ") && line.chars().count() <= 40),
        "{broken}"
    );
    assert_eq!(
        broken
            .lines()
            .map(|line| line.trim_start_matches("  │ ").trim_start_matches('↳'))
            .collect::<String>(),
        long
    );
}

#[test]
fn spans_are_words_and_never_negative() {
    assert_eq!(span(4_000), "4 s");
    assert_eq!(span(125_000), "2 min 05 s");
    assert_eq!(span(11_220_000), "3 h 07 min");
    assert_eq!(span(187_200_000), "2 d 4 h");
    assert_eq!(since(1_000, 5_000), "0 s");
}
