//! Identity bindings: which app id a native id stands for, and the way back.

use super::{LedgerReads, LedgerTx};
use crate::{
    codec::{from_json, to_json},
    error::Result,
    open_text,
};
use pilothouse_domain::{
    Body, ItemId, ProviderThreadId, ProviderTurnId, RequestId, Row, RowKey, RuntimeRequest,
    ThreadId, TurnItem,
    binding::{Binding, BindingKey, BindingTarget},
    row::RowKind,
};
use pilothouse_orchestrator::Bindings;

fn target_id(target: &BindingTarget) -> [u8; 16] {
    match target {
        BindingTarget::Thread {
            provider_thread, ..
        } => *provider_thread.as_bytes(),
        BindingTarget::Turn { turn, .. } => *turn.as_bytes(),
        BindingTarget::Item { item, .. } => *item.as_bytes(),
        BindingTarget::Request { request, .. } => *request.as_bytes(),
    }
}

impl LedgerTx<'_> {
    /// Binds a native id of an agent to a thing of a thread, in the place of what it was bound to. `agent_scope` is
    /// where native ids are unique: the agent instance's name.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_binding(
        &self,
        agent_scope: &str,
        thread: ThreadId,
        binding: &Binding,
    ) -> Result<()> {
        self.db().write(
            "binding a native id",
            "INSERT INTO bindings (agent, key, thread, target, target_json) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (agent, key) DO UPDATE SET \
             thread = excluded.thread, target = excluded.target, target_json = excluded.target_json",
            (
                agent_scope,
                to_json(&binding.key),
                thread.as_bytes(),
                target_id(&binding.target),
                to_json(&binding.target),
            ),
        )?;
        Ok(())
    }

    /// What `ingest` looks up, for one agent and one thread; it sees what this transaction has bound.
    pub fn bindings<'a>(&'a self, agent_scope: &'a str, thread: ThreadId) -> ThreadBindings<'a> {
        ThreadBindings {
            reads: self,
            agent: agent_scope,
            thread,
        }
    }
}

impl LedgerReads {
    /// A row of a thread, for what cannot fail itself: a failure is kept, and a transaction will not commit.
    pub fn row_or_fault(&self, thread: ThreadId, key: RowKey) -> Option<Row> {
        self.row(thread, key).unwrap_or_else(|error| {
            self.db.note_fault(error);
            None
        })
    }

    /// What a native id of an agent stands for, and in which thread.
    ///
    /// # Errors
    /// Any of the file.
    pub fn binding(
        &self,
        agent_scope: &str,
        key: &BindingKey,
    ) -> Result<Option<(ThreadId, BindingTarget)>> {
        let found = self.db.one(
            "looking for a native id",
            "SELECT thread, target_json FROM bindings WHERE agent = ?1 AND key = ?2",
            (agent_scope, to_json(key)),
            |row| Ok((ThreadId::from_bytes(row.get(0)?), row.get::<_, String>(1)?)),
        )?;
        found
            .map(|(thread, json)| Ok((thread, from_json(&self.db, "reading a binding", &json)?)))
            .transpose()
    }

    /// The native id of a conversation.
    ///
    /// # Errors
    /// Any of the file.
    pub fn native_thread_of(&self, thread: ProviderThreadId) -> Result<Option<BindingKey>> {
        self.native_of(thread.as_bytes())
    }

    /// The native id of a turn.
    ///
    /// # Errors
    /// Any of the file.
    pub fn native_turn_of(&self, turn: ProviderTurnId) -> Result<Option<BindingKey>> {
        self.native_of(turn.as_bytes())
    }

    /// The native id of a request.
    ///
    /// # Errors
    /// Any of the file.
    pub fn native_request_of(&self, request: RequestId) -> Result<Option<BindingKey>> {
        self.native_of(request.as_bytes())
    }

    fn native_of(&self, target: &[u8; 16]) -> Result<Option<BindingKey>> {
        let key = self.db.one(
            "looking for the native id of something",
            "SELECT key FROM bindings WHERE target = ?1 ORDER BY binding DESC LIMIT 1",
            [target],
            |row| row.get::<_, String>(0),
        )?;
        key.map(|key| from_json(&self.db, "reading a binding", &key))
            .transpose()
    }
}

/// What `ingest` looks up, inside a transaction. A failure is kept, and the transaction will not commit.
#[derive(Debug)]
pub struct ThreadBindings<'a> {
    reads: &'a LedgerReads,
    agent: &'a str,
    thread: ThreadId,
}

impl ThreadBindings<'_> {
    fn or_fault<T>(&self, result: Result<Option<T>>) -> Option<T> {
        result.unwrap_or_else(|error| {
            self.reads.db.note_fault(error);
            None
        })
    }
}

impl ThreadBindings<'_> {
    /// What was streamed into an item: what is saved of it, and what follows that.
    pub fn streamed_with(&self, item: ItemId, more: &[&str]) -> Option<Body> {
        self.or_fault(open_text::body(&self.reads.db, item, more))
    }
}

impl Bindings for ThreadBindings<'_> {
    fn get(&self, key: &BindingKey) -> Option<BindingTarget> {
        self.or_fault(self.reads.binding(self.agent, key))
            .map(|(_, target)| target)
    }

    fn streamed(&self, item: ItemId) -> Option<Body> {
        self.streamed_with(item, &[])
    }

    fn request(&self, request: RequestId) -> Option<RuntimeRequest> {
        match self.row(RowKind::Request.key(request.as_bytes())) {
            Some(Row::Request(request)) => Some(*request),
            _ => None,
        }
    }

    fn row(&self, key: RowKey) -> Option<Row> {
        self.reads.row_or_fault(self.thread, key)
    }

    fn last_items(&self, most: usize) -> Vec<TurnItem> {
        self.or_fault(self.reads.last_items(self.thread, most).map(Some))
            .unwrap_or_default()
    }
}
