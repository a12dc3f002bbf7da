//! What an agent can do changes with the model that is chosen; every device knows it before anything is said.

use crate::stories::says;
use pilothouse_domain::{
    BlobHash, CapabilityFlag, CommandBody, Mode, Refusal, command::DispatchMode, thread::Attachment,
};
use pilothouse_engine::Offer;
use pilothouse_tests::{Setup, World, picture::dot};

/// `seeing` is a model of the agent that takes pictures, `blind` one that does not.
fn pictures_follow_the_model(world: &World, agent: &str, seeing: &str, blind: &str) {
    let (phone, tablet) = (world.device("phone"), world.device("tablet"));
    world.model.script("ok", &says("Fine."));
    let thread = phone.new_thread(agent, Mode::Ask);
    phone.accepted(&phone.say(thread, "[[script:ok]]"));
    phone.completed(thread, 1);
    tablet.watch(thread);
    let takes_pictures = |wanted: bool| {
        for device in [&phone, &tablet] {
            device.wait("what the model takes", |seen| {
                let header = seen.timelines.get(&thread)?.header.as_ref()?;
                let offer = &header.affordances.as_ref()?.send_images;
                (matches!(offer, Offer::Available) == wanted).then_some(())
            });
        }
    };
    takes_pictures(true);
    for (model, wanted) in [(blind, false), (seeing, true), (blind, false)] {
        let choice = CommandBody::ThreadSelect {
            model: Some(model.to_owned()),
            effort: None,
            mode: Mode::Ask,
        };
        phone.accepted(&phone.submit(Some(thread), choice));
        takes_pictures(wanted);
    }
    let picture = dot(1, 2, 3);
    let hash = phone.core().upload(phone.host(), &picture).unwrap();
    let message = CommandBody::MessageSend {
        text: "[[script:ok]] [[id:unseen]]".to_owned(),
        attachments: vec![Attachment {
            name: "dot.png".to_owned(),
            media_type: "image/png".to_owned(),
            hash,
            bytes: picture.len() as u64,
        }],
        dispatch: DispatchMode::StartImmediately,
        accept_stop: Vec::new(),
    };
    assert_eq!(hash, BlobHash::of(&picture));
    let Refusal::Unsupported { capability, .. } =
        phone.refused(&phone.submit(Some(thread), message))
    else {
        panic!("a picture is refused for what it is")
    };
    assert_eq!(capability, CapabilityFlag::ImageInput);
    assert_eq!(world.model.mark("unseen").requests, 0);
    // It stays so over a turn.
    phone.accepted(&phone.say(thread, "[[script:ok]]"));
    phone.completed(thread, 2);
    takes_pictures(false);
    for device in [&phone, &tablet] {
        device.same_as(&world.host, thread);
    }
    world.host.verify();
}

#[test]
fn what_opencodes_model_takes_is_known_as_soon_as_it_is_chosen() {
    let world = Setup::new().opencode().start();
    pictures_follow_the_model(&world, "opencode", "local/scripted", "local/scripted-2");
}

#[test]
fn what_pis_model_takes_is_known_as_soon_as_it_is_chosen() {
    let world = Setup::new().pi(&[]).start();
    pictures_follow_the_model(&world, "pi", "local/scripted", "local/scripted-2");
}
