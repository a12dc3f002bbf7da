//! A request in full: everything that is asked, nothing cut, nothing hidden, and how to answer it.

use super::words;
use crate::client::{
    style::{Style, Tone},
    text::{behind, neutral, one_line, reveal, since},
};
use pilothouse_domain::{
    item::FileAction,
    request::{OptionEffect, Question, RequestOption, RiskHint},
};
use pilothouse_engine::{ChangeRow, InboxRow, InboxState, SubjectRow};
use std::fmt::Write as _;

/// The whole request for a person. `id` is the beginning of its id that `answer` takes.
pub(crate) fn render(asked: &InboxRow, id: &str, now_ms: u64, style: Style) -> String {
    let mut out = String::new();
    let what = if asked.kind.is_question() {
        "QUESTION"
    } else {
        "APPROVAL"
    };
    let head = format!("{what}  to {}", words::kind(asked.kind));
    let _ = writeln!(
        out,
        "{}   waits {}   {}",
        style.paint(Tone::Waits, &head),
        since(now_ms, asked.opened_at_ms),
        style.paint(Tone::Strong, id)
    );
    let place = format!(
        "{} › {} › {}",
        one_line(&asked.host_name, 40),
        one_line(asked.workspace.as_str(), 40),
        one_line(&asked.thread_title, 60)
    );
    let _ = writeln!(out, "  {}", style.paint(Tone::Dim, &place));
    if let InboxState::Sending { answer, on_host } = &asked.state {
        let how_far = if *on_host {
            "the host has it; the agent has not confirmed it yet"
        } else {
            "saved here; the host has not confirmed it yet"
        };
        let line = format!(
            "an answer is on its way ({}): {how_far}",
            words::answer(answer)
        );
        let _ = writeln!(out, "  {}", style.paint(Tone::Waits, &line));
    }
    if let Some(why) = &asked.refused {
        let _ = writeln!(
            out,
            "  {}",
            style.paint(
                Tone::Bad,
                &format!(
                    "this device's last answer was not taken: {}",
                    one_line(why, 200)
                )
            )
        );
    }
    if !asked.online {
        let _ = writeln!(
            out,
            "  {}",
            style.paint(
                Tone::Dim,
                "the host is not connected: as last seen; an answer is saved and sent later"
            )
        );
    }
    if asked.asked_before > 0 {
        let _ = writeln!(out, "  asked again: {} times before", asked.asked_before);
    }
    if let Some(expires) = asked.expires_at_ms {
        let _ = writeln!(out, "  expires in {}", since(expires, now_ms));
    }
    let mut judged = Judged {
        style,
        out: &mut out,
        marked: 0,
        padded: false,
    };
    judged.subject(&asked.subject);
    if asked.subject.unreadable || !asked.verified {
        judged.block(
            "the request as it came, since this version cannot read or check all of it",
            &asked.raw_subject,
        );
    }
    let Judged { marked, padded, .. } = judged;
    warnings(&mut out, asked, marked, padded, style);
    choices(&mut out, asked, id, style);
    out
}

/// Writes blocks of agent's text and remembers what was wrong with them.
struct Judged<'a> {
    style: Style,
    out: &'a mut String,
    marked: usize,
    padded: bool,
}

impl Judged<'_> {
    fn subject(&mut self, subject: &SubjectRow) {
        if let Some(command) = &subject.command {
            self.block("command", command);
        }
        if let Some(cwd) = &subject.cwd {
            self.block("in directory", cwd);
        }
        for change in &subject.changes {
            self.change(change);
        }
        if !subject.reach.is_empty() {
            self.block("reaches", &subject.reach.join("\n"));
        }
        if let Some(text) = &subject.text {
            self.block("text", text);
        }
        if let Some(reason) = &subject.reason {
            self.block("the agent says (its own words, not checked)", reason);
        }
        for (index, question) in subject.questions.iter().enumerate() {
            self.question(index + 1, question);
        }
    }

    fn block(&mut self, label: &str, text: &str) {
        let revealed = reveal(text);
        self.marked += revealed.marked;
        self.padded |= revealed.padded;
        let _ = writeln!(self.out, "  {}", self.style.paint(Tone::Dim, label));
        self.out
            .push_str(&behind("  │ ", &revealed.text, self.style.width));
    }

    fn change(&mut self, change: &ChangeRow) {
        let action = match change.action {
            FileAction::Add => "new file",
            FileAction::Delete => "DELETES file",
            FileAction::Update if change.moved_to.is_some() => "moves and changes file",
            FileAction::Update => "changes file",
        };
        self.block(action, &change.path);
        if let Some(to) = &change.moved_to {
            self.block("to", to);
        }
        let diff = &change.diff;
        if diff.bytes == 0 {
            return;
        }
        if diff.is_whole() {
            self.block("diff", &diff.text);
        } else {
            self.block("diff, only a part of it", &diff.text);
            if let Some(tail) = &diff.tail {
                self.block(
                    &format!(
                        "diff, its end (of {} bytes; the middle is not shown)",
                        diff.bytes
                    ),
                    tail,
                );
            }
        }
    }

    fn question(&mut self, number: usize, question: &Question) {
        let secret = if question.secret {
            " (secret: the answer is not shown)"
        } else {
            ""
        };
        let label = format!(
            "question {number}, {}{secret}",
            one_line(&question.header, 60)
        );
        self.block(&label, &question.text);
        for (index, choice) in question.choices.iter().enumerate() {
            let description = choice
                .description
                .as_deref()
                .map(|text| format!(" — {text}"))
                .unwrap_or_default();
            let revealed = reveal(&format!("{}{description}", choice.label));
            self.marked += revealed.marked;
            self.out.push_str(&behind(
                "  │   ",
                &format!("[{}] {}", index + 1, revealed.text),
                self.style.width,
            ));
        }
        let ways = match (
            question.choices.is_empty(),
            question.multi_select,
            question.free_text,
        ) {
            (true, ..) => "free text",
            (false, false, false) => "choose one",
            (false, true, false) => "choose one or more",
            (false, false, true) => "choose one, or give your own text",
            (false, true, true) => "choose one or more, or give your own text",
        };
        let left = if question.optional {
            "; may be left out"
        } else {
            ""
        };
        let _ = writeln!(
            self.out,
            "  {}",
            self.style.paint(Tone::Dim, &format!("  {ways}{left}"))
        );
    }
}

