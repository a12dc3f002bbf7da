//! What is chosen for a turn (agent, model, effort), checked against what opencode has: it takes an effort that no model knows
//! without a word, and an agent that it does not have without an end (docs/agents-probes.md).

use super::{
    replies::{self, Agent, Model},
    rules::{self, Rule},
};
use pilothouse_domain::{Mode, provider::OfferedModel};
use std::collections::BTreeMap;

/// opencode's own agent that only looks and plans.
const PLAN: &str = "plan";
/// opencode's own agent that works.
const BUILD: &str = "build";

/// What opencode has to choose from.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    pub(super) agents: BTreeMap<String, Agent>,
    pub(super) models: Vec<Model>,
    /// Provider and model that it is configured to take where none is chosen and nothing was said yet.
    pub(super) configured: Option<(String, String)>,
    /// Its agent for a mode, where the person configured that.
    modes: BTreeMap<Mode, String>,
}

/// What is sent with a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chosen {
    /// Provider and model.
    pub(super) model: Option<(String, String)>,
    /// The model's variant.
    pub(super) variant: Option<String>,
}

/// Where an effort stands among those that models have; one that nobody knows comes last.
fn rank(effort: &str) -> usize {
    const FROM_THE_LEAST: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let at = FROM_THE_LEAST.iter().position(|known| *known == effort);
    at.unwrap_or(FROM_THE_LEAST.len())
}

impl Choice {
    pub(super) fn new(modes: BTreeMap<Mode, String>) -> Self {
        Self {
            modes,
            ..Self::default()
        }
    }

    /// opencode's agent for a mode; `None` for its default.
    pub(super) fn agent(&self, mode: Mode) -> Option<&str> {
        let primary = |name: &str| self.agents.get(name).is_some_and(|agent| agent.primary);
        match self.modes.get(&mode) {
            Some(name) if primary(name) => Some(name),
            Some(_) => None,
            None if mode == Mode::ReadOnly && primary(PLAN) => Some(PLAN),
            None => None,
        }
    }

    /// Why no turn can be in a mode for which the person configured an agent that cannot be chosen.
    pub(super) fn unknown_agent(&self, mode: Mode) -> Option<String> {
        let word = self.modes.get(&mode)?;
        if self.agent(mode).is_some() {
            return None;
        }
        let primary = self.agents.iter().filter(|(_, agent)| agent.primary);
        let names: Vec<_> = primary.take(8).map(|(name, _)| name.as_str()).collect();
        Some(format!(
            "the host is configured with the agent `{word}` for the mode {}, and opencode has none of that name to choose; it has: {}",
            mode.name(),
            names.join(", ")
        ))
    }

    /// What the agent of a mode, or another in its place, may do without asking, by its own configuration.
    pub(super) fn rules(&self, mode: Mode, other: Option<&str>) -> &[Rule] {
        let named = other.or(self.agent(mode)).unwrap_or(BUILD);
        self.agents
            .get(named)
            .or_else(|| self.agents.values().find(|agent| agent.primary))
            .map_or(&[], |agent| &agent.rules)
    }

    /// The model that a mode's agent takes where none is chosen, as far as opencode says it. It keeps one that was chosen once
    /// for all turns that follow.
    pub(super) fn own_model(&self, mode: Mode) -> Option<String> {
        let agent = self.agents.get(self.agent(mode).unwrap_or(BUILD));
        let own = agent.and_then(|agent| agent.model.as_ref());
        let (provider, id) = own.or(self.configured.as_ref())?;
        Some(format!("{provider}/{id}"))
    }

    /// What is said where a default would have to be named that opencode does not say.
    pub(super) fn no_own_model(&self) -> String {
        format!(
            "opencode is configured with no model of its own, and the conversation goes on with the one that was chosen before: \
             choose one by name, or set `model` in opencode's configuration; it has {}",
            self.named()
        )
    }

