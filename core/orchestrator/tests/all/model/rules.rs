//! What the oracle does with a command that is taken, with what an agent does, and with what comes of an errand.

use super::oracle::{
    Ask, AskStatus, Errand, Item, Oracle, Run, Stage, TakingBack, Told, Try, Wish, Work,
};
use pilothouse_domain::{
    Answer, Command, CommandBody, DeviceId, DispatchMode, MessageId, RequestId, RunId, RunStatus,
    Subject, event::HoldReason, provider::TurnStatus, provider_event::Resolution,
    request::RequestKind, thread::Lifecycle,
};

/// What came of an errand, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    Taken,
    Written,
    TooLate,
    Failed,
    Unknown,
}

impl Oracle {
    /// Takes a command that was judged `accepted…` or `turn_ended…kept`.
    pub(crate) fn take(&mut self, device: DeviceId, command: &Command) {
        let message: MessageId = command.id.derive("message");
        let own: RunId = command.id.derive("run");
        match &command.body {
            CommandBody::ThreadCreate { selection, .. } => {
                self.life = Some(Lifecycle::Active);
                self.chosen = Some(selection.clone());
            }
            CommandBody::ThreadSelect {
                model,
                effort,
                mode,
            } => {
                let chosen = self.chosen.as_mut().expect("it was judged");
                (chosen.model, chosen.effort) = (model.clone(), effort.clone());
                chosen.mode = *mode;
            }
            CommandBody::MessageSend { dispatch, .. } => {
                self.told.insert(message, Told::OnHost);
                match *dispatch {
                    DispatchMode::StartImmediately if self.rests() => {
                        let run = self.add(Some(own), Some(message), Wish::Own);
                        self.begin(run);
                    }
                    DispatchMode::QueueAfterActive
                        if self.rests() && self.held.is_none() && self.line.is_empty() =>
                    {
                        let run = self.add(Some(own), Some(message), Wish::After);
                        self.begin(run);
                    }
                    DispatchMode::StartImmediately => self.join_line(own, message, Wish::Own),
                    DispatchMode::QueueAfterActive => self.join_line(own, message, Wish::After),
                    DispatchMode::SteerActive { run } => {
                        self.steer(run, Wish::Into(run), own, message);
                    }
                    DispatchMode::RestartActive { run } => {
                        self.steer(run, Wish::Anew(run), own, message);
                    }
                }
            }
            CommandBody::RunInterrupt { hold_queue, .. } => {
                let work = self.work.as_mut().expect("it was judged");
                let tell = !work.stop_asked;
                work.stop_asked = true;
                work.stop_holds |= hold_queue;
                if let Some(message) = work.again.take() {
                    // A stop outweighs the restart; its message goes first when the line moves.
                    let stopped = self.runs[work.run].id.expect("it has been seen");
                    let run = self.add(Some(own), Some(message), Wish::Anew(stopped));
                    self.line.insert(0, run);
                    self.edits += 1;
                    self.told.insert(message, Told::OnHost);
                }
                if tell {
                    self.errands.push(Errand::Stop);
                }
            }
            CommandBody::RequestAnswer {
                request, answer, ..
            } => {
                let asked = self.asks.iter_mut().find(|ask| ask.id == Some(*request));
                asked.expect("it was judged").status = AskStatus::Answering(answer.clone(), device);
                self.errands.push(Errand::Answer(*request, answer.clone()));
            }
            CommandBody::QueueRemove { run, .. } => {
                let run = self.run_by_id(*run).expect("it was judged");
                self.line.retain(|waiting| *waiting != run);
                self.edits += 1;
                self.runs[run].ended = Some(RunStatus::Cancelled);
                if let Some(message) = self.runs[run].message {
                    self.told.insert(message, Told::Failed);
                }
                if self.line.is_empty() {
                    self.held = None;
                }
            }
            CommandBody::QueueRelease { .. } => self.held = None,
            CommandBody::ThreadFork { .. } | CommandBody::ThreadImport { .. } => {}
            CommandBody::ThreadRollback { before, .. } => {
                let first = self.run_by_id(*before).expect("it was judged");
                let from = self.runs[first].ordinal;
                let stands = |run: &&usize| {
                    let run = &self.runs[**run];
                    run.ordinal.is_some() && run.ended != Some(RunStatus::RolledBack)
                };
                let all: Vec<usize> = (0..self.runs.len()).collect();
                let (later, earlier): (Vec<&usize>, Vec<&usize>) = all
                    .iter()
                    .filter(stands)
                    .partition(|run| self.runs[**run].ordinal >= from);
                let head = earlier
                    .into_iter()
                    .max_by_key(|run| self.runs[**run].ordinal);
                self.taking_back = Some(TakingBack {
                    runs: later.into_iter().copied().collect(),
                    head: head.copied(),
                });
                self.errands.push(Errand::Forget(*before));
            }
            CommandBody::ThreadSignIn => unreachable!("no sign-in is refused"),
            CommandBody::ThreadCompact => {
                let run = self.add(Some(own), None, Wish::Own);
                self.begin(run);
                self.errands.push(Errand::Shorten);
            }
        }
    }

