//! What timeline rows and requests hold, from the domain.

use pilothouse_domain::{
    Answer, DeviceId, OptionId, RequestStatus,
    item::{TodoEntry, TodoStatus},
    request::{
        AnswerDelivery, Choice, LostReason, OptionEffect, Question, RequestOption, SignInSteps,
    },
    row::WaitingCounts,
    thread::Delivery,
};

uniffi::custom_type!(DeviceId, String, { remote, lower: |id| id.to_string(), try_lift: |text| crate::error::parsed(&text) });

/// A line of a todo list.
#[uniffi::remote(Record)]
pub struct TodoEntry {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// A question to a person.
#[uniffi::remote(Record)]
pub struct Question {
    /// As the agent names it.
    pub id: String,
    /// A short heading.
    pub header: String,
    /// The question.
    pub text: String,
    /// What can be chosen; none means free text only.
    pub choices: Vec<Choice>,
    /// Whether several may be chosen.
    pub multi_select: bool,
    /// Whether text of one's own may be given.
    pub free_text: bool,
    /// Whether the answer is a secret: masked, and never in a log.
    pub secret: bool,
    /// Whether it may be left out while the others are answered.
    pub optional: bool,
}

/// A choice of a question.
#[uniffi::remote(Record)]
pub struct Choice {
    /// What is chosen.
    pub label: String,
    /// What it means.
    pub description: Option<String>,
}

/// One of the agent's own options.
#[uniffi::remote(Record)]
pub struct RequestOption {
    /// As the agent's family names it.
    pub id: OptionId,
    /// What a person reads on the button.
    pub label: String,
    /// What it does.
    pub effect: OptionEffect,
    /// How far it reaches, in exact words.
    pub reach: String,
}

/// What a person does in a browser, on any device, to sign an agent in.
#[uniffi::remote(Record)]
pub struct SignInSteps {
    /// The page to open, as the agent names it.
    pub url: String,
    /// What to enter there, once; it is of no use when the request is closed.
    pub code: Option<String>,
}

/// Where a request stands.
#[uniffi::remote(Enum)]
pub enum RequestStatus {
    /// Waits for a person.
    Pending,
    /// An answer was recorded and is on its way to the agent.
    Answering {
        /// The answer.
        answer: Answer,
        /// Who gave it.
        by: DeviceId,
        /// Host time, Unix ms.
        at_ms: u64,
    },
    /// The agent has the answer.
    Answered {
        /// The answer, where it was given here.
        answer: Option<Answer>,
        /// Who gave it; `null` if somebody outside Pilothouse did.
        by: Option<DeviceId>,
        /// How we know.
        delivery: AnswerDelivery,
        /// Host time, Unix ms.
        at_ms: u64,
    },
    /// The agent or the end of its turn took it back.
    Withdrawn,
    /// Nobody answered in time.
    Expired,
    /// The runtime that asked is gone.
    Lost {
        /// Why.
        reason: LostReason,
        /// An answer that was on its way and may have been delivered.
        answer: Option<Answer>,
    },
}

/// How we know that an agent has an answer.
#[uniffi::remote(Enum)]
pub enum AnswerDelivery {
    /// The agent confirmed it.
    Confirmed,
    /// It was written to the agent, which cannot confirm.
    Written,
    /// We concluded it from what followed.
    Inferred,
}

/// How far a message got.
#[uniffi::remote(Enum)]
pub enum Delivery {
    /// In this device's outbox.
    Saved,
    /// In the ledger, waiting for its turn.
    OnHost,
    /// Handed to the agent.
    Started,
    /// Not delivered, and it will not be.
    Failed {
        /// Why, for a person.
        reason: String,
    },
    /// Nobody knows whether it reached the agent.
    Unknown,
}

/// How much waits for a person.
#[uniffi::remote(Record)]
pub struct WaitingCounts {
    /// Approvals, pending.
    pub approvals: u32,
    /// Questions, pending.
    pub questions: u32,
}
