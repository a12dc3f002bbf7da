//! The agents' own stores over the same texts: what a device would wait for that asked codex itself.

use super::{Context, append, tail};
use crate::{fixture::Name, report::Row};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{Body, Event};
use pilothouse_tests::places;
use serde::Deserialize;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Newest turns that are asked for: about what our tail of 50 KB shows of such a thread.
const NEWEST: u32 = 2;

#[derive(Deserialize)]
struct Codex {
    turns: u64,
    bytes: u64,
    best_ms: f64,
    median_ms: f64,
    resume_ms: f64,
    answer_bytes: u64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
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
    let (half, whole) = (
        codex(context, &texts[..texts.len() / 2])?,
        codex(context, &texts)?,
    );
    let (best, median) = tail::times(context, &fixture)?;
    Ok(vec![
        Row::told(
            format!("codex, newest {NEWEST} of {} turns", whole.turns),
            format!(
                "best {:.1} ms, median {:.1} ms for {} KB (thread/turns/list, {} MB of text); after a start first {:.0} ms \
                 to resume; half as many turns: best {:.1} ms, resume {:.0} ms",
                whole.best_ms,
                whole.median_ms,
                whole.answer_bytes / 1024,
                whole.bytes / 1_000_000,
                whole.resume_ms,
                half.best_ms,
                half.resume_ms,
            ),
        ),
        Row::told(
            "ours, the tail of the same texts, by codex's time",
            format!(
                "{:.2} × (best {best:.2} ms, median {median:.2} ms, from a closed file)",
                best / whole.best_ms
            ),
        ),
    ])
}

fn codex(context: &Context, texts: &[String]) -> Result<Codex> {
    let scratch = context.scratch()?;
    let file = scratch.path().join("texts");
    let lines: Result<Vec<String>, _> = texts.iter().map(serde_json::to_string).collect();
    fs::write(&file, lines?.join("\n"))?;
    let output = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals/codex.mjs"))
        .arg(places::codex())
        .arg(places::model_server())
        .arg(places::root().join("scripts/agents"))
        .arg(scratch.path())
        .arg(&file)
        .arg(NEWEST.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(
        output.status.success(),
        "codex as a rival failed: {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("what the rival printed")
}
