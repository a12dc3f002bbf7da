//! The story, step by step. A step says what its person does and what must come of it, on the device and in the world: a file,
//! the model's log of what reached it, a process. What must be and is not, ends the step by a panic.

mod asking;
mod choosing;
mod lives;
mod stopping;
mod talking;
mod threads;

use crate::{lane::Lane, outcome::Ended};
use pilothouse_domain::CapabilityFlag;

/// A step of the story.
pub(crate) struct Step {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// What its person does.
    pub(crate) what: &'static str,
    /// What the agent has to be able to for it.
    pub(crate) needs: Option<CapabilityFlag>,
    /// Plays it.
    pub(crate) play: fn(&mut Lane) -> Ended,
}

const fn step(
    name: &'static str,
    what: &'static str,
    needs: Option<CapabilityFlag>,
    play: fn(&mut Lane) -> Ended,
) -> Step {
    Step {
        name,
        what,
        needs,
        play,
    }
}

use CapabilityFlag as Flag;

/// The whole story, in order.
pub(crate) const STORY: &[Step] = &[
    step(
        "start",
        "begin a conversation",
        Some(Flag::CreateEmptyThread),
        talking::start,
    ),
    step(
        "text",
        "read words while they are written",
        Some(Flag::StreamsAssistantText),
        talking::text,
    ),
    step(
        "reasoning",
        "read how it thinks",
        Some(Flag::StreamsReasoning),
        talking::reasoning,
    ),
    step("usage", "see what a run used", None, talking::usage),
    step(
        "model error",
        "see that the model failed, and go on",
        None,
        talking::model_error,
    ),
    step(
        "command allowed",
        "allow a command",
        Some(Flag::CommandApproval),
        asking::command_allowed,
    ),
    step(
        "command denied",
        "deny a command",
        Some(Flag::CommandApproval),
        asking::command_denied,
    ),
    step(
        "command allowed for the session",
        "allow a command and the like",
        Some(Flag::CommandApproval),
        asking::command_session,
    ),
    step(
        "file change",
        "allow a change by its diff",
        Some(Flag::FileChangeApproval),
        asking::file_change,
    ),
    step(
        "parallel requests",
        "answer two requests of one turn",
        Some(Flag::CommandApproval),
        asking::parallel,
    ),
    step(
        "question",
        "answer a question by a choice",
        Some(Flag::StructuredQuestions),
        asking::question,
    ),
    step(
        "plan",
        "approve a plan",
        Some(Flag::EmitsProposedPlan),
        asking::plan,
    ),
    step(
        "todo list",
        "watch what is to be done",
        Some(Flag::EmitsTodoList),
        asking::todo,
    ),
    step(
        "subagent",
        "allow what a subagent asks",
        Some(Flag::ApprovalsFromSubagents),
        asking::subagent,
    ),
    step(
        "steer",
        "say something into a turn",
        Some(Flag::ActiveSteering),
        stopping::steer,
    ),
    step(
        "restart",
        "stop a turn and start it again with more words",
        Some(Flag::SteeringByInterruptRestart),
        stopping::restart,
    ),
    step(
        "queue",
        "leave a message for afterwards",
        None,
        stopping::queue,
    ),
    step(
        "interrupt in text",
        "stop it while it speaks",
        Some(Flag::Interrupt),
        stopping::in_text,
    ),
    step(
        "interrupt in a tool",
        "stop it while a command runs",
        Some(Flag::Interrupt),
        stopping::in_tool,
    ),
    step(
        "interrupt while asking",
        "stop it while it asks",
        Some(Flag::Interrupt),
        stopping::while_asking,
    ),
    step(
        "agent killed",
        "go on after the agent was killed",
        None,
        lives::agent_killed,
    ),
    step(
        "host killed in text",
        "go on after the host was killed while it spoke",
        None,
        lives::host_killed_in_text,
    ),
    step(
        "host killed",
        "go on after the host was killed while something was asked",
        None,
        lives::host_killed,
    ),
    step(
        "fork",
        "go another way from here",
        Some(Flag::ForkThread),
        threads::fork,
    ),
    step(
        "fork from an earlier run",
        "go another way from an earlier run",
        Some(Flag::ForkFromTurn),
        threads::fork_earlier,
    ),
    step(
        "rollback",
        "take back the last run",
        Some(Flag::RollbackThread),
        threads::rollback,
    ),
    step(
        "compaction",
        "have the context shortened",
        Some(Flag::CompactOnRequest),
        threads::compaction,
    ),
    step(
        "image",
        "send a picture",
        Some(Flag::ImageInput),
        choosing::image,
    ),
    step(
        "model",
        "choose another model",
        Some(Flag::ModelSwitchInSession),
        choosing::model,
    ),
    step(
        "effort",
        "choose how hard it thinks",
        Some(Flag::ModelSwitchInSession),
        choosing::effort,
    ),
    step(
        "mode",
        "let it edit without asking, and no longer",
        Some(Flag::RuntimeModeSwitchInSession),
        choosing::mode,
    ),
    step("read only", "let it look only", None, choosing::read_only),
    step(
        "one history",
        "have the same history on every side",
        None,
        threads::one_history,
    ),
];
