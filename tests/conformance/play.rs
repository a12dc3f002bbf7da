//! Plays the story: the steps of an agent one after the other, several agents at a time.

use crate::{
    agent::Agent,
    lane::Lane,
    offered::{self, NotOffered},
    outcome::{Control, Ended, Line, Outcome},
    steps::{STORY, Step},
    table::{self, Played, Table},
    way::Way,
};
use pilothouse_domain::{CapabilityValue, Mode, Refusal};
use std::{
    collections::BTreeMap,
    fs,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How long one wait of a step may take.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long a step may take.
const DEADLINE: Duration = Duration::from_secs(120);
/// Characters of a reason.
const REASON: usize = 240;
/// The stack of a step's thread.
const STACK: usize = 8 << 20;

/// What is to be played.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) agents: Vec<Agent>,
    /// How they are reached.
    pub(crate) ways: Vec<Way>,
    /// Only these steps; all if none is named.
    pub(crate) steps: Vec<String>,
    /// Agents at a time.
    pub(crate) jobs: usize,
    pub(crate) date: String,
    /// Where what explains a failure is left.
    pub(crate) logs: PathBuf,
}

impl Options {
    /// Whether the whole story is played.
    pub(crate) fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Plays it for every agent.
pub(crate) fn all(options: &Options) -> Table {
    pilothouse_tests::wait_at_most(PATIENCE);
    fs::create_dir_all(&options.logs)
        .unwrap_or_else(|error| panic!("{}: {error}", options.logs.display()));
    // What a step says when it fails is its reason and is left in a file; nothing is to be read twice.
    panic::set_hook(Box::new(|_| ()));
    let ways = options.ways.iter();
    let plays = ways.flat_map(|&way| {
        let agents = options.agents.iter();
        let agents = agents.filter(move |&&agent| way.is_of(agent));
        agents.map(move |&agent| (agent, way))
    });
    let waiting = Mutex::new(plays.collect::<Vec<_>>());
    let played = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some((agent, way)) = next(&waiting) {
                    let one = of_agent(agent, way, options);
                    played
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(one);
                }
            });
        }
    });
    let _ = panic::take_hook();
    let mut agents = played.into_inner().unwrap_or_else(PoisonError::into_inner);
    table::sort(&mut agents);
    Table { agents }
}

fn next(waiting: &Mutex<Vec<(Agent, Way)>>) -> Option<(Agent, Way)> {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    (!waiting.is_empty()).then(|| waiting.remove(0))
}

fn of_agent(agent: Agent, way: Way, options: &Options) -> Played {
    let began = Instant::now();
    let mut stage = Stage::new(agent, way, &options.logs);
    let title = way.titled(agent.name());
    let mut lines = Vec::new();
    for step in STORY {
        if !options.is_whole() && !options.steps.iter().any(|name| name == step.name) {
            continue;
        }
        let began = Instant::now();
        let line = stage.play(step);
        println!(
            "{title:16} {:32} {:5.1} s  {}{}{}",
            step.name,
            began.elapsed().as_secs_f32(),
            line.outcome.words(),
            if line.reason.is_empty() { "" } else { ": " },
            line.reason
        );
        lines.push(line);
    }
    let version = caught(|| agent.version()).unwrap_or_else(|problem| problem);
    let capabilities = stage.declared();
    println!(
        "{title:16} {version}: {} steps in {:.0} s",
        lines.len(),
        began.elapsed().as_secs_f32()
    );
    stage.end();
    Played {
        agent: agent.name().to_owned(),
        way,
        version,
        date: options.date.clone(),
        lines,
        capabilities,
    }
}

/// The words of a panic.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "it ended without a word".to_owned())
}

fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words(&*panic))
}

/// Where one agent's steps are played.
struct Stage<'a> {
    agent: Agent,
    way: Way,
    logs: &'a Path,
    /// `None` before the first step, and after one that failed.
    lane: Option<Lane>,
    /// Steps that did not end in time; each of their waits has an end, and so do they.
    late: Vec<thread::JoinHandle<()>>,
}

impl<'a> Stage<'a> {
    fn new(agent: Agent, way: Way, logs: &'a Path) -> Self {
        Self {
            agent,
            way,
            logs,
            lane: None,
            late: Vec::new(),
        }
    }

