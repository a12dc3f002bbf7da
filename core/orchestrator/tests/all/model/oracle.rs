//! What a person and an agent may expect of a thread, said a second time and in other words: runs in a list, a line of
//! those that wait, one piece of work, and what is asked. No events, no state of the orchestrator's, none of its code.

use pilothouse_domain::{
    Answer, AttemptId, Command, CommandBody, ContentHash, DeviceId, DispatchMode, MessageId, Mode,
    RequestId, RunId, RunStatus, Subject, ThreadId,
    event::HoldReason,
    provider::TurnStatus,
    request::RequestKind,
    run::BlockedOn,
    thread::{Actor, Lifecycle, Selection},
};
use std::collections::BTreeMap;

/// DESIGN section 4: runs that may wait.
pub(crate) const LINE: usize = 64;

/// A run, whatever became of it.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Learned from the thread where it is minted.
    pub(crate) id: Option<RunId>,
    pub(crate) message: Option<MessageId>,
    pub(crate) wish: Wish,
    pub(crate) ordinal: Option<u32>,
    pub(crate) ended: Option<RunStatus>,
}

/// How a run came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Own,
    After,
    Into(RunId),
    Anew(RunId),
    Elsewhere,
}

/// One try at a run: what items and requests hang on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Try {
    /// Learned from the thread.
    pub(crate) id: Option<AttemptId>,
    pub(crate) run: usize,
    pub(crate) message: Option<MessageId>,
    /// Whether the agent took it up.
    pub(crate) taken_up: bool,
}

/// Runs that the agent is asked to forget.
#[derive(Debug, Clone)]
pub(crate) struct TakingBack {
    pub(crate) runs: Vec<usize>,
    pub(crate) head: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Handed over, not taken up.
    Sent,
    /// The agent works.
    Working,
    /// Its turn is over, which the ledger has yet to draw the line under.
    Over(TurnStatus, Lost),
}

pub(crate) type Lost = bool;

/// What is being worked on: one thing at most.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) run: usize,
    pub(crate) attempt: usize,
    pub(crate) tries: u32,
    pub(crate) stage: Stage,
    pub(crate) turn: Option<String>,
    pub(crate) stop_asked: bool,
    pub(crate) stop_holds: bool,
    pub(crate) again: Option<MessageId>,
    pub(crate) spoke: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    OnHost,
    Started,
    Failed,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskStatus {
    Pending,
    Answering(Answer, DeviceId),
    Answered(Option<Answer>),
    Withdrawn,
    Expired,
    Lost,
}

#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) id: Option<RequestId>,
    pub(crate) owner: Option<usize>,
    pub(crate) kind: RequestKind,
    pub(crate) subject: Subject,
    pub(crate) status: AskStatus,
}

impl Ask {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status, AskStatus::Pending | AskStatus::Answering(..))
    }

    /// DETAILS section 4: the hash of exactly what is shown.
    pub(crate) fn shown(&self) -> ContentHash {
        ContentHash::of(&serde_json::to_string(&self.subject).unwrap())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) native: String,
    pub(crate) owner: usize,
    pub(crate) tool: bool,
    pub(crate) background: bool,
}

/// What is to reach the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    Turn(MessageId),
    Words(MessageId),
    Stop,
    Answer(RequestId, Answer),
    Forget(RunId),
    Shorten,
}

#[derive(Debug, Clone)]
pub(crate) struct Oracle {
    pub(crate) thread: ThreadId,
    pub(crate) life: Option<Lifecycle>,
    pub(crate) read_only: bool,
    pub(crate) steers: bool,
    pub(crate) stops: bool,
    pub(crate) runs: Vec<Run>,
    pub(crate) tries: Vec<Try>,
    pub(crate) told: BTreeMap<MessageId, Told>,
    pub(crate) work: Option<Work>,
    pub(crate) line: Vec<usize>,
    pub(crate) edits: u64,
    pub(crate) held: Option<HoldReason>,
    pub(crate) last: Option<usize>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) items: Vec<Item>,
    pub(crate) ordinals: u32,
    pub(crate) errands: Vec<Errand>,
    /// Whether the agent forgets and shortens when asked; whether it copies what stands, and what stood.
    pub(crate) forgets: bool,
    copies: bool,
    copies_from_turns: bool,
    pub(crate) taking_back: Option<TakingBack>,
    /// Learned from the thread.
    pub(crate) has_conversation: bool,
    /// What it runs on, once it is there.
    pub(crate) chosen: Option<Selection>,
    /// Whether the agent has introduced itself, and whether it has said what it can run on.
    pub(crate) introduced: bool,
    pub(crate) offers: bool,
    switches_model: bool,
    switches_mode: bool,
}

