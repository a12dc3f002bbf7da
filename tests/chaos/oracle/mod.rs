//! The oracle: what reached the agent, by its own log, against what every device shows and what the host keeps.

mod ends;
mod messages;
mod requests;
mod words;

use crate::{
    journal::{Arrival, Journal},
    stage::{For, Kill, Sent, Stage, is_alive},
    story::Story,
};
use ends::{Effect, Ends, STARTING};
use pilothouse_domain::{CommandId, Outcome};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Each begins with what kind it is: `lost`, `duplicated`, `answer`, `view`, `digest`, `rebuild`, `unknown`, `process`.
    pub(crate) violations: Vec<String>,
    /// Effects of which nobody can say whether they took place, with whether they did by the agent's log, and which kill
    /// made it so.
    pub(crate) unknown: Vec<String>,
    /// Answers that are shown as concluded from the end of a turn that was stopped, and that the agent never had.
    pub(crate) inferred: Vec<String>,
    /// Kills while the agent's log shows an effect that may not have been acknowledged.
    pub(crate) kills_in_doubt: u64,
    /// Messages and answers that were refused, with a stated reason.
    pub(crate) refused: u64,
}

impl Findings {
    fn wrong(&mut self, kind: &str, what: impl Into<String>) {
        self.violations.push(format!("{kind}: {}", what.into()));
    }
}

struct Oracle<'a> {
    stage: &'a mut Stage,
    story: &'a Story,
    journal: Journal,
    ends: Ends,
    /// Kills at which some effect was in doubt.
    in_doubt: BTreeSet<usize>,
    dumps: Vec<Value>,
    found: Findings,
}

/// What the judge looks at, besides the agent's log: a fault may be planted in it.
pub(crate) struct Evidence<'a> {
    /// What each device shows.
    pub(crate) dumps: Vec<Value>,
    /// What was killed.
    pub(crate) kills: Vec<Kill>,
    /// The agent's log.
    pub(crate) journal: &'a Journal,
}