    /// What came of the asking to forget.
    pub(crate) fn forgotten(&mut self, came: Came) {
        let taking_back = self.taking_back.take().expect("it was asked for once");
        if !matches!(came, Came::Taken | Came::Written) {
            return;
        }
        for run in &taking_back.runs {
            self.runs[*run].ended = Some(RunStatus::RolledBack);
        }
        if self
            .last
            .is_some_and(|last| taking_back.runs.contains(&last))
        {
            self.last = taking_back.head;
        }
    }

    fn add(&mut self, id: Option<RunId>, message: Option<MessageId>, wish: Wish) -> usize {
        self.runs.push(Run {
            id,
            message,
            wish,
            ordinal: None,
            ended: None,
        });
        self.runs.len() - 1
    }

    fn join_line(&mut self, id: RunId, message: MessageId, wish: Wish) {
        let run = self.add(Some(id), Some(message), wish);
        self.line.push(run);
        self.edits += 1;
    }

    fn steer(&mut self, target: RunId, wish: Wish, own: RunId, message: MessageId) {
        let native = matches!(wish, Wish::Into(_)) && self.steers;
        let target_run = self.run_by_id(target);
        if let Some(work) = &mut self.work
            && Some(work.run) == target_run
            && !matches!(work.stage, Stage::Over(..))
        {
            if native {
                self.errands.push(Errand::Words(message));
                return;
            }
            work.again = Some(message);
            if !std::mem::replace(&mut work.stop_asked, true) {
                self.errands.push(Errand::Stop);
            }
            return;
        }
        let place = self
            .line
            .iter()
            .position(|waiting| Some(*waiting) == target_run);
        let Some(place) = place else {
            self.keep_missed(Some(own), message, wish);
            return;
        };
        // Right behind what it is aimed at, and behind those that follow it already.
        let mut at = place + 1;
        while let Some(next) = self.line.get(at)
            && [Wish::Into(target), Wish::Anew(target)].contains(&self.runs[*next].wish)
        {
            at += 1;
        }
        let run = self.add(Some(own), Some(message), wish);
        self.line.insert(at, run);
        self.edits += 1;
    }

    /// Words that came too late: first in the line, behind others that missed the same, until their person says more.
    fn keep_missed(&mut self, id: Option<RunId>, message: MessageId, wish: Wish) {
        let mut at = 0;
        while self.held.is_some()
            && let Some(next) = self.line.get(at)
            && self.runs[*next].wish == wish
        {
            at += 1;
        }
        let run = self.add(id, Some(message), wish);
        self.line.insert(at, run);
        self.edits += 1;
        self.told.insert(message, Told::OnHost);
        self.hold(HoldReason::SteerMissed);
    }

    fn hold(&mut self, why: HoldReason) {
        if !self.line.is_empty() {
            self.held.get_or_insert(why);
        }
    }

    fn begin(&mut self, run: usize) {
        if let Some(at) = self.line.iter().position(|waiting| *waiting == run) {
            self.line.remove(at);
            self.edits += 1;
        }
        self.ordinals += 1;
        self.runs[run].ordinal = Some(self.ordinals);
        self.attempt(run, self.runs[run].message, 1);
    }

    fn attempt(&mut self, run: usize, message: Option<MessageId>, tries: u32) {
        self.tries.push(Try {
            id: None,
            run,
            message,
            taken_up: false,
        });
        self.work = Some(Work {
            run,
            attempt: self.tries.len() - 1,
            tries,
            stage: Stage::Sent,
            turn: None,
            stop_asked: false,
            stop_holds: false,
            again: None,
            spoke: false,
        });
        if let Some(message) = message {
            self.errands.push(Errand::Turn(message));
        }
    }

