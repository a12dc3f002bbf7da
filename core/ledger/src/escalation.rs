//! The visible escalation of an interrupt: protocol, then SIGINT, SIGTERM, SIGKILL to the agent's process group, each
//! after a stated time and each reported in the thread. A step that would end other threads' work is not taken.

use crate::{
    runtimes::{Running, Runtimes},
    writer::Job,
};
use pilothouse_domain::{AttemptId, RunId, ThreadId};
use pilothouse_orchestrator::STEP_REFUSED;
use pilothouse_providers::contract::Escalation;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// A step beyond the protocol's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    signal: Escalation,
    /// How long the step before is given.
    after: Duration,
    /// What a person reads when it is taken.
    pub(crate) said: &'static str,
}

/// Those for an agent of this machine.
const STEPS: [Step; 3] = [
    Step {
        name: "sigint",
        signal: Escalation::Interrupt,
        after: Duration::from_secs(10),
        said: "the agent goes on: SIGINT to it and all that it started",
    },
    Step {
        name: "sigterm",
        signal: Escalation::Terminate,
        after: Duration::from_secs(5),
        said: "it still goes on: SIGTERM",
    },
    Step {
        name: "sigkill",
        signal: Escalation::Kill,
        after: Duration::from_secs(5),
        said: "it still goes on: SIGKILL",
    },
];

/// The one for an agent elsewhere, which no signal reaches: the connection with it ends and is made anew.
const ELSEWHERE: [Step; 1] = [Step {
    name: STEP_REFUSED,
    signal: Escalation::Kill,
    after: Duration::from_secs(20),
    said: "the agent goes on, elsewhere, where no signal reaches it: it is connected with anew; stop it again, or on its machine",
}];

/// An interrupt whose end is waited for.
pub(crate) struct Watch {
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    pub(crate) attempt: AttemptId,
    pub(crate) running: Arc<Running>,
    pub(crate) runtimes: Arc<Runtimes>,
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
        let steps: &[Step] = if self.running.facts.elsewhere {
            &ELSEWHERE
        } else {
            &STEPS
        };
        for &step in steps {
            tokio::time::sleep(step.after).await;
            // Over the next connection it was asked again, and that is waited for by itself.
            if !self.runtimes.is_current(&self.running).await {
                return;
            }
            let Some(jobs) = jobs.upgrade() else { return };
            let (reply, verdict) = oneshot::channel();
            let job = Job::Escalate {
                thread: self.thread,
                run: self.run,
                attempt: self.attempt,
                incarnation: self.running.facts.incarnation,
                step,
                reply,
            };
            if jobs.send(job).await.is_err() {
                return;
            }
            match verdict.await {
                Ok(Verdict::Proceed) => {
                    if let Err(error) = self.running.runtime.signal(step.signal) {
                        tracing::warn!(step = step.name, %error, "the agent's process group could not be signalled");
                    }
                }
                Ok(Verdict::Over | Verdict::Shared(_)) | Err(_) => return,
            }
        }
    }
}
