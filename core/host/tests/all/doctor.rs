//! The doctor: each gate is named, and with one of them out of order it names exactly that one.

use crate::process::{Running, pilothouse, run};
use pilothouse_wire::identity::HostIdentity;
use rusqlite::Connection;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

/// A machine on which all is well, but that no host runs and no device is paired.
struct Lab {
    dir: TempDir,
    listen: SocketAddr,
}

/// What is remarked where all is well.
const USUAL: [&str; 2] = ["daemon", "devices"];

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let listen = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let lab = Self { dir, listen };
        for made in ["app", "codex-home"] {
            fs::create_dir(lab.path(made)).unwrap();
        }
        fs::write(lab.path("codex-home/auth.json"), "{}").unwrap();
        lab.program("git", "exit 0");
        lab.program("bwrap", "exit 0");
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/fake-codex.mjs");
        let talks = format!("exec {} {} ok", node().display(), fake.display());
        lab.codex(&talks);
        lab.config(|text| text);
        let mut running = Running::start(&mut lab.host());
        running.signal("-TERM");
        running.child.wait().unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.path("state").join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path("tools").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A codex that says its version, and otherwise does this.
    fn codex(&self, otherwise: &str) {
        let version = "case \"$*\" in *--version*) echo codex-cli 0.171.0; exit 0;; esac";
        self.program("codex", &format!("{version}\n{otherwise}"));
    }

    /// Writes host.toml, changed.
    fn config(&self, change: impl FnOnce(String) -> String) {
        let text = format!(
            "[host]\nname = \"lab\"\nlisten = \"{}\"\nallow_hosts = [\"studio.local\"]\n\n\
             [agents.codex]\nprotocol = \"codex\"\ncommand = [\"codex\", \"app-server\", \"--stdio\"]\nenv = {{ CODEX_HOME = \"{}\" }}\n\n\
             [workspaces.app]\npath = \"{}\"\n",
            self.listen,
            self.path("codex-home").display(),
            self.path("app").display()
        );
        fs::write(self.path("host.toml"), change(text)).unwrap();
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = pilothouse(self.dir.path());
        command
            .env("PATH", self.path("tools"))
            .arg(verb)
            .arg("--state")
            .arg(self.path("state"))
            .arg("--config")
            .arg(self.path("host.toml"));
        command
    }

    fn host(&self) -> Command {
        self.command("host")
    }

    fn doctor(&self, more: &[&str]) -> (Report, Output) {
        let output = run(self.command("doctor").arg("--json").args(more));
        let report = serde_json::from_slice(&output.stdout);
        (
            Report(report.unwrap_or_else(|error| panic!("{error}: {output:?}"))),
            output,
        )
    }

    fn database(&self) -> Connection {
        Connection::open(self.state("ledger.db")).unwrap()
    }
}

/// Where node is: the doctor's own PATH holds nothing but what the test put there.
fn node() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("node"));
    places
        .find(|node| node.is_file())
        .expect("node is installed")
}

struct Report(Value);

impl Report {
    fn checks(&self) -> impl Iterator<Item = &Value> {
        self.0["checks"].as_array().unwrap().iter()
    }

    fn names(&self) -> Vec<&str> {
        self.checks()
            .map(|check| check["name"].as_str().unwrap())
            .collect()
    }

    /// What a person is told to see to.
    fn troubled(&self) -> BTreeSet<&str> {
        let troubled = self.checks().filter(|check| {
            let outcome = check["outcome"].as_str().unwrap();
            ["warning", "failed"].contains(&outcome)
        });
        troubled
            .map(|check| check["name"].as_str().unwrap())
            .collect()
    }

