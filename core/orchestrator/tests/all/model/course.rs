//! The course of a thread: what a person does next, weighted by what there is to do.

use super::{
    agent::Agent,
    coverage::{self, COMMANDS, Coverage},
    oracle::{AskStatus, LINE, Stage},
    sim::{Sim, words},
};
use crate::world::{choose, command_id, device, reply};
use pilothouse_domain::{
    Answer, AttemptId, Cause, Command, CommandBody, ContentHash, DispatchMode, Event, LoggedEvent,
    Mode, RequestId, RequestStatus, RunId, RunStatus,
    command::ForkWorkspace,
    entry::UnknownEvent,
    thread::{Actor, Lifecycle, Selection},
};
use pilothouse_orchestrator::Decision;

/// One step as generated: which of what can be done, and how.
pub(crate) type Choice = (u16, u16, u16);

/// What can happen next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Command(&'static str),
    /// As many messages as the line takes, and one more.
    Fill,
    Expire,
    Agent(super::agent::Does),
}

pub(crate) struct Course<'a> {
    pub(crate) sim: Sim,
    pub(crate) agent: Agent,
    pub(crate) coverage: &'a mut Coverage,
    /// A turn is over and the ledger has not drawn the line: what a device sees between two entries.
    pub(crate) between: bool,
}

/// The first of several that is there, beginning at the `n`th.
fn first_from<T: Copy>(options: &[Option<T>], n: usize) -> Option<T> {
    (0..options.len()).find_map(|i| options[(n + i) % options.len()])
}

impl<'a> Course<'a> {
    /// A thread that is not there yet: nothing can be done with it but make it.
    pub(crate) fn begin(
        steers: bool,
        stops: bool,
        names_turns: bool,
        coverage: &'a mut Coverage,
    ) -> Self {
        let mut course = Self {
            sim: Sim::new(steers, stops),
            agent: Agent::new(names_turns),
            coverage,
            between: false,
        };
        let create = course.sim.create.clone();
        for kind in COMMANDS.into_iter().filter(|kind| *kind != "create") {
            course.person(kind, 0, 0);
        }
        for wrong in 0..5 {
            let body = course.create_body(wrong);
            course.give(create.id, create.thread, body, &[]);
        }
        let body = course.create_body(9);
        let elsewhere = command_id(1).derive("thread");
        course.give(create.id, elsewhere, body.clone(), &[]);
        course.give(create.id, create.thread, body, &[]);
        course
    }

    fn create_body(&self, wrong: u16) -> CommandBody {
        let text = |is_wrong: bool, wrong: &str, right: &str| {
            if is_wrong { wrong } else { right }.to_owned()
        };
        CommandBody::ThreadCreate {
            title: if wrong == 0 {
                "x".repeat(201)
            } else {
                "t".to_owned()
            },
            workspace: text(wrong == 1, "elsewhere", "project").as_str().into(),
            selection: Selection {
                agent: text(wrong == 2, "codx", "codex").as_str().into(),
                model: None,
                effort: None,
                mode: match wrong {
                    3 => Mode::FullAccess,
                    4 => Mode::ReadOnly,
                    _ => Mode::Ask,
                },
                sandbox: None,
            },
        }
    }

    pub(crate) fn step(&mut self, (pick, a, b): Choice) {
        let acts = self.acts();
        let total: u32 = acts.iter().map(|(weight, _)| weight).sum();
        let mut at = u32::from(pick) % total;
        let mut chosen = acts[0].1;
        for (weight, act) in acts {
            if at < weight {
                chosen = act;
                break;
            }
            at -= weight;
        }
        self.coverage.steps += 1;
        self.coverage.story.push(format!("{chosen:?} {a} {b}"));
        match chosen {
            Act::Command(kind) => self.person(kind, a, b),
            Act::Fill => {
                while self.sim.oracle.line.len() < LINE - 1 {
                    self.person("queue", 1, 1);
                }
                self.person("queue", 1, 1);
                self.person("queue", 1, 1);
            }
            Act::Expire => self.expire(),
            Act::Agent(does) => self.agent_does(does, a, b),
        }
    }

