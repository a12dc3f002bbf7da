//! Model, effort and mode: said to pi before a turn where they differ from what it is set to.

use super::{
    driver::PiRuntime,
    gate,
    outgoing::Call,
    profile::Dialect,
    replies::{CallError, Model, Reply, State},
};
use crate::rpc::session::lock;
use pilothouse_domain::{Mode, provider::OfferedModel, thread::Selection};
use std::sync::atomic::Ordering;

impl PiRuntime {
    /// Puts the session where a selection wants it. Nothing is guessed: what pi does not offer is refused.
    pub(super) async fn select(&self, selection: &Selection) -> Result<(), CallError> {
        self.select_mode(selection.mode).await?;
        let own = self.own.get().cloned().unwrap_or_default();
        let model = match &selection.model {
            Some(model) => Some(model),
            // pi keeps what was chosen once, also for a process that loads the session.
            None => Some(&own.model).filter(|model| model.contains('/')),
        };
        let effort = || lock(&self.session.codec).state().effort.clone();
        let before = effort();
        let mut kept = false;
        if let Some(model) = model
            && self.select_model(model).await?
        {
            self.call(Call::State).await?;
            // Where its settings name no effort, the one of the model before holds for the next.
            kept = effort() == before;
        }
        let changed = match &selection.effort {
            Some(effort) => {
                self.effort_set.store(true, Ordering::Release);
                self.select_effort(effort).await?
            }
            None if kept || self.effort_set.load(Ordering::Acquire) => {
                let changed = self.restore_effort(&own.effort).await?;
                self.effort_set.store(false, Ordering::Release);
                changed
            }
            None => false,
        };
        if changed {
            self.call(Call::State).await?;
        }
        Ok(())
    }

    /// Gives the model the effort that pi began with. Of a model that does not have it pi has taken the nearest.
    async fn restore_effort(&self, own: &str) -> Result<bool, CallError> {
        if own.is_empty() || lock(&self.session.codec).state().effort == own {
            return Ok(false);
        }
        let level = own.to_owned();
        self.call(Call::SetEffort { level }).await?;
        Ok(true)
    }

    async fn select_mode(&self, mode: Mode) -> Result<(), CallError> {
        let refused = |message: String| CallError::Refused {
            method: format!("mode {}", mode.name()),
            message,
        };
        if let Some(sandbox) = self.sandbox {
            let message = format!(
                "it runs in the sandbox `{}` because it does not ask",
                sandbox.name()
            );
            return match mode {
                Mode::FullAccess => Ok(()),
                _ => Err(refused(message)),
            };
        }
        if self.dialect == Dialect::Omp {
            return match mode {
                Mode::Ask => Ok(()),
                _ => Err(refused(
                    "omp is started so that it asks before every tool".to_owned(),
                )),
            };
        }
        let is = |gate: Option<&gate::GateState>| gate.map(|gate| gate.mode == mode.name());
        if is(lock(&self.session.codec).gate()) == Some(true) {
            return Ok(());
        }
        let text = gate::command(mode);
        self.call(Call::Command { text }).await?;
        match is(lock(&self.session.codec).gate()) {
            Some(true) => Ok(()),
            _ => Err(refused("pi's permission gate did not take it".to_owned())),
        }
    }

    /// Whether the model was changed.
    async fn select_model(&self, wanted: &str) -> Result<bool, CallError> {
        let current = lock(&self.session.codec).state().model.clone();
        let is = |provider: &str, model: &str| {
            wanted == format!("{provider}/{model}") || wanted == model
        };
        if current
            .split_once('/')
            .is_some_and(|(provider, model)| is(provider, model))
        {
            return Ok(false);
        }
        let models = match self.call(Call::Models).await? {
            Reply::Models(models) => models,
            _ => Vec::new(),
        };
        let mut fitting = models.iter().filter(|model| is(&model.provider, &model.id));
        let (provider, model) = match (fitting.next(), fitting.next()) {
            (Some(found), None) => (found.provider.clone(), found.id.clone()),
            (Some(_), Some(_)) => {
                return Err(refused(
                    "set_model",
                    wanted,
                    "several providers have it; name one of",
                    &models,
                ));
            }
            (None, _) => {
                return Err(refused(
                    "set_model",
                    wanted,
                    "there is no such model; there are",
                    &models,
                ));
            }
        };
        self.call(Call::SetModel { provider, model }).await?;
        Ok(true)
    }

    /// Whether the effort was changed.
    async fn select_effort(&self, wanted: &str) -> Result<bool, CallError> {
        if lock(&self.session.codec).state().effort == wanted {
            return Ok(false);
        }
        let levels = match self.call(Call::Efforts).await? {
            Reply::Efforts(levels) => levels,
            _ => Vec::new(),
        };
        if !levels.iter().any(|level| level == wanted) {
            return Err(CallError::Refused {
                method: "set_thinking_level".to_owned(),
                message: format!(
                    "the model has no effort `{wanted}`; it has {}",
                    levels.join(", ")
                ),
            });
        }
        let level = wanted.to_owned();
        self.call(Call::SetEffort { level }).await?;
        Ok(true)
    }
}

/// What it can run on, as it says at its start: the model that it has first. Of the others it does not tell the efforts.
pub(super) fn offered(models: &[Model], now: &State, efforts: &[String]) -> Vec<OfferedModel> {
    let mut offered: Vec<OfferedModel> = models
        .iter()
        .map(|model| {
            let id = format!("{}/{}", model.provider, model.id);
            let is_default = id == now.model;
            OfferedModel {
                name: if model.name.is_empty() {
                    id.clone()
                } else {
                    model.name.clone()
                },
                efforts: match (is_default, model.reasons) {
                    (true, _) => efforts.to_vec(),
                    (false, true) => Vec::new(),
                    (false, false) => vec!["off".to_owned()],
                },
                default_effort: is_default.then(|| now.effort.clone()),
                is_default,
                images: model.images,
                id,
            }
        })
        .collect();
    offered.sort_by_key(|model| !model.is_default);
    offered
}

fn refused(method: &str, wanted: &str, why: &str, models: &[Model]) -> CallError {
    const SHOWN: usize = 12;
    let mut names: Vec<_> = models
        .iter()
        .take(SHOWN)
        .map(|model| format!("{}/{}", model.provider, model.id))
        .collect();
    if models.len() > SHOWN {
        names.push(format!("{} more", models.len() - SHOWN));
    }
    CallError::Refused {
        method: method.to_owned(),
        message: format!("`{wanted}`: {why}: {}", names.join(", ")),
    }
}
