//! What a person does with a host from a terminal, whatever versions the two are: with the scripted agent, and by nothing
//! but what the programs print.

use pilothouse_tests::{Cli, Host, cli::Said};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

/// Seconds that a verb may take on a machine under load.
const PATIENCE: &str = "90";

/// A verb that has to succeed.
pub(super) fn does(host: &Host, cli: &Cli, verb: &[&str]) -> Said {
    let verb = [verb, &["--timeout", PATIENCE]].concat();
    let said = cli.run(host, &verb);
    assert_eq!(said.code, 0, "{verb:?}: {said:#?}");
    said
}

fn text(value: &Value, field: &str) -> String {
    let found = value[field].as_str();
    found
        .unwrap_or_else(|| panic!("no `{field}` in {value}"))
        .to_owned()
}

/// Makes a thread with the scripted agent.
pub(super) fn new_thread(host: &Host, cli: &Cli, title: &str) -> String {
    let verb = ["new", "--agent", "fake", "--workspace", "demo", title];
    text(does(host, cli, &verb).only("created"), "thread")
}

pub(super) fn send(host: &Host, cli: &Cli, thread: &str, words: &str) {
    let said = does(host, cli, &["send", thread, words]);
    assert_eq!(text(said.only("sent"), "thread"), thread);
}

/// Waits until a thread is idle, and says how its last run ended.
pub(super) fn idle(host: &Host, cli: &Cli, thread: &str) -> String {
    let said = cli.run(
        host,
        &["watch", thread, "--until-idle", "--timeout", PATIENCE],
    );
    // 1 says that the last run did not complete.
    assert!(matches!(said.code, 0 | 1), "{said:#?}");
    text(said.only("idle"), "last_run")
}

/// Waits for the only request there is.
pub(super) fn asked(host: &Host, cli: &Cli) -> Value {
    let said = does(host, cli, &["inbox", "--wait"]);
    let request = said.only("request").clone();
    assert_eq!(request["state"], "pending", "{request}");
    assert_eq!(request["verified"], true, "{request}");
    assert_eq!(
        request["subject"]["command"],
        "/bin/bash -lc 'rm -rf build'"
    );
    request
}

/// Nothing waits, as this device has it from a host that it reaches.
fn nothing_waits(host: &Host, cli: &Cli) {
    let said = does(host, cli, &["inbox"]);
    assert_eq!(said.of_type("request").count(), 0, "{said:#?}");
}

/// What the agent was told, a JSON line for each decision.
fn decisions(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A new thread: it talks, asks and gets an answer, asks again and is stopped. `told` is where the agent notes its answers.
pub(super) fn begins(host: &Host, cli: &Cli, told: &Path) -> String {
    let said = does(host, cli, &["hosts"]);
    assert_eq!(said.only("host")["link"], "synchronised", "{said:#?}");
    let thread = new_thread(host, cli, "both versions");
    send(host, cli, &thread, "[[do:ok]] hello");
    assert_eq!(idle(host, cli, &thread), "completed");

    let before = decisions(told).len();
    send(host, cli, &thread, "[[do:asks]] may you?");
    let request = text(&asked(host, cli), "request");
    let said = does(host, cli, &["answer", &request, "--allow"]);
    let answered = said.only("answered");
    assert_eq!(answered["status"], "answered", "{answered}");
    assert_eq!(answered["delivery"], "confirmed", "{answered}");
    assert_eq!(idle(host, cli, &thread), "completed");
    assert_eq!(decisions(told)[before..], [r#"{"decision":"accept"}"#]);

    send(host, cli, &thread, "[[do:asks]] and now?");
    asked(host, cli);
    let said = does(host, cli, &["interrupt", &thread]);
    assert_eq!(said.only("interrupted")["run_status"], "interrupted");
    assert_eq!(idle(host, cli, &thread), "interrupted");
    nothing_waits(host, cli);
    thread
}

/// The thread goes on after the host was away, with nothing lost and nothing told twice.
pub(super) fn goes_on(host: &Host, cli: &Cli, thread: &str) {
    let said = does(host, cli, &["threads"]);
    assert!(
        said.of_type("thread").any(|line| line["thread"] == thread),
        "{said:#?}"
    );
    nothing_waits(host, cli);
    static TIMES: AtomicU32 = AtomicU32::new(0);
    let words = format!(
        "[[do:ok]] once more: {}",
        TIMES.fetch_add(1, Ordering::Relaxed)
    );
    send(host, cli, thread, &words);
    assert_eq!(idle(host, cli, thread), "completed");
    let verb = ["watch", thread, "--until-idle", "--tail", "1000"];
    let said = does(host, cli, &verb);
    let shown: Vec<String> = said
        .of_type("item")
        .filter_map(|item| item["text"]["text"].as_str().map(str::to_owned))
        .collect();
    for expected in ["[[do:ok]] hello", "[[do:asks]] may you?", &words] {
        let times = shown.iter().filter(|text| *text == expected).count();
        assert_eq!(times, 1, "`{expected}` in {shown:#?}");
    }
}