    /// What there is to do, and how likely it is.
    fn acts(&self) -> Vec<(u32, Act)> {
        let oracle = &self.sim.oracle;
        let working = oracle.work.as_ref().map(|work| work.stage);
        let busy = working.is_some();
        let pending = oracle
            .asks
            .iter()
            .any(|ask| ask.status == AskStatus::Pending);
        let on = |is: bool, yes: u32, no: u32| if is { yes } else { no };
        let mut acts = vec![
            (on(busy, 30, 120), Act::Command("start")),
            (on(busy, 30, 50), Act::Command("queue")),
            (on(busy, 50, 10), Act::Command("steer")),
            (on(busy, 30, 10), Act::Command("restart")),
            (on(busy, 30, 10), Act::Command("interrupt")),
            (on(pending, 120, 12), Act::Command("answer")),
            (on(oracle.line.is_empty(), 6, 25), Act::Command("remove")),
            (on(oracle.held.is_some(), 60, 6), Act::Command("release")),
            (5, Act::Command("create")),
            (12, Act::Command("fork")),
            (10, Act::Command("select")),
            (on(busy, 6, 50), Act::Command("rollback")),
            (on(busy, 6, 15), Act::Command("compact")),
        ];
        if self.between {
            return acts;
        }
        let stray = |ask: &super::oracle::Ask| {
            ask.status == AskStatus::Pending && !ask.owner.is_some_and(|t| oracle.is_alive(t))
        };
        if oracle.asks.iter().any(stray) {
            acts.push((12, Act::Expire));
        }
        if oracle.line.len() < 4 {
            acts.push((3, Act::Fill));
        }
        acts.extend(self.agent_acts());
        acts
    }

    // A person.

    /// A command of that kind: mostly one that can be taken, else one that is wrong in some way.
    pub(crate) fn person(&mut self, kind: &'static str, a: u16, b: u16) {
        let (n, wrong) = (usize::from(a), b % 16);
        let mut stoppable = Vec::new();
        let body = match kind {
            "create" => self.create_body(b),
            "fork" => self.fork_body(n, b),
            "select" => self.select_body(a, b),
            "rollback" => CommandBody::ThreadRollback {
                before: self.run(n),
                last: self.last_run(wrong),
            },
            "compact" => CommandBody::ThreadCompact,
            "remove" | "release" => {
                let revision = self.sim.oracle.edits + u64::from(wrong == 0);
                match kind {
                    "remove" => CommandBody::QueueRemove {
                        run: self.run_in_line(n, wrong),
                        revision,
                    },
                    _ => CommandBody::QueueRelease { revision },
                }
            }
            "interrupt" => {
                let run = self.run(n);
                CommandBody::RunInterrupt {
                    run,
                    attempt: self.attempt(run, wrong),
                    hold_queue: a.is_multiple_of(2),
                }
            }
            "answer" => self.answer_body(n, b),
            _ => {
                let run = self.run(n);
                if wrong > 2 {
                    stoppable = self
                        .sim
                        .oracle
                        .tools()
                        .iter()
                        .map(|t| (*t).to_owned())
                        .collect();
                }
                CommandBody::MessageSend {
                    text: match b % 64 {
                        63 => " \n".to_owned(),
                        62 => "x".repeat(262_145),
                        _ => "words".to_owned(),
                    },
                    attachments: Vec::new(),
                    dispatch: match kind {
                        "start" => DispatchMode::StartImmediately,
                        "queue" => DispatchMode::QueueAfterActive,
                        "steer" => DispatchMode::SteerActive { run },
                        _ => DispatchMode::RestartActive { run },
                    },
                    accept_stop: stoppable.iter().filter_map(|t| self.sim.item(t)).collect(),
                }
            }
        };
        self.sim.commands += 1;
        let id = command_id(self.sim.commands);
        let thread = match kind {
            "fork" if b % 32 == 31 => self.sim.oracle.thread,
            "create" | "fork" => id.derive("thread"),
            _ if b % 128 == 127 => command_id(9).derive("thread"),
            _ => self.sim.oracle.thread,
        };
        let thread = if kind == "create" && a.is_multiple_of(2) {
            self.sim.oracle.thread
        } else {
            thread
        };
        self.give(id, thread, body, &stoppable);
    }

