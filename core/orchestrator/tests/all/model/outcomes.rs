//! What comes of what the agent was told.

use super::{agent::failure, course::Course, oracle::Stage, rules::Came};
use pilothouse_domain::{Effect, EffectKind, EffectOutcome, NativeId, provider::TurnStatus};

impl Course<'_> {
    pub(crate) fn outcome(&mut self, a: u16, b: u16) {
        let last = self.sim.effects.len() - 1;
        let at = if b.is_multiple_of(8) {
            usize::from(a) % (last + 1)
        } else {
            0
        };
        let effect = self.sim.effects.remove(at);
        let came = match a % 16 {
            0..9 => Came::Taken,
            9..12 => Came::Written,
            12 => Came::TooLate,
            13 | 14 => Came::Failed,
            _ => Came::Unknown,
        };
        let plain = match came {
            Came::Taken => EffectOutcome::Acknowledged,
            Came::Written => EffectOutcome::Written,
            Came::TooLate => EffectOutcome::TurnEnded,
            Came::Failed => EffectOutcome::Failed { error: failure() },
            Came::Unknown => EffectOutcome::Unknown,
        };
        match effect.kind.clone() {
            EffectKind::SendTurn { attempt, .. } => {
                let attempt = self.sim.attempt(attempt);
                let taken = matches!(came, Came::Taken | Came::Written);
                let came = if taken { Came::Taken } else { came };
                let (turn, outcome) = if taken {
                    self.accepted(attempt)
                } else {
                    (None, plain)
                };
                self.sim.outcome(&effect, &outcome);
                self.sim.oracle.sent(attempt, turn.as_deref(), came);
            }
            EffectKind::Steer { run, message, .. } => {
                let outcome = if a.is_multiple_of(32) {
                    EffectOutcome::Steered
                } else {
                    plain
                };
                self.sim.outcome(&effect, &outcome);
                self.sim.oracle.steered(run, message, came);
            }
            EffectKind::Interrupt { attempt, .. } => {
                let attempt = self.sim.attempt(attempt);
                self.sim.outcome(&effect, &plain);
                self.sim.oracle.stopped(attempt, came);
            }
            EffectKind::Respond { request, answer } => {
                self.sim.outcome(&effect, &plain);
                self.sim.oracle.answered(request, &answer, came);
            }
            EffectKind::Revert { .. } => {
                self.sim.outcome(&effect, &plain);
                self.sim.oracle.forgotten(came);
            }
            EffectKind::Import | EffectKind::SignIn => unreachable!("neither is asked for"),
            EffectKind::Compact { attempt, .. } => {
                let attempt = self.sim.attempt(attempt);
                self.compacted(&effect, attempt, came, plain, a);
            }
        }
    }

    /// The agent was asked to shorten its context: it says so by a turn, by its answer alone, or not at all.
    fn compacted(
        &mut self,
        effect: &Effect,
        attempt: usize,
        came: Came,
        plain: EffectOutcome,
        a: u16,
    ) {
        let work = self.sim.oracle.work.as_ref();
        let waits = work.is_some_and(|work| work.attempt == attempt && work.stage == Stage::Sent);
        match came {
            Came::Taken if a.is_multiple_of(3) => {
                let (turn, outcome) = self.accepted(attempt);
                self.sim.outcome(effect, &outcome);
                if waits {
                    self.sim.oracle.taken_up(turn.as_deref());
                }
            }
            Came::Written => {
                let summary = "what was said".to_owned();
                self.sim
                    .outcome(effect, &EffectOutcome::Compacted { summary });
                if waits && self.sim.oracle.has_conversation {
                    self.sim.oracle.taken_up(None);
                    self.sim.oracle.over(TurnStatus::Completed, false);
                }
            }
            _ => {
                self.sim.outcome(effect, &plain);
                if waits && came == Came::Failed {
                    self.sim.oracle.over(TurnStatus::Failed, false);
                }
            }
        }
    }

    /// The agent took a turn: under the name by which it has spoken of it already, or a new one.
    fn accepted(&mut self, attempt: usize) -> (Option<String>, EffectOutcome) {
        let waits = self.at_stage(Stage::Sent)
            && self
                .sim
                .oracle
                .work
                .as_ref()
                .is_some_and(|work| work.attempt == attempt);
        let known = self.agent.turns.iter().find(|(_, of)| *of == attempt);
        let turn = match known.map(|(name, _)| name.clone()) {
            _ if !self.agent.names_turns => None,
            Some(known) if !waits => Some(known),
            _ => Some(self.agent.fresh("U")),
        };
        if let (true, Some(name)) = (waits, &turn) {
            self.agent.turns.push((name.clone(), attempt));
        }
        let outcome = EffectOutcome::TurnAccepted {
            native_thread: "T".into(),
            native_turn: turn.clone().map(NativeId),
        };
        (turn, outcome)
    }
}
