//! Commands that run when their turn is stopped: codex lets them run on (docs/agents-probes.md, section 4), and a person who
//! stops a turn means all of it. Those that were left to run by an earlier turn stay.

use super::{
    codec::{Codec, Received},
    outgoing::Call,
};
use crate::rpc::{
    budget,
    frames::{id_of, list, text_of},
};
use pilothouse_domain::NativeId;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A command that has begun and not ended.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    thread: NativeId,
    turn: NativeId,
    item: NativeId,
}

impl Begun {
    /// Bytes that it holds beside itself.
    pub(super) fn weight(&self) -> usize {
        let ids = [&self.thread, &self.turn, &self.item];
        ids.iter().map(|id| budget::id(Some(id))).sum()
    }
}

fn key(thread: &NativeId, item: &NativeId) -> NativeId {
    NativeId(format!("{thread}/{item}"))
}

/// Commands under one id that are told apart.
const SHARING: usize = 8;

fn hash_of(command: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    hasher.finish()
}

/// The first has codex' own id.
fn name(item: &NativeId, at: usize) -> NativeId {
    match at {
        0 => item.clone(),
        at => NativeId(format!("{item}#{}", at + 1)),
    }
}

impl Codec {
    /// A command of a turn begins under codex' id of its item; gives the name under which it is told. A model may call several
    /// under one id: codex runs all of them, and each is told under a name of its own.
    pub(super) fn command_began(
        &mut self,
        thread: &NativeId,
        turn: &NativeId,
        item: &NativeId,
        command: &str,
    ) -> NativeId {
        let called = self.called.entry(&key(thread, &key(turn, item)));
        let hash = hash_of(command);
        let at = called.iter().position(|known| *known == hash);
        let at = at.unwrap_or_else(|| {
            if called.len() < SHARING {
                called.push(hash);
            }
            called.len() - 1
        });
        let name = name(item, at);
        let begun = Begun {
            thread: thread.clone(),
            turn: turn.clone(),
            item: item.clone(),
        };
        self.begun.insert(key(thread, &name), begun);
        name
    }

    /// It ends; gives the name under which it began.
    pub(super) fn command_ended(
        &mut self,
        thread: &NativeId,
        turn: &NativeId,
        item: &NativeId,
        command: &str,
    ) -> NativeId {
        let called = self.called.get(&key(thread, &key(turn, item)));
        let hash = hash_of(command);
        let at = called.and_then(|called| called.iter().position(|known| *known == hash));
        let name = name(item, at.unwrap_or(0));
        self.begun.remove(&key(thread, &name));
        name
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
            let item = id_of(terminal, "itemId");
            let of_turn = item.is_some_and(|item| items.contains(&item));
            if let (true, Some(process)) = (of_turn, text_of(terminal, "processId")) {
                let thread = thread.clone();
                let (_, line) = self.call(Call::TerminalEnd { thread, process });
                out.push(Received::Send(line));
            }
        }
    }
}
