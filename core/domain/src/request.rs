//! Requests: what an agent asks of a person.

use crate::{
    ContentHash, DeviceId, Incarnation, ItemId, NodeId, OptionId, RequestId, RunId,
    item::FileChange,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// A self-contained request. Its row is all that a device needs to show it and to answer it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeRequest {
    /// Its id.
    pub id: RequestId,
    /// The run that waits for it; `None` for one that belongs to no turn.
    pub run: Option<RunId>,
    /// The node that asks.
    pub node: NodeId,
    /// The item it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// What kind.
    pub kind: RequestKind,
    /// One line for a list. Made by us, never the agent's words.
    pub title: String,
    /// Exact UTF-8 JSON of a [`Subject`]: what is shown, hashed and sent (DETAILS section 4).
    pub subject: String,
    /// SHA-256 of `subject`.
    pub content_hash: ContentHash,
    /// Whether it can still be answered.
    pub respondability: Respondability,
    /// Whether one tap outside the app may approve it. The host's word; a device may only lower it.
    pub one_tap_allowed: bool,
    /// Whether the safe default is to refuse.
    pub default_to_no: bool,
    /// Why it is not approvable in one tap, or risky, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<RiskHint>,
    /// How often the agent asked the same before (0 for the first time).
    #[serde(default)]
    pub asked_before: u32,
    /// Which life of the agent's process asked.
    pub incarnation: Incarnation,
    /// Where it stands.
    pub status: RequestStatus,
    /// Host time it was opened, Unix ms.
    #[serde(default)]
    pub opened_at_ms: u64,
    /// Host time it expires, Unix ms, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
}

/// What kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are DESIGN's and say it")]
pub enum RequestKind {
    Command,
    FileRead,
    FileChange,
    ApplyPatch,
    Permission,
    Tool,
    Plan,
    UserInput,
    Auth,
    Elicitation,
    Unknown,
}

impl RequestKind {
    /// Whether it asks for words or choices rather than for permission.
    pub fn is_question(self) -> bool {
        matches!(self, Self::UserInput | Self::Elicitation | Self::Auth)
    }
}

/// Exactly what is asked. Travels as text in [`RuntimeRequest::subject`]; unknown fields forbid one-tap approval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Subject {
    /// The exact command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes it would make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Paths or hosts it would reach, each with what for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<String>,
    /// What the agent says it is for: the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A plan, or the text of an unknown request, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How to sign the agent in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInSteps>,
    /// Questions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The agent's own options, verbatim, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<RequestOption>,
    /// Whether the agent's frame held only part of what it asks for: never approvable in one tap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// What a person does in a browser, on any device, to sign an agent in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInSteps {
    /// The page to open, as the agent names it.
    pub url: String,
    /// What to enter there, once; it is of no use when the request is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// One of the agent's own options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOption {
    /// As the agent's family names it.
    pub id: OptionId,
    /// What a person reads on the button.
    pub label: String,
    /// What it does.
    pub effect: OptionEffect,
    /// How far it reaches, in exact words (a rule, a session, this once).
    pub reach: String,
}

/// What an option does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionEffect {
    /// Allows this once.
    AllowOnce,
    /// Allows this and the like until the session ends.
    AllowSession,
    /// Allows by a rule that stays.
    AllowRule,
    /// Refuses; the turn goes on.
    Deny,
    /// Refuses this and everything else that its conversation waits for; the turn goes on.
    DenyAll,
    /// Refuses and stops the turn.
    DenyAndStop,
    /// Refuses by a rule that stays.
    DenyRule,
    /// Anything else.
    Other,
}

impl OptionEffect {
    /// Whether it lets the agent do what it asks for.
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowSession | Self::AllowRule)
    }

    /// Whether it refuses what is asked for, and leaves no rule behind.
    pub fn denies(self) -> bool {
        matches!(self, Self::Deny | Self::DenyAll | Self::DenyAndStop)
    }
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// As the agent names it.
    pub id: String,
    /// A short heading.
    pub header: String,
    /// The question.
    pub text: String,
    /// What can be chosen; none means free text only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// Whether several may be chosen.
    pub multi_select: bool,
    /// Whether text of one's own may be given.
    pub free_text: bool,
    /// Whether the answer is a secret: masked, and never in a log.
    pub secret: bool,
    /// Whether it may be left out while the others are answered. A question that does not say so needs an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A choice of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What is chosen.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Whether a request can be answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "respondability", rename_all = "snake_case")]
pub enum Respondability {
    /// The agent waits for it.
    Live,
    /// It cannot be answered any more.
    NotResumable {
        /// Why.
        reason: LostReason,
    },
}

/// Why a request or a runtime is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// The agent's process ended.
    AgentExited,
    /// The host was restarted, and an agent bound to it died.
    HostRestarted,
    /// The agent no longer answers.
    Unresponsive,
    /// The agent broke its protocol.
    ProtocolError,
    /// The host stopped it: it had nothing to do, or the host itself was stopped.
    Stopped,
}

/// Something to know before approving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskHint {
    /// Longer than a notification shows.
    TooLongForOneTap,
    /// Holds control, zero-width or direction characters.
    HiddenCharacters,
    /// Padded by long runs of blanks that could push text out of sight.
    Padding,
    /// The agent sent only part of it.
    Incomplete,
    /// Needs words or choices.
    NeedsAnswer,
    /// A kind this version does not know.
    UnknownKind,
    /// Has fields this version does not know.
    UnknownFields,
    /// Leaves the sandbox or the workspace.
    LeavesSandbox,
    /// Deletes files.
    DeletesFiles,
    /// Nothing says what exactly would happen.
    NoExactText,
}

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "status", rename_all = "snake_case")]
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
        #[serde(default)]
        at_ms: u64,
    },
    /// The agent has the answer.
    Answered {
        /// The answer, where it was given here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
        /// Who gave it; `None` if somebody outside Pilothouse did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<DeviceId>,
        /// How we know.
        delivery: AnswerDelivery,
        /// Host time, Unix ms.
        #[serde(default)]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
}

impl RequestStatus {
    /// Whether a person or the agent is still to act.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Pending | Self::Answering { .. })
    }
}

/// How we know that an agent has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerDelivery {
    /// The agent confirmed it.
    Confirmed,
    /// It was written to the agent, which cannot confirm.
    Written,
    /// We concluded it from what followed.
    Inferred,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// One of the agent's options.
    Choose {
        /// Which.
        option: OptionId,
        /// "Yes, and …" or "no, instead …", where the agent takes words with a decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Answers to questions.
    Reply {
        /// One per question, in order. Empty is not answered; that of an optional question may be empty, or missing.
        replies: Vec<QuestionReply>,
    },
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionReply {
    /// The question.
    pub question: String,
    /// Labels chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<String>,
    /// Text of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
