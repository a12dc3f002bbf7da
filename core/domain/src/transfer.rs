//! Plans, checkpoints, context transfers and handoffs. Held by state and rows from the start; checkpoints, handoffs and
//! transfers other than forks are made by no version yet (`draft`).

use crate::{
    CheckpointId, Cursor, NodeId, PlanId, ProviderThreadId, RequestId, RunId, ThreadId, TransferId,
    item::Body,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// A plan, a todo list or a set of questions; never mixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanArtifact {
    /// Its id.
    pub id: PlanId,
    /// The run it belongs to.
    pub run: RunId,
    /// The node it stands under; a child's plan stays there unless promoted.
    pub node: NodeId,
    /// What it is.
    pub kind: PlanKind,
}

/// What a plan artifact is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "plan", rename_all = "snake_case")]
pub enum PlanKind {
    /// Live progress of the run.
    TodoList {
        /// Its entries, in order.
        entries: Vec<crate::item::TodoEntry>,
    },
    /// A plan that a person may have implemented.
    ProposedPlan {
        /// Its text.
        text: Body,
    },
    /// Structured questions.
    Questions {
        /// The request that carries them.
        request: RequestId,
    },
}

/// A workspace checkpoint (`draft`: none is made yet).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The run after which it was taken.
    pub run: RunId,
    /// The child scope, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Where it stands.
    pub status: CheckpointStatus,
    /// Paths left out, and why they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
}

/// Where a checkpoint stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CheckpointStatus {
    /// Taken.
    Captured,
    /// Not taken.
    Missing {
        /// Why.
        reason: String,
    },
    /// Failed.
    Error {
        /// Why.
        message: String,
    },
}

/// Context that is to pass from one place to another; recorded cheaply, resolved when the target run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextTransfer {
    /// Its id.
    pub id: TransferId,
    /// What for.
    pub kind: TransferKind,
    /// The thread it comes from.
    pub source: ThreadId,
    /// From where in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_point: Option<Cursor>,
    /// Up to where in it.
    pub source_point: Cursor,
    /// The last run of it that is part of the context, where that is less than all up to `source_point`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_run: Option<RunId>,
    /// Where it stands.
    pub status: TransferStatus,
}

/// What a transfer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are DESIGN's and say it")]
pub enum TransferKind {
    Fork,
    ProviderHandoff,
    MergeBack,
    Move,
    SubagentSpawn,
    SubagentResult,
}

/// Where a transfer stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum TransferStatus {
    /// To be resolved by the target's next run.
    Pending,
    /// Resolved by a handoff.
    Resolved {
        /// How.
        handoff: ContextHandoff,
    },
    /// Could not be.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What an agent was told of work done elsewhere; auditable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextHandoff {
    /// How.
    pub strategy: HandoffStrategy,
    /// By which channel; `None` for a native one, which says nothing to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<HandoffChannel>,
    /// The conversation that was told.
    pub target: ProviderThreadId,
    /// The exact text.
    pub text: Body,
    /// Who wrote the text.
    pub text_source: String,
    /// What it leaves out, in words.
    pub leaves_out: String,
}

/// How context is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are DESIGN's and say it")]
pub enum HandoffStrategy {
    Native,
    Delta,
    FullThreadSummary,
    Clean,
}

/// Where the text of a handoff goes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are DESIGN's and say it")]
pub enum HandoffChannel {
    System,
    Developer,
    SyntheticUser,
}
