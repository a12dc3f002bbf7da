//! The agents' own stores over the same texts: what a device would wait for that asked the agent itself.

use super::{Context, append, tail};
use crate::{fixture::Name, report::Row};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{Body, Event};
use pilothouse_tests::places;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Newest turns that are asked for: about what our tail of 50 KB shows of such a thread.
const NEWEST: u32 = 2;

/// What a rival prints.
#[derive(Deserialize)]
struct Store {
    turns: u64,
    bytes: u64,
    best_ms: f64,
    median_ms: f64,
    /// From the start of its process to its first answer.
    resume_ms: f64,
    answer_bytes: u64,
}

/// An agent with a store of its own.
struct Rival {
    name: &'static str,
    /// What is asked for, by its call.
    asked: &'static str,
    run: fn(&Context, &[String]) -> Result<Store>,
}

const RIVALS: &[Rival] = &[
    Rival {
        name: "codex",
        asked: "the newest 2 turns, thread/turns/list",
        run: codex,
    },
    Rival {
        name: "opencode",
        asked: "the newest 2 turns, GET /session/ID/message?limit=4",
        run: opencode,
    },
    Rival {
        name: "pi",
        asked: "all messages, get_messages, as it has no pages",
        run: pi,
    },
];

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let fixture = context.fixture(Name::S)?;
    let texts = texts(context)?;
    let (best, median) = tail::times(context, &fixture)?;
    let mut table = vec![Row::told(
        "ours, the tail of the same texts",
        format!("best {best:.2} ms, median {median:.2} ms, from a closed file"),
    )];
    for rival in RIVALS {
        let (half, whole) = (
            (rival.run)(context, &texts[..texts.len() / 2])?,
            (rival.run)(context, &texts)?,
        );
        table.push(Row::told(
            format!("{}: {}", rival.name, rival.asked),
            format!(
                "best {:.1} ms, median {:.1} ms for {} KB of {} turns with {} MB of text; after a start first {:.0} ms; half \
                 as many turns: best {:.1} ms, start {:.0} ms; ours takes {:.2} × its best",
                whole.best_ms,
                whole.median_ms,
                whole.answer_bytes / 1000,
                whole.turns,
                whole.bytes / 1_000_000,
                whole.resume_ms,
                half.best_ms,
                half.resume_ms,
                best / whole.best_ms
            ),
        ));
    }
    Ok(table)
}

/// The texts of each turn of fixture s, joined.
fn texts(context: &Context) -> Result<Vec<String>> {
    let fixture = context.fixture(Name::S)?;
    let mut texts: Vec<String> = Vec::new();
    for work in append::load(&fixture)? {
        for event in work.events {
            match event {
                Event::MessageAdded { .. } => texts.push(String::new()),
                Event::ItemClosed {
                    content: Some(mut content),
                    ..
                } => {
                    for body in content.bodies_mut() {
                        if let (Body::Inline(text), Some(turn)) = (body, texts.last_mut()) {
                            turn.push_str(text);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    texts.retain(|text| !text.is_empty());
    ensure!(texts.len() >= 100, "{} turns have text", texts.len());
    Ok(texts)
}

fn codex(context: &Context, texts: &[String]) -> Result<Store> {
    let agents = places::root().join("scripts/agents");
    let programs = [places::codex(), places::model_server(), agents];
    store(context, "codex.mjs", Path::new("node"), &programs, texts)
}

fn opencode(context: &Context, texts: &[String]) -> Result<Store> {
    let programs = [places::pinned("opencode"), places::model_server()];
    store(context, "opencode.mjs", Path::new("node"), &programs, texts)
}

fn pi(context: &Context, texts: &[String]) -> Result<Store> {
    // It needs a newer Node than Debian's.
    let node = places::pinned("node");
    let programs = [places::pinned("pi"), places::model_server()];
    store(context, "pi.mjs", &node, &programs, texts)
}

/// Puts the texts into an agent's store and asks for them; the script is given programs, a directory, the file of the
/// texts and how many turns are asked for.
fn store(
    context: &Context,
    script: &str,
    node: &Path,
    programs: &[PathBuf],
    texts: &[String],
) -> Result<Store> {
    let scratch = context.scratch()?;
    let file = scratch.path().join("texts");
    let lines: Result<Vec<String>, _> = texts.iter().map(serde_json::to_string).collect();
    fs::write(&file, lines?.join("\n"))?;
    let output = Command::new(node)
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("rivals")
                .join(script),
        )
        .args(programs)
        .arg(scratch.path())
        .arg(&file)
        .arg(NEWEST.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(
        output.status.success(),
        "the rival {script} failed: {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("what the rival printed")
}
