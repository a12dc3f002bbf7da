//! A thread that takes what a codec tells.

use pilothouse_domain::{
    Command, CommandBody, CommandId, DeviceId, Incarnation, Mode, Policy, SessionId, hash, limits,
    policy::AgentPolicy,
    thread::{Actor, Selection},
};
use pilothouse_orchestrator::{SessionContext, memory::MemoryThread};
use pilothouse_providers::codex::profile;

/// A thread with nothing in it, and what its host allows.
pub(crate) fn thread() -> (MemoryThread, Policy) {
    let policy = Policy {
        version: 1,
        agents: [(
            "codex".into(),
            AgentPolicy {
                family: "codex".to_owned(),
                modes: vec![Mode::Ask],
                capabilities: profile::capabilities().set(),
                sandboxes: Vec::new(),
            },
        )]
        .into(),
        workspaces: vec!["w".into()],
        default_mode: Mode::Ask,
    };
    let id = CommandId::from_bytes([1; 16]);
    let create = Command {
        id,
        thread: id.derive("thread"),
        device_seq: 1,
        based_on: None,
        issued_at_ms: 0,
        body: CommandBody::ThreadCreate {
            title: "t".to_owned(),
            workspace: "w".into(),
            selection: Selection {
                agent: "codex".into(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        },
    };
    let mut thread = MemoryThread::new(create.thread, policy.clone());
    let device = DeviceId::from_bytes([1; 16]);
    thread.command(Actor::Device { device }, &create).unwrap();
    (thread, policy)
}

/// Who speaks in it.
pub(crate) fn session() -> SessionContext {
    SessionContext {
        agent: "codex".into(),
        family: "codex".to_owned(),
        session: SessionId::from_bytes([3; 16]),
        incarnation: Incarnation::from_bytes([4; 16]),
        host_time_ms: 0,
        contract: Default::default(),
    }
}

/// The thread is of bounded size, and whoever reads its log has the same.
pub(crate) fn follow(thread: &MemoryThread, policy: Policy) {
    let size = hash::canonical_json(&thread.state).len();
    assert!(size <= limits::STATE_BYTES, "{size} bytes of state");
    assert!(thread.state.requests.len() <= limits::OPEN_REQUESTS);
    let text = serde_json::to_string(&thread.entries).unwrap();
    let entries: Vec<_> = serde_json::from_str(&text).unwrap();
    let followed = MemoryThread::replay(thread.state.thread, policy, &entries);
    assert_eq!(followed.digest(), thread.digest());
    assert_eq!(followed.rows, thread.rows);
}
