//! A person's answer as the result that codex takes.

use super::{elicitation::Form, options::Decision};
use pilothouse_domain::{Answer, OptionId, Subject, request::QuestionReply};
use serde_json::{Map, Value, json};

/// What a pending request can be answered with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answers {
    /// One of these.
    Decisions(Vec<Decision>),
    /// Replies to questions.
    Questions,
    /// Replies that fill a form, or one of the decisions.
    Form {
        form: Form,
        decisions: Vec<Decision>,
    },
}

impl Answers {
    pub(crate) fn decisions(decisions: Vec<Decision>) -> Self {
        Self::Decisions(decisions)
    }

    /// The result for codex, or what is wrong with the answer.
    pub(crate) fn result(&self, subject: &Subject, answer: &Answer) -> Result<Value, String> {
        match (self, answer) {
            (
                Self::Decisions(decisions) | Self::Form { decisions, .. },
                Answer::Choose { option, note },
            ) => choose(
                decisions,
                option,
                note.as_deref().filter(|note| !note.is_empty()),
            ),
            (Self::Questions, Answer::Reply { replies }) => {
                let mut answers = Map::new();
                for reply in replies {
                    let words = words(subject, reply)?;
                    if !words.is_empty() {
                        answers.insert(reply.question.clone(), json!({"answers": words}));
                    }
                }
                Ok(json!({"answers": answers}))
            }
            (Self::Form { form, .. }, Answer::Reply { replies }) => {
                let mut given = Vec::new();
                for reply in replies {
                    given.push((reply.question.as_str(), words(subject, reply)?));
                }
                Ok(json!({"action": "accept", "content": form.content(&given)?, "_meta": null}))
            }
            (Self::Questions, Answer::Choose { .. }) => {
                Err("questions were asked, not a decision".to_owned())
            }
            (Self::Decisions(_), Answer::Reply { .. }) => {
                Err("a decision was asked for, not words".to_owned())
            }
        }
    }
}

fn choose(decisions: &[Decision], option: &OptionId, note: Option<&str>) -> Result<Value, String> {
    let decision = decisions
        .iter()
        .find(|decision| decision.option.id == *option)
        .ok_or_else(|| {
            let known: Vec<_> = decisions
                .iter()
                .map(|decision| decision.option.id.as_str())
                .collect();
            format!(
                "`{option}` was not offered; there are: {}",
                known.join(", ")
            )
        })?;
    match note {
        None => Ok(decision.result.clone()),
        // The only decision of codex that takes words.
        Some(note) if option.as_str() == "denied" => {
            Ok(json!({"decision": {"denied": {"rejection": note}}}))
        }
        Some(_) => Err("codex takes no words with this decision".to_owned()),
    }
}

/// What was chosen and typed, checked against the question.
fn words(subject: &Subject, reply: &QuestionReply) -> Result<Vec<String>, String> {
    let question = subject
        .questions
        .iter()
        .find(|question| question.id == reply.question)
        .ok_or_else(|| format!("there is no question `{}`", reply.question))?;
    if reply.chosen.len() > 1 && !question.multi_select {
        return Err(format!("only one choice fits `{}`", question.id));
    }
    for label in &reply.chosen {
        if !question.choices.iter().any(|choice| choice.label == *label) {
            // What is said here is shown and kept.
            return Err(if question.secret {
                format!("what was chosen is no choice of `{}`", question.id)
            } else {
                format!("`{label}` is no choice of `{}`", question.id)
            });
        }
    }
    let mut words = reply.chosen.clone();
    if let Some(text) = reply.text.as_ref().filter(|text| !text.is_empty()) {
        if !question.free_text {
            return Err(format!("`{}` takes no text of one's own", question.id));
        }
        words.push(text.clone());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::words;
    use pilothouse_domain::{
        Subject,
        request::{Choice, Question, QuestionReply},
    };

    #[test]
    fn what_was_typed_as_the_label_of_a_secret_question_is_not_repeated() {
        let reply = QuestionReply {
            question: "q".to_owned(),
            chosen: vec!["hunter2".to_owned()],
            text: None,
        };
        for secret in [true, false] {
            let subject = Subject {
                questions: vec![Question {
                    id: "q".to_owned(),
                    header: String::new(),
                    text: "Which one?".to_owned(),
                    choices: vec![Choice {
                        label: "a".to_owned(),
                        description: None,
                    }],
                    multi_select: false,
                    free_text: false,
                    secret,
                }],
                ..Subject::default()
            };
            let problem = words(&subject, &reply).unwrap_err();
            assert_eq!(problem.contains("hunter2"), !secret, "{problem}");
        }
    }
}
