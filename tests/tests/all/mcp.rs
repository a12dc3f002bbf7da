//! `[[mcp]]` of host.toml, through the real program: a server of tools that is handed to the real agents, called by the scripted
//! model, seen and allowed on the device. Its secret is in the server's own environment and nowhere else.

use crate::stories::{option, says};
use pilothouse_domain::{ItemStatus, Mode, request::OptionEffect};
use pilothouse_engine::{InboxRow, RowContent};
use pilothouse_tests::{Setup, World, places, until};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// What stands in the file of the value, in pieces, so that no other text of a test's process has it.
fn secret() -> String {
    ["hush", "77e1d0"].join("-")
}

/// A world whose agents are given the server `desk`.
fn world(setup: Setup) -> World {
    let script = places::support("desk-mcp.mjs");
    let server = format!(
        "[[mcp]]\nname = \"desk\"\ncommand = [\"node\", {:?}]\nenv.DESK_TOKEN = {{ file = \"{{dir}}/desk-token\" }}\nenv.DESK_SEEN = \"{{dir}}/desk-seen\"\n",
        script.to_string_lossy()
    );
    let world = setup.host_toml(&server).start();
    let token = world.dir().join("desk-token");
    fs::write(token, format!("{}\n", secret())).unwrap();
    world
}

/// Processes in whose arguments, or environment, the secret stands: their arguments.
fn processes_with(secret: &str, part: &str) -> Vec<String> {
    let dirs = fs::read_dir("/proc").unwrap().flatten();
    let read = |path: PathBuf, part: &str| {
        let bytes = fs::read(path.join(part)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    dirs.filter(|entry| read(entry.path(), part).contains(secret))
        .map(|entry| read(entry.path(), "cmdline"))
        .collect()
}

/// Files below a directory that hold the secret, but for the one that it was put into.
fn files_with(secret: &str, dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(secret, &path));
        } else if kind.is_file() && path.file_name() != Some("desk-token".as_ref()) {
            let bytes = fs::read(&path).unwrap_or_default();
            let holds = |window: &[u8]| window == secret.as_bytes();
            if bytes.windows(secret.len()).any(holds) {
                found.push(path);
            }
        }
    }
    found
}

/// A call is asked for with what it is called with, allowed, done, and shown with what came of it.
fn is_called(mut world: World, agent: &str, call: &Value) {
    let secret = secret();
    let device = world.device("phone");
    let thread = device.new_thread(agent, Mode::Ask);
    // Not every agent waits for servers before its first turn.
    world.model.script("talk", &says("Hello."));
    device.accepted(&device.say(thread, "hello [[script:talk]]"));
    device.completed(thread, 1);
    let seen = world.dir().join("desk-seen");
    until("the server to have told of its tools", || {
        let found = fs::exists(&seen).map_err(|error| error.to_string())?;
        found.then_some(()).ok_or_else(String::new)
    });

    let steps = json!([{"text": "I will ask.", "tools": [call]}, {"text": "Done."}]);
    world.model.script("call", &steps);
    device.accepted(&device.say(thread, "go [[script:call]] [[id:call]]"));
    // opencode says what a tool is called with after it has asked; until then nobody can approve it in one tap.
    let asked = device.wait("the call with its arguments", |seen| {
        let whole = |row: &&InboxRow| row.thread == thread && row.shown.contains("hey");
        let found = seen.inbox.iter().find(whole).cloned();
        let hasty = seen.inbox.iter().filter(|row| !row.shown.contains("hey"));
        assert!(hasty.into_iter().all(|row| !row.one_tap_allowed));
        found
    });
    let called = format!("{:?} {}", asked.subject.reason, asked.shown);
    for word in ["desk", "whoami"] {
        assert!(called.contains(word), "{word}: {called}");
    }
    assert_eq!(processes_with(&secret, "cmdline"), Vec::<String>::new());
    let with = processes_with(&secret, "environ");
    assert!(
        !with.is_empty() && with.iter().all(|line| line.contains("desk-mcp.mjs")),
        "the server has it, and nobody else: {with:?}"
    );
    for file in files_with(&secret, world.dir()) {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}: what an agent is given", file.display());
    }

    device.accepted(&device.choose(&asked, &option(&asked, OptionEffect::AllowOnce)));
    device.completed(thread, 2);
    let rows = device.whole(thread);
    let calls: Vec<_> = rows
        .iter()
        .filter_map(|row| match &row.content {
            RowContent::Tool {
                server,
                name,
                arguments,
            } => Some((server.as_deref(), name.as_str(), arguments, row)),
            _ => None,
        })
        .collect();
    let [(server, name, arguments, row)] = &calls[..] else {
        panic!("one call: {rows:#?}")
    };
    assert_eq!((*server, *name), (Some("desk"), "whoami"));
    assert!(arguments.text.contains("hey"), "{arguments:?}");
    assert_eq!(row.status, ItemStatus::Completed);
    let output = format!("by a token of {} characters", secret.len());
    assert!(row.text.text.contains(&output), "{row:#?}");
    let told = world.model.results();
    assert!(told.iter().any(|text| text.contains(&output)), "{told:?}");

    // What was on its way to the agent goes with it; log, database, the phone and what agents keep never had it.
    device.same_as(&world.host, thread);
    world.host.verify();
    drop(device);
    world.host.stop();
    assert_eq!(files_with(&secret, world.dir()), Vec::<PathBuf>::new());
}

#[test]
fn codex_calls_a_tool_of_a_server_of_host_toml() {
    let call = json!({"name": "whoami", "namespace": "mcp__desk", "args": {"text": "hey"}});
    is_called(world(Setup::new()), "codex", &call);
}

#[test]
fn claude_code_calls_a_tool_of_a_server_of_host_toml() {
    let call = json!({"name": "mcp__desk__whoami", "args": {"text": "hey"}});
    is_called(world(Setup::new().claude()), "claude", &call);
}

#[test]
fn opencode_calls_a_tool_of_a_server_of_host_toml() {
    let call = json!({"name": "desk_whoami", "args": {"text": "hey"}});
    is_called(world(Setup::new().opencode()), "opencode", &call);
}

#[test]
fn pi_calls_a_tool_of_a_server_of_host_toml() {
    let call = json!({"name": "mcp__desk__whoami", "args": {"text": "hey"}});
    is_called(world(Setup::new().pi(&[])), "pi", &call);
}
