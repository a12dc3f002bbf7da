//! Commands: admitted, decided and answered.

use super::Work;
use crate::config::Principal;
use pilothouse_domain::{Cause, Command, CommandBody, Outcome, Refusal, ThreadId, thread::Actor};
use pilothouse_orchestrator::{Lookups, Verdict, decide, lookups};
use pilothouse_store::{LedgerTx, StoreError};

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
        let Some(state) = self.state(thread) else {
            return Ok(Outcome::Refused {
                refusal: Refusal::NotReady,
            });
        };
        if state.meta.is_none() && !matches!(command.body, CommandBody::ThreadCreate { .. }) {
            return Ok(Outcome::Refused {
                refusal: Refusal::UnknownThread { thread },
            });
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
        crate::bindings::look_up(tx, thread, &keys)
    }
}
