//! The oracle: what reached the agent, by its own log, against what every device shows and what the host keeps.

mod messages;
mod requests;

use crate::{
    journal::Journal,
    stage::{For, Kill, Sent, Stage, is_alive},
    story::Story,
};
use pilothouse_domain::{CommandId, Outcome};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// How long after the agent's own word its host may not yet have recorded it, when a process is killed. Generous: the
/// machine may be busy.
const RECORDED_WITHIN_MS: u64 = 10_000;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Each begins with what kind it is: `lost`, `duplicated`, `answer`, `view`, `digest`, `rebuild`, `unknown`, `process`.
    pub(crate) violations: Vec<String>,
    /// Effects of which nobody can say whether they took place, with whether they did by the agent's log.
    pub(crate) unknown: Vec<String>,
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
    dumps: Vec<Value>,
    found: Findings,
}

/// Compares everything, while all is at rest.
pub(crate) fn judge(
    stage: &mut Stage,
    story: &Story,
    closing: &[String],
    edit: impl Fn(&mut Vec<Value>),
) -> Findings {
    let mut dumps: Vec<Value> = stage.phones.iter_mut().map(|phone| phone.dump()).collect();
    edit(&mut dumps);
    let ended = stage.journal().exits();
    stage.kills.extend(ended.into_iter().map(|(at, pid)| Kill {
        at,
        agent: Some(pid),
    }));
    let mut oracle = Oracle {
        journal: stage.journal(),
        stage,
        story,
        dumps,
        found: Findings::default(),
    };
    oracle.views();
    oracle.messages();
    oracle.requests();
    oracle.words();
    oracle.closing(closing);
    oracle.rebuilt();
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

    /// Kills at which it could not be known whether something reached the agent: after it was asked for and before the
    /// agent's word of it can have been recorded.
    fn doubtful(&self, from: u64, acknowledged: Option<u64>) -> Option<Kill> {
        let until = acknowledged.map_or(u64::MAX, |at| at + RECORDED_WITHIN_MS);
        let kills = self.stage.kills.iter();
        kills
            .copied()
            .find(|kill| (from..=until).contains(&kill.at))
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
    /// The agent's words, against those shown in the runs of its messages.
    fn words(&mut self) {
        let dump = self.dumps[0].clone();
        let names: Vec<String> = self
            .stage
            .sent
            .iter()
            .filter_map(|sent| match &sent.what {
                For::Message { name } => Some(name.clone()),
                _ => None,
            })
            .collect();
        let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, row) in all_rows(&dump) {
            for name in names.iter().filter(|name| shows(row, name)) {
                let run = row["run"].as_str().unwrap_or_default().to_owned();
                runs.entry(run).or_default().push(name.clone());
            }
        }
        for (run, names) in runs {
            let mut said: Vec<String> = names
                .iter()
                .flat_map(|name| self.journal.said(name))
                .collect();
            let begun: Vec<String> = names
                .iter()
                .flat_map(|name| self.story_words(name))
                .collect();
            let spoken = all_rows(&dump)
                .into_iter()
                .map(|(_, row)| row)
                .filter(|row| {
                    row["kind"] == "assistant" && row["run"].as_str() == Some(run.as_str())
                });
            for row in spoken {
                let text = row["text"].as_str().unwrap_or_default();
                let bytes = row["bytes"].as_u64().unwrap_or_default() as usize;
                let fits = |whole: &String| whole.starts_with(text) && whole.len() == bytes;
                if let Some(at) = said.iter().position(fits) {
                    said.remove(at);
                } else if row["status"] == "completed"
                    || !begun.iter().any(|whole| whole.starts_with(text))
                {
                    self.found.wrong(
                        "view",
                        format!(
                            "{names:?}: the agent never said {bytes} bytes `{}` ({})",
                            cut(text),
                            row["status"]
                        ),
                    );
                }
            }
            let ended = names.iter().filter_map(|name| self.journal.ended(name));
            let well = ended.clone().count() > 0
                && ended
                    .clone()
                    .all(|how| matches!(how.as_str(), "completed" | "end_turn"));
            if well && !said.is_empty() && self.stage.kills.is_empty() {
                self.found.wrong(
                    "lost",
                    format!(
                        "{names:?}: the agent said `{}`, and it is not shown",
                        cut(&said[0])
                    ),
                );
            }
        }
    }

    /// What the agent would say in whole at a message.
    fn story_words(&self, name: &str) -> Vec<String> {
        let number = name.strip_prefix('m').and_then(|n| n.parse::<usize>().ok());
        let steps = number.and_then(|number| self.story.messages.get(number));
        let steps = steps.and_then(Value::as_array).into_iter().flatten();
        steps
            .filter_map(|step| step["say"].as_str().map(str::to_owned))
            .collect()
    }

    /// The last message of every thread is answered as if nothing had been wrong; except that an agent that was killed
    /// before it had kept anything of a conversation has none to go on with, and that has to be said.
    fn closing(&mut self, names: &[String]) {
        for name in names {
            if self.journal.said(name) == ["Fine."] {
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

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
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
