//! What is done with a thread as a whole, end to end on real agents: forked, rolled back, switched, shortened.

use pilothouse_domain::{
    Mode, Refusal, RunId, RunStatus, ThreadId,
    command::{CommandBody, ForkWorkspace},
};
use pilothouse_engine::{Page, Prediction, Query, RowContent};
use pilothouse_tests::{Cli, Device, Setup, World, process};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// An agent that can do all of this, and how its tests speak with it.
struct Able {
    name: &'static str,
    setup: fn(Setup) -> Setup,
    /// The tool call of its model that runs a command.
    runs: fn(&str) -> Value,
    /// Its answers.
    allow: &'static str,
    refuse: &'static str,
    /// A model that is not the usual one with an effort, the usual one with another, and one that it has not but nearly.
    other: (&'static str, &'static str),
    usual: (&'static str, &'static str, &'static str),
    mistyped: &'static str,
}

const CODEX: Able = Able {
    name: "codex",
    setup: Setup::bound,
    runs: |command| json!({"name": "exec_command", "args": {"cmd": command}}),
    allow: "accept",
    refuse: "decline",
    other: ("gpt-5.6-luna", "max"),
    usual: ("gpt-5.5", "high", "low"),
    mistyped: "gpt-5.6-lunar",
};

const OPENCODE: Able = Able {
    name: "opencode",
    setup: Setup::opencode,
    runs: |command| json!({"name": "bash", "args": {"command": command, "description": "try it"}}),
    allow: "once",
    refuse: "reject_and_go_on",
    other: ("local/scripted-2", "high"),
    usual: ("local/scripted", "medium", "low"),
    mistyped: "local/scriptde-2",
};

impl Able {
    fn world(&self) -> World {
        let world = (self.setup)(Setup::new()).start();
        world.model.script("say", &json!([{"text": "Said."}]));
        world
    }

