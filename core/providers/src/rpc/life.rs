//! Looks for signs of life of an agent that is at work (DETAILS section 3).
//!
//! A sign is anything it writes, to either output, and any processor time of it and of all it has started. An agent that has
//! given none for as long as [`Life::silent`] while a turn goes on and nothing waits for a person is asked something. One
//! that answers is alive: it waits for its model. Where its family always answers, one that does not is ended, and its runs
//! with it; elsewhere its person is told, once, and decides.

use super::{Peer, session::Session};
use crate::{
    contract::{Escalation, EventSender, RuntimeEvents},
    process::{Life, ticks_of},
};
use pilothouse_domain::{
    ProviderEvent, ProviderEventKind,
    run::{ErrorCode, RunError},
};
use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, watch::Receiver};

/// Looks per [`Life::silent`].
const LOOKS: u32 = 8;

/// The signs of life that an agent gave, as far as it was looked at.
pub(crate) struct Signs {
    /// Bytes that it wrote, and ticks of processor time of it and of all it has started.
    last: Option<(u64, u64)>,
    since: Instant,
}

impl Signs {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            since: Instant::now(),
        }
    }

    /// Looks again: how long it has given none, by what it `wrote` and by the process that `pid` names, if it runs here.
    pub(crate) async fn missing(&mut self, wrote: u64, pid: Option<u32>) -> Duration {
        let ticks = tokio::task::spawn_blocking(move || pid.map_or(0, ticks_of)).await;
        let signs = (wrote, ticks.unwrap_or_default());
        if self.last.replace(signs).is_some_and(|last| last == signs) {
            return self.since.elapsed();
        }
        self.since = Instant::now();
        Duration::ZERO
    }
}

/// Watches a session until it ends. While no turn goes on it sleeps until something was written or read (`stirred`), so
/// that an idle host is not woken.
pub(super) async fn watch<P: Peer>(
    session: Weak<Session<P>>,
    stirred: Arc<Notify>,
    mut closing: Receiver<bool>,
    life: Life,
    events: EventSender,
) {
    let mut signs = Signs::new();
    let mut told = false;
    let mut idle = true;
    loop {
        let next = async {
            if idle {
                stirred.notified().await;
            }
            tokio::time::sleep(life.silent / LOOKS).await;
        };
        tokio::select! {
            // Nobody may wait for the end of the events because of this task.
            _ = closing.wait_for(|closing| *closing) => return,
            () = next => {}
        }
        let Some(session) = session.upgrade() else {
            return;
        };
        idle = session.working().is_empty();
        if idle {
            signs = Signs::new();
            continue;
        }
        let missing = signs.missing(session.heard(), session.process.id()).await;
        if missing.is_zero() {
            told = false;
        }
        if missing < life.silent || told {
            continue;
        }
        let asked = Instant::now();
        // An error is an answer.
        let answered =
            session.call(P::probe(), life.answer).await.is_ok() || asked.elapsed() < life.answer;
        if answered {
            signs = Signs::new();
        } else if P::ALWAYS_ANSWERS {
            session.give_up();
            let _ = session.process.escalate(Escalation::Kill);
            return;
        } else {
            told = true;
            tell(&session, life, &events).await;
        }
    }
}

/// Tells in each turn that goes on.
async fn tell<P: Peer>(session: &Arc<Session<P>>, life: Life, events: &EventSender) {
    let error = RunError {
        code: ErrorCode::Agent,
        message: format!(
            "no sign of life for {} s: nothing written, no work of its processor, no answer; stop it if it should not go on",
            life.silent.as_secs()
        ),
    };
    let told = session.working().into_iter().map(|place| ProviderEvent {
        place,
        kind: ProviderEventKind::Error {
            error: error.clone(),
            will_retry: true,
        },
    });
    let batch = RuntimeEvents {
        incarnation: session.incarnation(),
        events: told.collect(),
    };
    let _ = events.send(batch).await;
}