    fn select_body(&self, a: u16, b: u16) -> CommandBody {
        let word = |text: &str| Some(text.to_owned());
        CommandBody::ThreadSelect {
            model: match a % 8 {
                0..3 => None,
                3 | 4 => word("big"),
                5 => word("small"),
                6 => word("bigg"),
                _ => word(" "),
            },
            effort: match b % 4 {
                0 | 1 => None,
                2 => word("low"),
                _ => word("lo"),
            },
            mode: match b % 16 {
                0..9 => Mode::Ask,
                9..15 => Mode::AutoEdit,
                _ => Mode::FullAccess,
            },
        }
    }

    fn fork_body(&self, n: usize, b: u16) -> CommandBody {
        let thread = match b % 16 {
            7 => command_id(9).derive("thread"),
            _ => self.sim.oracle.thread,
        };
        CommandBody::ThreadFork {
            title: if b % 64 == 62 {
                "x".repeat(201)
            } else {
                "t".to_owned()
            },
            source: thread,
            run: (!n.is_multiple_of(4)).then(|| self.run(n)),
            workspace: ForkWorkspace::SameTree,
        }
    }

    /// The last run that stands, or another.
    fn last_run(&self, wrong: u16) -> RunId {
        let last = self.sim.oracle.last.filter(|_| wrong != 0);
        let id = last.and_then(|run| self.sim.oracle.runs[run].id);
        id.unwrap_or(RunId::from_bytes([9; 16]))
    }

    /// A run: what is at work, what waits, what has ended, or none.
    fn run(&self, n: usize) -> RunId {
        let oracle = &self.sim.oracle;
        let id = |run: usize| oracle.runs[run].id;
        let nth = |of: Vec<usize>| of.get(n / 16 % of.len().max(1)).copied().and_then(id);
        let ended: Vec<usize> = (0..oracle.runs.len())
            .filter(|run| oracle.runs[*run].ended.is_some())
            .collect();
        let work = oracle.work.as_ref().and_then(|work| id(work.run));
        let (line, ended) = (nth(oracle.line.clone()), nth(ended));
        let mut latest = oracle.runs.iter().rev();
        let forgotten = latest.find(|run| run.ended == Some(RunStatus::RolledBack));
        let forgotten = forgotten.and_then(|run| run.id);
        let options = match n % 16 {
            0..10 => [work, line, ended],
            10..13 => [line, ended, work],
            13 => [ended, work, line],
            14 => [forgotten, ended, work],
            _ => [None; 3],
        };
        first_from(&options, 0).unwrap_or(RunId::from_bytes([9; 16]))
    }

    fn run_in_line(&self, n: usize, wrong: u16) -> RunId {
        let line = &self.sim.oracle.line;
        match line.get(n % line.len().max(1)) {
            Some(run) if wrong != 1 => self.sim.oracle.runs[*run].id.unwrap(),
            _ => self.run(n),
        }
    }

    fn attempt(&self, run: RunId, wrong: u16) -> AttemptId {
        let oracle = &self.sim.oracle;
        let work = oracle
            .work
            .as_ref()
            .filter(|work| oracle.runs[work.run].id == Some(run));
        let right = work.and_then(|work| oracle.tries[work.attempt].id);
        let other = oracle
            .tries
            .iter()
            .find_map(|t| t.id.filter(|id| Some(*id) != right));
        let order = if wrong == 0 {
            [other, right]
        } else {
            [right, other]
        };
        first_from(&order, 0).unwrap_or(AttemptId::from_bytes([9; 16]))
    }

