//! What a selection means in a conversation. Codex keeps a model and an effort for all turns that follow, also for another
//! process that loads the conversation (docs/agents-probes.md, section 7): its default is named to have it back.

use super::replies::Settings;
use pilothouse_domain::{provider::OfferedModel, thread::Selection};

/// What codex takes where nothing is chosen: what it is configured with, else the model that it says is the default.
pub(super) fn default_of(configured: Settings, models: &[OfferedModel]) -> Settings {
    let usual = || models.iter().find(|model| model.is_default);
    Settings {
        model: configured
            .model
            .or_else(|| usual().map(|model| model.id.clone())),
        effort: configured.effort,
    }
}

/// What is sent with a turn, so that it has what was chosen, and codex' default for what was not.
///
/// # Errors
///
/// In words for its person, where a default would have to be named that codex does not say.
pub(super) fn chosen(
    selection: &Selection,
    default: Option<&Settings>,
    now: &Settings,
    models: &[OfferedModel],
) -> Result<Settings, String> {
    let default = default.cloned().unwrap_or_default();
    let model = match (&selection.model, default.model) {
        (Some(model), _) => Some(model.clone()),
        (None, Some(model)) => Some(model).filter(|model| now.model.as_ref() != Some(model)),
        // It says nothing of its default: what it is set to may be that.
        (None, None) => None,
    };
    let effort = match (&selection.effort, &now.effort) {
        (Some(effort), _) => Some(effort.clone()),
        // Each model has its own.
        (None, None) => None,
        (None, Some(now_effort)) => {
            let of = model.as_ref().or(now.model.as_ref());
            let own = || {
                let known = models.iter().find(|model| Some(&model.id) == of)?;
                known.default_effort.clone()
            };
            match default.effort.or_else(own) {
                Some(effort) => Some(effort).filter(|effort| effort != now_effort),
                None => {
                    return Err(format!(
                        "codex does not say the usual effort of {}, and the conversation is set to `{now_effort}`: choose \
                         an effort by name",
                        of.map_or_else(|| "its model".to_owned(), |model| format!("`{model}`"))
                    ));
                }
            }
        }
    };
    Ok(Settings { model, effort })
}