    /// A script that runs a command and then says a word.
    fn script(&self, world: &World, name: &str, command: &str) {
        let steps =
            json!([{"text": "I make it.", "tools": [(self.runs)(command)]}, {"text": "Made."}]);
        world.model.script(name, &steps);
    }
}

pub(crate) fn prompt(mark: &str) -> String {
    format!("[[id:{mark}]] [[script:say]]")
}

/// A run that only talks; gives its id.
pub(crate) fn talk(device: &Device, thread: ThreadId, ordinal: u32, mark: &str) -> RunId {
    device.accepted(&device.say(thread, &prompt(mark)));
    device.completed(thread, ordinal);
    device.ended(thread, ordinal).id
}

pub(crate) fn fork(device: &Device, source: ThreadId, run: Option<RunId>) -> ThreadId {
    let ticket = device.submit(
        None,
        CommandBody::ThreadFork {
            title: "another way".to_owned(),
            source,
            run,
            workspace: ForkWorkspace::SameTree,
        },
    );
    // The device holds the source, so it foresees the fork.
    assert!(matches!(ticket.prediction(), Prediction::Events(_)));
    device.accepted(&ticket);
    device.watch(ticket.thread());
    ticket.thread()
}

/// The host and its agent end without a word, and the conversations go on in new processes.
pub(crate) fn next_life(world: &mut World, device: &Device) {
    let agents = world.host.agents();
    assert!(!agents.is_empty(), "the agent runs as the host's child");
    world.host.kill_9();
    for agent in agents {
        // Some live on.
        let pid = i32::try_from(agent).ok().and_then(Pid::from_raw).unwrap();
        let _ = kill_process(pid, Signal::KILL);
        process::gone(agent);
    }
    device.offline();
    world.host.restart();
    device.network_changes();
    device.synchronised();
}

/// How many requests to the model held what was said under each mark.
pub(crate) fn held(world: &World, marks: &[&str]) -> Vec<u64> {
    marks
        .iter()
        .map(|mark| world.model.mark(mark).requests)
        .collect()
}

#[test]
fn a_fork_from_an_earlier_run_knows_what_was_said_before_it_and_nothing_after() {
    forks_know_what_was_said_before_them(&CODEX);
}

#[test]
fn a_fork_of_opencode_knows_what_was_said_before_it_and_nothing_after() {
    forks_know_what_was_said_before_them(&OPENCODE);
}

fn forks_know_what_was_said_before_them(agent: &Able) {
    let mut world = agent.world();
    let device = world.device("phone");
    let thread = device.new_thread(agent.name, Mode::Ask);
    let first = talk(&device, thread, 1, "one");
    talk(&device, thread, 2, "two");
    assert_eq!(held(&world, &["one", "two"]), [2, 1]);

    let forked = fork(&device, thread, Some(first));
    // Nothing is asked of the agent or its model until something is said in it.
    let line = device.wait("the fork in the list", |seen| {
        let row = seen
            .threads
            .iter()
            .find(|row| row.summary.thread == forked)?;
        Some(row.summary.clone())
    });
    assert_eq!(line.lineage.unwrap().parent, thread);
    talk(&device, forked, 1, "three");
    assert_eq!(held(&world, &["one", "two", "three"]), [3, 1, 1]);
    let rows = device.whole(forked);
    assert_eq!(
        rows[0].content,
        RowContent::Fork {
            source: thread,
            run: first
        }
    );

    // Both go on, each for itself, also in the agent's next life.
    talk(&device, thread, 3, "four");
    next_life(&mut world, &device);
    talk(&device, forked, 2, "five");
    let marks = ["one", "two", "three", "four", "five"];
    assert_eq!(held(&world, &marks), [5, 2, 2, 1, 1]);
    // A fork of the fork, from where it stands.
    let grandchild = fork(&device, forked, None);
    talk(&device, grandchild, 1, "six");
    assert_eq!(held(&world, &marks), [6, 2, 3, 1, 2]);
    for thread in [thread, forked, grandchild] {
        device.same_as(&world.host, thread);
    }
    world.host.verify();
}

#[test]
fn a_rollback_makes_the_agent_forget_and_leaves_the_files() {
    rollbacks_are_forgotten(&CODEX);
}

#[test]
fn a_rollback_makes_opencode_forget_and_leaves_the_files() {
    rollbacks_are_forgotten(&OPENCODE);
}

fn rollbacks_are_forgotten(agent: &Able) {
    let mut world = agent.world();
    agent.script(&world, "make", "echo made > made.txt");
    let device = world.device("phone");
    let thread = device.new_thread(agent.name, Mode::Ask);
    talk(&device, thread, 1, "one");
    device.accepted(&device.say(thread, "[[id:two]] [[script:make]]"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, agent.allow));
    device.completed(thread, 2);
    let second = device.ended(thread, 2).id;
    let third = talk(&device, thread, 3, "three");

    let body = CommandBody::ThreadRollback {
        before: second,
        last: third,
    };
    let ticket = device.submit(Some(thread), body);
    assert!(matches!(ticket.prediction(), Prediction::Events(_)));
    device.accepted(&ticket);
    device.wait("the rollback", |seen| {
        let timeline = seen.timelines.get(&thread)?;
        let told = |row: &pilothouse_engine::TimelineRow| {
            row.content
                == RowContent::Rollback {
                    before: second,
                    runs: 2,
                }
        };
        timeline.rows.iter().any(told).then_some(())
    });
    assert_eq!(world.text_of("made.txt").as_deref(), Some("made\n"));
    let before = held(&world, &["one", "two", "three"]);
    talk(&device, thread, 4, "four");
    let after = held(&world, &["one", "two", "three"]);
    assert_eq!(after, [before[0] + 1, before[1], before[2]]);
    // And in the agent's next life.
    next_life(&mut world, &device);
    talk(&device, thread, 5, "five");
    let later = held(&world, &["one", "two", "three"]);
    assert_eq!(later, [before[0] + 2, before[1], before[2]]);
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn model_effort_and_mode_are_switched_between_turns_and_reach_the_agent() {
    what_is_selected_reaches(&CODEX);
}

#[test]
fn model_effort_and_mode_are_switched_between_turns_and_reach_opencode() {
    what_is_selected_reaches(&OPENCODE);
}

fn what_is_selected_reaches(agent: &Able) {
    let world = agent.world();
    for name in ["asked", "free"] {
        agent.script(&world, name, &format!("echo made > {name}.txt"));
    }
    let (other, most) = agent.other;
    let (usual, high, low) = agent.usual;
    let device = world.device("phone");
    let thread = device.new_thread(agent.name, Mode::Ask);
    let select = |model: Option<&str>, effort: Option<&str>, mode| {
        device.submit(
            Some(thread),
            CommandBody::ThreadSelect {
                model: model.map(str::to_owned),
                effort: effort.map(str::to_owned),
                mode,
            },
        )
    };
    let chosen = |script: &str, model: &str, effort: &str| {
        let asked = world.model.chosen(script).unwrap();
        // The service knows the model without the name of its provider.
        let model = model.rsplit('/').next().unwrap();
        assert_eq!(asked, (model.to_owned(), Some(effort.to_owned())));
    };
    device.accepted(&device.say(thread, "[[script:asked]]"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, agent.allow));
    device.completed(thread, 1);

    // What the agent said at its start is what a choice is checked against, on the device already.
    let wrong = select(Some(agent.mistyped), None, Mode::Ask);
    assert!(matches!(wrong.prediction(), Prediction::Refused(_)));
    let Refusal::UnknownModel { nearest, .. } = device.refused(&wrong) else {
        panic!("another refusal")
    };
    assert_eq!(nearest[0], other);
    let wrong = select(Some(usual), Some("ultra"), Mode::Ask);
    let Refusal::UnknownEffort { known, .. } = device.refused(&wrong) else {
        panic!("another refusal")
    };
    assert!(known.contains(&high.to_owned()), "{known:?}");

    device.accepted(&select(Some(other), Some(most), Mode::Ask));
    talk(&device, thread, 2, "two");
    chosen("say", other, most);
    // In the mode that never asks, the same is done without a word; and the model is another one again.
    device.accepted(&select(Some(usual), Some(high), Mode::FullAccess));
    device.accepted(&device.say(thread, "[[script:free]]"));
    device.completed(thread, 3);
    chosen("free", usual, high);
    assert_eq!(world.text_of("free.txt").as_deref(), Some("made\n"));
    device.accepted(&select(Some(usual), Some(low), Mode::Ask));
    device.accepted(&device.say(thread, "[[script:asked]]"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, agent.refuse));
    device.completed(thread, 4);
    chosen("asked", usual, low);

    let page = device.core().query(Query::Models {
        host: world.host.id(),
        thread,
    });
    let Ok(Page::Models(models)) = page else {
        panic!("{page:?}")
    };
    assert!(models.iter().any(|model| model.id == usual));
    // A device that comes later knows them, too.
    let late = world.device("tablet");
    late.watch(thread);
    device.same_as(&world.host, thread);
    late.same_as(&world.host, thread);
    let page = late.core().query(Query::Models {
        host: world.host.id(),
        thread,
    });
    assert_eq!(page, Ok(Page::Models(models)));
    world.host.verify();
}

#[test]
fn the_terminal_forks_rolls_back_and_compacts_and_says_what_came_of_it() {
    let world = World::start();
    world.model.script("say", &json!([{"text": "Said."}]));
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let run = |verb: &[&str]| cli.run(&world.host, verb);
    let made = run(&["new", "--agent", "codex", "--workspace", "demo", "First"]);
    let thread = text(&made.only("created")["thread"]);
    for mark in ["one", "two"] {
        assert_eq!(run(&["send", &thread, &prompt(mark)]).code, 0);
        assert_eq!(run(&["watch", &thread, "--until-idle"]).code, 0);
    }
    let early = run(&["rollback", &thread, "--before", "7"]);
    assert_eq!(early.code, 5, "{early:#?}");

    let forked = run(&["fork", &thread, "--after", "1", "Another way"]);
    assert_eq!(forked.code, 0, "{forked:#?}");
    let line = forked.only("forked");
    assert_eq!(text(&line["source"]), thread);
    let fork = text(&line["thread"]);
    let listed = run(&["threads"]);
    let found = listed
        .of_type("thread")
        .find(|line| text(&line["thread"]) == fork)
        .unwrap();
    assert_eq!(text(&found["forked_from"]), thread);
    assert_eq!(run(&["send", &fork, &prompt("three")]).code, 0);
    assert_eq!(run(&["watch", &fork, "--until-idle"]).code, 0);
    assert_eq!(held(&world, &["one", "two"]), [3, 1]);

    let back = run(&["rollback", &thread, "--before", "2"]);
    assert_eq!(back.code, 0, "{back:#?}");
    assert_eq!(back.only("rolled_back")["runs"], 1);
    let (code, said) = cli.read(&world.host, &["rollback", &thread, "--before", "1"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Files are as they were."), "{said}");

    let short = run(&["compact", &fork]);
    assert_eq!(short.code, 0, "{short:#?}");
    assert_eq!(
        short.only("compacted")["run_status"],
        serde_json::to_value(RunStatus::Completed).unwrap()
    );
    let selected = run(&["select", &fork, "--effort", "high", "--mode", "read_only"]);
    assert_eq!(selected.code, 0, "{selected:#?}");
    let line = selected.only("selection");
    assert_eq!(line["selection"]["mode"], "read_only");
    assert_eq!(line["selection"]["effort"], "high");
    let refused = run(&["select", &fork, "--model", "gpt-55"]);
    assert_eq!(refused.code, 3, "{refused:#?}");
    let (_, said) = cli.read(&world.host, &["select", &fork]);
    assert!(
        said.contains("mode read_only") && said.contains("gpt-5.5"),
        "{said}"
    );
    let shown = run(&["watch", &fork, "--until-idle"]);
    let kinds: Vec<_> = shown
        .of_type("item")
        .map(|line| text(&line["content"]["kind"]))
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("fork"));
    assert_eq!(kinds.last().map(String::as_str), Some("compaction"));
    world.host.verify();
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
