//! In what agents run that do not ask before they act.

use crate::world::{PHONE, command_id, create, device, full_policy};
use pilothouse_domain::{CommandBody, DispatchMode, Mode, Refusal, policy::Sandbox, thread::Actor};
use pilothouse_orchestrator::memory::MemoryThread;

/// In which sandbox a thread runs that wants this one, where the host allows those.
fn sandbox_of(allowed: &[Sandbox], wanted: Option<Sandbox>) -> Result<Option<Sandbox>, Refusal> {
    let mut policy = full_policy();
    for agent in policy.agents.values_mut() {
        agent.sandboxes = allowed.to_vec();
    }
    let mut command = create(command_id(0));
    if let CommandBody::ThreadCreate { selection, .. } = &mut command.body {
        selection.sandbox = wanted;
    }
    let mut memory = MemoryThread::new(command.thread, policy);
    let actor = Actor::Device {
        device: device(PHONE),
    };
    memory.command(actor, &command)?;
    Ok(memory.state.meta.and_then(|meta| meta.selection.sandbox))
}

#[test]
fn a_thread_of_an_agent_that_does_not_ask_holds_in_which_sandbox_it_runs() {
    let both = [Sandbox::Bwrap, Sandbox::None];
    assert_eq!(sandbox_of(&[], None), Ok(None));
    assert_eq!(sandbox_of(&both, None), Ok(Some(Sandbox::Bwrap)));
    let named = sandbox_of(&both, Some(Sandbox::None));
    assert_eq!(named, Ok(Some(Sandbox::None)));
    for allowed in [&both[..0], &both[..1]] {
        let refused = sandbox_of(allowed, Some(Sandbox::None));
        assert!(matches!(refused, Err(Refusal::Invalid { field, .. }) if field == "sandbox"));
    }
}

/// The host's owner takes a sandbox away, or the need of one: old threads do not keep what is no longer allowed.
#[test]
fn a_thread_does_not_run_in_a_sandbox_that_the_host_no_longer_allows_until_it_is_chosen_anew() {
    let allow = |memory: &mut MemoryThread, allowed: &[Sandbox]| {
        for agent in memory.policy.agents.values_mut() {
            agent.sandboxes = allowed.to_vec();
        }
    };
    let actor = Actor::Device {
        device: device(PHONE),
    };
    for now in [&[Sandbox::Bwrap][..], &[]] {
        let mut command = create(command_id(0));
        let mut memory = MemoryThread::new(command.thread, full_policy());
        allow(&mut memory, &[Sandbox::None]);
        memory.command(actor, &command).unwrap();
        allow(&mut memory, now);
        let mut say = |memory: &mut MemoryThread, n: u64, body: CommandBody| {
            command.id = command_id(n);
            command.body = body;
            memory.command(actor, &command)
        };
        let message = CommandBody::MessageSend {
            text: "go".to_owned(),
            attachments: Vec::new(),
            dispatch: DispatchMode::StartImmediately,
            accept_stop: Vec::new(),
        };
        let refused = say(&mut memory, 1, message.clone());
        assert!(
            matches!(&refused, Err(Refusal::Invalid { field, .. }) if field == "sandbox"),
            "{refused:?}"
        );
        let anew = CommandBody::ThreadSelect {
            model: None,
            effort: None,
            mode: Mode::Ask,
        };
        say(&mut memory, 2, anew).unwrap();
        let meta = memory.state.meta.as_ref().unwrap();
        assert_eq!(meta.selection.sandbox, now.first().copied());
        say(&mut memory, 3, message).unwrap();
    }
}
