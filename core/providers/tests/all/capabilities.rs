//! Every fact of the profiles: a `yes` names the recording or the test that shows it, a `no` is shown by no recording and
//! names the test that holds how what it describes is refused, and docs/capabilities.md says so in one table. What is neither is
//! unknown.

use crate::{
    capability_evidence::{TOLD, UNREAD},
    capability_tests::{SURVIVING, TESTED},
    every::Recording,
    replay::names_of,
    support::root,
};
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, ProviderEvent,
    capability::{Detail, Fact},
};
use pilothouse_orchestrator::degrade::{self, Degradation, Fallback};
use pilothouse_providers::{claude, codex, opencode, pi};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

/// The agents whose profiles are held: name, what it says, the version it was measured on.
fn agents() -> [(&'static str, Capabilities); 4] {
    [
        ("codex", codex::profile::capabilities()),
        ("claude", claude::profile::capabilities()),
        ("opencode", opencode::profile::capabilities()),
        ("pi", pi::profile::capabilities()),
    ]
}

/// What a recording of an agent comes to.
fn events(agent: &str, name: &str) -> Vec<ProviderEvent> {
    fn of<R: Recording>(agent: &str, name: &str) -> Vec<ProviderEvent> {
        let recording = R::of(agent, name);
        recording
            .heard()
            .iter()
            .filter_map(R::event)
            .cloned()
            .collect()
    }
    match agent {
        "codex" => of::<crate::replay::Replay>(agent, name),
        "claude" => of::<crate::claude_recordings::Replay>(agent, name),
        "pi" => of::<crate::pi_recordings::Replay>(agent, name),
        _ => of::<crate::opencode_replay::Replay>(agent, name),
    }
}

/// For each flag that recordings can show, the first of the agent that does.
fn shown(agent: &str) -> BTreeMap<CapabilityFlag, String> {
    let mut shown = BTreeMap::new();
    for name in names_of(agent) {
        let events = events(agent, &name);
        for (flag, shows) in TOLD {
            if !shown.contains_key(flag) && events.iter().any(shows) {
                shown.insert(*flag, name.clone());
            }
        }
    }
    shown
}

/// All Rust sources beneath a folder.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The tests that run, each with the agent whose file it stands in; `None` for a file that is of no one agent.
struct Tests(Vec<(String, Option<&'static str>)>);

impl Tests {
    fn of_the_tree() -> Self {
        let mut found = Vec::new();
        for folder in ["core/providers/tests/all", "tests/tests/all"] {
            sources(&root().join(folder), &mut found);
        }
        let tests = found.iter().flat_map(|(file, text)| {
            let agent = agent_of(file);
            running(text).map(move |test| (test.to_owned(), agent))
        });
        Self(tests.collect())
    }

    /// Whether a test of this name runs that may speak for the agent.
    fn show(&self, agent: &str, test: &str) -> bool {
        self.0
            .iter()
            .any(|(name, of)| name == test && of.is_none_or(|of| of == agent))
    }
}

/// Whose file of tests this is, by the words of its name; those of codex, the first agent, are also called `real`.
fn agent_of(file: &str) -> Option<&'static str> {
    const AGENTS: [&str; 5] = ["codex", "claude", "opencode", "pi", "acp"];
    let stem = Path::new(file).file_stem()?.to_str()?;
    stem.split('_').find_map(|word| match word {
        "real" if stem.starts_with(word) => Some("codex"),
        word => AGENTS.into_iter().find(|agent| *agent == word),
    })
}

/// The names of the tests of a source that are not ignored.
fn running(source: &str) -> impl Iterator<Item = &str> {
    let mut attributes = String::new();
    source.lines().map(str::trim_start).filter_map(move |line| {
        let name = line
            .strip_prefix("fn ")
            .or_else(|| line.strip_prefix("async fn "));
        let name = name.and_then(|rest| rest.split_once('('));
        let is_test = ["#[test]", "#[tokio::test"]
            .iter()
            .any(|test| attributes.contains(test))
            && !attributes.contains("ignore");
        match name {
            Some((name, _)) => {
                attributes.clear();
                is_test.then_some(name)
            }
            None => {
                match line.starts_with("#[") {
                    true => attributes.push_str(line),
                    false if line.starts_with("//") => {}
                    false => attributes.clear(),
                }
                None
            }
        }
    })
}

/// The files of the product that read a flag; profiles only state them.
fn readers(flag: CapabilityFlag, product: &[(String, String)]) -> Vec<String> {
    let name = format!("CapabilityFlag::{flag:?}");
    let reads = |text: &str| {
        text.match_indices(&name).any(|(at, _)| {
            let rest = &text[at + name.len()..];
            !rest.starts_with(|next: char| next.is_alphanumeric())
        })
    };
    product
        .iter()
        .filter(|(_, text)| reads(text))
        .map(|(file, _)| file.clone())
        .collect()
}

fn product() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in ["orchestrator", "ledger", "engine", "host", "providers"] {
        sources(&root().join("core").join(part).join("src"), &mut found);
    }
    found.retain(|(file, _)| !file.ends_with("profile.rs") && !file.ends_with("facts.rs"));
    found
}

/// What shows a fact, in the words of the table; `Err` if nothing does.
fn evidence(
    agent: &str,
    flag: CapabilityFlag,
    value: CapabilityValue,
    shown: &BTreeMap<CapabilityFlag, String>,
    tests: &Tests,
) -> Result<String, String> {
    let test = TESTED
        .iter()
        .find(|(of, whose, _)| *of == flag && *whose == agent)
        .map(|(_, _, test)| *test);
    match (value, shown.get(&flag), test) {
        (CapabilityValue::Unknown, _, _) => Ok("unknown".to_owned()),
        (CapabilityValue::Yes, Some(recording), None) => Ok(format!("yes: {recording}")),
        (CapabilityValue::Yes, _, Some(test)) if tests.show(agent, test) => {
            Ok(format!("yes: `{test}`"))
        }
        (CapabilityValue::Yes, _, Some(test)) => Err(format!("no test {test} of this agent runs")),
        (CapabilityValue::Yes, None, None) => Err("yes, and nothing shows it".to_owned()),
        (CapabilityValue::No, Some(recording), _) => Err(format!("no, and {recording} shows it")),
        (CapabilityValue::No, None, Some(test)) if tests.show(agent, test) => {
            let rows = || degrade::TABLE.iter().filter(|row| row.needs == flag);
            let before = match rows().any(|row| row.fallback == Fallback::Refuse) {
                true => "refused, ",
                false => "",
            };
            Ok(format!("no: {before}`{test}`"))
        }
        (CapabilityValue::No, None, Some(test)) => {
            Err(format!("no test {test} of this agent runs"))
        }
        (CapabilityValue::No, None, None) => {
            let instead = |row: &&Degradation| matches!(row.fallback, Fallback::Instead(_));
            let mut rows = degrade::TABLE.iter().filter(|row| row.needs == flag);
            match rows.find(instead) {
                Some(row) => Ok(format!("no: {:?} is done another way", row.feature)),
                None => Err("no, and no test shows how it is refused".to_owned()),
            }
        }
    }
}

/// What shows that requests outlive their client, where a profile says so: half of a flag that is two facts.
fn survival(agent: &str, fact: Option<&Fact>, tests: &Tests) -> String {
    let survives = Detail::Survives {
        client_loss: true,
        runtime_loss: false,
    };
    if fact.and_then(|fact| fact.detail.as_ref()) != Some(&survives) {
        return String::new();
    }
    let test = SURVIVING.iter().find(|(whose, _)| *whose == agent);
    let (_, test) = test.unwrap_or_else(|| panic!("{agent}: nothing shows what survives"));
    assert!(tests.show(agent, test), "no test {test} of {agent} runs");
    format!("; yes where only the host ends: `{test}`")
}

#[test]
fn every_yes_is_shown_by_a_recording_or_a_test_and_every_no_is_refused_by_one() {
    let (tests, product) = (Tests::of_the_tree(), product());
    let mut wrong = Vec::new();
    let mut rows: BTreeMap<CapabilityFlag, Vec<String>> = BTreeMap::new();
    for (agent, known) in agents() {
        let shown = shown(agent);
        for &flag in CapabilityFlag::ALL {
            let value = known.value(flag);
            match evidence(agent, flag, value, &shown, &tests) {
                Ok(words) => {
                    let more = survival(agent, known.facts.get(&flag), &tests);
                    rows.entry(flag).or_default().push(words + &more);
                }
                Err(problem) => wrong.push(format!("{agent}: {flag}: {problem}")),
            }
        }
        let facts = known.facts.values();
        wrong.extend(
            facts
                .filter(|fact| fact.version.is_empty() || fact.observed_at.len() != 10)
                .map(|fact| format!("{agent}: {fact:?} has no version or date")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let unread: BTreeSet<_> = CapabilityFlag::ALL
        .iter()
        .filter(|flag| readers(**flag, &product).is_empty())
        .collect();
    let listed: BTreeSet<_> = UNREAD.iter().collect();
    assert_eq!(
        unread, listed,
        "left: flags without a reader; right: the list of them, which only shrinks"
    );
    held(&page(&rows, &product));
}

/// docs/capabilities.md.
fn page(rows: &BTreeMap<CapabilityFlag, Vec<String>>, product: &[(String, String)]) -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut group = "";
    for (flag, cells) in rows {
        let (of, name) = flag.name().split_once('.').unwrap();
        if of != group {
            group = of;
            let _ = write!(
                page,
                "\n## {group}\n\n| flag | codex | claude | opencode | pi | read by |\n|---|---|---|---|---|---|\n"
            );
        }
        let readers = readers(*flag, product);
        let readers: Vec<_> = readers
            .iter()
            .map(|file| format!("`{}`", file.trim_start_matches("core/").replace("/src", "")))
            .collect();
        let readers = if readers.is_empty() {
            "nothing yet".to_owned()
        } else {
            readers.join(", ")
        };
        let _ = writeln!(page, "| {name} | {} | {readers} |", cells.join(" | "));
    }
    page
}

const INTRODUCTION: &str = "# Capabilities

What the profiles say of the four agents with a family of their own, on the versions of `scripts/agents.lock`, and what shows
it: a recording of `tests/recordings`, or a test. A `no` is one that a test shows to be refused, or answered, in a typed way:
`refused` before anything is sent, with what to do instead (`core/orchestrator/src/degrade.rs`). What an agent was only never
seen to do is `unknown`. A running agent's handshake overrides its profile. A flag that nothing reads describes the agent and
changes nothing.

Written by `UPDATE_CAPABILITIES=1 cargo test -p pilothouse-providers --test all capabilities`, which without it holds that the
table is true.
";

#[test]
fn only_a_test_that_runs_and_is_of_the_agent_is_evidence() {
    let source = "\
#[test]
fn runs() {
}

#[tokio::test(flavor = \"multi_thread\")]
// Why.
async fn runs_too() {
}

#[test]
#[ignore = \"slow\"]
fn is_ignored() {
}

fn helps() {
    #[test]
}

fn is_called() {
}
";
    assert_eq!(running(source).collect::<Vec<_>>(), ["runs", "runs_too"]);
    let of = |file: &str| agent_of(&format!("core/providers/tests/all/{file}.rs"));
    assert_eq!(of("claude_real"), Some("claude"));
    assert_eq!(of("real"), Some("codex"));
    assert_eq!(of("signing_in_opencode"), Some("opencode"));
    assert_eq!(of("pictures"), None);
    let of_pi = Tests(vec![("stops".to_owned(), Some("pi"))]);
    assert!(of_pi.show("pi", "stops") && !of_pi.show("codex", "stops"));
}

fn held(page: &str) {
    let file = root().join("docs/capabilities.md");
    if std::env::var_os("UPDATE_CAPABILITIES").is_some() {
        fs::write(&file, page).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        kept, page,
        "docs/capabilities.md is not what the profiles say (if the change is meant: UPDATE_CAPABILITIES=1)"
    );
}
