//! Values that tests store.

use pilothouse_domain::{
    AgentName, Cause, CommandId, DeviceId, Epoch, Event, ItemContent, ItemId, ItemStatus, Mode,
    NodeId, Position, RunId, ThreadId, TurnItem,
    item::Body,
    thread::{Actor, Selection},
};

/// The epoch of every ledger in these tests.
pub(crate) const EPOCH: Epoch = Epoch::from_bytes([7; 16]);

/// A thread.
pub(crate) fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

/// A command as cause.
pub(crate) fn cause(n: u8) -> Cause {
    Cause::Command {
        command: CommandId::from_bytes([n; 16]),
        device: DeviceId::from_bytes([1; 16]),
    }
}

/// `thread.created`.
pub(crate) fn created(thread: ThreadId) -> Event {
    Event::ThreadCreated {
        thread,
        title: "Tidy up".into(),
        workspace: "home".into(),
        selection: Selection {
            agent: AgentName::from("codex"),
            model: None,
            effort: None,
            mode: Mode::Ask,
        },
        lineage: None,
        actor: Actor::Ledger,
    }
}

/// An item id.
pub(crate) fn item_id(n: u64) -> ItemId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    bytes[15] = 1;
    ItemId::from_bytes(bytes)
}

/// An assistant message.
pub(crate) fn item(n: u64, text: &str) -> TurnItem {
    TurnItem {
        id: item_id(n),
        position: Position { run: 1, arrival: n },
        run: RunId::from_bytes([2; 16]),
        node: NodeId::from_bytes([3; 16]),
        status: ItemStatus::Completed,
        content: ItemContent::AssistantMessage {
            text: Body::inline(text),
        },
        opened_at_ms: 5,
        closed_at_ms: Some(6),
    }
}
