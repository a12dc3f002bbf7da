//! A refused sign-in with every family's own agent (docs/decisions/030), by either status. One of codex that outlives its host
//! is in `codex.rs`.

use crate::stories::says;
use pilothouse_domain::{
    CapabilityFlag, CommandBody, Mode, Refusal, RunStatus, event::HoldReason, refusal::Fallback,
};
use pilothouse_tests::{Device, Setup, World};
use serde_json::json;

/// One thread is refused, another waits without a word to the model; once one of them got through, both go on. Of both there is
/// one notice. So it is with each status that is a refused sign-in.
fn one_refusal_holds_the_other(world: &World, agent: &str) {
    let device = world.device("phone");
    world.model.script("back", &says("I am back."));
    for status in [401, 403] {
        world
            .model
            .script("refused", &json!([{"error": {"status": status}}]));
        holds_the_other(world, &device, agent, status);
    }
    world.host.verify();
}

fn holds_the_other(world: &World, device: &Device, agent: &str, status: u16) {
    let marks = ["again", "other"].map(|mark| format!("{mark}-{status}"));
    let [again, mark] = &marks;
    let [refused, other] = [0, 1].map(|_| device.new_thread(agent, Mode::Ask));
    device.accepted(&device.say(refused, "go [[script:refused]]"));
    assert_eq!(device.ended(refused, 1).status, RunStatus::Failed);
    device.accepted(&device.say(refused, &format!("again [[script:back]] [[id:{again}]]")));
    device.accepted(&device.say(other, &format!("go [[script:back]] [[id:{mark}]]")));
    let revision = device.wait("the threads to wait for the sign-in", |seen| {
        let header = |thread| seen.timelines.get(&thread)?.header.as_ref();
        let waits =
            |thread| header(thread).filter(|header| header.held == Some(HoldReason::SignIn));
        let other = waits(other)?;
        (waits(refused)?.queue.len() == 1 && other.queue.len() == 1).then_some(other.queue_revision)
    });
    let notice = device.wait("one notice of both", |seen| {
        let host = seen.hosts.iter().find(|row| row.host == device.host())?;
        match &host.signed_out[..] {
            [notice] if notice.threads == 2 => Some(notice.clone()),
            _ => None,
        }
    });
    assert_eq!(notice.agent.as_str(), agent);
    if agent != "codex" {
        // What it has no page and no code for is told so; nothing changes by it.
        let refusal = device.refused(&device.submit(Some(refused), CommandBody::ThreadSignIn));
        let unsupported = Refusal::Unsupported {
            capability: CapabilityFlag::SignIn,
            fallback: Some(Fallback::OnHost),
        };
        assert_eq!(refusal, unsupported);
    }
    for mark in &marks {
        assert_eq!(world.model.mark(mark).requests, 0, "{mark}");
    }
    device.accepted(&device.submit(Some(other), CommandBody::QueueRelease { revision }));
    device.completed(other, 1);
    device.completed(refused, 2);
    for thread in [refused, other] {
        device.same_as(&world.host, thread);
    }
}

#[test]
fn case_41_codex_is_held_for_its_sign_in() {
    one_refusal_holds_the_other(&World::start(), "codex");
}

#[test]
fn case_41_claude_is_held_for_its_sign_in() {
    one_refusal_holds_the_other(&Setup::new().claude().start(), "claude");
}

#[test]
fn case_41_opencode_is_held_for_its_sign_in() {
    one_refusal_holds_the_other(&Setup::new().opencode().start(), "opencode");
}

#[test]
fn case_41_pi_is_held_for_its_sign_in() {
    one_refusal_holds_the_other(&Setup::new().pi(&[]).start(), "pi");
}
