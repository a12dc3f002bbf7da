//! What a conversation can be set to: modes, models and options, in the three ways in which agents say it.

use crate::rpc::frames::{list, text_of, text_or_empty};
use serde_json::Value;

/// Values of one option that are remembered.
const VALUES: usize = 512;
/// Options of one conversation that are remembered.
const OPTIONS: usize = 64;

/// What of an option is to be set, by its category; any other option by its own id.
pub(crate) const MODE: &str = "mode";
pub(crate) const MODEL: &str = "model";
pub(crate) const EFFORT: &str = "thought_level";

/// What a conversation is set to, as far as the agent told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Modes, where the agent lists them beside its options.
    pub(crate) modes: Option<Choices>,
    /// Models, where the agent lists them beside its options.
    pub(crate) models: Option<Choices>,
    /// Options, in the agent's order.
    pub(crate) options: Vec<ConfigOption>,
}

/// Something that can be chosen, and what is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Choices {
    pub(crate) current: String,
    pub(crate) values: Vec<String>,
}

/// An option with a fixed set of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigOption {
    pub(crate) id: String,
    pub(crate) category: String,
    pub(crate) choices: Choices,
}

impl Settings {
    /// Reads what an answer tells; what it does not mention stays.
    pub(crate) fn learn(&mut self, told: &Value) {
        if let Some(modes) = told.get("modes").filter(|modes| modes.is_object()) {
            self.modes = Some(choices(modes, "currentModeId", "availableModes", "id"));
        }
        if let Some(models) = told.get("models").filter(|models| models.is_object()) {
            self.models = Some(choices(
                models,
                "currentModelId",
                "availableModels",
                "modelId",
            ));
        }
        if told.get("configOptions").is_some_and(Value::is_array) {
            self.options = list(told, "configOptions")
                .iter()
                .take(OPTIONS)
                .filter_map(option)
                .collect();
        }
    }

    /// Whether the agent told anything.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The agent changed its mode, or took ours.
    pub(crate) fn mode_is(&mut self, mode: &str) {
        if let Some(modes) = &mut self.modes {
            mode.clone_into(&mut modes.current);
        }
        if let Some(option) = self.options.iter_mut().find(|one| one.is(MODE)) {
            mode.clone_into(&mut option.choices.current);
        }
    }

    /// The agent took our model.
    pub(crate) fn model_is(&mut self, model: &str) {
        if let Some(models) = &mut self.models {
            model.clone_into(&mut models.current);
        }
    }

    /// The option of that category, or of that id.
    pub(crate) fn option(&self, what: &str) -> Option<&ConfigOption> {
        self.options.iter().find(|one| one.is(what))
    }

    /// What can be chosen there.
    pub(crate) fn choices(&self, what: &str) -> Option<&Choices> {
        self.option(what)
            .map(|option| &option.choices)
            .or(match what {
                MODE => self.modes.as_ref(),
                MODEL => self.models.as_ref(),
                _ => None,
            })
    }
}

impl ConfigOption {
    fn is(&self, what: &str) -> bool {
        self.category == what || self.id == what
    }
}

fn choices(told: &Value, current: &str, values: &str, id: &str) -> Choices {
    Choices {
        current: text_or_empty(told, current),
        values: list(told, values)
            .iter()
            .take(VALUES)
            .filter_map(|value| text_of(value, id))
            .collect(),
    }
}

/// An option of the kind `select`; there are groups of values and plain ones. A switch becomes `true` and `false`.
fn option(told: &Value) -> Option<ConfigOption> {
    let current = told.get("currentValue")?;
    let values = match current {
        Value::Bool(_) => vec!["true".to_owned(), "false".to_owned()],
        _ => list(told, "options")
            .iter()
            .flat_map(|value| match text_of(value, "value") {
                Some(value) => vec![value],
                None => list(value, "options")
                    .iter()
                    .filter_map(|value| text_of(value, "value"))
                    .collect(),
            })
            .take(VALUES)
            .collect(),
    };
    Some(ConfigOption {
        id: text_of(told, "id")?,
        category: text_or_empty(told, "category"),
        choices: Choices {
            current: current
                .as_str()
                .map_or_else(|| current.to_string(), str::to_owned),
            values,
        },
    })
}