fn warnings(out: &mut String, asked: &InboxRow, marked: usize, padded: bool, style: Style) {
    let mut lines = Vec::new();
    if !asked.verified {
        lines.push("what is shown could not be checked against what the host would act on: nothing can be approved here".to_owned());
    }
    if asked.subject.incomplete && !asked.hints.contains(&RiskHint::Incomplete) {
        lines.push(words::hint(RiskHint::Incomplete).to_owned());
    }
    if marked > 0 {
        lines.push(format!(
            "{marked} hidden or look-alike characters, shown as ⟨U+…⟩"
        ));
    }
    if padded && !asked.hints.contains(&RiskHint::Padding) {
        lines.push(words::hint(RiskHint::Padding).to_owned());
    }
    for hint in &asked.hints {
        let said_already = (*hint == RiskHint::HiddenCharacters && marked > 0)
            || (*hint == RiskHint::NeedsAnswer && asked.kind.is_question());
        if !said_already {
            lines.push(words::hint(*hint).to_owned());
        }
    }
    for line in lines {
        let _ = writeln!(out, "  {}", style.paint(Tone::Bad, &format!("! {line}")));
    }
}

fn choices(out: &mut String, asked: &InboxRow, id: &str, style: Style) {
    if !asked.subject.options.is_empty() {
        let _ = writeln!(out, "  {}", style.paint(Tone::Dim, "can be answered with"));
    }
    for option in &asked.subject.options {
        let reach = if option.reach.is_empty() {
            String::new()
        } else {
            format!(" — {}", neutral(&option.reach))
        };
        let line = format!(
            "answer {id} {}: {}{} [{}]",
            flag(&asked.subject.options, option)
                .map_or_else(|| one_line(option.id.as_str(), 60), str::to_owned),
            neutral(&option.label),
            reach,
            words::effect(option.effect),
        );
        out.push_str(&behind("    ", &line.replace('\n', " "), style.width));
    }
    if !asked.subject.questions.is_empty() {
        let line = format!(
            "answer {id} with --choose NUMBER=CHOICE or --reply NUMBER=TEXT for each question"
        );
        let _ = writeln!(out, "  {}", style.paint(Tone::Dim, &line));
    }
}

/// How this is refused with the least besides: what `--deny` stands for.
pub(crate) fn refusal(options: &[RequestOption]) -> OptionEffect {
    [OptionEffect::Deny, OptionEffect::DenyAll]
        .into_iter()
        .find(|effect| options.iter().any(|option| option.effect == *effect))
        .unwrap_or(OptionEffect::DenyAndStop)
}

/// The flag of `answer` that picks this option, where one does.
fn flag(all: &[RequestOption], option: &RequestOption) -> Option<&'static str> {
    let first = |effect| {
        all.iter()
            .find(|one| one.effect == effect)
            .is_some_and(|one| one.id == option.id)
    };
    let only = |effect| first(effect) && all.iter().filter(|one| one.effect == effect).count() == 1;
    match option.effect {
        OptionEffect::AllowOnce => only(OptionEffect::AllowOnce).then_some("--allow"),
        OptionEffect::AllowSession => only(OptionEffect::AllowSession).then_some("--allow-session"),
        effect @ (OptionEffect::Deny | OptionEffect::DenyAll) => {
            (refusal(all) == effect && only(effect)).then_some("--deny")
        }
        OptionEffect::DenyAndStop
        | OptionEffect::AllowRule
        | OptionEffect::DenyRule
        | OptionEffect::Other => None,
    }
}

/// One line for a list or for a watched thread.
pub(crate) fn headline(asked: &InboxRow, max: usize) -> String {
    let subject = &asked.subject;
    let paths: Vec<&str> = subject
        .changes
        .iter()
        .map(|change| change.path.as_str())
        .collect();
    if let Some(command) = &subject.command {
        return one_line(command, max);
    }
    if !paths.is_empty() {
        return one_line(&paths.join(", "), max);
    }
    one_line(
        subject
            .questions
            .first()
            .map_or(&asked.title, |question| &question.text),
        max,
    )
}