    fn play(&mut self, step: &'static Step) -> Line {
        let lane = match self.lane.take() {
            Some(lane) => Ok(lane),
            None => caught(|| Lane::start(self.agent, self.way)),
        };
        let lane = match lane {
            Ok(lane) => lane,
            Err(problem) => return self.failed(step, &problem, None),
        };
        let absent = offered::row(self.agent, self.way, step.name);
        let (send, receive) = mpsc::channel();
        let work = move || {
            let mut lane = lane;
            let line = caught(|| match absent {
                Some(row) => absence(&mut lane, step, row),
                None => {
                    let ended = (step.play)(&mut lane);
                    let unasked = lane.unasked();
                    assert!(unasked.is_empty(), "taken for unasked: {unasked:?}");
                    judged(&lane, step, ended)
                }
            });
            // Nobody listens any more if it took too long: then the lane ends here.
            let _ = send.send((lane, line));
        };
        let name = format!("{} {}", self.agent.name(), step.name);
        let builder = thread::Builder::new().name(name).stack_size(STACK);
        let thread = builder.spawn(work).expect("a thread for a step");
        match receive.recv_timeout(DEADLINE) {
            Ok((lane, Ok(line))) => {
                if line.outcome == Outcome::Fail {
                    return self.failed(step, &line.reason, Some(&lane));
                }
                self.lane = Some(lane);
                line
            }
            Ok((lane, Err(problem))) => self.failed(step, &problem, Some(&lane)),
            Err(_) => {
                self.late.push(thread);
                self.failed(step, &format!("it did not end within {DEADLINE:?}"), None)
            }
        }
    }

    /// What is left of a step that failed: a line, and in a file what was there instead.
    fn failed(&self, step: &Step, problem: &str, lane: Option<&Lane>) -> Line {
        let title = self.way.titled(self.agent.name());
        let dir = format!("{title}-{}", step.name).replace(' ', "-");
        let dir = self.logs.join(dir);
        let _ = fs::create_dir_all(&dir);
        let _ = fs::write(dir.join("problem.txt"), problem);
        if let Some(lane) = lane {
            for name in ["host.err", "model.jsonl", "model.err"] {
                let _ = fs::copy(lane.world.dir().join(name), dir.join(name));
            }
        }
        let first = problem.lines().next().unwrap_or_default();
        let first = first.split("; it shows").next().unwrap_or_default();
        Line::failed(step.name, first.chars().take(REASON).collect::<String>())
    }

    /// What the agent's sessions said that it can.
    fn declared(&self) -> BTreeMap<String, CapabilityValue> {
        let set = self
            .lane
            .as_ref()
            .and_then(|lane| caught(|| lane.capabilities()).ok().flatten());
        let flags = pilothouse_domain::CapabilityFlag::ALL.iter();
        set.map(|set| {
            flags
                .map(|flag| (flag.name().to_owned(), set.value(*flag)))
                .collect()
        })
        .unwrap_or_default()
    }

    fn end(self) {
        drop(self.lane);
        for thread in self.late {
            let _ = thread.join();
        }
    }
}

/// What comes of a step that was played, against what the host declared.
fn judged(lane: &Lane, step: &Step, ended: Ended) -> Line {
    let declared = |flag| lane.declared(flag);
    let needed = step.needs.map(|flag| (flag, declared(flag)));
    let line = |outcome, control, reason: String| Line {
        step: step.name.to_owned(),
        outcome,
        control,
        reason,
    };
    let no = needed.filter(|(_, value)| *value == CapabilityValue::No);
    let yes = needed.filter(|(_, value)| *value == CapabilityValue::Yes);
    match ended {
        Ended::Native | Ended::Noted(_) if no.is_some() => Line::failed(
            step.name,
            format!(
                "it works, and {} is declared as no",
                no.map_or("", |(flag, _)| flag.name())
            ),
        ),
        Ended::Native => line(Outcome::Pass, Control::Native, String::new()),
        Ended::Noted(note) => line(Outcome::Pass, Control::Native, note),
        Ended::Otherwise(how) => line(Outcome::Pass, Control::Approximated, how),
        Ended::Replaced(how) => line(Outcome::Replaced, Control::Approximated, how),
        Ended::Refused(refusal) => match &refusal {
            Refusal::Unsupported { capability, .. }
                if declared(*capability) == CapabilityValue::No && yes.is_none() =>
            {
                let reason = format!("{refusal}; {}", refusal.next_step());
                line(Outcome::Refused, Control::Unavailable, reason)
            }
            Refusal::Unsupported { capability, .. } => Line::failed(
                step.name,
                format!(
                    "refused for {capability}, which is declared as {:?}",
                    declared(*capability)
                ),
            ),
            other => Line::failed(step.name, format!("refused: {other}")),
        },
    }
}

/// A step that the table says has nothing to be played on: true only if agent and host agree.
fn absence(lane: &mut Lane, step: &Step, row: &NotOffered) -> Line {
    // A mode may bring tools of its own.
    for mode in [Mode::Ask, Mode::ReadOnly] {
        let thread = lane.thread(mode);
        lane.talk(thread, 1);
        let tools = lane.world.model.tools();
        if let Some(tool) = tools.iter().find(|tool| row.tools.contains(&tool.as_str())) {
            return Line::failed(
                step.name,
                format!(
                    "its model is offered `{tool}`, and the table says: {}",
                    row.reason
                ),
            );
        }
    }
    if let Some(flag) = step.needs
        && lane.declared(flag) == CapabilityValue::Yes
    {
        return Line::failed(
            step.name,
            format!(
                "{flag} is declared as yes, and the table says: {}",
                row.reason
            ),
        );
    }
    Line {
        step: step.name.to_owned(),
        outcome: Outcome::NotOffered,
        control: Control::Unavailable,
        reason: format!("{} ({})", row.reason, row.source),
    }
}
