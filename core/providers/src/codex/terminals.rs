//! Commands that run when their turn is stopped: codex lets them run on (docs/agents-probes.md, section 4), and a person who
//! stops a turn means all of it. Those that were left to run by an earlier turn stay.

use super::{
    codec::{Codec, Received},
    outgoing::Call,
};
use crate::rpc::frames::{list, text_of};
use pilothouse_domain::NativeId;
use serde_json::Value;

/// A command that has begun and not ended.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    thread: NativeId,
    turn: NativeId,
    item: NativeId,
}

fn key(thread: &NativeId, item: &NativeId) -> NativeId {
    NativeId(format!("{thread}/{item}"))
}

impl Codec {
    pub(super) fn command_began(&mut self, thread: &NativeId, turn: &NativeId, item: &NativeId) {
        let begun = Begun {
            thread: thread.clone(),
            turn: turn.clone(),
            item: item.clone(),
        };
        self.begun.insert(key(thread, item), begun);
    }

    pub(super) fn command_ended(&mut self, thread: &NativeId, item: &NativeId) {
        self.begun.remove(&key(thread, item));
    }

    /// A turn was stopped: codex is asked which of its commands run.
    pub(super) fn turn_stopped(
        &mut self,
        thread: &NativeId,
        turn: &NativeId,
        out: &mut Vec<Received>,
    ) {
        let of_turn = |begun: &&Begun| begun.thread == *thread && begun.turn == *turn;
        let begun = self.begun.values().filter(of_turn);
        let items: Vec<NativeId> = begun.map(|begun| begun.item.clone()).collect();
        if items.is_empty() {
            return;
        }
        let thread = thread.clone();
        let (_, line) = self.call(Call::TerminalsList { thread, items });
        out.push(Received::Send(line));
    }

    /// Ends those of these commands that codex says run.
    pub(super) fn end_terminals(
        &mut self,
        thread: &NativeId,
        items: &[NativeId],
        result: &Value,
        out: &mut Vec<Received>,
    ) {
        for terminal in list(result, "data") {
            let item = text_of(terminal, "itemId").map(NativeId);
            let of_turn = item.is_some_and(|item| items.contains(&item));
            if let (true, Some(process)) = (of_turn, text_of(terminal, "processId")) {
                let thread = thread.clone();
                let (_, line) = self.call(Call::TerminalEnd { thread, process });
                out.push(Received::Send(line));
            }
        }
    }
}
