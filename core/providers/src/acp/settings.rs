//! What a conversation can be set to: modes, models and options, in the three ways in which agents say it.

use crate::rpc::{
    budget,
    frames::{cut, list, text_of, text_or_empty},
};
use serde_json::Value;

/// Options of one conversation that are remembered.
const OPTIONS: usize = 64;
/// Bytes of an id or a value; one that is longer is not remembered and cannot be chosen.
const WORD: usize = 1024;
/// Bytes of the values of one option, or of the modes, that are remembered; those after cannot be chosen.
const WORDS: usize = 16 * 1024;

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
    /// Bytes of the values.
    bytes: usize,
}

impl Choices {
    fn new(current: &str, told: impl Iterator<Item = String>) -> Self {
        let mut choices = Self {
            current: cut(current, WORD),
            ..Self::default()
        };
        for value in told.filter(|value| value.len() <= WORD) {
            let bytes = choices.bytes + size_of::<String>() + value.len();
            if bytes > WORDS {
                break;
            }
            choices.bytes = bytes;
            choices.values.push(value);
        }
        choices
    }
}

/// An option with a fixed set of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigOption {
    pub(crate) id: String,
    pub(crate) category: String,
    pub(crate) choices: Choices,
}

impl Settings {
    /// Reads what an answer tells; what it does not mention stays. Whether it told the options.
    pub(crate) fn learn(&mut self, told: &Value) -> bool {
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
        self.learn_options(told)
    }

    /// Reads the options, if they are told; whether they were.
    pub(crate) fn learn_options(&mut self, told: &Value) -> bool {
        let says_options = told.get("configOptions").is_some_and(Value::is_array);
        if says_options {
            self.options = list(told, "configOptions")
                .iter()
                .take(OPTIONS)
                .filter_map(option)
                .collect();
        }
        says_options
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        let value = |value: &String| 2 * size_of::<String>() + budget::block(value.len());
        let of = |choices: &Choices| {
            budget::block(choices.current.len()) + choices.values.iter().map(value).sum::<usize>()
        };
        let option = |one: &ConfigOption| {
            2 * size_of::<ConfigOption>()
                + budget::block(one.id.len())
                + budget::block(one.category.len())
                + of(&one.choices)
        };
        self.modes.as_ref().map_or(0, of)
            + self.models.as_ref().map_or(0, of)
            + self.options.iter().map(option).sum::<usize>()
    }

    /// Whether the agent told anything.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The agent changed its mode, or took ours.
    pub(crate) fn mode_is(&mut self, mode: &str) {
        if let Some(modes) = &mut self.modes {
            modes.current = cut(mode, WORD);
        }
        if let Some(option) = self.options.iter_mut().find(|one| one.is(MODE)) {
            option.choices.current = cut(mode, WORD);
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
    let told_values = list(told, values);
    Choices::new(
        &text_or_empty(told, current),
        told_values.iter().filter_map(|value| text_of(value, id)),
    )
}

/// An option of the kind `select`; there are groups of values and plain ones. A switch becomes `true` and `false`.
fn option(told: &Value) -> Option<ConfigOption> {
    let current = told.get("currentValue")?;
    let choices = match current {
        Value::Bool(on) => Choices::new(
            if *on { "true" } else { "false" },
            ["true", "false"].map(str::to_owned).into_iter(),
        ),
        _ => {
            let values = list(told, "options").iter().flat_map(|value| {
                let grouped = list(value, "options").iter();
                let own = text_of(value, "value");
                let in_group = own.is_none();
                own.into_iter().chain(
                    grouped
                        .filter(move |_| in_group)
                        .filter_map(|value| text_of(value, "value")),
                )
            });
            match current {
                Value::String(text) => Choices::new(text, values),
                other => Choices::new(&cut(&other.to_string(), WORD), values),
            }
        }
    };
    Some(ConfigOption {
        id: text_of(told, "id").filter(|id| id.len() <= WORD)?,
        category: cut(&text_or_empty(told, "category"), WORD),
        choices,
    })
}
