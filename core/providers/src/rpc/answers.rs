//! A person's answer as the result that the agent takes.

use super::{budget, form::Form};
use pilothouse_domain::{
    Answer, OptionId, Subject,
    request::{OptionEffect, QuestionReply, RequestOption},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// An option and what is sent if it is chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    /// As a person sees it.
    pub(crate) option: RequestOption,
    /// The result that goes to the agent.
    pub(crate) result: Value,
    /// Where in the result a person's words stand, as a JSON pointer, if the agent takes words with it.
    pub(crate) words_at: Option<&'static str>,
}

impl Decision {
    /// A decision that takes no words.
    pub(crate) fn new(
        id: &str,
        label: &str,
        effect: OptionEffect,
        reach: &str,
        result: Value,
    ) -> Self {
        Self {
            option: RequestOption {
                id: OptionId::from(id),
                label: label.to_owned(),
                effect,
                reach: reach.to_owned(),
            },
            result,
            words_at: None,
        }
    }

    /// Bytes that it holds beside itself.
    fn bytes(&self) -> usize {
        let option = &self.option;
        let words = [option.id.as_str(), &option.label, &option.reach];
        let words = words.iter().map(|word| budget::block(word.len()));
        size_of::<Self>() + words.sum::<usize>() + budget::json(&self.result)
    }

    /// Whether this version does not know what it does.
    pub(crate) fn is_unknown(&self) -> bool {
        self.option.effect == OptionEffect::Other
    }
}

/// What a pending request can be answered with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answers {
    /// One of these.
    Decisions(Vec<Decision>),
    /// Replies to questions.
    Questions,
    /// Replies to questions as one list of words for each, in their order, or one of the decisions.
    Lists(Vec<Decision>),
    /// The same, which goes back within the input that asked.
    Within {
        input: Value,
        decisions: Vec<Decision>,
    },
    /// Replies that fill a form, or one of the decisions.
    Form {
        form: Form,
        decisions: Vec<Decision>,
    },
}

impl Answers {
    /// The options that a person sees, in order.
    pub(crate) fn options(&self) -> Vec<RequestOption> {
        match self {
            Self::Questions => Vec::new(),
            Self::Decisions(decisions)
            | Self::Lists(decisions)
            | Self::Within { decisions, .. }
            | Self::Form { decisions, .. } => decisions
                .iter()
                .map(|decision| decision.option.clone())
                .collect(),
        }
    }

    /// Bytes of what is kept to be sent back.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Questions => 0,
            Self::Decisions(decisions) | Self::Lists(decisions) => {
                decisions.iter().map(Decision::bytes).sum()
            }
            Self::Within { input, decisions } => {
                budget::json(input) + decisions.iter().map(Decision::bytes).sum::<usize>()
            }
            Self::Form { form, decisions } => {
                form.bytes() + decisions.iter().map(Decision::bytes).sum::<usize>()
            }
        }
    }

    /// The result for the agent, or what is wrong with the answer.
    pub(crate) fn result(&self, subject: &Subject, answer: &Answer) -> Result<Value, String> {
        match (self, answer) {
            (
                Self::Decisions(decisions)
                | Self::Lists(decisions)
                | Self::Within { decisions, .. }
                | Self::Form { decisions, .. },
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
            (Self::Lists(_) | Self::Within { .. }, Answer::Reply { replies }) => {
                let mut given = BTreeMap::new();
                for reply in replies {
                    given.insert(reply.question.as_str(), words(subject, reply)?);
                }
                let lists: Vec<_> = subject
                    .questions
                    .iter()
                    .map(|question| given.remove(question.id.as_str()).unwrap_or_default())
                    .collect();
                if lists.iter().all(Vec::is_empty) {
                    return Err("nothing was answered".to_owned());
                }
                Ok(json!({ "answers": lists }))
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
    let mut result = decision.result.clone();
    let Some(note) = note else { return Ok(result) };
    match decision.words_at.and_then(|at| result.pointer_mut(at)) {
        Some(words) => {
            *words = json!(note);
            Ok(result)
        }
        None => Err("the agent takes no words with this decision".to_owned()),
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
    if let Some(text) = reply.text.as_ref().filter(|text| !text.trim().is_empty()) {
        if !question.free_text {
            return Err(format!("`{}` takes no text of one's own", question.id));
        }
        words.push(text.clone());
    }
    Ok(words)
}

/// Words as a line for a shell: quoted where they hold anything that a shell would read otherwise.
pub(crate) fn shell_line(words: &[String]) -> String {
    words
        .iter()
        .map(|word| {
            let plain = !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_alphanumeric() || "-_./:=@%+,".contains(c));
            if plain {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
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
                    optional: false,
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