    /// What the ledger does of itself until there is nothing left to do.
    pub(crate) fn settle(&mut self) {
        if let Some(work) = self.work.clone() {
            let Stage::Over(how, lost) = work.stage else {
                return;
            };
            self.draw_the_line(&work, how, lost);
        }
        if self.rests()
            && self.held.is_none()
            && let Some(first) = self.line.first()
        {
            self.begin(*first);
        }
    }

    fn draw_the_line(&mut self, work: &Work, how: TurnStatus, lost: bool) {
        let status = match how {
            TurnStatus::Completed => RunStatus::Completed,
            TurnStatus::Interrupted => RunStatus::Interrupted,
            TurnStatus::Failed => RunStatus::Failed,
        };
        if let Some(message) = work.again
            && how != TurnStatus::Completed
        {
            if !work.spoke {
                self.attempt(work.run, Some(message), work.tries + 1);
                return;
            }
            self.end_run(work.run, status);
            let stopped = self.runs[work.run].id.expect("it has been seen");
            let run = self.add(None, Some(message), Wish::Anew(stopped));
            self.begin(run);
            return;
        }
        self.end_run(work.run, status);
        if let Some(message) = work.again {
            let ended = self.runs[work.run].id.expect("it has been seen");
            self.keep_missed(None, message, Wish::Anew(ended));
        }
        match how {
            TurnStatus::Completed => {}
            TurnStatus::Failed => self.hold(HoldReason::Failed),
            TurnStatus::Interrupted if lost => self.hold(HoldReason::RuntimeLost),
            // Stopped here by somebody who wants the line to move.
            TurnStatus::Interrupted if work.stop_asked && !work.stop_holds => {}
            TurnStatus::Interrupted => self.hold(HoldReason::Interrupted),
        }
    }

    fn end_run(&mut self, run: usize, status: RunStatus) {
        self.runs[run].ended = Some(status);
        self.last = Some(run);
        self.work = None;
    }

    // What an agent does.

    /// A run that nobody here asked for.
    pub(crate) fn elsewhere(&mut self, turn: &str) {
        let run = self.add(None, None, Wish::Elsewhere);
        self.begin(run);
        self.taken_up(Some(turn));
    }

    pub(crate) fn taken_up(&mut self, turn: Option<&str>) {
        let work = self.work.as_mut().expect("something was sent");
        work.stage = Stage::Working;
        work.turn = turn.map(str::to_owned);
        self.tries[work.attempt].taken_up = true;
        if let Some(message) = self.tries[work.attempt].message {
            self.told.insert(message, Told::Started);
        }
    }

    pub(crate) fn over(&mut self, how: TurnStatus, lost: bool) {
        let work = self.work.as_mut().expect("something is at work");
        work.stage = Stage::Over(how, lost);
        let attempt = work.attempt;
        self.items.retain_mut(|item| {
            if item.owner != attempt || item.background {
                return true;
            }
            // A command outlives a turn that ended well; its end comes later.
            item.background = item.tool && how == TurnStatus::Completed;
            item.background
        });
        for ask in &mut self.asks {
            if ask.owner == Some(attempt) {
                close(ask, AskStatus::Withdrawn);
            }
        }
    }

    pub(crate) fn lost(&mut self) {
        self.items.clear();
        for ask in &mut self.asks {
            if ask.is_open() {
                ask.status = AskStatus::Lost;
            }
        }
        if self.work.is_some() {
            self.over(TurnStatus::Interrupted, true);
        }
    }

    pub(crate) fn opened(&mut self, native: &str, owner: usize, tool: bool) {
        self.items.push(Item {
            native: native.to_owned(),
            owner,
            tool,
            background: !self.is_alive(owner),
        });
    }

    /// An item ended; `says` is whether it is an answer a person can read.
    pub(crate) fn closed(&mut self, native: &str, unknown_of: Option<usize>, says: bool) {
        let at = self.items.iter().position(|item| item.native == native);
        let owner = match at {
            Some(at) => Some(self.items.remove(at).owner),
            None => unknown_of,
        };
        if let Some(work) = &mut self.work
            && says
            && owner == Some(work.attempt)
        {
            work.spoke = true;
        }
    }

    /// Something is asked that is not asked already.
    pub(crate) fn asked(
        &mut self,
        owner: Option<usize>,
        kind: RequestKind,
        subject: Subject,
    ) -> usize {
        self.asks.push(Ask {
            id: None,
            owner,
            kind,
            subject,
            status: AskStatus::Pending,
        });
        self.asks.len() - 1
    }

