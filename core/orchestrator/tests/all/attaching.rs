//! Files that go with a message.

use crate::world::{World, policy};
use pilothouse_domain::{
    BlobHash, CapabilityFlag, CapabilityValue, CommandBody, DispatchMode, ItemContent, Refusal,
    limits, refusal::Fallback, thread::Attachment,
};
use pilothouse_orchestrator::{Offer, Verdict, affordances};

fn world(images: CapabilityValue) -> World {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        agent
            .capabilities
            .insert(CapabilityFlag::ImageInput, images);
    }
    World::on(policy)
}

fn picture(name: &str) -> Attachment {
    Attachment {
        name: name.to_owned(),
        media_type: "image/png".to_owned(),
        hash: BlobHash::of(name.as_bytes()),
        bytes: 70,
    }
}

fn send(
    world: &mut World,
    text: &str,
    attachments: Vec<Attachment>,
    dispatch: DispatchMode,
) -> Result<Verdict, Refusal> {
    world.submit(CommandBody::MessageSend {
        text: text.to_owned(),
        attachments,
        dispatch,
        accept_stop: Vec::new(),
    })
}

const START: DispatchMode = DispatchMode::StartImmediately;

#[test]
fn a_picture_alone_is_a_message_and_stands_in_the_timeline() {
    let mut world = world(CapabilityValue::Yes);
    send(&mut world, "", vec![picture("cat.png")], START).unwrap();
    let shown = world.items().remove(0).content;
    let ItemContent::UserMessage {
        attachments, text, ..
    } = shown
    else {
        panic!("{shown:?}")
    };
    assert_eq!(
        (attachments, text.is_empty()),
        (vec![picture("cat.png")], true)
    );
}

#[test]
fn an_agent_that_does_not_surely_take_pictures_is_not_sent_any() {
    for value in [CapabilityValue::No, CapabilityValue::Unknown] {
        let mut world = world(value);
        let refused = send(&mut world, "look", vec![picture("cat.png")], START);
        assert_eq!(
            refused,
            Err(Refusal::Unsupported {
                capability: CapabilityFlag::ImageInput,
                fallback: Some(Fallback::NameFile)
            })
        );
    }
    // Pictures do not stand for other files.
    let mut world = world(CapabilityValue::Yes);
    let text = Attachment {
        media_type: "text/plain".to_owned(),
        ..picture("notes.txt")
    };
    let refused = send(&mut world, "read", vec![picture("cat.png"), text], START);
    assert!(matches!(
        refused,
        Err(Refusal::Unsupported {
            capability: CapabilityFlag::FileInput,
            ..
        })
    ));
    assert_eq!(world.items(), []);
    let policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    let offers = affordances(&world.thread.state, &policy);
    assert!(matches!(offers.send_files, Offer::Unavailable { .. }));
}

#[test]
fn pictures_are_counted_measured_and_named_before_they_are_sent() {
    let mut world = world(CapabilityValue::Yes);
    let twenty: Vec<_> = (0..20).map(|n| picture(&format!("{n}.png"))).collect();
    let mut more = twenty.clone();
    more.push(picture("one more.png"));
    let wrong = [
        more,
        vec![Attachment {
            bytes: 0,
            ..picture("a")
        }],
        vec![Attachment {
            bytes: limits::ATTACHMENT_BYTES + 1,
            ..picture("a")
        }],
        vec![picture("")],
        vec![picture("cat\u{202e}gnp.exe")],
        vec![picture(&"x".repeat(201))],
        vec![Attachment {
            media_type: "image/\n".to_owned(),
            ..picture("a")
        }],
    ];
    for attachments in wrong {
        let refused = send(&mut world, "look", attachments, START).unwrap_err();
        assert!(
            matches!(&refused, Refusal::Invalid { field, .. } if field == "attachments"),
            "{refused}"
        );
    }
    send(&mut world, "look", twenty, START).unwrap();
}

#[test]
fn a_picture_waits_in_the_queue_and_is_not_lost_on_its_way_into_a_running_turn() {
    let mut world = world(CapabilityValue::Yes);
    let run = world.running("work");
    let steer = DispatchMode::SteerActive { run };
    let refused = send(&mut world, "look", vec![picture("cat.png")], steer).unwrap_err();
    assert_eq!(refused.code(), "invalid");
    send(
        &mut world,
        "look",
        vec![picture("cat.png")],
        DispatchMode::QueueAfterActive,
    )
    .unwrap();
    assert_eq!(world.queue().len(), 1);
}
