//! What a person says. An answer to a request: first wins, to exactly what was shown, or refused with what became of it.
//! A message: whether it can be sent at all.

use crate::{
    assess::is_hidden,
    decide::{Deciding, invalid},
};
use pilothouse_domain::{
    Answer, ContentHash, DeviceId, EffectKind, Event, Refusal, RequestId, RequestStatus, Subject,
    limits,
    refusal::{ClosedAs, StaleWhat},
    request::{Question, QuestionReply, Respondability},
    thread::Attachment,
};

/// What stands in the log for a secret.
pub const MASK: &str = "•••";

pub(crate) fn decide_answer(
    deciding: &mut Deciding<'_>,
    device: DeviceId,
    request: RequestId,
    content_hash: ContentHash,
    answer: &Answer,
) -> Result<(), Refusal> {
    let Some(row) = &deciding.lookups.request else {
        return Err(Refusal::UnknownRequest { request });
    };
    let gone = |status| Refusal::NotRespondable { request, status };
    match &row.status {
        RequestStatus::Pending => {}
        RequestStatus::Answering { answer, by, at_ms } => {
            return Err(Refusal::AlreadyAnswered {
                request,
                by: Some(*by),
                answer: Some(answer.clone()),
                at_ms: *at_ms,
            });
        }
        RequestStatus::Answered {
            answer, by, at_ms, ..
        } => {
            return Err(Refusal::AlreadyAnswered {
                request,
                by: *by,
                answer: answer.clone(),
                at_ms: *at_ms,
            });
        }
        RequestStatus::Withdrawn => return Err(gone(ClosedAs::Withdrawn)),
        RequestStatus::Expired => return Err(gone(ClosedAs::Expired)),
        RequestStatus::Lost { .. } => return Err(gone(ClosedAs::Lost)),
    }
    if matches!(row.respondability, Respondability::NotResumable { .. }) {
        return Err(gone(ClosedAs::Lost));
    }
    if row.content_hash != content_hash {
        return Err(Refusal::Stale {
            what: StaleWhat::Content {
                now: row.content_hash,
            },
        });
    }
    let subject: Subject = pilothouse_json::from_str(&row.subject).unwrap_or_default();
    check_answer(&subject, answer)?;
    deciding.draft.emit(Event::RequestAnswering {
        request,
        answer: masked(&subject.questions, answer),
        by: device,
        command: deciding.command.id,
    });
    deciding.draft.effect(
        deciding.command.id.derive("effect"),
        EffectKind::Respond {
            request,
            answer: answer.clone(),
        },
    );
    Ok(())
}

fn check_answer(subject: &Subject, answer: &Answer) -> Result<(), Refusal> {
    match answer {
        Answer::Choose { option, .. } => {
            if subject.options.iter().any(|offered| offered.id == *option) {
                return Ok(());
            }
            let offered: Vec<_> = subject.options.iter().map(|o| o.id.as_str()).collect();
            Err(invalid(
                "option",
                format!(
                    "`{option}` is not offered (there are: {})",
                    offered.join(", ")
                ),
            ))
        }
        Answer::Reply { replies } => {
            if subject.questions.is_empty() {
                return Err(invalid("replies", "the request asks no question"));
            }
            for question in &subject.questions {
                let mut own = replies.iter().filter(|reply| reply.question == question.id);
                let Some(reply) = own.next() else {
                    if question.optional {
                        continue;
                    }
                    return Err(invalid(
                        "replies",
                        format!("question `{}` is not answered", question.id),
                    ));
                };
                if own.next().is_some() {
                    return Err(invalid(
                        "replies",
                        format!("question `{}` is answered twice", question.id),
                    ));
                }
                check_reply(question, reply)?;
            }
            match replies
                .iter()
                .find(|reply| !subject.questions.iter().any(|q| q.id == reply.question))
            {
                Some(stray) => Err(invalid(
                    "replies",
                    format!("there is no question `{}`", stray.question),
                )),
                None => Ok(()),
            }
        }
    }
}

