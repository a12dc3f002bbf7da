//! docs/agents.md: the same table for reading.

use crate::{
    outcome::{Control, Outcome},
    steps::STORY,
    table::{Played, Table},
};
use pilothouse_domain::{CapabilityFlag, CapabilityValue};
use std::{fmt::Write as _, fs, path::Path};

const HEAD: &str = "# What each agent can do

Written by `scripts/conformance`, which plays one story with each real agent, through the real host and a paired device, against
the scripted model of `tests/model`. A step passes only if the device shows what it must *and* it really happened: the file is on
disk, the words are in the model's log, the process is there or gone. Change nothing here by hand: run the script.

`via remote`: the device is at another ledger, which drives the host's agent as an agent of its own (decision 25). `direct`: there is
no daemon, and the device drives the agent's server, which a person started, by a ledger of its own (decision 26).

Another version of an agent is one command: `scripts/conformance --agent codex@0.169.0` installs it beside the pinned one, plays the
story with it, says what differs from this table, and writes nothing. What is played here by itself is pinned in `scripts/agents.lock`.

- **pass**: as it must be. **recovered by replacement**: the conversation could not be taken up, and a new one took its place.
- **refused as declared**: the host says beforehand that the agent cannot, and refuses by a typed refusal.
- **not offered**: the agent has nothing of the kind, as its own list of tools and the named source show.

What an agent has only behind a switch of its own, the story turns on. codex asks questions outside its plan mode, has subagents and
a todo list only where its command in host.toml is `codex app-server --enable default_mode_request_user_input --enable multi_agent_v2
-c tools.update_plan.enabled=true`. Claude Code gives `claude-sonnet-4-5` a todo list, not each of its models. pi asks questions by an
extension; the story's is `tests/support/pi-ask.mjs`. An opencode that a person started by themselves has its subagents ask only where
`OPENCODE_PERMISSION` says so; the one of a host needs nothing.
";

/// Writes it.
pub(crate) fn write(table: &Table, docs: &Path) -> Result<(), String> {
    let file = docs.join("agents.md");
    fs::write(&file, text(table)).map_err(|error| format!("{}: {error}", file.display()))
}

fn text(table: &Table) -> String {
    let mut out = HEAD.to_owned();
    matrix(&mut out, table);
    for played in &table.agents {
        control(&mut out, played);
    }
    capabilities(&mut out, table);
    out
}

fn row(out: &mut String, cells: impl IntoIterator<Item = String>) {
    for cell in cells {
        let _ = write!(out, "| {} ", cell.replace('|', "\\|"));
    }
    out.push_str("|\n");
}

fn head(out: &mut String, cells: Vec<String>) {
    let rule = "|---".repeat(cells.len());
    row(out, cells);
    let _ = writeln!(out, "{rule}|");
}

fn matrix(out: &mut String, table: &Table) {
    out.push_str("\n## The matrix\n\n");
    let names = table.agents.iter().map(|played| {
        played
            .way
            .titled(&format!("{} {}", played.agent, played.version))
    });
    head(
        out,
        std::iter::once("step".to_owned()).chain(names).collect(),
    );
    for step in STORY {
        let cells = table.agents.iter().map(|played| {
            let line = played.lines.iter().find(|line| line.step == step.name);
            line.map_or_else(String::new, |line| line.outcome.words().to_owned())
        });
        row(out, std::iter::once(step.name.to_owned()).chain(cells));
    }
    let count = |outcome: Outcome| {
        let lines = table.agents.iter().flat_map(|played| &played.lines);
        lines.filter(|line| line.outcome == outcome).count()
    };
    let all = [
        Outcome::Pass,
        Outcome::Replaced,
        Outcome::Refused,
        Outcome::NotOffered,
        Outcome::Fail,
    ];
    let counts = all.map(|outcome| format!("{} {}", count(outcome), outcome.words()));
    let _ = writeln!(out, "\n{}.", counts.join(", "));
}

fn control(out: &mut String, played: &Played) {
    let Played { version, date, .. } = played;
    let agent = played.title();
    let _ = writeln!(
        out,
        "\n## How far control of {agent} reaches\n\nVersion {version}, {date}.\n"
    );
    head(
        out,
        ["to", "control", "how, or why not"]
            .map(str::to_owned)
            .to_vec(),
    );
    for step in STORY {
        let Some(line) = played.lines.iter().find(|line| line.step == step.name) else {
            continue;
        };
        let control = match line.control {
            Control::Native => "native".to_owned(),
            other => format!("**{}**", other.words()),
        };
        row(out, [step.what.to_owned(), control, line.reason.clone()]);
    }
}

fn capabilities(out: &mut String, table: &Table) {
    out.push_str("\n## What the sessions declare\n\nAs the agents' profiles have it, overridden by what a session said. What is not known is left empty, and never taken for a yes. `pendingRequestsSurviveRestart` is about the agent's own process; what outlives only the host stands in capabilities.md.\n\n");
    let names = table.agents.iter().map(Played::title);
    head(
        out,
        std::iter::once("flag".to_owned()).chain(names).collect(),
    );
    for flag in CapabilityFlag::ALL {
        let values = table
            .agents
            .iter()
            .map(|played| match played.capabilities.get(flag.name()) {
                Some(CapabilityValue::Yes) => "yes".to_owned(),
                Some(CapabilityValue::No) => "no".to_owned(),
                _ => String::new(),
            });
        row(
            out,
            std::iter::once(format!("`{}`", flag.name())).chain(values),
        );
    }
}
