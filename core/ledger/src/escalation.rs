//! The visible escalation of an interrupt: protocol, then SIGINT, SIGTERM, SIGKILL to the agent's process group, each
//! after a stated time and each reported in the thread. A step that would end other threads' work is not taken.

use crate::{runtimes::Running, writer::Job};
use pilothouse_domain::{AttemptId, RunId, ThreadId};
use pilothouse_providers::contract::Escalation;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// The steps beyond the protocol's own, and how long the one before is given.
const STEPS: [(&str, Escalation, Duration); 3] = [
    ("sigint", Escalation::Interrupt, Duration::from_secs(10)),
    ("sigterm", Escalation::Terminate, Duration::from_secs(5)),
    ("sigkill", Escalation::Kill, Duration::from_secs(5)),
];

/// An interrupt whose end is waited for.
pub(crate) struct Watch {
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    pub(crate) attempt: AttemptId,
    pub(crate) running: Arc<Running>,
}

/// What the writer says when a step's time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The attempt has ended.
    Over,
    /// It goes on, and nothing else would be hurt.
    Proceed,
    /// It goes on, and so do others in the same process.
    Shared(Vec<ThreadId>),
}

impl Watch {
    pub(crate) async fn run(self, jobs: mpsc::WeakSender<Job>) {
        for (name, signal, after) in STEPS {
            tokio::time::sleep(after).await;
            let Some(jobs) = jobs.upgrade() else { return };
            let (reply, verdict) = oneshot::channel();
            let job = Job::Escalate {
                thread: self.thread,
                run: self.run,
                attempt: self.attempt,
                incarnation: self.running.facts.incarnation,
                step: name,
                reply,
            };
            if jobs.send(job).await.is_err() {
                return;
            }
            match verdict.await {
                Ok(Verdict::Proceed) => {
                    if let Err(error) = self.running.runtime.signal(signal) {
                        tracing::warn!(step = name, %error, "the agent's process group could not be signalled");
                    }
                }
                Ok(Verdict::Over | Verdict::Shared(_)) | Err(_) => return,
            }
        }
    }
}