/// Compares everything, while all is at rest.
pub(crate) fn judge(
    stage: &mut Stage,
    story: &Story,
    closing: &[String],
    edit: impl Fn(&mut Evidence<'_>),
) -> Findings {
    let journal = stage.journal();
    let mut evidence = Evidence {
        dumps: stage.phones.iter_mut().map(|phone| phone.dump()).collect(),
        kills: stage.kills.clone(),
        journal: &journal,
    };
    edit(&mut evidence);
    let Evidence { dumps, kills, .. } = evidence;
    let mut oracle = Oracle {
        ends: Ends::of(&kills, &stage.stalls, &journal),
        journal,
        stage,
        story,
        in_doubt: BTreeSet::new(),
        dumps,
        found: Findings::default(),
    };
    oracle.views();
    oracle.messages();
    oracle.requests();
    oracle.words();
    oracle.closing(closing);
    oracle.rebuilt();
    oracle.found.kills_in_doubt = oracle.in_doubt.len() as u64;
    oracle.found
}

/// No agent may be left when the host has ended.
pub(crate) fn nobody_left(stage: &mut Stage, found: &mut Findings) {
    for phone in &mut stage.phones {
        phone.stop();
    }
    let status = stage.host.stop();
    if !status.success() {
        found.wrong("process", format!("the host ended with {status}"));
    }
    for pid in stage.journal().pids() {
        let gone = catch_unwind(AssertUnwindSafe(|| pilothouse_tests::process::gone(pid)));
        if gone.is_err() || is_alive(pid) {
            found.wrong("process", format!("agent {pid} outlives its host"));
        }
    }
}

fn rows<'a>(dump: &'a Value, thread: &str) -> &'a [Value] {
    dump["timelines"][thread]["rows"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// All rows of a dump with the thread of each.
fn all_rows(dump: &Value) -> Vec<(&str, &Value)> {
    let timelines = dump["timelines"].as_object().into_iter().flatten();
    timelines
        .flat_map(|(thread, _)| rows(dump, thread).iter().map(|row| (thread.as_str(), row)))
        .collect()
}

fn shows(row: &Value, name: &str) -> bool {
    let tag = format!("[[do:{name}]]");
    row["kind"] == "user" && row["text"].as_str().is_some_and(|text| text.contains(&tag))
}

impl Oracle<'_> {
    /// Every device shows the same, and has the host's digests.
    fn views(&mut self) {
        let first = self.dumps[0].clone();
        let threads: BTreeSet<String> = self
            .dumps
            .iter()
            .flat_map(|dump| dump["threads"].as_object().into_iter().flatten())
            .map(|(thread, _)| thread.clone())
            .collect();
        for thread in threads {
            let Ok(id) = thread.parse() else { continue };
            let theirs = self.stage.host.digest(id).to_string();
            for (device, dump) in self.dumps.iter().enumerate() {
                let own = &dump["timelines"][&thread]["digest"];
                if *own != json!(theirs) {
                    self.found.wrong(
                        "digest",
                        format!("d{device} has {own} of {thread}, the host {theirs}"),
                    );
                }
                let rows = |dump: &Value| common(&dump["timelines"][&thread]["rows"]);
                let listed = |dump: &Value| dump["threads"][&thread].clone();
                for (what, ours, theirs) in [
                    ("list", listed(dump), listed(&first)),
                    ("rows", rows(dump), rows(&first)),
                ] {
                    if ours != theirs {
                        let (ours, theirs) = first_difference(&ours, &theirs);
                        self.found.wrong(
                            "view",
                            format!(
                                "{what} of {thread}: d{device} shows\n      {ours}\n    d0 shows\n      {theirs}"
                            ),
                        );
                    }
                }
            }
        }
    }

    /// Counts the kills at which an effect was in doubt, and says what the first of them was.
    fn doubt(&mut self, effect: &Effect) -> Option<String> {
        let ends: Vec<_> = self.ends.in_doubt(effect).collect();
        self.in_doubt.extend(ends.iter().map(|end| end.kill));
        let end = ends.first()?;
        let word = match effect.acknowledged {
            None => "without a word of it".to_owned(),
            Some(at) if at <= end.at => format!("{} ms after its word", end.at - at),
            Some(at) => format!("{} ms before its word", at - end.at),
        };
        let agent = match end.process {
            STARTING => "an agent that was being started".to_owned(),
            process => format!("agent {process}"),
        };
        let when = match end.at.checked_sub(effect.from) {
            Some(after) => format!("{after} ms after it was sent"),
            None => format!("{} ms before it was sent", effect.from - end.at),
        };
        Some(format!("{agent} ended {when}, {word}"))
    }

    /// The agent processes that had a message, or were to get it: those that had opened its thread's conversation, or one
    /// that no thread is known for, or one that was being started.
    fn serving(&self, sent: &Sent, arrivals: &[Arrival]) -> BTreeSet<u32> {
        if !arrivals.is_empty() {
            return arrivals.iter().map(|arrival| arrival.pid).collect();
        }
        let mut own = BTreeSet::new();
        let mut others = BTreeSet::new();
        for other in &self.stage.sent {
            if let For::Message { name } = &other.what {
                let arrivals = self.journal.arrivals(name).into_iter();
                let sessions = arrivals.map(|arrival| arrival.session);
                if other.thread == sent.thread {
                    own.extend(sessions);
                } else {
                    others.extend(sessions);
                }
            }
        }
        let opened = self.journal.sessions().into_iter();
        opened
            .filter(|(_, opened)| {
                opened
                    .iter()
                    .any(|session| own.contains(session) || !others.contains(session))
            })
            .map(|(process, _)| process)
            .chain([STARTING])
            .collect()
    }

    fn outcome(&mut self, sent: &Sent) -> Option<(CommandId, Option<Outcome>)> {
        let reply = self.stage.phones[sent.device].reply(sent.n)?;
        let command = reply["ok"]["command"].as_str()?.to_owned();
        let id: CommandId = command.parse().ok()?;
        let outcome = self.stage.host.outcome(id);
        self.told_as_kept(sent, &command, outcome.as_ref());
        Some((id, outcome))
    }

    /// What a device said came of a command is what the host keeps, and the device still knows it.
    fn told_as_kept(&mut self, sent: &Sent, command: &str, kept: Option<&Outcome>) {
        let kept_word = match kept {
            Some(Outcome::Accepted { .. }) => Some("accepted"),
            Some(Outcome::Refused { .. }) => Some("refused"),
            None => None,
        };
        let phone = &mut self.stage.phones[sent.device];
        let mut told = phone.told(command);
        if told.is_none() {
            // The process that was to be told is dead: its successor knows.
            let asked = phone.call(json!({"do": "outcome", "command": command}));
            told = asked
                .ok()
                .map(|known| known["outcome"].clone())
                .filter(|known| !known.is_null());
        }
        let told = told.and_then(|told| told["is"].as_str().map(str::to_owned));
        match (told.as_deref(), kept_word) {
            (Some(told), Some(kept)) if told == kept => {}
            // Stated, and never taken.
            (Some("parked" | "expired"), None) => {}
            // The device may have forgotten what was taken and is in the log.
            (None, Some("accepted")) => {}
            (told, kept) => self.found.wrong(
                "lost",
                format!(
                    "{:?} #{}: d{} was told {told:?}, the host keeps {kept:?}",
                    sent.what, sent.n, sent.device
                ),
            ),
        }
    }

    /// The last message of every thread is answered as if nothing had been wrong; except that an agent that was killed
    /// before it had kept anything of a conversation has none to go on with, and that has to be said.
    fn closing(&mut self, names: &[String]) {
        for name in names {
            let said = self.journal.said(name);
            if matches!(said.as_slice(), [word] if word.text == "Fine.") {
                continue;
            }
            let is_it =
                |sent: &&Sent| matches!(&sent.what, For::Message { name: of } if of == name);
            let thread = self.stage.sent.iter().find(is_it);
            let thread = thread
                .and_then(|sent| sent.thread.clone())
                .unwrap_or_default();
            let kept = self.stage.sent.iter().any(|sent| match &sent.what {
                For::Message { name } => {
                    sent.thread.as_ref() == Some(&thread) && self.journal.taken(name).is_some()
                }
                _ => false,
            });
            let said = rows(&self.dumps[0], &thread)
                .iter()
                .filter(|row| shows(row, name))
                .filter_map(|row| row["delivery"]["reason"].as_str())
                .any(|reason| reason.contains("no longer has this conversation"));
            if kept || !said {
                self.found.wrong(
                    "stuck",
                    format!("{name}, sent when all was well, was not answered"),
                );
            }
        }
    }

    /// What the host keeps equals what its log makes.
    fn rebuilt(&mut self) {
        let host = &self.stage.host;
        if catch_unwind(AssertUnwindSafe(|| host.verify())).is_err() {
            self.found
                .wrong("rebuild", "the ledger does not equal its log (see above)");
        }
    }
}

/// A thread's rows without those that are only this device's own: messages that were refused, which no log holds.
fn common(rows: &Value) -> Value {
    let rows = rows.as_array().into_iter().flatten();
    rows.filter(|row| !(row["pending"] == json!(true) && row["delivery"]["delivery"] == "failed"))
        .cloned()
        .collect()
}

/// The first elements in which two lists differ; the values themselves if they are none.
fn first_difference(ours: &Value, theirs: &Value) -> (Value, Value) {
    let (Some(left), Some(right)) = (ours.as_array(), theirs.as_array()) else {
        return (ours.clone(), theirs.clone());
    };
    let at = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    (
        left.get(at).cloned().unwrap_or_default(),
        right.get(at).cloned().unwrap_or_default(),
    )
}
