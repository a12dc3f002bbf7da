//! What a newer host says in words that this version does not know: only what they are about is lost.

use pilothouse_domain::{
    Mode, RunStatus,
    event::HoldReason,
    feed::{FeedThread, NEWER},
    policy::Sandbox,
};
use pilothouse_wire::{
    duplex::Frame,
    message::{DecodeError, ErrorAbout, ErrorCode, HostMessage, WireError, decode},
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

fn golden(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
    serde_json::from_str(&fs::read_to_string(path.join(name)).unwrap()).unwrap()
}

fn read(message: &Value) -> Result<HostMessage, DecodeError> {
    decode(&Frame::Text(message.to_string()))
}

fn threads(message: &Value) -> Vec<FeedThread> {
    match read(message) {
        Ok(HostMessage::Feed { update, .. }) => update.threads,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_of_which_a_newer_host_says_more_keeps_what_reads_and_leaves_the_others_as_they_are() {
    let mut feed = golden("host.feed.json");
    let known = threads(&feed).remove(0);
    let mut newer = feed["threads"][0].clone();
    newer["summary"]["mode"] = json!("dreaming");
    newer["summary"]["active"]["status"] = json!("hibernating");
    newer["summary"]["sandbox"] = json!("sky");
    newer["summary"]["held"] = json!("full_moon");
    newer["summary"]["last_run"] =
        json!({"id": known.summary.active.unwrap().run, "ordinal": 3, "status": "completed"});
    let mut request = newer["requests"][0].clone();
    request["kind"] = json!("telepathy");
    newer["requests"].as_array_mut().unwrap().insert(0, request);
    feed["threads"].as_array_mut().unwrap().insert(0, newer);

    let [first, second] = <[FeedThread; 2]>::try_from(threads(&feed)).unwrap();
    assert_eq!(second, known);
    assert_eq!(first.requests, known.requests, "the one that reads");
    let line = first.summary;
    // Nothing is promised that is not known.
    assert_eq!(line.mode, Mode::FullAccess);
    assert_eq!(line.sandbox, Some(Sandbox::None), "it does not ask");
    assert_eq!(line.held, Some(HoldReason::Person));
    let was = known.summary.active.unwrap();
    let active = line.active.unwrap();
    assert_eq!((active.run, active.status), (was.run, RunStatus::Running));
    assert_eq!(active.blocked_on, was.blocked_on);
    assert_eq!(line.last_line, NEWER);
    // The rest stands as it was said.
    assert_eq!(line.last_run.unwrap().ordinal, 3);
    assert_eq!(line.waiting, known.summary.waiting);
    assert_eq!(
        (line.thread, line.title, line.seq),
        (known.summary.thread, known.summary.title, known.summary.seq)
    );
}

/// Every place at which a text stands, but the message's own type.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) if at != "/type" => found.push(at.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                texts(field, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_word_of_a_newer_host_about_one_thing_ends_the_connection() {
    let about = |name: &str| match name.split('.').nth(1) {
        Some("feed") => Some(ErrorAbout::Sub { sub: 1 }),
        Some("subscribed" | "entries" | "open_items") => golden(name)["sub"]
            .as_u64()
            .map(|sub| ErrorAbout::Sub { sub: sub as u32 }),
        Some("result") => golden(name)["id"]
            .as_u64()
            .map(|id| ErrorAbout::Query { id: id as u32 }),
        _ => None,
    };
    let mut lost = 0;
    let mut read_all_the_same = 0;
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(about) = about(&name).filter(|_| name.starts_with("host.")) else {
            continue;
        };
        let whole = golden(&name);
        let mut places = Vec::new();
        texts(&whole, "", &mut places);
        for place in places {
            let mut message = whole.clone();
            *message.pointer_mut(&place).unwrap() = json!("a word of tomorrow");
            match read(&message) {
                Ok(_) => read_all_the_same += 1,
                Err(error @ DecodeError::Part { .. }) => {
                    let said = WireError::of_decode(&error);
                    assert_eq!(said.about, about, "{name} {place}");
                    assert_eq!(said.code, ErrorCode::Unsupported);
                    assert!(said.next_step.contains("update"), "{said:?}");
                    lost += 1;
                }
                Err(error) => panic!("{name} {place}: {error:?}"),
            }
        }
    }
    // Both happen: words that are shown only, and words that a version has to know.
    assert!(
        lost > 40 && read_all_the_same > 40,
        "{lost} {read_all_the_same}"
    );
}

#[test]
fn a_refusal_of_a_newer_host_is_a_refusal_and_nothing_is_concluded_of_what_else_does_not_read() {
    let mut refused = golden("host.outcome.refused.json");
    refused["outcome"]["refusal"]["refusal"] = json!("mercury_is_retrograde");
    let id = serde_json::from_value(refused["command_id"].clone()).unwrap();
    match read(&refused) {
        Err(DecodeError::Part { about, .. }) => assert_eq!(about, ErrorAbout::Command { id }),
        other => panic!("{other:?}"),
    }
    let mut accepted = golden("host.outcome.accepted.json");
    accepted["outcome"]["outcome"] = json!("accepted_tomorrow");
    assert!(matches!(read(&accepted), Err(DecodeError::Unknown { .. })));
}
