//! What is done with a conversation as a whole, or with its agent: taking back turns, shortening the context, signing in.

use crate::{
    effects::{Done, HISTORY_TURNS, Lane, failed, not_sent},
    plan::OpenPlan,
    runtimes::{Running, session_event},
    work::Foreign,
};
use pilothouse_domain::{EffectOutcome, NativeId, ProviderEventKind, limits, run::ErrorCode};
use pilothouse_providers::contract::{Compaction, OpenError, RevertError, Reverted, Reverting};
use std::time::Duration;
use std::{path::PathBuf, sync::Arc};

/// How often taking back turns is asked for of an agent that does not answer, or whose process ends meanwhile.
const REVERT_TRIES: usize = 3;
/// Pause before an agent that did not answer is asked again.
const REVERT_PAUSE: Duration = Duration::from_secs(1);

/// Takes back the first of these turns that the conversation holds, and with it all that follow.
async fn forget(
    reverting: &dyn Reverting,
    thread: &NativeId,
    turns: &[NativeId],
) -> Result<(), RevertError> {
    for turn in turns {
        if reverting.revert(thread.clone(), turn.clone()).await? == Reverted::Forgotten {
            break;
        }
    }
    Ok(())
}

impl Lane {
    /// Has the agent forget turns, given in their order. Can be done again, so one that did not answer is asked once more, and
    /// one that ended is started for it. A process that lives may serve other threads: it is never ended for this.
    pub(crate) async fn revert(&self, plan: OpenPlan, turns: Vec<NativeId>) -> Done {
        // Nothing of these runs reached the agent.
        if turns.is_empty() {
            return Done {
                session: None,
                outcome: EffectOutcome::Acknowledged,
            };
        }
        for tried in 0..REVERT_TRIES {
            let (running, native) = match self.open(&plan).await {
                Ok(opened) => opened,
                Err(done) => return done,
            };
            let Some(reverting) = running.runtime.reverting() else {
                return failed(
                    Some(&running),
                    ErrorCode::Agent,
                    "the agent as it runs now cannot forget what was said",
                );
            };
            let outcome = match forget(reverting, &native, &turns).await {
                Ok(()) => EffectOutcome::Acknowledged,
                // Else it may be at work on what was asked before.
                Err(error @ RevertError::Busy) if tried == 0 => {
                    return failed(Some(&running), ErrorCode::Agent, &error.to_string());
                }
                Err(RevertError::Refused { error }) => EffectOutcome::Failed { error },
                Err(RevertError::Busy | RevertError::Unknown) => {
                    tokio::time::sleep(REVERT_PAUSE).await;
                    continue;
                }
                Err(RevertError::Lost) => {
                    self.runtimes.forget(running.facts.incarnation).await;
                    continue;
                }
            };
            return Done {
                session: Some(running.facts()),
                outcome,
            };
        }
        failed(
            None,
            ErrorCode::RuntimeLost,
            "the agent ended or did not answer each time it was asked; asking again does no harm",
        )
    }

    /// Loads the thread's conversation and takes in its last turns, or, if that was done before, those that somebody added
    /// elsewhere since. Can be done again.
    pub(crate) async fn import(&self, plan: OpenPlan, again: bool) -> Done {
        let (running, native) = match self.open(&plan).await {
            Ok(opened) => opened,
            Err(done) => return done,
        };
        let Some(history) = running.runtime.history() else {
            return failed(
                Some(&running),
                ErrorCode::Agent,
                "the agent does not tell what was said",
            );
        };
        // Mostly there is nothing new, and a few turns say so.
        let few = [(HISTORY_TURNS, Foreign::AfterKnown)];
        let many = [(limits::IMPORTED_TURNS, Foreign::All)];
        let mut read = Ok(());
        for (turns, foreign) in few.into_iter().filter(|_| again).chain(many) {
            match history.read(native.clone(), turns).await {
                Ok(events) => {
                    if self
                        .compare_with(&running, &native, events, turns, foreign)
                        .await
                    {
                        break;
                    }
                }
                Err(error) => {
                    read = Err(error);
                    break;
                }
            }
        }
        let outcome = match read {
            Ok(()) => EffectOutcome::Acknowledged,
            Err(OpenError::Refused { error } | OpenError::Unanswered { error }) => {
                EffectOutcome::Failed { error }
            }
            Err(error @ OpenError::NotFound { .. }) => {
                return failed(Some(&running), ErrorCode::Resume, &error.to_string());
            }
            Err(OpenError::Lost) => EffectOutcome::Unknown,
        };
        Done {
            session: Some(running.facts()),
            outcome,
        }
    }

    /// Asks the agent for its own commands. Nothing waits for them.
    pub(crate) fn ask_for_commands(&self, running: &Arc<Running>, cwd: PathBuf, native: NativeId) {
        let (lane, running) = (self.clone(), Arc::clone(running));
        tokio::spawn(async move {
            let commands = running.runtime.commands(&cwd).await;
            if !commands.is_empty() {
                let kind = ProviderEventKind::CommandsOffered { commands };
                lane.tell(&running, session_event(kind, Some(native))).await;
            }
        });
    }

    pub(crate) async fn compact(&self, plan: OpenPlan) -> Done {
        let (running, native) = match self.open(&plan).await {
            Ok(opened) => opened,
            Err(done) => return done,
        };
        let Some(compacting) = running.runtime.compacting() else {
            return failed(
                Some(&running),
                ErrorCode::Agent,
                "the agent as it runs now cannot be asked to shorten its context",
            );
        };
        let outcome = match compacting.compact(native.clone()).await {
            Ok(Compaction::Turn { turn: Some(turn) }) => EffectOutcome::TurnAccepted {
                native_thread: native,
                native_turn: Some(turn),
            },
            Ok(Compaction::Turn { turn: None }) => EffectOutcome::Acknowledged,
            Ok(Compaction::Done { summary }) => EffectOutcome::Compacted { summary },
            Err(error) => not_sent(error),
        };
        Done {
            session: Some(running.facts()),
            outcome,
        }
    }

    /// Has the agent begin to sign in; what a person is to do for it comes as a request in this thread's conversation.
    pub(crate) async fn sign_in(&self, plan: OpenPlan) -> Done {
        let (running, native) = match self.open(&plan).await {
            Ok(opened) => opened,
            Err(done) => return done,
        };
        let Some(signing_in) = running.runtime.signing_in() else {
            return failed(
                Some(&running),
                ErrorCode::Agent,
                "the agent as it runs now can only be signed in on its host",
            );
        };
        let outcome = match signing_in.begin(native, plan.selection).await {
            Ok(()) => EffectOutcome::Acknowledged,
            Err(error) => not_sent(error),
        };
        Done {
            session: Some(running.facts()),
            outcome,
        }
    }
}
