//! What a thread's selection names is set in a conversation, and made sure of; nothing else is.

use super::{
    driver::AcpRuntime,
    outgoing::Call,
    profile,
    replies::CallError,
    settings::{Choices, EFFORT, MODE, MODEL, Settings},
};
use crate::rpc::session::lock;
use pilothouse_domain::{Mode, NativeId, thread::Selection};

/// What profile.json says of an option that must not be on.
const OFF: &str = "off";
/// Values that are named in a refusal.
const NAMED_VALUES: usize = 8;

/// What is to be set before a turn: an option by its category or id, and its value.
type Wish = (String, String);

impl AcpRuntime {
    /// Sets what the thread's selection names and the conversation is not set to already, and makes sure of it.
    pub(super) async fn select(
        &self,
        session: &NativeId,
        selection: &Selection,
    ) -> Result<(), CallError> {
        for (what, value) in self.wishes(session, selection)? {
            let settings = lock(&self.session.codec).settings(session);
            let Some(choices) = settings.choices(&what) else {
                // A permission to do more that this version of the agent does not have is as good as off.
                if value == OFF {
                    continue;
                }
                return Err(CallError::Refused {
                    code: 0,
                    message: format!("{} has no setting `{what}`", self.name()),
                });
            };
            if choices.current == value {
                continue;
            }
            if !choices.values.is_empty() && !choices.values.contains(&value) {
                return Err(CallError::Refused {
                    code: 0,
                    message: format!(
                        "`{value}` is no {what} of {}; it has {}",
                        self.name(),
                        named(choices)
                    ),
                });
            }
            self.set(session, &what, &value, &settings).await?;
            let now = lock(&self.session.codec).settings(session);
            let is_set = |choices: &Choices| choices.current == value;
            if !now.choices(&what).is_some_and(is_set) {
                return Err(CallError::Refused {
                    code: 0,
                    message: format!(
                        "{} was told to set {what} to `{value}` and did not",
                        self.name()
                    ),
                });
            }
        }
        Ok(())
    }

    async fn set(
        &self,
        session: &NativeId,
        what: &str,
        value: &str,
        settings: &Settings,
    ) -> Result<(), CallError> {
        let call = match settings.option(what) {
            Some(option) => Call::SetConfig {
                session: session.clone(),
                config: option.id.clone(),
                value: value.to_owned(),
            },
            None if what == MODE => Call::SetMode {
                session: session.clone(),
                mode: value.to_owned(),
            },
            None => Call::SetModel {
                session: session.clone(),
                model: value.to_owned(),
            },
        };
        let told = matches!(call, Call::SetConfig { .. });
        self.session.call(call, self.deadlines.call).await?;
        if !told {
            // These two are answered with nothing but that they were taken.
            lock(&self.session.codec).set(session, |settings| match what {
                MODE => settings.mode_is(value),
                _ => settings.model_is(value),
            });
        }
        Ok(())
    }

    /// What the selection wants, in the agent's words.
    fn wishes(&self, session: &NativeId, selection: &Selection) -> Result<Vec<Wish>, CallError> {
        let mut wishes = match self.modes.get(&selection.mode) {
            Some(mode) => vec![(MODE.to_owned(), mode.clone())],
            None => match profile::mode(&self.hello.name, selection.mode) {
                Some(wishes) => wishes,
                None if self.keeps_its_mode(selection.mode) => Vec::new(),
                None => return Err(self.no_such_mode(session, selection.mode)),
            },
        };
        wishes.extend(
            selection
                .model
                .clone()
                .map(|model| (MODEL.to_owned(), model)),
        );
        wishes.extend(
            selection
                .effort
                .clone()
                .map(|effort| (EFFORT.to_owned(), effort)),
        );
        Ok(wishes)
    }

    /// Whether it is left in the mode that it starts in: an agent that nobody measured, where `ask` is chosen and nobody said
    /// in host.toml how to say it. What it does by default is what its person set; the thread is told so.
    pub(super) fn keeps_its_mode(&self, mode: Mode) -> bool {
        mode == Mode::Ask
            && !self.modes.contains_key(&mode)
            && profile::mode(&self.hello.name, mode).is_none()
    }

    fn no_such_mode(&self, session: &NativeId, mode: Mode) -> CallError {
        let settings = lock(&self.session.codec).settings(session);
        let its_own = match settings.choices(MODE) {
            Some(choices) => format!("it has {}", named(choices)),
            None => "it has none".to_owned(),
        };
        CallError::Refused {
            code: 0,
            message: format!(
                "no mode of {} is known that means `{}`; {its_own}. Choose another mode, or name it in host.toml: modes = {{ {} = \"…\" }}",
                self.name(),
                mode.name(),
                mode.name()
            ),
        }
    }
}

/// What can be chosen, for a person.
fn named(choices: &Choices) -> String {
    let mut named: Vec<_> = choices
        .values
        .iter()
        .take(NAMED_VALUES)
        .map(|value| format!("`{value}`"))
        .collect();
    if choices.values.len() > NAMED_VALUES {
        named.push(format!("{} more", choices.values.len() - NAMED_VALUES));
    }
    named.join(", ")
}
