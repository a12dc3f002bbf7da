//! What the ledger does of its own accord after an append: end a run, start the attempt that a restart waits for, start
//! the queue's head.

use crate::{
    Decision, Internal,
    draft::{Draft, Start, StartIds},
    ingest,
};
use pilothouse_domain::{
    DispatchMode, EffectKind, Event, RunStatus, ThreadState,
    command::{Notice, NoticeKind},
    event::HoldReason,
    ids::IdMint,
    provider::TurnStatus,
    run::{AttemptReason, ErrorCode, Origin},
    state::Import,
    thread::Lifecycle,
};

/// What the ledger has to do next, if anything. Asked again after each append until there is nothing.
pub fn next_internal(state: &ThreadState) -> Option<Internal> {
    if let Some(active) = &state.active {
        let barrier = active.barrier.as_ref()?;
        let restarts =
            active.restart_pending.is_some() && barrier.end.status != TurnStatus::Completed;
        return Some(if restarts {
            Internal::StartRestart
        } else {
            Internal::FinishRun
        });
    }
    let in_use = state.read_only.is_none()
        && state
            .meta
            .as_ref()
            .is_some_and(|meta| meta.lifecycle == Lifecycle::Active);
    let goes_on = state.held.is_none() && state.rests();
    (in_use && goes_on && !state.queue.is_empty()).then_some(Internal::AdvanceQueue)
}

/// Decides it. What no longer applies gives an empty decision.
///
/// [`Internal::RuntimeLost`] decided here closes open items without their streamed text and requests without their
/// recorded answers, because it sees the state alone: a ledger calls [`crate::runtime_lost`], which sees both.
pub fn decide_internal(state: &ThreadState, internal: &Internal, mint: &mut IdMint) -> Decision {
    let mut draft = Draft::on(state);
    match internal {
        Internal::FinishRun => finish_run(&mut draft, mint),
        Internal::StartRestart => start_restart(&mut draft, mint),
        Internal::AdvanceQueue => advance_queue(&mut draft, mint),
        Internal::InterruptStep { step, note } => {
            draft.interrupt_step(step, note.clone(), mint.mint());
        }
        Internal::RuntimeLost { reason, detail } => {
            let lost = ingest::runtime_lost(state, &ingest::NoBindings, *reason, detail, mint);
            draft.events = lost.events;
        }
    }
    Decision {
        events: draft.events,
        effects: draft.effects,
        ..Decision::default()
    }
}

fn start_ids(mint: &mut IdMint) -> StartIds {
    StartIds {
        attempt: mint.mint(),
        node: mint.mint(),
        effect: mint.mint(),
    }
}

pub(crate) fn finish_run(draft: &mut Draft<'_>, mint: &mut IdMint) {
    let Some(active) = draft.state.active.clone() else {
        return;
    };
    let Some(barrier) = active.barrier else {
        return;
    };
    let (status, error) = match barrier.end.status {
        TurnStatus::Completed => (RunStatus::Completed, None),
        TurnStatus::Interrupted => (RunStatus::Interrupted, barrier.error),
        TurnStatus::Failed => (RunStatus::Failed, barrier.error),
    };
    let code = error.as_ref().map(|error| error.code);
    draft.emit(Event::RunEnded {
        run: active.id,
        status,
        error,
    });
    if let Some(message) = active.restart_pending {
        // The turn completed before it could be stopped: the words came too late and wait for their person.
        draft.keep_missed(
            mint.mint(),
            message,
            DispatchMode::RestartActive { run: active.id },
            HoldReason::SteerMissed,
        );
        draft.emit(Event::NoticeRaised {
            notice: Notice {
                id: mint.mint(),
                what: NoticeKind::SteerMissed { message },
            },
        });
    }
    // What is read back of a conversation says nothing of what is said next: who holds the queue meanwhile holds it on.
    if active.origin == Origin::External && draft.state.import == Some(Import::Reading) {
        return;
    }
    match status {
        // What comes next would fail as well: it waits, also where nothing is queued yet.
        RunStatus::Failed if code == Some(ErrorCode::SignIn) => draft.hold_for_sign_in(),
        RunStatus::Failed => draft.hold(HoldReason::Failed),
        RunStatus::Interrupted if code == Some(ErrorCode::RuntimeLost) => {
            draft.hold(HoldReason::RuntimeLost);
        }
        // Stopped by somebody here who wants the queue to go on: the one interrupt that does not hold it.
        RunStatus::Interrupted if active.interrupting.is_some() && !active.stop_holds_queue => {}
        RunStatus::Interrupted => draft.hold(HoldReason::Interrupted),
        _ => {}
    }
}

fn start_restart(draft: &mut Draft<'_>, mint: &mut IdMint) {
    let Some(active) = draft.state.active.clone() else {
        return;
    };
    let (Some(message), Some(barrier)) = (active.restart_pending, active.barrier) else {
        return;
    };
    if barrier.end.status == TurnStatus::Completed {
        return;
    }
    let ids = start_ids(mint);
    if active.answered {
        draft.emit(Event::RunEnded {
            run: active.id,
            status: match barrier.end.status {
                TurnStatus::Failed => RunStatus::Failed,
                _ => RunStatus::Interrupted,
            },
            error: barrier.error,
        });
        let start = Start {
            run: mint.mint(),
            message,
            origin: Origin::Person,
            dispatch: Some(DispatchMode::RestartActive { run: active.id }),
            supersedes: Some(active.id),
            reason: AttemptReason::SteeringRestart,
        };
        draft.start_run(&start, ids);
        return;
    }
    draft.emit(Event::AttemptStarted {
        attempt: ids.attempt,
        run: active.id,
        ordinal: active.attempts.saturating_add(1),
        reason: AttemptReason::SteeringRestart,
        root_node: ids.node,
        message: Some(message),
    });
    draft.effect(
        ids.effect,
        EffectKind::SendTurn {
            run: active.id,
            attempt: ids.attempt,
            message,
        },
    );
}

fn advance_queue(draft: &mut Draft<'_>, mint: &mut IdMint) {
    if !draft.state.rests() || draft.state.held.is_some() {
        return;
    }
    let Some(head) = draft.state.queue.first().copied() else {
        return;
    };
    let start = Start {
        run: head.run,
        message: head.message,
        origin: head.origin,
        dispatch: Some(head.dispatch),
        supersedes: None,
        reason: AttemptReason::Initial,
    };
    let ids = start_ids(mint);
    draft.start_run(&start, ids);
}
