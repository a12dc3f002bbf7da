//! What a turn runs on: model, effort, mode; and a picture that goes with it.

use crate::{
    lane::{Lane, Prompt},
    outcome::Ended,
};
use pilothouse_domain::{
    BlobHash, CommandBody, DispatchMode, ItemStatus, Mode, Refusal, ThreadId, hash,
    provider::OfferedModel, request::OptionEffect, thread::Attachment,
};
use pilothouse_engine::{InboxRow, Page, Query, RowContent};
use pilothouse_tests::picture;
use serde_json::json;

fn select(
    lane: &Lane,
    thread: ThreadId,
    model: Option<&str>,
    effort: Option<&str>,
    mode: Mode,
) -> Result<(), Refusal> {
    let body = CommandBody::ThreadSelect {
        model: model.map(str::to_owned),
        effort: effort.map(str::to_owned),
        mode,
    };
    lane.ask(thread, body)
}

/// The models that the agent said it has.
fn models(lane: &Lane, thread: ThreadId) -> Vec<OfferedModel> {
    let host = lane.device.host();
    match lane.device.core().query(Query::Models { host, thread }) {
        Ok(Page::Models(models)) => models,
        other => panic!("{other:?}"),
    }
}

/// Which model a message went to, and how hard that was to think.
fn asked(lane: &Lane, prompt: &Prompt) -> (String, Option<String>) {
    let asked = lane.world.model.chosen(&prompt.name);
    asked.unwrap_or_else(|| panic!("no request picked {}", prompt.name))
}

pub(super) fn model(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (first, _) = lane.talk(thread, 1);
    let (before, _) = asked(lane, &first);
    let offered = models(lane, thread);
    let name = |id: &str| id.rsplit('/').next().unwrap_or_default().to_owned();
    // Some list their own choice under a name of its own, or a shorter one.
    let others = offered
        .iter()
        .filter(|model| !model.is_default && model.id != "default");
    let mut others = others.map(|model| model.id.as_str());
    let other = if offered.is_empty() {
        lane.agent.other_model().to_owned()
    } else {
        let found = others.find(|id| !before.contains(&name(id)));
        found
            .unwrap_or_else(|| panic!("two models in {offered:?}"))
            .to_owned()
    };
    if let Err(refusal) = select(lane, thread, Some(&other), None, Mode::Ask) {
        return Ended::Refused(refusal);
    }
    let (second, _) = lane.talk(thread, 2);
    let (after, _) = asked(lane, &second);
    assert_ne!(
        after, before,
        "another model was asked, for {other} was chosen"
    );
    if after != name(&other) {
        return Ended::Noted(format!("`{other}` is `{after}`"));
    }
    // A name that is none is refused where the agent said which there are.
    if !offered.is_empty() {
        let refused = select(lane, thread, Some("no-such-model"), None, Mode::Ask);
        assert!(
            matches!(refused, Err(Refusal::UnknownModel { .. })),
            "{refused:?}"
        );
    }
    Ended::Native
}

pub(super) fn effort(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (first, _) = lane.talk(thread, 1);
    let (used, before) = asked(lane, &first);
    let offered = models(lane, thread);
    // The model in use if it is listed: then nothing but the effort changes.
    let name = |id: &str| id.rsplit('/').next() == Some(used.as_str());
    let in_use = offered.iter().filter(|model| name(&model.id));
    let others = offered.iter().filter(|model| !name(&model.id));
    let found = in_use.chain(others).find_map(|model| {
        // One that the model has by itself would show nothing.
        let by_itself = [&before, &model.default_effort];
        let mut efforts = model.efforts.iter();
        let other = efforts.find(|&effort| {
            effort != "off" && !by_itself.into_iter().flatten().any(|own| own == effort)
        })?;
        Some((model.id.clone(), other.clone()))
    });
    let (model, effort) =
        found.unwrap_or_else(|| (lane.agent.other_model().to_owned(), "high".to_owned()));
    assert_ne!(
        before.as_deref(),
        Some(&*effort),
        "another effort is chosen"
    );
    if let Err(refusal) = select(lane, thread, Some(&model), Some(&effort), Mode::Ask) {
        return Ended::Refused(refusal);
    }
    let (second, _) = lane.talk(thread, 2);
    let (_, after) = asked(lane, &second);
    assert_eq!(
        after.as_deref(),
        Some(&*effort),
        "the effort reached the model"
    );
    Ended::Native
}