fn check_reply(question: &Question, reply: &QuestionReply) -> Result<(), Refusal> {
    let wrong = |problem: String| {
        Err(invalid(
            "replies",
            format!("question `{}`: {problem}", question.id),
        ))
    };
    let text = reply.text.as_deref().unwrap_or("");
    let open = question.free_text || question.choices.is_empty();
    if question.optional && reply.chosen.is_empty() && text.trim().is_empty() {
        return Ok(());
    }
    if reply.chosen.iter().all(|label| label.trim().is_empty()) && text.trim().is_empty() {
        return wrong("nothing was chosen or written, which is no answer".to_owned());
    }
    if !text.trim().is_empty() && !open {
        return wrong("it takes no words of one's own".to_owned());
    }
    let offered = |label: &String| question.choices.iter().any(|c| c.label == *label);
    if let Some(label) = reply.chosen.iter().find(|label| !offered(label))
        && !open
    {
        // A refusal is shown and kept.
        return wrong(if question.secret {
            "what was chosen is not offered".to_owned()
        } else {
            format!("`{label}` is not offered")
        });
    }
    if reply.chosen.len() > 1 && !question.multi_select {
        return wrong("only one may be chosen".to_owned());
    }
    Ok(())
}

/// The answer as it may stand in a log or on a screen: words given to a secret question, or to one that is not among
/// these, are not in it.
pub fn masked(questions: &[Question], answer: &Answer) -> Answer {
    let Answer::Reply { replies } = answer else {
        return answer.clone();
    };
    let replies = replies
        .iter()
        .map(|reply| {
            let question = questions.iter().find(|q| q.id == reply.question);
            if question.is_some_and(|question| !question.secret) {
                return reply.clone();
            }
            // Labels that were offered are no secret; one typed as a label is.
            let offered = |label: &String| {
                question.is_some_and(|q| q.choices.iter().any(|c| c.label == *label))
            };
            let mask_typed = |label: &String| {
                if offered(label) {
                    label.clone()
                } else {
                    MASK.to_owned()
                }
            };
            QuestionReply {
                question: reply.question.clone(),
                chosen: reply.chosen.iter().map(mask_typed).collect(),
                text: reply.text.as_ref().map(|_| MASK.to_owned()),
            }
        })
        .collect();
    Answer::Reply { replies }
}

/// Whether a recorded answer lacks a secret, so that it cannot be delivered again from the log.
pub(crate) fn is_masked(answer: &Answer) -> bool {
    match answer {
        Answer::Choose { .. } => false,
        Answer::Reply { replies } => replies.iter().any(|reply| {
            reply.text.as_deref() == Some(MASK) || reply.chosen.iter().any(|label| label == MASK)
        }),
    }
}

/// A message can be sent if it says or brings something.
pub(crate) fn check_message(text: &str, attachments: &[Attachment]) -> Result<(), Refusal> {
    if text.len() > limits::MESSAGE_TEXT {
        return Err(invalid(
            "text",
            format!("it is longer than {} bytes", limits::MESSAGE_TEXT),
        ));
    }
    if text.trim().is_empty() && attachments.is_empty() {
        return Err(invalid("text", "there is nothing to send"));
    }
    if attachments.len() > limits::ATTACHMENTS {
        return Err(invalid(
            "attachments",
            format!("there are more than {}", limits::ATTACHMENTS),
        ));
    }
    for file in attachments {
        check_file(file).map_err(|problem| invalid("attachments", problem))?;
    }
    Ok(())
}

fn check_file(file: &Attachment) -> Result<(), String> {
    let named = file.name.chars().count();
    let strange = |text: &str| text.chars().any(|c| c.is_control() || is_hidden(c));
    if named == 0 || named > limits::FILE_NAME_CHARS || strange(&file.name) {
        return Err("a file's name is empty, too long or has hidden characters".to_owned());
    }
    if file.media_type.len() > limits::FILE_NAME_CHARS || strange(&file.media_type) {
        return Err(format!("the media type of `{}` is none", file.name));
    }
    if file.bytes == 0 || file.bytes > limits::ATTACHMENT_BYTES {
        return Err(format!(
            "`{}` has {} bytes; 1 to {} can be sent",
            file.name,
            file.bytes,
            limits::ATTACHMENT_BYTES
        ));
    }
    Ok(())
}
