//! An agent whose sign-in was refused: what is said to it waits (docs/decisions/030).

use crate::{
    Verdict,
    decide::{Deciding, accepted, invalid},
    degrade::{self, Feature, Service},
};
use pilothouse_domain::{
    EffectKind, Event, Refusal, ThreadState,
    event::{HoldReason, QueuePlace, Skippable},
    request::RequestKind,
    thread::Attachment,
};

/// Whether a person is asked already to sign the agent in.
pub(crate) fn is_open(state: &ThreadState) -> bool {
    state
        .requests
        .iter()
        .any(|slot| slot.kind == RequestKind::Auth)
}

impl Deciding<'_> {
    /// Whether a message of this thread would be the next to be refused: its own agent's sign-in was, here or elsewhere.
    pub(crate) fn waits_for_sign_in(&self) -> bool {
        let state = &self.draft.state;
        match state.held {
            Some(reason) => state.rests() && reason == HoldReason::SignIn,
            None => state.rests() && self.lookups.signed_out,
        }
    }

    /// Keeps a message until the sign-in is back, or a person says to try again.
    pub(crate) fn wait_for_sign_in(
        &mut self,
        text: &str,
        attachments: &[Attachment],
    ) -> Result<Verdict, Refusal> {
        self.put_in_queue(QueuePlace::Tail, text, attachments)?;
        self.draft.hold_for_sign_in();
        Ok(accepted())
    }

    /// Has the agent begin to sign in (docs/decisions/033). What a person is to do comes as a request of the agent's.
    pub(crate) fn sign_in(&mut self) -> Result<Verdict, Refusal> {
        self.check_rests()?;
        let state = &self.draft.state;
        if state.held != Some(HoldReason::SignIn) {
            return Err(invalid("thread", "it does not wait for a sign-in"));
        }
        if let Service::Refused(row) = degrade::serve(Feature::SignIn, state, self.policy) {
            return Err(row.refusal());
        }
        // Another device was first: there is one request for both.
        if is_open(state) {
            return Ok(accepted());
        }
        self.draft.emit(Event::SignInAsked {
            skippable: Skippable,
        });
        self.draft
            .effect(self.command.id.derive("effect"), EffectKind::SignIn);
        Ok(accepted())
    }
}