/// Has a file written; gives the request, if there is one before the run ends.
fn write(lane: &mut Lane, thread: ThreadId, ordinal: u32, file: &str) -> Option<InboxRow> {
    let call = lane.agent.write(&lane.world.workspace, file, "written\n");
    let steps = [
        json!({"text": "I will write.", "tools": [call]}),
        json!({"text": "After it."}),
    ];
    let prompt = lane.script("write", &steps);
    lane.say(thread, &prompt);
    lane.device.asked_or_ended(thread, ordinal)
}

pub(super) fn mode(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let asks = write(lane, thread, 1, "asked.txt").expect("it asks before a change");
    lane.answer(&asks, OptionEffect::AllowOnce);
    lane.device.completed(thread, 1);
    if let Err(refusal) = select(lane, thread, None, None, Mode::AutoEdit) {
        return Ended::Refused(refusal);
    }
    let asks = write(lane, thread, 2, "free.txt");
    assert!(asks.is_none(), "it does not ask any more: {asks:?}");
    assert_eq!(lane.world.text_of("free.txt").as_deref(), Some("written\n"));
    if let Err(refusal) = select(lane, thread, None, None, Mode::Ask) {
        return Ended::Refused(refusal);
    }
    let asks = write(lane, thread, 3, "asked-again.txt").expect("it asks again");
    lane.answer(&asks, OptionEffect::Deny);
    lane.device.ended(thread, 3);
    assert_eq!(lane.world.text_of("asked-again.txt"), None);
    Ended::Native
}

pub(super) fn read_only(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::ReadOnly);
    let mut asked = false;
    if let Some(row) = write(lane, thread, 1, "never.txt") {
        asked = true;
        lane.answer(&row, OptionEffect::Deny);
    }
    lane.device.ended(thread, 1);
    assert_eq!(lane.world.text_of("never.txt"), None, "nothing is written");
    let (next, _) = lane.talk(thread, 2);
    let told = lane.world.model.results_of(&next.name);
    assert_eq!(
        told.len(),
        1,
        "it was tried, and the model was told what came of it: {told:?}"
    );
    let shown = lane.rows(thread, |row| {
        matches!(row.content, RowContent::FileChange { .. }).then_some(row.status)
    });
    assert!(!shown.contains(&ItemStatus::Completed), "{shown:?}");
    if asked {
        Ended::Otherwise(
            "it asks before it writes, and nothing is written without an answer".to_owned(),
        )
    } else {
        Ended::Native
    }
}

pub(super) fn image(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    lane.talk(thread, 1);
    let png = picture::dot(10, 20, 30);
    let host = lane.device.host();
    let hash = lane
        .device
        .core()
        .upload(host, &png)
        .expect("the host takes the picture");
    assert_eq!(hash, BlobHash::of(&png));
    let prompt = lane.script("look", &[json!({"text": "I see."})]);
    let body = CommandBody::MessageSend {
        text: prompt.text.clone(),
        attachments: vec![Attachment {
            name: "dot.png".to_owned(),
            media_type: "image/png".to_owned(),
            hash,
            bytes: png.len() as u64,
        }],
        dispatch: DispatchMode::StartImmediately,
        accept_stop: Vec::new(),
    };
    if let Err(refusal) = lane.ask(thread, body) {
        assert_eq!(lane.held_by_model(&[&prompt]), [0], "nothing was sent");
        return Ended::Refused(refusal);
    }
    lane.device.completed(thread, 2);
    let seen = lane.world.model.pictures();
    assert_eq!(
        seen,
        [hash::to_hex(&hash::sha256(&png))],
        "the model saw the picture whole"
    );
    Ended::Native
}