    /// The same is asked once more. Whether that makes it a new request.
    pub(crate) fn asked_again(&mut self, ask: usize, subject: &Subject) -> bool {
        let ask = &mut self.asks[ask];
        match ask.status.clone() {
            AskStatus::Pending => {
                ask.subject = subject.clone();
                false
            }
            AskStatus::Answering(answer, _) if ask.subject == *subject => {
                let id = ask.id.expect("it has been seen");
                self.errands.push(Errand::Answer(id, answer));
                false
            }
            AskStatus::Answering(..) => {
                ask.status = AskStatus::Withdrawn;
                true
            }
            _ => true,
        }
    }

    pub(crate) fn resolved(&mut self, ask: usize, how: Resolution) {
        let ask = &mut self.asks[ask];
        match how {
            _ if !ask.is_open() => {}
            Resolution::Withdrawn => ask.status = AskStatus::Withdrawn,
            Resolution::Expired => ask.status = AskStatus::Expired,
            Resolution::Answered => close(ask, AskStatus::Answered(None)),
            Resolution::Unsaid => close(ask, AskStatus::Withdrawn),
        }
    }

    // What comes of errands.

    pub(crate) fn sent(&mut self, attempt: usize, turn: Option<&str>, came: Came) {
        let waits = self
            .work
            .as_ref()
            .is_some_and(|work| work.attempt == attempt && work.stage == Stage::Sent);
        let message = self.tries[attempt].message.expect("it was sent");
        match came {
            Came::Taken if waits => self.taken_up(turn),
            // Its try is over, and the agent has confirmed that it took it all the same.
            Came::Taken => {
                self.told.insert(message, Told::Started);
            }
            Came::Failed if waits => {
                self.told.insert(message, Told::Failed);
                self.over(TurnStatus::Failed, false);
            }
            // Too late for its try: it did not leave, unless the agent's own signs say that it has it.
            Came::Failed | Came::TooLate if self.told.get(&message) != Some(&Told::Started) => {
                self.told.insert(message, Told::Failed);
            }
            Came::Unknown => self.uncertain(message),
            _ => {}
        }
    }

    fn uncertain(&mut self, message: MessageId) {
        if self.told.get(&message) != Some(&Told::Started) {
            self.told.insert(message, Told::Unknown);
        }
    }

    pub(crate) fn steered(&mut self, run: RunId, message: MessageId, came: Came) {
        match came {
            Came::Taken | Came::Written => {
                self.told.insert(message, Told::Started);
            }
            Came::Failed => {
                self.told.insert(message, Told::Failed);
            }
            Came::Unknown => self.uncertain(message),
            Came::TooLate => {
                let kept = self.work.as_ref().is_some_and(|work| work.again.is_some());
                if self.line.len() + usize::from(kept) < super::oracle::LINE {
                    self.keep_missed(None, message, Wish::Into(run));
                } else {
                    self.told.insert(message, Told::Failed);
                }
            }
        }
    }

    pub(crate) fn stopped(&mut self, attempt: usize, came: Came) {
        if let Some(work) = &mut self.work
            && work.attempt == attempt
            && matches!(came, Came::Failed | Came::Unknown)
        {
            work.stop_asked = false;
        }
    }

    pub(crate) fn answered(&mut self, request: RequestId, sent: &Answer, came: Came) {
        let asked = self.asks.iter_mut().find(|ask| ask.id == Some(request));
        let ask = asked.expect("an answer has a request");
        // What comes of an earlier answer says nothing of the one that is on its way now.
        if !matches!(&ask.status, AskStatus::Answering(answer, _) if answer == sent) {
            return;
        }
        match came {
            Came::Written => ask.status = AskStatus::Answered(Some(sent.clone())),
            Came::TooLate => ask.status = AskStatus::Withdrawn,
            Came::Failed => ask.status = AskStatus::Pending,
            Came::Taken | Came::Unknown => {}
        }
    }
}

/// Closes what is open: with an answer on its way it counts as given.
fn close(ask: &mut Ask, otherwise: AskStatus) {
    ask.status = match std::mem::replace(&mut ask.status, AskStatus::Withdrawn) {
        AskStatus::Pending => otherwise,
        AskStatus::Answering(answer, _) => AskStatus::Answered(Some(answer)),
        closed => closed,
    };
}
