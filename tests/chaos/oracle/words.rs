//! The agent's words: what it said is shown, and nothing else is shown as said by it.

use super::{Oracle, all_rows, shows};
use crate::{journal::Word, stage::For, story::Family};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

impl Oracle<'_> {
    /// The agent's words, against those shown in the runs of its messages.
    pub(super) fn words(&mut self) {
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
            let mut said: Vec<(&str, Word)> = Vec::new();
            for name in &names {
                let words = self.journal.said(name).into_iter();
                said.extend(words.map(|word| (name.as_str(), word)));
            }
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
                let fits = |whole: &str| whole.starts_with(text) && whole.len() == bytes;
                if let Some(at) = said.iter().position(|(_, word)| fits(&word.text)) {
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
            for (name, word) in said {
                if !word.text.is_empty() && !self.may_be_lost(name, &word) {
                    self.found.wrong(
                        "lost",
                        format!(
                            "{name}: the agent said `{}` at {}, and it is not shown",
                            cut(&word.text),
                            word.at
                        ),
                    );
                }
            }
        }
    }

    /// Whether its process or its host was killed before the host can have recorded these words. Codex says when a message
    /// is whole; of ACP only the end of the turn does, at the latest.
    fn may_be_lost(&self, name: &str, word: &Word) -> bool {
        let whole = match self.story.family {
            Family::Codex => Some(word.at),
            Family::Acp => self.journal.ended_at(name),
        };
        let until = whole.map_or(u64::MAX, |at| self.ends.recorded(at));
        let process = BTreeSet::from([word.pid]);
        self.ends.between(&process, word.at, until).is_some()
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
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}