/// What the agent says it can run on: model, and its efforts.
pub(crate) const MODELS: [(&str, &[&str]); 2] = [("big", &["low", "high"]), ("small", &[])];

impl Oracle {
    pub(crate) fn new(thread: ThreadId, steers: bool, stops: bool) -> Self {
        Self {
            thread,
            life: None,
            read_only: false,
            steers,
            stops,
            runs: Vec::new(),
            tries: Vec::new(),
            told: BTreeMap::new(),
            work: None,
            line: Vec::new(),
            edits: 0,
            held: None,
            last: None,
            asks: Vec::new(),
            items: Vec::new(),
            ordinals: 0,
            errands: Vec::new(),
            forgets: stops,
            copies: steers || stops,
            copies_from_turns: steers,
            taking_back: None,
            has_conversation: false,
            chosen: None,
            introduced: false,
            offers: false,
            switches_model: steers,
            switches_mode: stops,
        }
    }

    // What can be seen.

    pub(crate) fn run_by_id(&self, id: RunId) -> Option<usize> {
        self.runs.iter().position(|run| run.id == Some(id))
    }

    pub(crate) fn is_alive(&self, attempt: usize) -> bool {
        self.work
            .as_ref()
            .is_some_and(|work| work.attempt == attempt && !matches!(work.stage, Stage::Over(..)))
    }

    /// Where a run stands, and what it waits for.
    pub(crate) fn status(&self, run: usize) -> (RunStatus, BlockedOn) {
        let Some(work) = self.work.as_ref().filter(|work| work.run == run) else {
            let ended = self.runs[run].ended.unwrap_or(RunStatus::Queued);
            return (ended, BlockedOn::None);
        };
        match work.stage {
            Stage::Sent => (RunStatus::Starting, BlockedOn::None),
            Stage::Over(..) => (RunStatus::Finalizing, BlockedOn::None),
            Stage::Working => {
                let mut waits = BlockedOn::None;
                for ask in &self.asks {
                    if ask.owner != Some(work.attempt) || ask.status != AskStatus::Pending {
                        continue;
                    }
                    if !ask.kind.is_question() {
                        waits = BlockedOn::Approval;
                    } else if waits == BlockedOn::None {
                        waits = BlockedOn::Question;
                    }
                }
                let status = match waits {
                    BlockedOn::None => RunStatus::Running,
                    _ => RunStatus::Waiting,
                };
                (status, waits)
            }
        }
    }

    /// Tools that a stop of the work would end.
    pub(crate) fn tools(&self) -> Vec<&str> {
        let attempt = self.work.as_ref().map(|work| work.attempt);
        let of_work = |item: &&Item| Some(item.owner) == attempt && item.tool && !item.background;
        let natives = self.items.iter().filter(of_work);
        natives.map(|item| item.native.as_str()).collect()
    }

    fn has_room(&self) -> bool {
        // A message that waits for a restart may have to go back to the line: its place is kept.
        let kept = self.work.as_ref().is_some_and(|work| work.again.is_some());
        self.line.len() + usize::from(kept) < LINE
    }

    // What a command gets.