    fn answer_body(&self, n: usize, b: u16) -> CommandBody {
        let asks = &self.sim.oracle.asks;
        let pending: Vec<_> = asks
            .iter()
            .filter(|a| a.status == AskStatus::Pending)
            .collect();
        let any: Vec<_> = asks.iter().collect();
        let from = if b.is_multiple_of(4) || pending.is_empty() {
            any
        } else {
            pending
        };
        let ask = from.get(n % from.len().max(1)).copied();
        let right = ask.is_some_and(|ask| !ask.subject.questions.is_empty());
        let answer = match (right != (b % 16 == 3), n / 64 % 3) {
            (true, _) if b % 16 == 7 => reply("q1", &[], None),
            (true, _) => reply("q1", &["Red"], None),
            (false, 0) if b % 16 == 7 => choose("nothing"),
            (false, n) => choose(["accept", "decline", "cancel"][n]),
        };
        let shown = ask.map_or(ContentHash::of(""), |ask| ask.shown());
        CommandBody::RequestAnswer {
            request: match ask.and_then(|ask| ask.id) {
                Some(id) if b % 16 != 11 => id,
                _ => RequestId::from_bytes([9; 16]),
            },
            content_hash: match b % 16 {
                5 => ContentHash::of("what was shown before"),
                _ => shown,
            },
            answer,
        }
    }

    fn note_cells(&mut self, command: &Command) {
        let oracle = &self.sim.oracle;
        let kind = coverage::kind(&command.body);
        let life = match oracle.life {
            _ if oracle.read_only => "read_only".to_owned(),
            None => "none".to_owned(),
            Some(life) => format!("{life:?}"),
        };
        self.coverage.cell(kind, "thread", &life);
        let of = match &command.body {
            CommandBody::ThreadFork { source, .. } => *source,
            _ => command.thread,
        };
        if life != "Active" || of != oracle.thread {
            return;
        }
        let at_work = oracle.work.as_ref().map(|work| oracle.status(work.run).0);
        let at_work = at_work.map_or("nothing".to_owned(), |status| format!("{status:?}"));
        self.coverage.cell(kind, "at work", &at_work);
        let aim = match &command.body {
            CommandBody::MessageSend {
                dispatch: DispatchMode::SteerActive { run } | DispatchMode::RestartActive { run },
                ..
            }
            | CommandBody::RunInterrupt { run, .. }
            | CommandBody::ThreadFork { run: Some(run), .. }
            | CommandBody::ThreadRollback { before: run, .. }
            | CommandBody::QueueRemove { run, .. } => *run,
            CommandBody::RequestAnswer { request, .. } => {
                let ask = oracle.asks.iter().find(|ask| ask.id == Some(*request));
                let status = ask.map(|ask| format!("{:?}", ask.status));
                let status = status.as_deref().unwrap_or("unknown");
                let status = status.split('(').next().unwrap_or(status);
                self.coverage.cell(kind, "request", status);
                return;
            }
            _ => return,
        };
        let status = oracle.run_by_id(aim).map(|run| oracle.status(run).0);
        let status = status.map_or("unknown".to_owned(), |status| format!("{status:?}"));
        self.coverage.cell(kind, "run", &status);
    }

    fn give(
        &mut self,
        id: pilothouse_domain::CommandId,
        thread: pilothouse_domain::ThreadId,
        body: CommandBody,
        stoppable: &[String],
    ) {
        let command = Command {
            id,
            thread,
            device_seq: self.sim.commands,
            based_on: None,
            issued_at_ms: 1,
            body,
        };
        self.note_cells(&command);
        let is_answer = matches!(command.body, CommandBody::RequestAnswer { .. });
        let actor = match self.sim.commands % 16 {
            15 if is_answer => Actor::External,
            n => Actor::Device {
                device: device((n % 2 + 1) as u8),
            },
        };
        let in_use = self.sim.oracle.life.is_some();
        let told: String = format!("{:?}", command.body).chars().take(300).collect();
        self.coverage.story.push(told);
        let outcome = self.sim.command(actor, &command, stoppable);
        self.coverage.story.push(format!("  → {outcome}"));
        self.coverage.outcome(&outcome, in_use);
        self.sim.settle();
        self.between = false;
        self.sim.check();
    }

