//! What a thread runs on: checked against what its agent offers before anything starts, with the nearest named.

use crate::{
    Verdict,
    decide::{Deciding, accepted, invalid},
    degrade::{self, Feature, Service},
};
use pilothouse_domain::{Event, Mode, Refusal, limits, thread::Selection};

/// Names that a refusal suggests.
const NEAREST: usize = 5;

impl Deciding<'_> {
    pub(crate) fn select(
        &mut self,
        model: Option<&str>,
        effort: Option<&str>,
        mode: Mode,
    ) -> Result<Verdict, Refusal> {
        let Some(meta) = self.draft.state.meta.clone() else {
            return Ok(accepted());
        };
        for (field, word) in [("model", model), ("effort", effort)] {
            if word.is_some_and(|word| word.len() > limits::MODEL_NAME || word.trim().is_empty()) {
                return Err(invalid(
                    field,
                    format!("it is empty or longer than {} bytes", limits::MODEL_NAME),
                ));
            }
        }
        let was = &meta.selection;
        let selection = Selection {
            agent: was.agent.clone(),
            model: model.map(str::to_owned),
            effort: effort.map(str::to_owned),
            mode,
            // One that the host no longer allows gives way to what it allows now.
            sandbox: was.sandbox.filter(|sandbox| {
                let agent = self.policy.agents.get(&was.agent);
                agent.is_none_or(|agent| agent.sandboxes.contains(sandbox))
            }),
        };
        let selection = self.check_choice(&meta.workspace, &selection)?;
        // Before there is a conversation, it simply begins so.
        if self.draft.state.provider_thread.is_some() {
            if selection.mode != was.mode {
                self.check_can(Feature::SwitchMode)?;
            }
            if (&selection.model, &selection.effort) != (&was.model, &was.effort) {
                self.check_can(Feature::SwitchModel)?;
            }
        }
        self.check_offered(model, effort)?;
        if selection != *was {
            self.draft.emit(Event::ThreadSelected {
                selection,
                actor: self.actor,
            });
        }
        Ok(accepted())
    }

    fn check_can(&self, feature: Feature) -> Result<(), Refusal> {
        match degrade::serve(feature, &self.draft.state, self.policy) {
            Service::Refused(row) => Err(row.refusal()),
            Service::Native | Service::Degraded(..) => Ok(()),
        }
    }

    /// An agent that does not say what it offers, or offers more than is kept, is believed to take anything; it refuses by itself
    /// what it does not.
    fn check_offered(&self, model: Option<&str>, effort: Option<&str>) -> Result<(), Refusal> {
        let models = &self.lookups.models;
        if models.is_empty() {
            return Ok(());
        }
        let chosen = match model {
            None => models.iter().find(|offered| offered.is_default),
            Some(model) => {
                let found = models.iter().find(|offered| offered.id == model);
                if found.is_none() && models.len() < limits::OFFERED_MODELS {
                    let ids = models.iter().map(|offered| offered.id.as_str());
                    return Err(Refusal::UnknownModel {
                        model: model.to_owned(),
                        nearest: nearest(model, ids, NEAREST),
                    });
                }
                found
            }
        };
        let (Some(effort), Some(chosen)) = (effort, chosen) else {
            return Ok(());
        };
        if chosen.efforts.is_empty() || chosen.efforts.iter().any(|known| known == effort) {
            return Ok(());
        }
        let known = chosen.efforts.iter().map(String::as_str);
        Err(Refusal::UnknownEffort {
            effort: effort.to_owned(),
            known: nearest(effort, known, usize::MAX),
        })
    }
}

/// The words that are most alike, the likest first; of equally alike ones the order stays.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let mut found: Vec<(usize, &str)> = known.map(|other| (distance(word, other), other)).collect();
    found.sort_by_key(|(distance, _)| *distance);
    let words = found.into_iter().take(most);
    words.map(|(_, other)| other.to_owned()).collect()
}

/// How many letters have to be changed, put in or left out to make one word of the other, capitals aside. Both are at most
/// [`limits::MODEL_NAME`] bytes.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (place, other) in row.iter_mut().skip(1).zip(&b) {
            let above = *place;
            let changed = diagonal + usize::from(letter != *other);
            *place = changed.min(above + 1).min(left + 1);
            (diagonal, left) = (above, *place);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_words_come_first() {
        assert_eq!(
            (
                distance("", "abc"),
                distance("kitten", "sitting"),
                distance("A", "a")
            ),
            (3, 3, 0)
        );
        assert_eq!((distance("abc", ""), distance("gpt-5", "gpt-5.5")), (3, 2));
        let known = ["gpt-6-sol", "gpt-5.6-luna", "gpt-5.5"];
        assert_eq!(
            nearest("gpt5.5", known.into_iter(), 2),
            ["gpt-5.5", "gpt-6-sol"]
        );
    }
}
