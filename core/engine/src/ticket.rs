//! A submitted command's receipt: saved when, and come to what.

use crate::{
    api::{Prediction, TicketOutcome},
    delivery::lock,
    error::SubmitError,
};
use pilothouse_domain::{CommandId, ThreadId};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::sync::watch;

/// What the core knows of a submitted command. Dropping it changes nothing: the command is in the outbox.
#[derive(Debug, Clone)]
pub struct Ticket {
    shared: Arc<TicketState>,
}

/// The part that the core keeps.
#[derive(Debug)]
pub(crate) struct TicketState {
    pub(crate) command: CommandId,
    pub(crate) thread: ThreadId,
    prediction: Prediction,
    saved: Mutex<Option<Result<(), SubmitError>>>,
    saved_changed: Condvar,
    outcome: watch::Sender<Option<TicketOutcome>>,
}

impl Ticket {
    pub(crate) fn new(command: CommandId, thread: ThreadId, prediction: Prediction) -> Self {
        Self {
            shared: Arc::new(TicketState {
                command,
                thread,
                prediction,
                saved: Mutex::new(None),
                saved_changed: Condvar::new(),
                outcome: watch::Sender::new(None),
            }),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<TicketState> {
        &self.shared
    }

    /// The command's id: with it, what came of it can be asked for in a later life of the program.
    pub fn command_id(&self) -> CommandId {
        self.shared.command
    }

    /// The thread it is for, or the one it makes.
    pub fn thread(&self) -> ThreadId {
        self.shared.thread
    }

    /// What it will most likely lead to.
    pub fn prediction(&self) -> &Prediction {
        &self.shared.prediction
    }

    /// Waits until the command is on disk: the outbox's one fsync. From then on it survives the device's death.
    ///
    /// # Errors
    /// It could not be saved, and it will not be sent; or the core was closed before.
    pub fn durable(&self) -> Result<(), SubmitError> {
        let mut saved = lock(&self.shared.saved);
        loop {
            if let Some(result) = &*saved {
                return result.clone();
            }
            saved = self
                .shared
                .saved_changed
                .wait(saved)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for what comes of it. May wait for as long as the host is away. On any async runtime.
    pub async fn outcome(&self) -> TicketOutcome {
        let mut seen = self.shared.outcome.subscribe();
        loop {
            if let Some(outcome) = &*seen.borrow_and_update() {
                return outcome.clone();
            }
            if seen.changed().await.is_err() {
                // This ticket holds the sender, so it cannot be gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// What came of it, if that is known already.
    pub fn poll_outcome(&self) -> Option<TicketOutcome> {
        self.shared.outcome.borrow().clone()
    }
}

impl TicketState {
    pub(crate) fn set_saved(&self, result: Result<(), SubmitError>) {
        lock(&self.saved).get_or_insert(result);
        self.saved_changed.notify_all();
    }

    /// A parked command can still come to something else; anything else is final.
    pub(crate) fn set_outcome(&self, outcome: TicketOutcome) {
        self.outcome.send_if_modified(|held| {
            let open = matches!(held, None | Some(TicketOutcome::Parked { .. }));
            if open && held.as_ref() != Some(&outcome) {
                *held = Some(outcome);
                return true;
            }
            false
        });
    }

    /// A parked command is on its way again.
    pub(crate) fn reopen(&self) {
        self.outcome.send_if_modified(|held| {
            let parked = matches!(held, Some(TicketOutcome::Parked { .. }));
            if parked {
                *held = None;
            }
            parked
        });
    }

    pub(crate) fn is_final(&self) -> bool {
        !matches!(
            &*self.outcome.borrow(),
            None | Some(TicketOutcome::Parked { .. })
        )
    }
}
