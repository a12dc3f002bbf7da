//! Verbs against a real daemon in this process, over its real TLS port. Its agent ends at once, so that runs fail; the
//! story with a real agent is told by processes (tests/ and scripts/demo).

use super::verbs::{Ran, run};
use crate::{
    control::{Answer, Ask, ask},
    daemon::{Daemon, DaemonOptions},
    state::StatePath,
};
use pilothouse_domain::Scope;
use serde_json::Value;
use std::{net::SocketAddr, path::Path};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A device and, while it runs, its host.
struct World {
    dir: TempDir,
    runtime: Runtime,
    daemon: Option<Daemon>,
    address: SocketAddr,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let config = format!(
            "[host]\nname = \"studio\"\n[agents.brief]\nprotocol = \"codex\"\ncommand = [\"/bin/false\"]\n[workspaces.app]\npath = {work:?}\n"
        );
        std::fs::write(dir.path().join("host.toml"), config).unwrap();
        let mut world = Self {
            dir,
            runtime: Runtime::new().unwrap(),
            daemon: None,
            address: "127.0.0.1:0".parse().unwrap(),
        };
        world.up();
        world
    }

    /// A world whose device is paired.
    fn paired() -> Self {
        let world = Self::start();
        let joined = world.run(&["join", &world.code(), "--name", "terminal", "--json"]);
        assert_eq!(joined.code, 0, "{}", joined.out);
        assert_eq!(last(&joined)["name"], "studio");
        world
    }

    fn up(&mut self) {
        let options = DaemonOptions {
            state: Some(self.dir.path().join("state")),
            config: Some(self.dir.path().join("host.toml")),
            listen: Some(self.address),
            wrapper: Vec::new(),
            ..DaemonOptions::usual()
        };
        let daemon = self.runtime.block_on(Daemon::start(options)).unwrap();
        self.address = daemon.address();
        self.daemon = Some(daemon);
    }

    fn down(&mut self) {
        let daemon = self.daemon.take().unwrap();
        self.runtime.block_on(daemon.stop());
    }

    fn code(&self) -> String {
        let state = StatePath::choose(Some(&self.dir.path().join("state"))).unwrap();
        let scopes = vec![Scope::Read, Scope::Operate, Scope::Approve];
        let answer = self
            .runtime
            .block_on(async { ask(&state, &Ask::Pair { scopes }).await?.first().await });
        match answer {
            Ok(Answer::Offer(offer)) => offer.code,
            other => panic!("no offer: {other:?}"),
        }
    }

    fn device(&self) -> &Path {
        self.dir.path()
    }

    fn run(&self, words: &[&str]) -> Ran {
        run(&self.device().join("device"), words)
    }

    /// A new thread's id.
    fn thread(&self, title: &str) -> String {
        let made = self.run(&[
            "new",
            "--agent",
            "brief",
            "--workspace",
            "app",
            "--json",
            title,
        ]);
        assert_eq!(made.code, 0, "{}", made.out);
        last(&made)["thread"].as_str().unwrap().to_owned()
    }
}

