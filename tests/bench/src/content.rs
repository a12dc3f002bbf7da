//! What a made-up agent says: turns of items in the mix and sizes of the recordings under tests/recordings.

use crate::rng::Rng;
use pilothouse_domain::{
    ItemContent, ItemStatus, NativeId, ProviderEventKind,
    item::{Body, FileAction, FileChange, TodoEntry, TodoStatus},
    provider::TurnStatus,
    run::Usage,
};

/// What the turns of a thread are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Items a turn, the person's own message not counted.
    pub(crate) items: u64,
    /// Bytes of the longest text; sizes spread over octaves below it.
    pub(crate) longest: u64,
    /// Whether items are also updated, and usage told after each: the entries of a busy agent.
    pub(crate) chatty: bool,
    /// Whether turns end.
    pub(crate) ends: bool,
}

const WORDS: &[&str] = &[
    "the",
    "thread",
    "host",
    "applies",
    "each",
    "entry",
    "once",
    "and",
    "keeps",
    "its",
    "cursor",
    "behind",
    "a",
    "chain",
    "of",
    "hashes",
    "so",
    "that",
    "gap",
    "is",
    "found",
    "before",
    "anything",
    "shown",
    "test",
    "error:",
    "expected",
    "`Result<(), StoreError>`,",
    "warning:",
    "unused",
    "variable",
    "running",
    "42",
    "tests",
    "ok.",
    "fn",
    "main()",
    "{",
    "}",
    "let",
    "mut",
    "größer",
    "—",
    "naïve",
    "\n",
    "\n",
    "    ",
    "src/lib.rs:117:",
    "assert_eq!(left,",
    "right);",
];

/// Text of about that many bytes.
pub(crate) fn text(rng: &mut Rng, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 32);
    while out.len() < bytes {
        let word = WORDS[usize::try_from(rng.next()).unwrap_or(0) % WORDS.len()];
        out.push_str(word);
        out.push(' ');
    }
    out
}

/// Everything an agent tells of one turn after it began, in order. `name` makes native ids unique.
pub(crate) fn turn(rng: &mut Rng, shape: &Shape, name: &str) -> Vec<ProviderEventKind> {
    let mut out = Vec::new();
    for n in 0..shape.items {
        item(rng, shape, &format!("{name}-{n}"), &mut out);
        if shape.chatty {
            out.push(usage(rng));
        }
    }
    if shape.ends {
        out.push(usage(rng));
        out.push(ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            error: None,
        });
    }
    out
}

fn usage(rng: &mut Rng) -> ProviderEventKind {
    ProviderEventKind::Usage {
        usage: Usage {
            input: rng.between(1_000, 200_000),
            cached_input: 512,
            output: rng.between(10, 4_000),
            reasoning: 64,
            context_window: Some(272_000),
            cost_nano_usd: None,
        },
    }
}

/// Of twenty items: seven commands, six of reasoning, four messages, two file changes, one tool call.
fn item(rng: &mut Rng, shape: &Shape, name: &str, out: &mut Vec<ProviderEventKind>) {
    let kind = rng.between(0, 19);
    let long = shape.longest;
    let (opened, closed) = match kind {
        0..=6 => {
            let size = rng.size(64, long);
            let line = format!("/bin/bash -lc '{}'", text(rng, 40));
            let command = |output: String, exit_code| ItemContent::Command {
                command: line.clone(),
                cwd: "/home/dev/app".into(),
                output: Body::inline(output),
                agent_output: None,
                exit_code,
                duration_ms: exit_code.map(|_| 1_250),
            };
            (
                command(String::new(), None),
                command(text(rng, size), Some(0)),
            )
        }
        7..=12 => {
            let size = rng.size(128, long / 8);
            let reasoning = |text| ItemContent::Reasoning {
                text: Body::inline(text),
            };
            (reasoning(String::new()), reasoning(text(rng, size)))
        }
        13..=16 => {
            let size = rng.size(128, long / 8);
            let message = |text| ItemContent::AssistantMessage {
                text: Body::inline(text),
            };
            (message(String::new()), message(text(rng, size)))
        }
        17..=18 => {
            let size = rng.size(256, long / 4);
            let change = ItemContent::FileChange {
                changes: vec![FileChange {
                    path: format!("/home/dev/app/src/part_{}.rs", rng.between(1, 400)),
                    action: FileAction::Update,
                    moved_to: None,
                    diff: Body::inline(text(rng, size)),
                }],
            };
            (change.clone(), change)
        }
        _ => {
            let size = rng.size(128, long / 8);
            let tool = |result| ItemContent::Tool {
                server: Some("docs".into()),
                name: "search".into(),
                arguments: Body::inline("{\"query\":\"wal checkpoint\"}"),
                result: Body::inline(result),
            };
            (tool(String::new()), tool(text(rng, size)))
        }
    };
    let item = NativeId(name.to_owned());
    let streams = matches!(&opened, ItemContent::AssistantMessage { .. });
    out.push(ProviderEventKind::ItemOpened {
        item: item.clone(),
        content: opened.clone(),
        client_id: None,
    });
    if streams {
        out.push(ProviderEventKind::ItemAppended {
            item: item.clone(),
            text: "the first words ".into(),
            shape: Box::new(opened),
        });
    }
    if shape.chatty && kind % 5 < 3 {
        out.push(ProviderEventKind::TodoList {
            entries: vec![TodoEntry {
                text: format!("step {name}"),
                status: TodoStatus::InProgress,
            }],
        });
    }
    out.push(ProviderEventKind::ItemClosed {
        item,
        status: ItemStatus::Completed,
        content: closed,
        client_id: None,
    });
}

/// Fixture D: an answer of 10,545 characters in 3,024 pieces.
pub(crate) fn answer(seed: u64) -> Vec<String> {
    const CHARACTERS: usize = 10_545;
    const PIECES: usize = 3_024;
    let mut rng = Rng::of(seed, &[0xd]);
    let whole: Vec<char> = text(&mut rng, 2 * CHARACTERS)
        .chars()
        .take(CHARACTERS)
        .collect();
    let cut = |n: usize| n * CHARACTERS / PIECES;
    (0..PIECES)
        .map(|n| whole[cut(n)..cut(n + 1)].iter().collect())
        .collect()
}
