//! Answering a request: shows exactly what is asked, sends the hash of exactly that, and says only what the host confirmed.

use super::{
    reply::{Choice, compose},
    typed,
};
use crate::client::{
    args::AnswerArgs,
    device::{Device, no_host},
    failure::{Code, Failure},
    json,
    output::Output,
    pick::{pick, short},
    show::{self, words},
    style::{Style, Tone},
};
use pilothouse_domain::{
    CommandBody, ContentHash, RequestStatus,
    request::{Answer, OptionEffect},
};
use pilothouse_engine::{InboxRow, InboxState, RequestPage, masked};
use std::time::{Duration, Instant};

/// How long the host is waited for before what is stored is shown.
const FRESH: Duration = Duration::from_secs(3);
/// How long a change that this process is not told of may go unnoticed.
const UNSEEN: Duration = Duration::from_millis(100);

pub(super) fn answer(args: &AnswerArgs, output: &mut Output) -> Result<(), Failure> {
    let choice = chosen(args)?;
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let (row, id) = find(&mut device, &args.request, until)?;
    output.words(&show::request::render(
        &device.shown(&row),
        &id,
        device.now_ms(),
        output.style,
    ))?;
    // What an answer is for is what was just shown, whatever hash came with it.
    let shown = ContentHash::of(&row.raw_subject);
    if let Some(expected) = &args.hash
        && !shown
            .to_string()
            .starts_with(&expected.to_ascii_lowercase())
    {
        return Err(Failure::new(Code::Refused, format!("the request asks for something else now (its text has the hash {shown}); nothing was answered"))
            .next("look at it again and decide anew"));
    }
    let Some(choice) = choice else {
        output.object("request", json::Request::from(&row))?;
        return Err(Failure::new(Code::Usage, "nothing was answered: no answer was given").next(format!("say --allow or --deny, or one of its options; `pilothouse answer {id} --help` lists the ways")));
    };
    if let InboxState::Sending { answer, on_host } = &row.state {
        let where_it_is = if *on_host {
            "the host has it and waits for the agent"
        } else {
            "it is in the outbox"
        };
        return Err(Failure::new(
            Code::Refused,
            format!(
                "an answer is on its way already ({}): {where_it_is}",
                words::answer(answer)
            ),
        )
        .next("the first answer counts; nothing is to be done"));
    }
    let answer = compose(
        &choice,
        args.note.as_deref(),
        &row.subject.options,
        &row.subject.questions,
    )?;
    if !row.verified && allows(&answer, &row) {
        return Err(Failure::new(Code::Error, "what is shown cannot be checked against what the host would act on; it cannot be approved here").next("answer it on the host, and update both programs"));
    }
    let body = CommandBody::RequestAnswer {
        request: row.request,
        content_hash: shown,
        answer: answer.clone(),
    };
    let ticket = device.submit(row.host, Some(row.thread), body)?;
    output.bottom(Some("saved; waiting for the host …"))?;
    device.confirm(&ticket, "answering", until)?;
    output.bottom(Some("the host has it; waiting for the agent …"))?;
    let status = wait_closed(&mut device, &row, until);
    output.bottom(None)?;
    let unconfirmed = || {
        Failure::new(
            Code::Unconfirmed,
            "the host has the answer; the agent has not confirmed it yet",
        )
        .next(format!(
            "`pilothouse watch {}` shows when it has",
            &row.thread.to_string()[..8]
        ))
        .about(ticket.command_id())
    };
    let status = status.ok_or_else(unconfirmed)?;
    output.object(
        "answered",
        json::Answered {
            request: row.request,
            thread: row.thread,
            host: row.host,
            command: ticket.command_id(),
            content_hash: shown,
            answer: masked(&row.subject.questions, &answer),
            confirmed: (&status).into(),
        },
    )?;
    match &status {
        RequestStatus::Answered { delivery, .. } => {
            let (done, tone) = done(&answer, &row);
            output.say(
                Some(tone),
                &format!("{done} ({}).", words::delivery(*delivery)),
            )?;
            Ok(())
        }
        other => Err(Failure::new(
            Code::Refused,
            format!(
                "the answer came too late: the request is {}",
                show::item::became(other, output.style)
            ),
        )
        .next("look at the thread to see what happened")
        .about(ticket.command_id())),
    }
}

/// What was typed as an answer; `None` if nothing was.
fn chosen(args: &AnswerArgs) -> Result<Option<Choice>, Failure> {
    let choice = &args.choice;
    if !args.reply.is_empty() || !args.choose.is_empty() {
        let mut texts = Vec::new();
        for given in &args.reply {
            let (question, text) = halves(given, "--reply QUESTION=TEXT")?;
            texts.push((question, typed(&text, "the reply")?));
        }
        let labels = args
            .choose
            .iter()
            .map(|given| halves(given, "--choose QUESTION=LABEL"))
            .collect::<Result<_, _>>()?;
        return Ok(Some(Choice::Replies { texts, labels }));
    }
    Ok(match choice {
        _ if choice.allow => Some(Choice::Allow),
        _ if choice.allow_session => Some(Choice::AllowSession),
        _ if choice.deny => Some(Choice::Deny),
        _ => choice.option.clone().map(Choice::Option),
    })
}

