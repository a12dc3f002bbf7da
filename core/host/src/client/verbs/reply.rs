//! From what was typed to an answer: options by effect, replies to questions. Never guesses.

use crate::client::{
    failure::{Code, Failure},
    show::{self, words},
    text::one_line,
};
use pilothouse_domain::request::{Answer, OptionEffect, Question, QuestionReply, RequestOption};

/// What a person chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// An option by its id.
    Option(String),
    /// What allows exactly this.
    Allow,
    /// What allows this and the like until the session ends.
    AllowSession,
    /// What refuses.
    Deny,
    /// Replies to questions: (question, text) and (question, label).
    Replies {
        texts: Vec<(String, String)>,
        labels: Vec<(String, String)>,
    },
}

/// The answer that was chosen, if the request offers it.
pub(crate) fn compose(
    choice: &Choice,
    note: Option<&str>,
    options: &[RequestOption],
    questions: &[Question],
) -> Result<Answer, Failure> {
    let option = match choice {
        Choice::Replies { texts, labels } => return replies(texts, labels, questions),
        Choice::Option(id) => options
            .iter()
            .find(|option| option.id.as_str() == id)
            .ok_or_else(|| not_offered(&format!("option `{id}`"), options, questions))?,
        Choice::Allow => only(OptionEffect::AllowOnce, options, questions)?,
        Choice::AllowSession => only(OptionEffect::AllowSession, options, questions)?,
        // Refusing more than this, or stopping, still refuses; the answer says which it was. Never a rule.
        Choice::Deny => only(show::request::refusal(options), options, questions)?,
    };
    Ok(Answer::Choose {
        option: option.id.clone(),
        note: note.map(str::to_owned),
    })
}

fn only<'a>(
    effect: OptionEffect,
    options: &'a [RequestOption],
    questions: &[Question],
) -> Result<&'a RequestOption, Failure> {
    let mut fitting = options.iter().filter(|option| option.effect == effect);
    let first = fitting
        .next()
        .ok_or_else(|| not_offered(&format!("“{}”", words::effect(effect)), options, questions))?;
    if fitting.next().is_some() {
        let failure = Failure::new(
            Code::Usage,
            format!(
                "the request offers several options that {}",
                words::effect(effect)
            ),
        );
        return Err(failure.next(format!("name one by its id: {}", listed(options))));
    }
    Ok(first)
}

fn not_offered(what: &str, options: &[RequestOption], questions: &[Question]) -> Failure {
    let failure = Failure::new(
        Code::Usage,
        format!("the request does not offer {what}; nothing was answered"),
    );
    if !options.is_empty() {
        failure.next(format!("it offers: {}", listed(options)))
    } else if questions.is_empty() {
        failure.next("it offers nothing that can be chosen here; answer it on the host")
    } else {
        failure.next(
            "it asks questions: answer each with --choose NUMBER=CHOICE or --reply NUMBER=TEXT",
        )
    }
}

fn listed(options: &[RequestOption]) -> String {
    options
        .iter()
        .map(|option| {
            format!(
                "{} ({})",
                one_line(option.id.as_str(), 60),
                words::effect(option.effect)
            )
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn replies(
    texts: &[(String, String)],
    labels: &[(String, String)],
    questions: &[Question],
) -> Result<Answer, Failure> {
    if questions.is_empty() {
        return Err(Failure::new(
            Code::Usage,
            "the request asks no question; nothing was answered",
        )
        .next("choose one of its options instead"));
    }
    let mut given: Vec<QuestionReply> = questions
        .iter()
        .map(|question| QuestionReply {
            question: question.id.clone(),
            chosen: Vec::new(),
            text: None,
        })
        .collect();
    for (named, label) in labels {
        let at = find(named, questions)?;
        let label = choice_of(&questions[at], at + 1, label)?;
        if !given[at].chosen.is_empty() && !questions[at].multi_select {
            return Err(Failure::new(
                Code::Usage,
                format!("question {} takes one choice only", at + 1),
            ));
        }
        if !given[at].chosen.contains(&label) {
            given[at].chosen.push(label);
        }
    }
    for (named, text) in texts {
        let at = find(named, questions)?;
        let question = &questions[at];
        if !question.free_text && !question.choices.is_empty() {
            return Err(Failure::new(
                Code::Usage,
                format!("question {} takes no text of your own", at + 1),
            )
            .next(format!("choose: {}", labelled(question))));
        }
        if given[at].text.is_some() {
            return Err(Failure::new(
                Code::Usage,
                format!("question {} is answered twice", at + 1),
            ));
        }
        given[at].text = Some(text.clone());
    }
    // Nothing counts as answered while it is empty; what is optional is left out then.
    let is_empty = |reply: &QuestionReply| {
        let text = reply.text.as_deref();
        reply.chosen.is_empty() && text.is_none_or(|text| text.trim().is_empty())
    };
    let missing = given
        .iter()
        .zip(questions)
        .position(|(reply, question)| is_empty(reply) && !question.optional);
    if let Some(at) = missing {
        let question = &questions[at];
        let next = if question.choices.is_empty() {
            format!("add --reply {}=TEXT", at + 1)
        } else {
            format!("add --choose {}=CHOICE: {}", at + 1, labelled(question))
        };
        return Err(Failure::new(
            Code::Usage,
            format!(
                "question {} ({}) is not answered; nothing was sent",
                at + 1,
                one_line(&question.header, 60)
            ),
        )
        .next(next));
    }
    given.retain(|reply| !is_empty(reply));
    Ok(Answer::Reply { replies: given })
}

/// A question by its id, its number or its heading, in this order.
fn find(named: &str, questions: &[Question]) -> Result<usize, Failure> {
    let by_id = questions.iter().position(|question| question.id == named);
    let by_number = named
        .parse::<usize>()
        .ok()
        .filter(|number| (1..=questions.len()).contains(number))
        .map(|number| number - 1);
    let by_heading = || {
        let mut fitting = questions
            .iter()
            .enumerate()
            .filter(|(_, question)| question.header.eq_ignore_ascii_case(named));
        let first = fitting.next()?.0;
        fitting.next().is_none().then_some(first)
    };
    by_id.or(by_number).or_else(by_heading).ok_or_else(|| {
        Failure::new(
            Code::Usage,
            format!("the request has no question `{named}`; nothing was answered"),
        )
        .next(format!("name one by its number, 1 to {}", questions.len()))
    })
}

/// A choice by its label or its number.
fn choice_of(question: &Question, number: usize, given: &str) -> Result<String, Failure> {
    let by_label = question.choices.iter().find(|choice| choice.label == given);
    let by_number = || {
        given
            .parse::<usize>()
            .ok()
            .and_then(|at| question.choices.get(at.checked_sub(1)?))
    };
    by_label
        .or_else(by_number)
        .map(|choice| choice.label.clone())
        .ok_or_else(|| {
            let failure = Failure::new(
                Code::Usage,
                format!("question {number} has no choice `{given}`; nothing was answered"),
            );
            if question.choices.is_empty() {
                failure.next(format!("it takes text: --reply {number}=TEXT"))
            } else {
                failure.next(format!("choose: {}", labelled(question)))
            }
        })
}

fn labelled(question: &Question) -> String {
    question
        .choices
        .iter()
        .enumerate()
        .map(|(at, choice)| format!("{}={}", at + 1, one_line(&choice.label, 40)))
        .collect::<Vec<_>>()
        .join(", ")
}