    fn check(&self, name: &str) -> &Value {
        let found = self.checks().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {:#}", self.0))
    }
}

/// With this out of order the doctor names this gate besides the usual ones, as failed or as a warning, and says what to do.
fn names_only(gate: &str, outcome: &str, says: &str, fault: impl FnOnce(&Lab)) {
    let lab = Lab::new();
    fault(&lab);
    names_only_in(&lab, gate, outcome, says, &[]);
}

fn names_only_in(lab: &Lab, gate: &str, outcome: &str, says: &str, more: &[&str]) {
    let (report, output) = lab.doctor(more);
    // What cannot be known is skipped.
    let known = |name: &&str| report.check(name)["outcome"] != "skipped";
    let mut expected: BTreeSet<&str> = USUAL.into_iter().filter(known).collect();
    expected.insert(gate);
    assert_eq!(report.troubled(), expected, "{:#}", report.0);
    let check = report.check(gate);
    assert_eq!(check["outcome"], outcome, "{check}");
    let words = format!("{} {}", check["finding"], check["next_step"]);
    assert!(words.contains(says), "`{says}` in {check}");
    assert!(
        check["next_step"]
            .as_str()
            .is_some_and(|step| !step.is_empty()),
        "{check}"
    );
    let code = if outcome == "failed" { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{:#}", report.0);
}

#[test]
fn case_05_where_all_is_well_every_gate_is_listed_and_none_is_in_the_way() {
    let lab = Lab::new();
    let (report, output) = lab.doctor(&["--deep"]);
    assert_eq!(report.troubled(), USUAL.into(), "{:#}", report.0);
    assert_eq!(output.status.code(), Some(0));
    let gates = [
        "daemon",
        "config",
        "state",
        "lock",
        "space",
        "certificate",
        "ledger",
        "wal",
        "log_format",
        "port",
        "allowed_hosts",
        "devices",
        "clock",
        "git",
        "sandbox",
        "agent.codex",
        "agent.codex.sign_in",
        "agent.codex.handshake",
        "workspace.app",
    ];
    assert_eq!(report.names(), gates);
    let handshake = report.check("agent.codex.handshake");
    assert_eq!(handshake["outcome"], "ok", "{handshake}");
    assert!(
        handshake["finding"].as_str().unwrap().contains("0.171.0"),
        "{handshake}"
    );
}

#[test]
fn case_05_each_gate_of_the_host_itself_is_named_alone() {
    names_only("config", "failed", "unknown key `hots`", |lab| {
        lab.config(|text| format!("{text}[hots]\n"));
    });
    names_only("state", "failed", "--state", |lab| {
        fs::remove_dir_all(lab.path("state")).unwrap();
        fs::write(lab.path("state"), "a file").unwrap();
    });
    names_only("certificate", "failed", "pairing", |lab| {
        fs::write(lab.state(HostIdentity::FILE), "no key").unwrap();
    });
    names_only("allowed_hosts", "warning", "https://studio", |lab| {
        lab.config(|text| text.replace("studio.local", "https://studio"));
    });
    names_only(
        "clock",
        "warning",
        "before the last recorded write",
        |lab| {
            let ahead = SystemTime::now() + Duration::from_secs(3600);
            let ledger = File::options()
                .append(true)
                .open(lab.state("ledger.db"))
                .unwrap();
            ledger.set_modified(ahead).unwrap();
        },
    );
    let lab = Lab::new();
    let lock = File::options()
        .write(true)
        .open(lab.state("daemon.lock"))
        .unwrap();
    lock.lock().unwrap();
    names_only_in(&lab, "lock", "failed", "cannot be asked", &[]);
    drop(lock);
    let taken = TcpListener::bind(lab.listen).unwrap();
    names_only_in(&lab, "port", "failed", "cannot be used", &[]);
    drop(taken);
}

#[test]
fn case_05_each_gate_of_the_ledger_is_named_alone() {
    names_only("ledger", "failed", "restore a backup", |lab| {
        use std::os::unix::fs::FileExt as _;
        // What waits in the write-ahead log would stand before what is damaged.
        lab.database()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        let file = File::options()
            .write(true)
            .open(lab.state("ledger.db"))
            .unwrap();
        // The file's own header stays.
        file.write_all_at(&[0x5a; 8 * 4096], 4096).unwrap();
    });
    names_only("ledger", "failed", "update pilothouse", |lab| {
        lab.database()
            .execute_batch("PRAGMA user_version = 99")
            .unwrap();
    });
    names_only("wal", "warning", "restart the host", |lab| {
        let wal = File::options()
            .create(true)
            .append(true)
            .open(lab.state("ledger.db-wal"));
        wal.unwrap().set_len(40 * 1024 * 1024).unwrap();
    });
    names_only("log_format", "failed", "format 9", |lab| {
        let sql = "INSERT INTO threads (number, thread, seq, chain) VALUES (77, zeroblob(16), 1, zeroblob(32)); \
                   INSERT INTO entries VALUES ((77 << 40) + 1, zeroblob(16), 9, 0, zeroblob(32), x'', '{}', '[]');";
        lab.database().execute_batch(sql).unwrap();
    });
}

#[test]
fn case_05_each_gate_of_tools_and_agents_is_named_alone() {
    names_only("git", "warning", "install it", |lab| {
        fs::remove_file(lab.path("tools/git")).unwrap();
    });
    names_only("sandbox", "warning", "bubblewrap", |lab| {
        fs::remove_file(lab.path("tools/bwrap")).unwrap();
    });
    names_only("agent.codex", "failed", "is not there", |lab| {
        fs::remove_file(lab.path("tools/codex")).unwrap();
    });
    names_only("agent.codex.sign_in", "warning", "codex login", |lab| {
        fs::remove_file(lab.path("codex-home/auth.json")).unwrap();
    });
    let lab = Lab::new();
    lab.codex("echo the moon is full >&2; exit 3");
    names_only_in(
        &lab,
        "agent.codex.handshake",
        "failed",
        "the moon is full",
        &["--deep"],
    );
    names_only("agent.tape", "failed", "line 1", |lab| {
        let tape = lab.path("tape.jsonl");
        fs::write(&tape, "no recording\n").unwrap();
        let agent = format!(
            "[agents.tape]\nprotocol = \"replay\"\ncommand = [\"{}\"]\n",
            tape.display()
        );
        lab.config(|text| format!("{text}{agent}"));
    });
    names_only("agents", "failed", "install one", |lab| {
        fs::remove_file(lab.path("tools/codex")).unwrap();
        fs::remove_file(lab.state("host.json")).unwrap_or_default();
        lab.config(|text| {
            let (host, rest) = text.split_once("[agents.codex]").unwrap();
            let (_, workspaces) = rest.split_once("[workspaces").unwrap();
            format!("{host}[workspaces{workspaces}")
        });
    });
    names_only("workspaces", "failed", "[workspaces.NAME]", |lab| {
        lab.config(|text| text.split_once("[workspaces").unwrap().0.to_owned());
    });
}

#[test]
fn case_05_a_running_host_knows_its_port_its_lock_and_a_workspace_that_went_away() {
    let lab = Lab::new();
    let running = Running::start(&mut lab.host());
    let (report, _) = lab.doctor(&[]);
    assert_eq!(
        report.troubled(),
        ["devices", "port"].into(),
        "{:#}",
        report.0
    );
    let pid = running.child.id().to_string();
    assert!(
        report.check("daemon")["finding"]
            .as_str()
            .unwrap()
            .contains(&pid)
    );
    assert_eq!(report.check("lock")["outcome"], "ok");
    assert!(
        report.check("port")["finding"]
            .as_str()
            .unwrap()
            .contains("only this machine")
    );
    fs::remove_dir(lab.path("app")).unwrap();
    let (report, output) = lab.doctor(&[]);
    let expected = ["devices", "port", "workspace.app"].into();
    assert_eq!(report.troubled(), expected, "{:#}", report.0);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_agent_that_does_not_ask_is_named_with_its_risk_and_with_what_its_sandbox_needs() {
    let boxed = |lab: &Lab| {
        lab.program("pi", "echo 1.6.0");
        lab.config(|text| {
            format!(
                "{text}\n[agents.boxed]\nprotocol = \"pi\"\ncommand = [\"pi\"]\nsandbox = [\"bwrap\", \"none\"]\n"
            )
        });
    };
    names_only("agent.boxed.sandbox", "warning", "does not ask", boxed);
    let lab = Lab::new();
    boxed(&lab);
    fs::remove_file(lab.path("tools/bwrap")).unwrap();
    let (report, _) = lab.doctor(&[]);
    let check = report.check("agent.boxed.sandbox");
    assert_eq!(check["outcome"], "failed", "{check}");
    assert_eq!(check["next_step"], "apt install bubblewrap");
}
