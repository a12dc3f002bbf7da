//! Why a verb did not do what was asked, with the exit code that says so to a script.

use pilothouse_domain::{CommandId, Refusal, request::Answer};
use serde::Serialize;
use std::{io, process::ExitCode};

/// Exit codes of the client's verbs. Stable: people script them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    /// Something failed.
    Error,
    /// The command line was wrong.
    Usage,
    /// The host said no.
    Refused,
    /// The host has not confirmed it in time.
    Unconfirmed,
    /// There is no such thing.
    NothingThere,
}

impl Code {
    /// The number a shell sees.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Error => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unconfirmed => 4,
            Self::NothingThere => 5,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// What failed, on what, and what to do next: all a person is told.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: Code,
    /// What failed, on what, why.
    pub(crate) what: String,
    /// The next step, if there is one.
    pub(crate) next: Option<String>,
    /// Ids among which to choose, for a beginning that fits several.
    pub(crate) candidates: Vec<Candidate>,
    /// The command in the outbox that it is about.
    pub(crate) command: Option<CommandId>,
    /// The host's refusal.
    pub(crate) refusal: Option<Box<Refusal>>,
    /// The reader of our output is gone: nothing is left to tell.
    pub(crate) silent: bool,
}

/// Something that the given beginning of an id fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Candidate {
    /// Its id.
    pub(crate) id: String,
    /// What it is, for a person.
    pub(crate) label: String,
}

impl Failure {
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            next: None,
            candidates: Vec::new(),
            command: None,
            refusal: None,
            silent: false,
        }
    }

    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    pub(crate) fn about(mut self, command: CommandId) -> Self {
        self.command = Some(command);
        self
    }

    /// A refusal by the host, or one that the device knew of beforehand.
    pub(crate) fn refused(doing: &str, refusal: &Refusal) -> Self {
        let code = match refusal {
            Refusal::UnknownThread { .. }
            | Refusal::UnknownRequest { .. }
            | Refusal::UnknownRun { .. } => Code::NothingThere,
            _ => Code::Refused,
        };
        let mut failure = Self::new(code, format!("{doing}: {refusal}")).next(refusal.next_step());
        let mut refusal = refusal.clone();
        if let Refusal::AlreadyAnswered {
            answer: Some(Answer::Reply { replies }),
            ..
        } = &mut refusal
        {
            // Which of the questions was a secret is not known here.
            replies.iter_mut().for_each(|reply| reply.text = None);
        }
        failure.refusal = Some(Box::new(refusal));
        failure
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let mut failure = Self::new(Code::Error, format!("writing the output: {error}"));
        failure.silent = error.kind() == io::ErrorKind::BrokenPipe;
        failure
    }
}
