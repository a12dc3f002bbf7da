//! What came of what was asked of the whole conversation: runs taken back, a context shortened.

use super::{Ingesting, WORDS, cut};
use pilothouse_domain::{
    AttemptId, EffectOutcome, Event, ItemContent, ItemStatus, Row, RunId,
    command::{Notice, NoticeKind},
    event::RollbackOutcome,
    item::Body,
    limits,
    provider::{AccountLimit, OfferedCommand, OfferedModel, ProviderSession, TurnStatus},
    provider_event::NativePlace,
    row::RowKind,
    run::{AttemptStatus, Correlation, ErrorCode, RunError},
    state::{EndedRun, Import},
};

impl Ingesting<'_> {
    /// What the agent can run on, kept with its session; names and numbers are bounded here, whoever sent them.
    pub(super) fn models_offered(&mut self, models: &[OfferedModel]) {
        let Some(session) = self.session.map(|session| session.session) else {
            return;
        };
        let name = |text: &String| cut(text, limits::MODEL_NAME);
        let bounded = models.iter().take(limits::OFFERED_MODELS);
        let models = bounded
            .map(|model| OfferedModel {
                id: name(&model.id),
                name: name(&model.name),
                efforts: model
                    .efforts
                    .iter()
                    .take(limits::OFFERED_MODELS)
                    .map(name)
                    .collect(),
                default_effort: model.default_effort.as_ref().map(name),
                is_default: model.is_default,
                images: model.images,
            })
            .collect();
        // Said anew with the capabilities.
        if self.session_row().is_some_and(|row| row.models == models) {
            return;
        }
        self.emit(Event::ModelsOffered { session, models });
    }

    /// Agents say them anew with every conversation: what says nothing new is no entry.
    pub(super) fn commands_offered(&mut self, commands: &[OfferedCommand]) {
        let Some(session) = self.session.map(|session| session.session) else {
            return;
        };
        let words = |text: &String| cut(text, limits::COMMAND_WORDS);
        let bounded = commands.iter().take(limits::OFFERED_COMMANDS);
        let commands: Vec<OfferedCommand> = bounded
            .map(|command| OfferedCommand {
                name: words(&command.name),
                description: words(&command.description),
                argument_hint: words(&command.argument_hint),
            })
            .collect();
        let known = self.session_row().map(|row| row.commands);
        if known.is_some_and(|known| known != commands) {
            self.emit(Event::CommandsOffered { session, commands });
        }
    }

    /// How much of the account's limits is used. Many agents say so with every answer of their model: what says nothing new
    /// is no entry.
    pub(super) fn limits_reported(&mut self, reported: &[AccountLimit]) {
        let Some(session) = self.session.map(|session| session.session) else {
            return;
        };
        let bounded = reported.iter().take(limits::ACCOUNT_LIMITS);
        let limits: Vec<AccountLimit> = bounded
            .map(|limit| AccountLimit {
                name: cut(&limit.name, limits::MODEL_NAME),
                ..limit.clone()
            })
            .collect();
        let known = self.session_row().map(|row| row.limits);
        if known.is_some_and(|known| known != limits) {
            self.emit(Event::LimitsReported { session, limits });
        }
    }

    /// The row of the session that speaks.
    pub(super) fn session_row(&self) -> Option<ProviderSession> {
        match self.row(RowKind::Session, self.session?.session.as_bytes()) {
            Some(Row::Session(row)) => Some(row),
            _ => None,
        }
    }

    pub(super) fn reverted(
        &mut self,
        before: RunId,
        runs: &[RunId],
        head: Option<EndedRun>,
        outcome: &EffectOutcome,
    ) {
        if self.state().rollback != Some(before) {
            return;
        }
        // Where the last run stands that is taken back: afterwards it is no longer the last.
        let spot = self.spot(&NativePlace::default());
        let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        let refused = |error: &RunError| RunError {
            code: error.code,
            message: cut(&error.message, WORDS),
        };
        let (outcome, content, status) = match outcome {
            EffectOutcome::Failed { error } => (
                RollbackOutcome::Refused {
                    error: refused(error),
                },
                ItemContent::Error {
                    code: error.code,
                    message: format!("nothing was taken back: {}", error.message),
                    will_retry: false,
                },
                ItemStatus::Failed,
            ),
            EffectOutcome::Unknown | EffectOutcome::TurnEnded => {
                let error = RunError {
                    code: ErrorCode::RuntimeLost,
                    message: "the agent was lost before it answered; asking again does no harm"
                        .to_owned(),
                };
                (
                    RollbackOutcome::Refused {
                        error: error.clone(),
                    },
                    ItemContent::Error {
                        code: error.code,
                        message: error.message,
                        will_retry: false,
                    },
                    ItemStatus::Failed,
                )
            }
            _ => (
                RollbackOutcome::Applied {
                    runs: runs.to_vec(),
                    head,
                },
                ItemContent::Rollback {
                    before,
                    runs: count,
                },
                ItemStatus::Completed,
            ),
        };
        self.emit(Event::RollbackEnded { before, outcome });
        if let Some(spot) = spot {
            let id = self.mint.mint();
            self.open_item(id, spot, content, status);
        }
    }

    /// What was said in an imported conversation is here, or could not be read: then it goes on all the same, and its person
    /// is told.
    pub(super) fn imported(&mut self, outcome: &EffectOutcome) {
        if self.state().import != Some(Import::Reading) {
            return;
        }
        let error = match outcome {
            EffectOutcome::Failed { error } => Some(RunError {
                code: error.code,
                message: cut(&error.message, WORDS),
            }),
            EffectOutcome::Unknown | EffectOutcome::TurnEnded => Some(RunError {
                code: ErrorCode::RuntimeLost,
                message: "the agent was lost before it had told all".to_owned(),
            }),
            _ => None,
        };
        if let Some(error) = &error {
            let id = self.mint.mint();
            let message = format!("what was said before could not be read: {}", error.message);
            let what = NoticeKind::Agent { message };
            self.emit(Event::NoticeRaised {
                notice: Notice { id, what },
            });
        }
        self.emit(Event::ImportEnded { error });
    }

    pub(super) fn compacted(&mut self, run: RunId, attempt: AttemptId, outcome: &EffectOutcome) {
        let Some(turn) = self
            .active_turn()
            .filter(|turn| turn.attempt == Some(attempt) && turn.id.is_none() && !turn.ended)
        else {
            // Its turn has shown itself already, or it is over.
            if let EffectOutcome::Failed { error } = outcome {
                self.error_in(run, error);
            }
            return;
        };
        match outcome {
            EffectOutcome::TurnAccepted {
                native_thread,
                native_turn,
            } => self.turn_accepted(attempt, true, native_thread, native_turn.as_ref()),
            EffectOutcome::Compacted { summary } => {
                let Some(conversation) = self.state().provider_thread else {
                    return;
                };
                let Some(turn) = self.bind_turn(attempt, conversation, None) else {
                    return;
                };
                let id = self.mint.mint();
                let text = Body::inline(summary.clone());
                let content = ItemContent::Compaction { text };
                self.open_item(id, turn.spot, content, ItemStatus::Completed);
                self.close_turn(turn.spot, TurnStatus::Completed);
                let status = AttemptStatus::Completed;
                self.end_attempt(attempt, status, Correlation::Inferred, None);
            }
            EffectOutcome::Failed { error } => {
                self.close_turn(turn.spot, TurnStatus::Failed);
                self.end_attempt(
                    attempt,
                    AttemptStatus::Failed,
                    Correlation::Inferred,
                    Some(error.clone()),
                );
            }
            // Its turn comes as an event; of a lost runtime the loss tells.
            EffectOutcome::Acknowledged
            | EffectOutcome::Steered
            | EffectOutcome::Written
            | EffectOutcome::TurnEnded
            | EffectOutcome::Unknown => {}
        }
    }
}
