//! Messages: each one that was taken reached the agent once, or its stated fate is shown.

use super::{Effect, Oracle, all_rows, shows};
use crate::{
    journal::Arrival,
    stage::{For, Sent},
    story::Family,
};
use pilothouse_domain::{Outcome, Refusal, RunId};
use serde_json::Value;
use std::collections::BTreeSet;

impl Oracle<'_> {
    pub(super) fn messages(&mut self) {
        let removed: BTreeSet<String> = self.unqueued();
        for sent in self.stage.sent.clone() {
            let For::Message { name } = &sent.what else {
                continue;
            };
            let arrivals = self.journal.arrivals(name);
            if arrivals.len() > 1 {
                self.found.wrong(
                    "duplicated",
                    format!("{name} reached the agent {} times", arrivals.len()),
                );
            }
            let dump = self.dumps[0].clone();
            let shown: Vec<_> = all_rows(&dump)
                .into_iter()
                .filter(|(_, row)| shows(row, name))
                .collect();
            if shown.len() > 1 {
                self.found.wrong(
                    "duplicated",
                    format!("{name} is shown {} times: {shown:?}", shown.len()),
                );
            }
            let row = shown.first().map(|(_, row)| *row);
            let outcome = match self.stage.phones[sent.device].reply(sent.n) {
                Some(reply) if reply["error"].is_string() => {
                    self.found.refused += 1;
                    if !arrivals.is_empty() || row.is_some() {
                        self.found.wrong(
                            "lost",
                            format!(
                                "{name} was not saved, its device said ({reply}), and was sent"
                            ),
                        );
                    }
                    continue;
                }
                Some(_) => {
                    let (command, outcome) = self.outcome(&sent).unzip();
                    let run: Option<RunId> = command.map(|command| command.derive("run"));
                    let taken_out = run.is_some_and(|run| removed.contains(&run.to_string()));
                    if taken_out && row.is_none() && arrivals.is_empty() {
                        self.found.refused += 1;
                        continue;
                    }
                    outcome.flatten()
                }
                // Its device died before it could say whether it was saved.
                None if row.is_none() && arrivals.is_empty() => continue,
                None => Some(Outcome::Accepted {
                    cursor: Default::default(),
                    notice: None,
                }),
            };
            match outcome {
                Some(Outcome::Accepted { .. }) => {}
                Some(Outcome::Refused {
                    refusal:
                        Refusal::TurnEnded {
                            message: Some(_), ..
                        },
                }) => self.found.refused += 1,
                Some(Outcome::Refused { refusal }) => {
                    self.found.refused += 1;
                    if !arrivals.is_empty() {
                        self.found.wrong(
                            "lost",
                            format!("{name} was refused ({refusal}) and reached the agent"),
                        );
                    }
                    continue;
                }
                // `told_as_kept` has said whether that was stated.
                None => {
                    if !arrivals.is_empty() {
                        self.found.wrong(
                            "duplicated",
                            format!("{name} reached the agent, and its host does not know it"),
                        );
                    }
                    continue;
                }
            }
            let Some(row) = row else {
                self.found
                    .wrong("lost", format!("{name} was taken and is not shown"));
                continue;
            };
            self.delivery(&sent, name, row, &arrivals, &removed);
        }
        for name in self.journal.busy() {
            self.found.wrong(
                "duplicated",
                format!("{name} was sent as a turn while the agent worked on another"),
            );
        }
    }

    /// How far a message is said to have got, against what the agent knows.
    fn delivery(
        &mut self,
        sent: &Sent,
        name: &str,
        row: &Value,
        arrivals: &[Arrival],
        removed: &BTreeSet<String>,
    ) {
        let run = row["run"].as_str().unwrap_or_default();
        let arrived = !arrivals.is_empty();
        let effect = Effect {
            from: sent.at,
            // An ACP agent confirms a message by nothing but what it does.
            acknowledged: match self.story.family {
                Family::Codex => self.journal.taken(name),
                Family::Acp => self.journal.reacted(name),
            },
            processes: self.serving(sent, arrivals),
        };
        let delivery = row["delivery"]["delivery"].as_str();
        let doubt = match arrived || delivery == Some("unknown") {
            true => self.doubt(&effect),
            false => None,
        };
        match delivery {
            // Of a message in the log only what went wrong is told.
            None | Some("started") if !arrived => self.found.wrong(
                "lost",
                format!("{name} is shown as started and never reached the agent"),
            ),
            None | Some("started") => {}
            // An agent that died before it had taken it kept nothing of it.
            Some("failed")
                if arrived && (self.journal.taken(name).is_some() || doubt.is_none()) =>
            {
                self.found.wrong(
                    "lost",
                    format!(
                        "{name} reached the agent and is shown as {}",
                        row["delivery"]
                    ),
                );
            }
            Some("failed") => self.found.refused += 1,
            Some("on_host") if removed.contains(run) && !arrived => self.found.refused += 1,
            Some("unknown") => match doubt {
                Some(doubt) => self
                    .found
                    .unknown
                    .push(format!("{name} (reached the agent: {arrived}; {doubt})")),
                None => self.found.wrong(
                    "unknown",
                    format!(
                        "{name}: no agent that had it was killed when that could have made it so"
                    ),
                ),
            },
            _ => self.found.wrong(
                "lost",
                format!(
                    "{name} rests as {} (arrived {arrived}): {row}",
                    row["delivery"]
                ),
            ),
        }
    }

    /// Runs that a person took out of the queue.
    pub(super) fn unqueued(&mut self) -> BTreeSet<String> {
        let mut removed = BTreeSet::new();
        for sent in self.stage.sent.clone() {
            let For::Unqueue { run } = &sent.what else {
                continue;
            };
            // Without a word from its device it may have been taken all the same.
            let taken = match self.outcome(&sent) {
                Some((_, outcome)) => matches!(outcome, Some(Outcome::Accepted { .. })),
                None => true,
            };
            if taken {
                removed.insert(run.clone());
            }
        }
        removed
    }
}
