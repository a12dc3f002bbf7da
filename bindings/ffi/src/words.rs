//! Closed lists of words: statuses, kinds, reasons. Declared again for UniFFI; the compiler holds them equal.

use pilothouse_domain::{
    DispatchMode, ItemStatus, Mode, RunId, RunStatus, Scope as Grant,
    event::HoldReason,
    item::{FileAction, TodoStatus},
    policy::Sandbox,
    request::{LostReason, OptionEffect, RequestKind, RiskHint},
    run::{BlockedOn, ErrorCode},
};
use pilothouse_engine::Network;

/// What an agent may do without asking.
#[uniffi::remote(Enum)]
pub enum Mode {
    /// Only look.
    ReadOnly,
    /// Ask before every command that is not known to be harmless and before every change. The default.
    Ask,
    /// Change files of the workspace and run commands inside the sandbox; ask to leave it.
    AutoEdit,
    /// Everything, without asking.
    FullAccess,
}

/// In what an agent runs that does not ask before it acts.
#[uniffi::remote(Enum)]
pub enum Sandbox {
    /// bubblewrap: it can write the workspace only, and sees nothing of the person's other files.
    Bwrap,
    /// None: it can do everything that the person can.
    None,
}

/// What a device may do on a host.
#[uniffi::remote(Enum)]
pub enum Grant {
    /// See.
    Read,
    /// Send, steer, queue, interrupt.
    Operate,
    /// Answer requests.
    Approve,
    /// Manage devices and the host.
    Admin,
}

/// When a message is to reach the agent.
#[uniffi::remote(Enum)]
pub enum DispatchMode {
    /// Now, as a run of its own; queued if one is active.
    StartImmediately,
    /// As a run of its own after those before it.
    QueueAfterActive,
    /// Into the run that is going on.
    SteerActive {
        /// That run.
        run: RunId,
    },
    /// Into the run that is going on, by stopping and restarting it.
    RestartActive {
        /// That run.
        run: RunId,
    },
}

/// Where a run stands.
#[uniffi::remote(Enum)]
pub enum RunStatus {
    /// In the queue.
    Queued,
    /// Its context is being made ready.
    Preparing,
    /// Handed to the agent, which has not confirmed a turn yet.
    Starting,
    /// The agent works.
    Running,
    /// The agent waits; see `BlockedOn`.
    Waiting,
    /// The turn is over; what is open is being closed.
    Finalizing,
    /// Ended well.
    Completed,
    /// Ended by an interrupt or by the loss of its runtime.
    Interrupted,
    /// Ended by an error.
    Failed,
    /// Taken out of the queue.
    Cancelled,
    /// Undone by a rollback.
    RolledBack,
}

/// What a waiting run waits for.
#[uniffi::remote(Enum)]
pub enum BlockedOn {
    /// Nothing.
    None,
    /// An approval by a person.
    Approval,
    /// An answer by a person.
    Question,
    /// Background work.
    Background,
    /// A checkpoint being taken or restored.
    Checkpoint,
    /// A usage limit.
    Limit,
}

/// Where an item stands.
#[uniffi::remote(Enum)]
pub enum ItemStatus {
    /// Going on.
    Open,
    /// Goes on after its turn ended.
    Background,
    /// The agent ended it well.
    Completed,
    /// The agent said it failed.
    Failed,
    /// A person refused it.
    Declined,
    /// Ended by an interrupt.
    Interrupted,
    /// The agent never ended it.
    Unfinished,
}

/// Why a queue does not go on by itself.
#[uniffi::remote(Enum)]
pub enum HoldReason {
    /// A run was interrupted by a person.
    Interrupted,
    /// A run failed.
    Failed,
    /// The runtime was lost.
    RuntimeLost,
    /// A steer met an ended turn; its message waits for its person's word.
    SteerMissed,
    /// A person held it.
    Person,
    /// The agent's sign-in was refused: all its threads wait until it is back, or a person says to try again.
    SignIn,
}

/// What kind of request.
#[uniffi::remote(Enum)]
pub enum RequestKind {
    /// To run a command.
    Command,
    /// To read a file.
    FileRead,
    /// To change files.
    FileChange,
    /// To apply a patch.
    ApplyPatch,
    /// For wider permissions.
    Permission,
    /// To use a tool.
    Tool,
    /// To go on with a plan.
    Plan,
    /// Questions.
    UserInput,
    /// To sign in.
    Auth,
    /// Questions of a tool's server.
    Elicitation,
    /// A kind that this version does not know.
    Unknown,
}

/// What an option does.
#[uniffi::remote(Enum)]
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

/// Something to know before approving.
#[uniffi::remote(Enum)]
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

/// Why a request or a runtime is gone.
#[uniffi::remote(Enum)]
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

/// What happens to a file.
#[uniffi::remote(Enum)]
pub enum FileAction {
    /// It is made.
    Add,
    /// It goes.
    Delete,
    /// It changes.
    Update,
}

/// How far a line of a todo list is.
#[uniffi::remote(Enum)]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// Kinds of failure.
#[uniffi::remote(Enum)]
pub enum ErrorCode {
    /// The agent or its model failed in a way it did not classify.
    Agent,
    /// The agent's sign-in was refused.
    SignIn,
    /// A rate or usage limit.
    Limit,
    /// The conversation no longer fits the model.
    ContextFull,
    /// The model's service could not be reached or failed.
    ModelService,
    /// The agent could not be started.
    Start,
    /// The agent's process ended.
    RuntimeLost,
    /// The agent could not resume the conversation.
    Resume,
    /// The agent sent something unreadable.
    Protocol,
}

/// Kinds of network.
#[uniffi::remote(Enum)]
pub enum Network {
    /// Not known: tries are made.
    Unknown,
    /// There is none.
    None,
    /// One that costs.
    Metered,
    /// One that does not.
    Unmetered,
}
