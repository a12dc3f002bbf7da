//! Prediction: the host's own `decide` over what this device holds, for all commands that are still on their way.

use crate::api::Prediction;
use pilothouse_domain::{
    Command, CommandId, Policy, Row, RowKey, RuntimeRequest, ThreadState, row::RowKind, run::Run,
    thread::Actor, thread::ConversationMessage,
};
use pilothouse_orchestrator::{
    Lookups, RollbackRuns, Rows, SourceThread, apply, decide, lookups, project,
};
use std::collections::BTreeMap;

/// What predictions are made from, besides the thread's state.
pub(crate) trait Held {
    /// A row of the thread, as stored.
    fn row(&self, key: RowKey) -> Option<Row>;
}

/// What predictions need besides the rows that a command names, as far as it is held: by the command.
#[derive(Default)]
pub(crate) struct Further {
    /// The threads that forks come from.
    pub(crate) sources: BTreeMap<CommandId, SourceThread>,
    /// What rollbacks take back.
    pub(crate) taken_back: BTreeMap<CommandId, RollbackRuns>,
}

impl<F: Fn(RowKey) -> Option<Row>> Held for F {
    fn row(&self, key: RowKey) -> Option<Row> {
        self(key)
    }
}

/// A thread as it will most likely be once the host has taken all commands.
pub(crate) struct Overlay<'a> {
    /// Its state; `None` while the thread is not held.
    pub(crate) state: Option<ThreadState>,
    /// What each command leads to, in order.
    pub(crate) predictions: Vec<(CommandId, Prediction)>,
    rows: Draft<'a>,
    pub(crate) further: Further,
}

/// Rows written by predictions, over those stored.
struct Draft<'a> {
    held: &'a dyn Held,
    written: BTreeMap<RowKey, Row>,
}

impl Rows for Draft<'_> {
    fn get(&self, key: RowKey) -> Option<Row> {
        self.written
            .get(&key)
            .cloned()
            .or_else(|| self.held.row(key))
    }

    fn put(&mut self, row: Row) {
        self.written.insert(row.key(), row);
    }
}

impl<'a> Overlay<'a> {
    /// A thread as it is stored. `alike` says whether host and device decide by the same rules.
    pub(crate) fn new(state: Option<ThreadState>, held: &'a dyn Held) -> Self {
        Self {
            further: Further::default(),
            state,
            predictions: Vec::new(),
            rows: Draft {
                held,
                written: BTreeMap::new(),
            },
        }
    }

    /// Adds what a command will lead to. `policy` is `None` where nothing may be predicted.
    pub(crate) fn add(&mut self, command: &Command, actor: Actor, policy: Option<&Policy>) {
        let prediction = self.predict(command, actor, policy);
        if let (Prediction::Events(decision), Some(state)) = (&prediction, &mut self.state) {
            for event in &decision.events {
                project(&mut self.rows, state, 0, event);
                apply(state, event);
            }
        }
        self.predictions.push((command.id, prediction));
    }

    fn predict(&mut self, command: &Command, actor: Actor, policy: Option<&Policy>) -> Prediction {
        let Some(policy) = policy else {
            return Prediction::SavedOnly;
        };
        if self.state.is_none() && command.body.makes_thread() {
            self.state = Some(ThreadState::empty(command.thread));
        }
        let Some(state) = &self.state else {
            return Prediction::SavedOnly;
        };
        let Some(found) = self.look_up(state, command) else {
            return Prediction::SavedOnly;
        };
        match decide(state, &found, actor, command, policy) {
            Ok(decision) => Prediction::Events(Box::new(decision)),
            Err(refusal) => Prediction::Refused(refusal),
        }
    }

    fn look_up(&self, state: &ThreadState, command: &Command) -> Option<Lookups> {
        let keys = lookups(state, command);
        let mut found = Lookups::default();
        if let Some(id) = keys.request {
            match self.rows.get(RowKind::Request.key(id.as_bytes())) {
                Some(Row::Request(request)) => found.request = Some(*request),
                _ => return None,
            }
        }
        if let Some(id) = keys.run {
            match self.rows.get(RowKind::Run.key(id.as_bytes())) {
                Some(Row::Run(run)) => found.run = Some(run),
                _ => return None,
            }
        }
        for id in keys.messages {
            match self.rows.get(RowKind::Message.key(id.as_bytes())) {
                Some(Row::Message(message)) => found.messages.push(message),
                _ => return None,
            }
        }
        // Only the host knows which it has listed.
        if keys.conversation.is_some() {
            return None;
        }
        if let Some(id) = keys.session {
            match self.rows.get(RowKind::Session.key(id.as_bytes())) {
                Some(Row::Session(session)) => found.models = session.models,
                _ => return None,
            }
        }
        if keys.source.is_some() {
            found.source = Some(Box::new(self.further.sources.get(&command.id)?.clone()));
        }
        if keys.rollback.is_some() {
            found.rollback = Some(Box::new(self.further.taken_back.get(&command.id)?.clone()));
        }
        Some(found)
    }

    /// A message, predicted or stored.
    pub(crate) fn message(&self, id: pilothouse_domain::MessageId) -> Option<ConversationMessage> {
        match self.rows.get(RowKind::Message.key(id.as_bytes())) {
            Some(Row::Message(message)) => Some(message),
            _ => None,
        }
    }

    /// A run, predicted or stored.
    pub(crate) fn run(&self, id: pilothouse_domain::RunId) -> Option<Run> {
        match self.rows.get(RowKind::Run.key(id.as_bytes())) {
            Some(Row::Run(run)) => Some(run),
            _ => None,
        }
    }

    /// A request, predicted or stored.
    pub(crate) fn request(&self, id: pilothouse_domain::RequestId) -> Option<RuntimeRequest> {
        match self.rows.get(RowKind::Request.key(id.as_bytes())) {
            Some(Row::Request(request)) => Some(*request),
            _ => None,
        }
    }
}
