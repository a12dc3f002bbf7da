//! What a thread's selection names is set in the conversation, and made sure of; nothing else is.

use super::{
    outgoing::Call,
    profile,
    replies::{self, CallError, Model, Reply},
    starting::Process,
};
use crate::rpc::session::lock;
use pilothouse_domain::{Mode, thread::Selection};
use std::{collections::BTreeMap, time::Duration};

/// What the conversation is set to, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Settings {
    /// The permission mode that is in force.
    pub(super) mode: String,
    /// The model that was set; `None` for the agent's own.
    pub(super) model: Option<String>,
    /// The effort that was set; `None` for the model's own.
    pub(super) effort: Option<String>,
}

impl Process {
    /// Sets what the selection names and is not in force already.
    pub(super) async fn select(
        &self,
        selection: &Selection,
        modes: &BTreeMap<Mode, String>,
        deadline: Duration,
    ) -> Result<(), CallError> {
        let mode =
            profile::mode(selection.mode, modes).map_err(|words| replies::refused(&words))?;
        let effort = self.effort(selection)?;
        let now = lock(&self.session.codec).settings().clone();
        if now.mode != mode {
            let call = Call::SetMode { mode: mode.clone() };
            match self.session.call(call, deadline).await? {
                Reply::Mode(set) if set == mode => {}
                _ => {
                    return Err(replies::refused(&format!(
                        "it was told to go into its mode `{mode}` and did not"
                    )));
                }
            }
        }
        if now.model != selection.model {
            let model = selection.model.clone();
            let call = Call::SetModel { model };
            self.session.call(call, deadline).await?;
        }
        if now.effort != effort {
            self.set_effort(effort, deadline).await?;
        }
        Ok(())
    }

    /// The effort that is wanted, if the model has it.
    fn effort(&self, selection: &Selection) -> Result<Option<String>, CallError> {
        let Some(effort) = &selection.effort else {
            return Ok(None);
        };
        let model = selection.model.as_deref().unwrap_or("default");
        match self.hello.model(model) {
            Some(Model { efforts, .. }) if !efforts.contains(effort) => {
                let has = if efforts.is_empty() {
                    "it has none to choose from".to_owned()
                } else {
                    format!("it has {}", efforts.join(", "))
                };
                Err(replies::refused(&format!(
                    "`{effort}` is no effort of the model `{model}`; {has}"
                )))
            }
            _ => Ok(Some(effort.clone())),
        }
    }

    async fn set_effort(
        &self,
        effort: Option<String>,
        deadline: Duration,
    ) -> Result<(), CallError> {
        let call = Call::SetEffort {
            effort: effort.clone(),
        };
        self.session.call(call, deadline).await?;
        let Some(effort) = effort else { return Ok(()) };
        // It is taken without a word where the model has no such effort.
        match self.session.call(Call::GetSettings, deadline).await? {
            Reply::Settings { effort: Some(now) } if now == effort => Ok(()),
            Reply::Settings { effort: now } => Err(replies::refused(&format!(
                "it was told to work with effort `{effort}` and does so with {}",
                now.map_or_else(|| "none".to_owned(), |now| format!("`{now}`"))
            ))),
            _ => Err(CallError::Unreadable {
                method: Call::GetSettings.method().to_owned(),
            }),
        }
    }
}
