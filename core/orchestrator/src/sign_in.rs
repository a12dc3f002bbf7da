//! An agent whose sign-in was refused: what is said to it waits (docs/decisions/030).

use crate::{
    Verdict,
    decide::{Deciding, accepted},
};
use pilothouse_domain::{
    Refusal,
    event::{HoldReason, QueuePlace},
    thread::Attachment,
};

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
}
