//! Commands: admitted, decided and answered.

use super::Work;
use crate::config::Principal;
use pilothouse_domain::{
    Cause, Command, CommandBody, Outcome, Refusal, ThreadId,
    binding::{Binding, BindingKey, BindingTarget},
    limits,
    thread::Actor,
};
use pilothouse_orchestrator::{ListedConversation, Lookups, Verdict, decide, lookups, source_of};
use pilothouse_store::{LedgerTx, StoreError};

/// A message waits for its files: one that names a file which is not here is not taken.
fn missing_file(tx: &LedgerTx<'_>, command: &Command) -> Result<Option<Refusal>, StoreError> {
    let CommandBody::MessageSend { attachments, .. } = &command.body else {
        return Ok(None);
    };
    for file in attachments.iter().take(limits::ATTACHMENTS) {
        if tx.blob_len(file.hash)? != Some(file.bytes) {
            return Ok(Some(Refusal::Invalid {
                field: "attachments".into(),
                problem: format!("`{}` is not on the host; upload it first", file.name),
            }));
        }
    }
    Ok(None)
}

impl Work {
    pub(super) fn command(
        &mut self,
        tx: &mut LedgerTx<'_>,
        principal: &Principal,
        command: &Command,
    ) -> Result<Outcome, StoreError> {
        if let Some(outcome) = tx.outcome(command.id)? {
            return Ok(outcome);
        }
        let outcome = match self.admit(tx, principal, command)? {
            Ok(()) => self.decide(tx, principal, command)?,
            Err(refusal) => Outcome::Refused { refusal },
        };
        // The store does not keep a transient refusal: the command will be tried again.
        let now = self.clock.now_ms();
        tx.put_outcome(
            command.id,
            principal.device,
            command.thread,
            command.device_seq,
            now,
            &outcome,
        )?;
        Ok(outcome)
    }

    pub(super) fn admit(
        &self,
        tx: &LedgerTx<'_>,
        principal: &Principal,
        command: &Command,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let scope = command.body.scope();
        if !principal.scopes.contains(&scope) {
            return Ok(Err(Refusal::Forbidden { scope }));
        }
        // Scopes are those of the connection; a revocation may stand before this command in the queue.
        if tx.device(principal.device)?.is_some_and(|row| row.revoked) {
            return Ok(Err(Refusal::Forbidden { scope }));
        }
        let last = tx.last_device_seq(principal.device, command.thread)?;
        if command.device_seq <= last {
            let problem = "a later command of this device was taken before".into();
            return Ok(Err(Refusal::Invalid {
                field: "device_seq".into(),
                problem,
            }));
        }
        Ok(Ok(()))
    }

    pub(super) fn decide(
        &mut self,
        tx: &mut LedgerTx<'_>,
        principal: &Principal,
        command: &Command,
    ) -> Result<Outcome, StoreError> {
        let thread = command.thread;
        self.load(tx, thread)?;
        if let CommandBody::ThreadFork { source, .. } = &command.body {
            self.load(tx, *source)?;
        }
        let Some(state) = self.state(thread) else {
            return Ok(Outcome::Refused {
                refusal: Refusal::NotReady,
            });
        };
        if state.meta.is_none() && !command.body.makes_thread() {
            return Ok(Outcome::Refused {
                refusal: Refusal::UnknownThread { thread },
            });
        }
        if let Some(missing) = missing_file(tx, command)? {
            return Ok(Outcome::Refused { refusal: missing });
        }
        let found = self.look_up(tx, thread, command)?;
        let actor = Actor::Device {
            device: principal.device,
        };
        let decision = match decide(state, &found, actor, command, &self.policy) {
            Ok(decision) => decision,
            Err(refusal) => return Ok(Outcome::Refused { refusal }),
        };
        let cause = Cause::Command {
            command: command.id,
            device: principal.device,
        };
        let verdict = decision.verdict.clone();
        // In the same transaction: the next import finds it bound.
        if let CommandBody::ThreadImport { conversation, .. } = &command.body
            && let Some((agent, native)) = self.listed.find(*conversation)
        {
            let target = BindingTarget::Thread {
                provider_thread: command.id.derive("conversation"),
                node: None,
                run: None,
            };
            let key = BindingKey::Thread { thread: native };
            tx.put_binding(agent.as_str(), thread, &Binding { key, target })?;
        }
        if matches!(command.body, CommandBody::QueueRelease { .. }) {
            self.tries(thread);
        }
        self.append(tx, thread, cause, decision)?;
        self.settle(tx, thread)?;
        let cursor = self
            .cells
            .get(&thread)
            .map_or_else(Default::default, |cell| cell.cursor);
        Ok(match verdict {
            Verdict::Accepted { notice } => Outcome::Accepted { cursor, notice },
            Verdict::Refused(refusal) => Outcome::Refused { refusal },
        })
    }

    pub(super) fn look_up(
        &self,
        tx: &LedgerTx<'_>,
        thread: ThreadId,
        command: &Command,
    ) -> Result<Lookups, StoreError> {
        let Some(state) = self.state(thread) else {
            return Ok(Lookups::default());
        };
        let keys = lookups(state, command);
        let mut found = crate::bindings::look_up(tx, thread, &keys)?;
        found.signed_out = self.is_signed_out(thread);
        if let Some((source, run)) = keys.source
            && let Some(cell) = self.cells.get(&source)
        {
            let source = source_of(cell.state.clone(), cell.cursor, run, |key| {
                tx.row_or_fault(source, key)
            });
            found.source = Some(Box::new(source));
        }
        if matches!(command.body, CommandBody::ThreadSelect { .. }) {
            found.models = match keys.session {
                Some(session) => crate::bindings::models(tx, thread, session)?,
                None => Vec::new(),
            };
            let agent = state.meta.as_ref().map(|meta| &meta.selection.agent);
            if found.models.is_empty()
                && let Some(offered) = agent.and_then(|agent| self.offered.get(agent))
            {
                found.models.clone_from(offered);
            }
        }
        if let Some(key) = keys.conversation
            && let Some((agent, native)) = self.listed.find(key)
        {
            let key = BindingKey::Thread { thread: native };
            let bound = tx.binding(agent.as_str(), &key)?;
            found.conversation = Some(ListedConversation {
                thread: bound.map(|(thread, _)| thread),
                agent,
            });
        }
        if let Some(before) = keys.rollback {
            found.rollback = crate::bindings::taken_back(tx, thread, before)?.map(Box::new);
        }
        Ok(found)
    }
}