    /// The outcome, in the words of `sim::words`. `stoppable` says which tools (by native id) the person agreed to stop.
    pub(crate) fn judge(&self, actor: Actor, command: &Command, stoppable: &[String]) -> String {
        if let CommandBody::ThreadFork {
            title, source, run, ..
        } = &command.body
        {
            return self.judge_fork(command, title, *source, *run).to_owned();
        }
        if self.read_only {
            return "read_only".to_owned();
        }
        if let CommandBody::ThreadCreate {
            title,
            workspace,
            selection,
        } = &command.body
        {
            return match () {
                () if command.thread != command.id.derive("thread") => "invalid:thread",
                () if self.life.is_some() => "thread_exists",
                () if title.chars().count() > 200 => "invalid:title",
                () if selection.agent.as_str() != "codex" => "unknown_agent",
                () if workspace.as_str() != "project" => "unknown_workspace",
                () if ![Mode::ReadOnly, Mode::Ask, Mode::AutoEdit].contains(&selection.mode) => {
                    "unsupported_mode"
                }
                () => "accepted",
            }
            .to_owned();
        }
        if command.thread != self.thread || matches!(self.life, None | Some(Lifecycle::Deleted)) {
            return "unknown_thread".to_owned();
        }
        match &command.body {
            CommandBody::ThreadCreate { .. }
            | CommandBody::ThreadFork { .. }
            | CommandBody::ThreadImport { .. } => unreachable!(),
            CommandBody::MessageSend { .. }
            | CommandBody::ThreadRollback { .. }
            | CommandBody::ThreadSelect { .. }
            | CommandBody::ThreadCompact
            | CommandBody::ThreadSignIn
                if self.life == Some(Lifecycle::Archived) =>
            {
                "invalid:thread".to_owned()
            }
            CommandBody::MessageSend { text, .. }
                if text.trim().is_empty() || text.len() > 262_144 =>
            {
                "invalid:text".to_owned()
            }
            CommandBody::MessageSend { dispatch, .. } => match dispatch {
                DispatchMode::StartImmediately if self.rests() => "accepted".to_owned(),
                DispatchMode::StartImmediately => self.if_room("accepted:queued_instead"),
                DispatchMode::QueueAfterActive
                    if self.rests() && self.held.is_none() && self.line.is_empty() =>
                {
                    "accepted".to_owned()
                }
                DispatchMode::QueueAfterActive => self.if_room("accepted"),
                DispatchMode::SteerActive { run } => self.judge_steer(*run, false, stoppable),
                DispatchMode::RestartActive { run } => self.judge_steer(*run, true, stoppable),
            },
            CommandBody::RunInterrupt { run, attempt, .. } => {
                let at_work = self
                    .work
                    .as_ref()
                    .filter(|work| self.runs[work.run].id == Some(*run));
                let Some(work) = at_work else {
                    return match self.run_by_id(*run).and_then(|run| self.runs[run].ended) {
                        Some(status) => format!("turn_ended:{status:?}:"),
                        None => "unknown_run".to_owned(),
                    };
                };
                if self.tries[work.attempt].id != Some(*attempt) {
                    "stale:attempt".to_owned()
                } else if matches!(work.stage, Stage::Over(..)) {
                    "turn_ended::".to_owned()
                } else if !self.stops {
                    "unsupported".to_owned()
                } else {
                    "accepted".to_owned()
                }
            }
            CommandBody::RequestAnswer {
                request,
                content_hash,
                answer,
            } => {
                if !matches!(actor, Actor::Device { .. }) {
                    return "forbidden".to_owned();
                }
                let Some(ask) = self.asks.iter().find(|ask| ask.id == Some(*request)) else {
                    return "unknown_request".to_owned();
                };
                match &ask.status {
                    AskStatus::Answering(..) | AskStatus::Answered(_) => "already_answered",
                    AskStatus::Withdrawn => "not_respondable:Withdrawn",
                    AskStatus::Expired => "not_respondable:Expired",
                    AskStatus::Lost => "not_respondable:Lost",
                    AskStatus::Pending if ask.shown() != *content_hash => "stale:content",
                    AskStatus::Pending => fits(&ask.subject, answer),
                }
                .to_owned()
            }
            CommandBody::QueueRemove { revision, .. } | CommandBody::QueueRelease { revision }
                if *revision != self.edits =>
            {
                "stale:queue".to_owned()
            }
            CommandBody::QueueRemove { run, .. } => {
                let waits = self.line.iter().any(|r| self.runs[*r].id == Some(*run));
                if waits { "accepted" } else { "unknown_run" }.to_owned()
            }
            CommandBody::QueueRelease { .. } => "accepted".to_owned(),
            CommandBody::ThreadRollback { before, last } => {
                self.judge_rollback(*before, *last).to_owned()
            }
            CommandBody::ThreadSelect {
                model,
                effort,
                mode,
            } => self
                .judge_select(model.as_deref(), effort.as_deref(), *mode)
                .to_owned(),
            // No sign-in is refused here: sign_in.rs asks for what follows.
            CommandBody::ThreadSignIn => match () {
                () if self.work.is_some() => "unfit_run",
                () if self.taking_back.is_some() => "busy",
                () => "invalid:thread",
            }
            .to_owned(),
            CommandBody::ThreadCompact => match () {
                () if self.work.is_some() => "unfit_run",
                () if self.taking_back.is_some() => "busy",
                () if !self.has_conversation => "invalid:thread",
                () if !self.forgets => "unsupported",
                () => "accepted",
            }
            .to_owned(),
        }
    }