fn halves(given: &str, form: &str) -> Result<(String, String), Failure> {
    given
        .split_once('=')
        .map(|(question, rest)| (question.trim().to_owned(), rest.to_owned()))
        .ok_or_else(|| {
            Failure::new(Code::Usage, format!("`{given}` has no =")).next(format!("write {form}"))
        })
}

/// The request that a person means, as it is now, with the beginning of its id that is enough: among what is stored, else
/// among what the hosts have.
///
/// Its thread is followed from before the answer is sent, so that what becomes of the answer is heard.
fn find(device: &mut Device, given: &str, until: Instant) -> Result<(InboxRow, String), Failure> {
    let found = match among(&device.inbox(), given) {
        Err(failure) if failure.code == Code::NothingThere => {
            if device.settle().is_empty() {
                return Err(no_host());
            }
            let inbox = device.inbox();
            among(&inbox, given).map_err(|failure| closed_before(device, given).unwrap_or(failure))
        }
        found => found,
    }?;
    let (row, id) = found;
    let soon = until.min(Instant::now() + FRESH);
    device.look_at(row.host, row.thread, soon)?;
    let now = device.inbox();
    let full = row.request.to_string();
    among(&now, &full).or_else(|failure| {
        match device.request(row.host, Some(row.thread), row.request) {
            // Its thread has just been opened, and the list has yet to follow: it waits all the same.
            Some(page) if page.status() == &RequestStatus::Pending => Ok((row, id)),
            Some(page) => Err(closed(&page)),
            None => Err(failure),
        }
    })
}

fn among(rows: &[InboxRow], given: &str) -> Result<(InboxRow, String), Failure> {
    let row = pick(
        "open request",
        given,
        rows,
        |row| row.request.to_string(),
        |_| None,
        |row| format!("{}: {}", row.thread_title, show::request::headline(row, 60)),
        "`pilothouse inbox`",
    )?;
    let id = short(
        &row.request.to_string(),
        rows.iter().map(|row| row.request.to_string()),
    );
    Ok((row.clone(), id))
}

/// What became of a request that is open no more, where this device still holds it.
fn closed_before(device: &mut Device, given: &str) -> Option<Failure> {
    let request = given.trim().to_ascii_lowercase().parse().ok()?;
    let hosts = device.hosts();
    let page = hosts
        .iter()
        .find_map(|row| device.request(row.host, None, request))?;
    Some(closed(&page))
}

fn closed(page: &RequestPage) -> Failure {
    let became = show::item::became(page.status(), Style::PLAIN);
    Failure::new(Code::Refused, format!("the request is closed: {became}"))
        .next("nothing is to be done")
}

fn allows(answer: &Answer, row: &InboxRow) -> bool {
    match answer {
        Answer::Choose { option, .. } => {
            effect(option.as_str(), row).is_none_or(|effect| !effect.denies())
        }
        Answer::Reply { .. } => true,
    }
}

fn effect(option: &str, row: &InboxRow) -> Option<OptionEffect> {
    row.subject
        .options
        .iter()
        .find(|one| one.id.as_str() == option)
        .map(|one| one.effect)
}

/// What was done, in words that say no more than what the option does.
fn done(answer: &Answer, row: &InboxRow) -> (String, Tone) {
    let Answer::Choose { option, .. } = answer else {
        return ("Answered".to_owned(), Tone::Good);
    };
    match effect(option.as_str(), row) {
        Some(OptionEffect::AllowOnce) => ("Approved, this once".to_owned(), Tone::Good),
        Some(OptionEffect::AllowSession) => ("Approved for the session".to_owned(), Tone::Good),
        Some(OptionEffect::AllowRule) => ("Approved by a rule that stays".to_owned(), Tone::Good),
        Some(OptionEffect::Deny) => ("Denied".to_owned(), Tone::Bad),
        Some(OptionEffect::DenyAll) => (
            "Denied, with everything else that this conversation waits for".to_owned(),
            Tone::Bad,
        ),
        Some(OptionEffect::DenyRule) => ("Denied by a rule that stays".to_owned(), Tone::Bad),
        Some(OptionEffect::DenyAndStop) => {
            ("Denied, and the turn is stopped".to_owned(), Tone::Bad)
        }
        Some(OptionEffect::Other) | None => (
            format!("Answered with {}", show::safe(option.as_str())),
            Tone::Good,
        ),
    }
}

/// Waits until the host says that the request is open no more.
fn wait_closed(device: &mut Device, row: &InboxRow, until: Instant) -> Option<RequestStatus> {
    loop {
        if let Some(page) = device.request(row.host, Some(row.thread), row.request)
            && !page.status().is_open()
        {
            return Some(page.status().clone());
        }
        // What is asked for is a stored row, and a batch is the sign that something was stored; the pause only bounds
        // how long one that this process does not see (another process holds the link) goes unnoticed.
        let pause = (Instant::now() + UNSEEN).min(until);
        if device.next(Some(pause)).is_none() && Instant::now() >= until {
            return None;
        }
    }
}