    /// Agents that could work for another and would do unasked what a mode demands to be asked.
    pub(super) fn unasking(&self, mode: Mode) -> Vec<&str> {
        self.agents
            .iter()
            .filter(|(_, agent)| !agent.primary && !rules::asks(mode, &agent.rules))
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// A model to do something with that nobody chose one for.
    pub(super) fn first_model(&self) -> Option<(String, String)> {
        let first = || {
            let model = self.models.first()?;
            Some((model.provider.clone(), model.id.clone()))
        };
        self.configured.clone().or_else(first)
    }

    /// What is known of a model.
    pub(super) fn known(&self, (provider, id): &(String, String)) -> Option<&Model> {
        self.models
            .iter()
            .find(|model| model.provider == *provider && model.id == *id)
    }

    /// Its models as they are chosen. opencode says nothing of which effort is the usual one.
    pub(super) fn offered(&self) -> Vec<OfferedModel> {
        let configured = self.configured.as_ref().and_then(|named| self.known(named));
        self.models
            .iter()
            .map(|model| OfferedModel {
                id: format!("{}/{}", model.provider, model.id),
                name: model.name.clone(),
                efforts: {
                    let mut efforts = model.variants.clone();
                    efforts.sort_by_key(|effort| rank(effort));
                    efforts
                },
                default_effort: None,
                is_default: Some(model) == configured,
                images: Some(model.images),
            })
            .collect()
    }

    /// The model and the effort as opencode takes them. A model is named as `provider/model`, or by its id alone where only one
    /// provider has it.
    pub(super) fn model(
        &self,
        model: Option<&str>,
        effort: Option<&str>,
    ) -> Result<Chosen, String> {
        if self.models.is_empty() {
            // opencode did not say which there are: it is asked as the person says.
            let named = model.map(|model| {
                replies::named(model)
                    .ok_or("name the model as provider/model: opencode did not say which it has")
            });
            return Ok(Chosen {
                model: named.transpose()?,
                variant: effort.map(str::to_owned),
            });
        }
        let Some(named) = model else {
            return match effort {
                // Which model that is for is known to opencode alone.
                Some(effort)
                    if !self
                        .models
                        .iter()
                        .any(|model| model.variants.iter().any(|variant| variant == effort)) =>
                {
                    Err(format!("no model of opencode knows the effort `{effort}`"))
                }
                effort => Ok(Chosen {
                    model: None,
                    variant: effort.map(str::to_owned),
                }),
            };
        };
        let fitting: Vec<&Model> = self
            .models
            .iter()
            .filter(|model| {
                model.id == named || named == format!("{}/{}", model.provider, model.id)
            })
            .collect();
        let found = match &fitting[..] {
            [found] => *found,
            [] => return Err(self.unknown_model(named)),
            several => {
                let names: Vec<_> = several
                    .iter()
                    .take(5)
                    .map(|model| format!("{}/{}", model.provider, model.id))
                    .collect();
                return Err(format!("`{named}` can be: {}", names.join(", ")));
            }
        };
        if let Some(effort) = effort
            && !found.variants.iter().any(|variant| variant == effort)
        {
            return Err(match &found.variants[..] {
                [] => format!("{named} has no efforts to choose from"),
                variants => format!(
                    "{named} does not know the effort `{effort}`; it has: {}",
                    variants.join(", ")
                ),
            });
        }
        Ok(Chosen {
            model: Some((found.provider.clone(), found.id.clone())),
            variant: effort.map(str::to_owned),
        })
    }

    fn unknown_model(&self, named: &str) -> String {
        format!("opencode has no model `{named}`; it has {}", self.named())
    }

    /// How many models there are, and the names of the first.
    fn named(&self) -> String {
        let names: Vec<_> = self
            .models
            .iter()
            .take(5)
            .map(|model| format!("{}/{}", model.provider, model.id))
            .collect();
        format!(
            "{} models, among them: {}",
            self.models.len(),
            names.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(provider: &str, id: &str, variants: &[&str]) -> Model {
        Model {
            provider: provider.to_owned(),
            id: id.to_owned(),
            name: id.to_owned(),
            variants: variants.iter().map(|&name| name.to_owned()).collect(),
            context: None,
            images: false,
            documents: false,
        }
    }

    #[test]
    fn a_model_or_an_effort_that_opencode_does_not_have_is_refused_with_what_it_has() {
        let choice = Choice {
            models: vec![
                model("a", "one", &["low", "high"]),
                model("a", "two", &[]),
                model("b", "two", &[]),
            ],
            ..Choice::default()
        };
        let chosen = |model, effort| choice.model(model, effort);
        assert_eq!(
            chosen(Some("one"), Some("low")).unwrap(),
            Chosen {
                model: Some(("a".to_owned(), "one".to_owned())),
                variant: Some("low".to_owned()),
            }
        );
        assert!(chosen(Some("b/two"), None).is_ok());
        assert!(chosen(None, None).is_ok());
        for (model, effort, said) in [
            (Some("two"), None, "a/two, b/two"),
            (Some("three"), None, "a/one"),
            (Some("one"), Some("max"), "low, high"),
            (Some("a/two"), Some("low"), "no efforts"),
            (None, Some("max"), "no model"),
        ] {
            let problem = chosen(model, effort).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
    }
}