    fn judge_select(&self, model: Option<&str>, effort: Option<&str>, mode: Mode) -> &'static str {
        let was = self.chosen.as_ref().expect("it is there");
        let another_mode = self.has_conversation && mode != was.mode;
        let another = self.has_conversation
            && (model, effort) != (was.model.as_deref(), was.effort.as_deref());
        // The first is the agent's default.
        let offered = MODELS
            .iter()
            .find(|(name, _)| *name == model.unwrap_or("big"));
        match () {
            () if model == Some(" ") => "invalid:model",
            () if mode == Mode::FullAccess => "unsupported_mode",
            () if another_mode && !self.switches_mode => "unsupported",
            () if another && !self.switches_model => "unsupported",
            () if !self.offers => "accepted",
            () if offered.is_none() => "unknown_model",
            () if offered.is_some_and(|(_, efforts)| {
                let fits = |effort| efforts.is_empty() || efforts.contains(&effort);
                !effort.is_none_or(fits)
            }) =>
            {
                "unknown_effort"
            }
            () => "accepted",
        }
    }

    /// Whether a message can begin at once.
    pub(crate) fn rests(&self) -> bool {
        self.work.is_none() && self.taking_back.is_none()
    }

    /// A thread that begins as this one stood: nothing of this one changes.
    fn judge_fork(
        &self,
        command: &Command,
        title: &str,
        source: ThreadId,
        named: Option<RunId>,
    ) -> &'static str {
        let there = matches!(self.life, Some(Lifecycle::Active | Lifecycle::Archived));
        if command.thread != command.id.derive("thread") {
            return "invalid:thread";
        } else if title.chars().count() > 200 {
            return "invalid:title";
        } else if source != self.thread || !there {
            return "unknown_thread";
        } else if self.read_only {
            return "read_only";
        }
        let run = match named {
            Some(named) => match self.run_by_id(named) {
                Some(run) => run,
                None => return "unknown_run",
            },
            None => match self.last {
                Some(run) => run,
                None => return "invalid:run",
            },
        };
        let stands = matches!(
            self.status(run).0,
            RunStatus::Completed | RunStatus::Interrupted | RunStatus::Failed
        );
        let tried = self.tries.iter().rfind(|attempt| attempt.run == run);
        // Where a run goes on, the conversation holds more than the last one.
        let can = match self.work.is_none() && self.last == Some(run) {
            true => self.copies,
            false => self.copies_from_turns,
        };
        match () {
            () if !stands || !tried.is_some_and(|attempt| attempt.taken_up) => "unfit_run",
            () if !can => "unsupported",
            () => "accepted",
        }
    }

    fn judge_rollback(&self, before: RunId, last: RunId) -> &'static str {
        let newest = self.last.and_then(|run| self.runs[run].id);
        let first = self.run_by_id(before);
        let stands = first.is_some_and(|run| {
            matches!(
                self.status(run).0,
                RunStatus::Completed | RunStatus::Interrupted | RunStatus::Failed
            )
        });
        match () {
            () if self.work.is_some() => "unfit_run",
            () if self.taking_back.is_some() => "busy",
            () if newest != Some(last) => "stale:last_run",
            () if first.is_none() => "unknown_run",
            () if !stands => "unfit_run",
            () if !self.forgets => "unsupported",
            () => "accepted",
        }
    }

    fn if_room(&self, then: &str) -> String {
        if self.has_room() { then } else { "full" }.to_owned()
    }

    fn judge_steer(&self, target: RunId, anew: bool, stoppable: &[String]) -> String {
        if let Some(work) = &self.work
            && self.runs[work.run].id == Some(target)
            && !matches!(work.stage, Stage::Over(..))
        {
            if work.again.is_some() {
                return "busy".to_owned();
            }
            if !anew && self.steers {
                return match work.stage {
                    Stage::Working => "accepted",
                    _ => "busy",
                }
                .to_owned();
            }
            if !self.stops {
                return "unsupported".to_owned();
            }
            let tools = self.tools();
            if tools
                .iter()
                .any(|tool| !stoppable.iter().any(|s| s == tool))
            {
                return "stale:running_item".to_owned();
            }
            return self.if_room("accepted");
        }
        if !self.has_room() {
            return "full".to_owned();
        }
        if self.line.iter().any(|r| self.runs[*r].id == Some(target)) {
            return "accepted:follows_queued".to_owned();
        }
        let ended = self.run_by_id(target).and_then(|run| self.runs[run].ended);
        let status = ended.map_or(String::new(), |status| format!("{status:?}"));
        format!("turn_ended:{status}:kept")
    }
}

/// Whether an answer answers what was asked.
fn fits(subject: &Subject, answer: &Answer) -> &'static str {
    match answer {
        Answer::Choose { option, .. } => {
            let offered = subject.options.iter().any(|o| o.id == *option);
            if offered {
                "accepted"
            } else {
                "invalid:option"
            }
        }
        // The questions of this test take one of their choices and nothing else.
        Answer::Reply { replies } => {
            let fits = !subject.questions.is_empty()
                && replies.len() == subject.questions.len()
                && subject
                    .questions
                    .iter()
                    .zip(replies)
                    .all(|(question, reply)| {
                        reply.question == question.id
                            && reply.text.is_none()
                            && reply.chosen.len() == 1
                            && question.choices.iter().any(|c| c.label == reply.chosen[0])
                    });
            if fits { "accepted" } else { "invalid:replies" }
        }
    }
}