fn lines(ran: &Ran) -> Vec<Value> {
    ran.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn last(ran: &Ran) -> Value {
    lines(ran)
        .pop()
        .unwrap_or_else(|| panic!("nothing was printed: {}", ran.errors))
}

#[test]
fn a_paired_device_lists_its_host_makes_a_thread_and_sees_its_run_fail() {
    let world = World::paired();
    let hosts = last(&world.run(&["hosts", "--json"]));
    assert_eq!(
        (&hosts["link"], &hosts["agents"][0]["name"]),
        (&Value::from("synchronised"), &Value::from("brief"))
    );
    let thread = world.thread("Short lived");
    let listed = last(&world.run(&["threads", "--json"]));
    assert_eq!(
        (listed["thread"].as_str(), listed["pending"].as_bool()),
        (Some(thread.as_str()), Some(false))
    );

    let sent = world.run(&["send", &thread, "hello"]);
    assert_eq!(
        (sent.code, sent.out.as_str()),
        (0, "The host has the message; it starts a run.\n")
    );
    let watched = world.run(&["watch", &thread, "--until-idle", "--timeout", "60"]);
    assert_eq!(watched.code, 1, "{}{}", watched.out, watched.errors);
    assert!(
        watched.out.contains("\n  hello\n") && watched.out.contains("— run 1 failed"),
        "{}",
        watched.out
    );
    let told = world.run(&[
        "watch",
        &thread,
        "--until-idle",
        "--json",
        "--timeout",
        "60",
    ]);
    assert_eq!(last(&told)["type"], "error");
    assert!(
        lines(&told)
            .iter()
            .any(|line| line["type"] == "idle" && line["last_run"] == "failed")
    );
}

#[test]
fn what_the_host_refuses_ends_with_3_and_what_is_not_there_with_5() {
    let world = World::paired();
    let refused = world.run(&[
        "new",
        "--agent",
        "brif",
        "--workspace",
        "app",
        "--json",
        "T",
    ]);
    assert_eq!(refused.code, 3);
    assert_eq!(last(&refused)["refusal"]["refusal"], "unknown_agent");
    let thread = world.thread("Idle");
    for words in [
        &["send", "zzzz", "hello"][..],
        &["watch", "zzzz"],
        &["answer", "zzzz", "--allow"],
        &["interrupt", &thread],
        &["send", &thread, "hello", "--steer"],
        &["queue", &thread, "--remove", "zzzz"],
    ] {
        let ran = world.run(words);
        assert_eq!(ran.code, 5, "{words:?}: {}", ran.errors);
        assert_eq!(ran.out, "", "{words:?}");
    }
}

#[test]
fn a_beginning_that_fits_two_threads_sends_nothing() {
    let world = World::paired();
    // Of 33 ids at least two begin alike.
    let ids: Vec<String> = (0..33)
        .map(|n| world.thread(&format!("Thread {n}")))
        .collect();
    let first = |id: &String| id[..1].to_owned();
    let twice = ids
        .iter()
        .map(first)
        .find(|letter| ids.iter().filter(|id| id.starts_with(letter)).count() > 1)
        .unwrap();
    let ran = world.run(&["send", &twice, "hello", "--json"]);
    assert_eq!(ran.code, 2);
    let error = last(&ran);
    assert!(error["candidates"].as_array().unwrap().len() > 1, "{error}");
    assert!(
        lines(&world.run(&["threads", "--json"]))
            .iter()
            .all(|row| row["outstanding"] == 0 && row["active"].is_null())
    );
}

#[test]
fn what_is_said_offline_waits_in_the_outbox_and_is_sent_once_when_the_host_is_back() {
    let mut world = World::paired();
    let thread = world.thread("Patience");
    world.down();

    let listed = world.run(&["threads"]);
    assert_eq!(listed.code, 0);
    assert!(
        listed.out.contains("shown as last seen") && listed.out.contains("Patience"),
        "{}",
        listed.out
    );
    let sent = world.run(&["send", &thread, "are you there?", "--timeout", "0.5"]);
    assert_eq!(sent.code, 4);
    assert!(
        sent.errors.contains("it is in the outbox and will be sent"),
        "{}",
        sent.errors
    );
    let seen = world.run(&["watch", &thread, "--until-idle", "--timeout", "0.5"]);
    assert_eq!(seen.code, 4);
    assert!(
        seen.out
            .contains("you (saved here, not on the host yet)\n  are you there?"),
        "{}",
        seen.out
    );
    let made = world.run(&[
        "new",
        "--agent",
        "brief",
        "--workspace",
        "app",
        "--timeout",
        "0.5",
        "Made offline",
    ]);
    assert_eq!(made.code, 4);
    let pending = lines(&world.run(&["threads", "--json"]));
    assert!(
        pending
            .iter()
            .any(|row| row["title"] == "Made offline" && row["pending"] == true),
        "{pending:?}"
    );

    world.up();
    let watched = world.run(&["watch", &thread, "--until-idle", "--timeout", "60"]);
    assert_eq!(
        watched.code, 1,
        "the run fails, because the agent does: {}",
        watched.errors
    );
    assert_eq!(
        watched.out.matches("are you there?").count(),
        1,
        "{}",
        watched.out
    );
    let settled = world.run(&["watch", "--until-idle", "--timeout", "60"]);
    assert_eq!(settled.code, 0, "{}", settled.errors);
    let rows = lines(&world.run(&["threads", "--json"]));
    assert!(
        rows.iter().any(|row| row["title"] == "Made offline"
            && row["pending"] == false
            && row["outstanding"] == 0),
        "{rows:?}"
    );
}

#[test]
fn a_device_whose_pairing_was_taken_back_says_so() {
    let world = World::paired();
    let thread = world.thread("Revoked");
    let state = StatePath::choose(Some(&world.dir.path().join("state"))).unwrap();
    let device = "terminal".to_owned();
    let revoked = world
        .runtime
        .block_on(async { ask(&state, &Ask::Revoke { device }).await?.first().await });
    assert!(matches!(revoked, Ok(Answer::Revoked { .. })), "{revoked:?}");
    let hosts = world.run(&["hosts"]);
    assert!(
        hosts.out.contains("revoked there; pair again"),
        "{}",
        hosts.out
    );
    let sent = world.run(&["send", &thread, "hello", "--timeout", "5"]);
    assert_eq!(sent.code, 1);
    assert!(
        sent.errors.contains("revoked") && sent.errors.contains("pair again"),
        "{}",
        sent.errors
    );
}

#[test]
fn a_code_is_good_for_one_device() {
    let world = World::start();
    let code = world.code();
    assert_eq!(world.run(&["join", &code]).code, 0);
    let second = run(&world.device().join("second"), &["join", &code]);
    assert_eq!(second.code, 1);
    assert!(
        second.errors.contains("pilothouse pair"),
        "{}",
        second.errors
    );
}
