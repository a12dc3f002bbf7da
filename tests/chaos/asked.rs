//! What a request asks, as a device shows it, and the command that answers it.

use crate::story::Choice;
use pilothouse_domain::{
    Answer, CommandBody, Subject,
    request::{OptionEffect, QuestionReply},
};
use serde_json::Value;

/// The name that a request's subject carries, e.g. `m3.1`.
pub(crate) fn request_name(subject: &str) -> Option<String> {
    let at = ["do m", "which for m"]
        .iter()
        .find_map(|before| Some(subject.find(before)? + before.len() - 1))?;
    let rest = &subject[at..];
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

/// The command that answers a request as shown, the request's name and what is chosen in fact.
pub(crate) fn answer_of(row: &Value, choice: Choice) -> Option<(CommandBody, String, Choice)> {
    let subject = row["subject"].as_str()?;
    let name = request_name(subject)?;
    let read: Subject = serde_json::from_str(subject).ok()?;
    let (answer, choice) = if let Some(question) = read.questions.first() {
        let choice = if choice == Choice::Cancel {
            Choice::No
        } else {
            choice
        };
        let word = format!(": {}", choice.word());
        let chosen = question
            .choices
            .iter()
            .find(|offered| offered.label.ends_with(&word))?;
        let reply = QuestionReply {
            question: question.id.clone(),
            chosen: vec![chosen.label.clone()],
            text: None,
        };
        let answer = Answer::Reply {
            replies: vec![reply],
        };
        (answer, choice)
    } else {
        let of = |choice: Choice| {
            read.options.iter().find(|option| match choice {
                Choice::Yes => option.effect.allows(),
                Choice::No => option.effect == OptionEffect::Deny,
                Choice::Cancel => option.effect == OptionEffect::DenyAndStop,
            })
        };
        let (option, choice) = match of(choice) {
            Some(option) => (option, choice),
            None => (of(Choice::No)?, Choice::No),
        };
        let answer = Answer::Choose {
            option: option.id.clone(),
            note: None,
        };
        (answer, choice)
    };
    let body = CommandBody::RequestAnswer {
        request: row["request"].as_str()?.parse().ok()?,
        content_hash: row["hash"].as_str()?.parse().ok()?,
        answer,
    };
    Some((body, name, choice))
}