    /// A request that waited too long, for a turn that is long over.
    fn expire(&mut self) {
        let oracle = &self.sim.oracle;
        let stray = (0..oracle.asks.len()).find(|ask| {
            let ask = &oracle.asks[*ask];
            ask.status == AskStatus::Pending && !ask.owner.is_some_and(|t| oracle.is_alive(t))
        });
        let ask = stray.expect("there is one");
        let request = oracle.asks[ask].id.unwrap();
        self.sim.oracle.asks[ask].status = AskStatus::Expired;
        let events = vec![Event::RequestClosed {
            request,
            status: RequestStatus::Expired,
        }];
        let decision = Decision {
            events,
            ..Decision::default()
        };
        self.sim.append(Cause::Clock, decision);
        self.sim.settle();
        self.sim.check();
    }

    /// At the end: put away, deleted, and with an event that this version does not know.
    pub(crate) fn end(mut self) {
        if self.between {
            self.sim.settle();
            self.sim.check();
        }
        self.sim.check_replay();
        for life in [Lifecycle::Archived, Lifecycle::Deleted, Lifecycle::Active] {
            // Nothing in this version puts a thread away: the state is set as an event of a later one would.
            self.sim.force_life(life);
            if life == Lifecycle::Active {
                let unknown = LoggedEvent::Unknown(UnknownEvent {
                    kind: "thread.forked".to_owned(),
                    skippable: false,
                    rest: serde_json::Map::new(),
                });
                self.sim.unknown(unknown);
            }
            for kind in COMMANDS {
                self.sim.commands += 1;
                let id = command_id(self.sim.commands);
                let run = self.run(0);
                let (request, hash) = match self.sim.oracle.asks.last() {
                    Some(ask) => (ask.id.unwrap(), ask.shown()),
                    None => (RequestId::from_bytes([9; 16]), ContentHash::of("")),
                };
                let revision = self.sim.oracle.edits;
                let send = |dispatch| CommandBody::MessageSend {
                    text: "words".to_owned(),
                    attachments: Vec::new(),
                    dispatch,
                    accept_stop: Vec::new(),
                };
                let body = match kind {
                    "create" => self.create_body(9),
                    "fork" => self.fork_body(1, 9),
                    "select" => self.select_body(1, 9),
                    "rollback" => CommandBody::ThreadRollback {
                        before: run,
                        last: self.last_run(1),
                    },
                    "compact" => CommandBody::ThreadCompact,
                    "start" => send(DispatchMode::StartImmediately),
                    "queue" => send(DispatchMode::QueueAfterActive),
                    "steer" => send(DispatchMode::SteerActive { run }),
                    "restart" => send(DispatchMode::RestartActive { run }),
                    "interrupt" => CommandBody::RunInterrupt {
                        run,
                        attempt: self.attempt(run, 1),
                        hold_queue: true,
                    },
                    "answer" => CommandBody::RequestAnswer {
                        request,
                        content_hash: hash,
                        answer: Answer::Reply { replies: vec![] },
                    },
                    "remove" => CommandBody::QueueRemove { run, revision },
                    _ => CommandBody::QueueRelease { revision },
                };
                let command = Command {
                    id,
                    thread: match kind {
                        "fork" => id.derive("thread"),
                        _ => self.sim.oracle.thread,
                    },
                    device_seq: 1,
                    based_on: None,
                    issued_at_ms: 1,
                    body,
                };
                self.note_cells(&command);
                let actor = Actor::Device { device: device(1) };
                let expected = self.sim.oracle.judge(actor, &command, &[]);
                let outcome = words(&self.sim.decide(actor, &command));
                assert_eq!(outcome, expected, "{command:?}");
                self.coverage.outcome(&outcome, false);
            }
        }
    }

    pub(crate) fn at_stage(&self, stage: Stage) -> bool {
        self.sim.oracle.work.as_ref().map(|work| work.stage) == Some(stage)
    }
}
