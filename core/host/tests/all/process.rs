//! The program itself, as a process of its own.

use crate::common::{DEADLINE, write_config};
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

pub(crate) fn pilothouse(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// Runs a command that ends by itself.
pub(crate) fn run(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let (ended, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    match waiting.recv_timeout(DEADLINE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &pid]).status();
            panic!("it does not end: {command:?}: {:?}", waiting.recv());
        }
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A daemon as a process; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) first_line: String,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut first_line).unwrap();
        if first_line.is_empty() {
            let mut problem = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut problem)
                .unwrap();
            panic!("it did not start: {problem}");
        }
        Self {
            child,
            first_line,
            stdout,
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(
            Command::new("kill")
                .args([name, &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn host(dir: &Path) -> Command {
    let config = write_config(dir);
    let mut command = pilothouse(dir);
    command
        .args(["host", "--listen", "127.0.0.1:0", "--state"])
        .arg(dir.join("state"))
        .arg("--config")
        .arg(config);
    command
}

fn verb(dir: &Path, words: &[&str]) -> Command {
    let mut command = pilothouse(dir);
    command.args(words).arg("--state").arg(dir.join("state"));
    command
}

#[test]
fn it_says_where_it_listens_and_stops_cleanly_at_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["-INT", "-TERM"] {
        let mut running = Running::start(&mut host(dir.path()));
        let port = running
            .first_line
            .strip_prefix("listening on 127.0.0.1:")
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        assert_ne!(port.parse::<u16>().unwrap(), 0, "the real port");
        running.signal(signal);
        assert!(running.child.wait().unwrap().success());
        assert!(!dir.path().join("state/control.sock").exists());
    }
    let running = Running::start(host(dir.path()).arg("--json"));
    let line: serde_json::Value = serde_json::from_str(&running.first_line).unwrap();
    assert!(
        line["listening"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    assert_eq!(line["pid"], running.child.id());
    for key in ["host", "name", "fingerprint"] {
        assert!(line[key].is_string(), "{key}");
    }
}

#[test]
fn a_second_daemon_names_the_process_that_has_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&mut host(dir.path()));
    let second = run(&mut host(dir.path()));
    assert_eq!(second.status.code(), Some(1));
    assert!(
        stderr(&second).contains(&format!("process {}", running.child.id())),
        "{}",
        stderr(&second)
    );
}

#[test]
fn a_killed_daemon_leaves_nothing_in_the_way_and_its_key_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Running::start(host(dir.path()).arg("--json"));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let second = Running::start(host(dir.path()).arg("--json"));
    let key = |running: &Running| {
        serde_json::from_str::<serde_json::Value>(&running.first_line).unwrap()["fingerprint"]
            .clone()
    };
    assert_eq!(key(&first), key(&second));
}

#[test]
fn a_typo_in_the_configuration_is_told_with_file_and_line_and_nothing_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = host(dir.path());
    std::fs::write(
        dir.path().join("host.toml"),
        "[agents.codex]\nprotocol = \"codex\"\ncomand = [\"x\"]\n",
    )
    .unwrap();
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains(
            "host.toml line 3: unknown key `comand` in [agents.codex]; did you mean `command`?"
        ),
        "{said}"
    );
    assert!(!dir.path().join("state").exists());
    let missing = run(pilothouse(dir.path()).args(["host", "--config", "elsewhere.toml"]));
    assert!(
        stderr(&missing).contains("cannot read elsewhere.toml"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn a_taken_port_is_told_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = pilothouse(dir.path());
    command
        .args(["host", "--listen", &address, "--state"])
        .arg(dir.path().join("state"));
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(&address) && stderr(&output).contains("--listen"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn pair_prints_a_code_and_says_who_used_it() {
    let dir = tempfile::tempdir().unwrap();
    let _running = Running::start(&mut host(dir.path()));
    let said = stdout(&run(&mut verb(dir.path(), &["pair"])));
    assert!(
        said.contains('▀')
            && said.contains("pilothouse join 'pilothouse:pair?")
            && said.contains("5 minutes"),
        "{said}"
    );

    let waiting = Running::start(&mut verb(dir.path(), &["pair", "--json", "--wait"]));
    let offer: serde_json::Value = serde_json::from_str(&waiting.first_line).unwrap();
    let code = offer["code"].as_str().unwrap();
    assert!(
        offer["expires_at_ms"].is_u64()
            && offer["host"].is_string()
            && offer["addresses"].is_array()
    );
    assert!(stdout(&run(&mut verb(dir.path(), &["devices"]))).contains("no device is paired"));
    let data = dir.path().join("data");
    let joined = run(pilothouse(dir.path())
        .args(["join", code, "--name", "laptop", "--data"])
        .arg(data));
    assert!(joined.status.success(), "{}", stderr(&joined));
    let (mut waiting, mut news) = (waiting, String::new());
    waiting.stdout.read_line(&mut news).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&news).unwrap()["paired"]["name"],
        "laptop"
    );
    assert!(waiting.child.wait().unwrap().success());
    let devices = stdout(&run(&mut verb(dir.path(), &["devices", "--json"])));
    let device: serde_json::Value = serde_json::from_str(devices.lines().next().unwrap()).unwrap();
    assert_eq!(
        (device["name"].as_str(), device["revoked"].as_bool()),
        (Some("laptop"), Some(false))
    );
    let revoked = run(&mut verb(dir.path(), &["devices", "--revoke", "laptop"]));
    assert!(
        stdout(&revoked).contains("laptop was revoked"),
        "{}",
        stderr(&revoked)
    );
}

#[test]
fn pair_without_a_daemon_says_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(&mut verb(dir.path(), &["pair"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no `pilothouse host` is running"),
        "{}",
        stderr(&output)
    );
}

fn check<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let found = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

fn write_program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_doctor_sees_what_is_there_and_says_what_to_do_about_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    write_program(
        &dir.path().join(".local/bin/codex"),
        "echo codex-cli 0.171.0",
    );
    let doctor = |words: &[&str]| {
        let output =
            run(verb(dir.path(), &[&["doctor", "--json"], words].concat()).current_dir(&project));
        (
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap(),
            output.status.code(),
        )
    };
    let (report, _) = doctor(&[]);
    assert_eq!(check(&report, "daemon")["outcome"], "warning");
    assert!(
        check(&report, "daemon")["next_step"]
            .as_str()
            .unwrap()
            .contains("pilothouse host")
    );
    assert_eq!(check(&report, "certificate")["outcome"], "skipped");
    let agent = check(&report, "agent.codex");
    assert!(
        agent["outcome"] == "ok"
            && agent["finding"]
                .as_str()
                .unwrap()
                .contains("codex-cli 0.171.0"),
        "{agent}"
    );
    assert_eq!(check(&report, "agent.codex.sign_in")["outcome"], "warning");
    assert_eq!(check(&report, "workspace.project")["outcome"], "ok");

    std::fs::create_dir(dir.path().join(".codex")).unwrap();
    std::fs::write(
        dir.path().join(".codex/auth.json"),
        "{\"key\":\"sesame-open\"}",
    )
    .unwrap();
    let mut host = pilothouse(&project);
    host.env("HOME", dir.path())
        .args(["host", "--listen", "127.0.0.1:0", "--state"])
        .arg(dir.path().join("state"));
    let running = Running::start(&mut host);
    let (report, code) = doctor(&[]);
    assert_eq!(code, Some(0), "{report:#}");
    let daemon = check(&report, "daemon")["finding"].as_str().unwrap();
    assert!(daemon.contains(&running.child.id().to_string()), "{daemon}");
    for name in [
        "config",
        "state",
        "space",
        "certificate",
        "clock",
        "agent.codex",
        "agent.codex.sign_in",
    ] {
        assert_eq!(check(&report, name)["outcome"], "ok", "{name}: {report:#}");
    }
    assert!(
        check(&report, "port")["finding"]
            .as_str()
            .unwrap()
            .contains("127.0.0.1:")
    );
    assert!(!report.to_string().contains("sesame-open"));

    let text = run(verb(dir.path(), &["doctor"]).current_dir(&project));
    assert!(
        stdout(&text)
            .lines()
            .any(|line| line.starts_with("ok    certificate")),
        "{}",
        stdout(&text)
    );
}

#[test]
fn the_doctor_reports_a_broken_configuration_a_missing_agent_and_a_clock_that_went_back() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let ledger = std::fs::File::create(state.join("ledger.db")).unwrap();
    ledger
        .set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600))
        .unwrap();
    let config = dir.path().join("host.toml");
    let doctor = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let output = run(verb(dir.path(), &["doctor", "--json"])
            .arg("--config")
            .arg(&config));
        (
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap(),
            output.status.code(),
        )
    };
    let (report, code) = doctor("[hots]\n");
    assert_eq!(code, Some(1));
    assert!(
        check(&report, "config")["finding"]
            .as_str()
            .unwrap()
            .contains("line 1: unknown key `hots`")
    );
    assert_eq!(check(&report, "clock")["outcome"], "warning");
    let (report, code) =
        doctor("[agents.gone]\nprotocol = \"codex\"\ncommand = [\"/not/there\"]\n");
    assert_eq!(code, Some(1));
    assert_eq!(check(&report, "agent.gone")["outcome"], "failed");
    let (report, _) = doctor("[agents.mute]\nprotocol = \"codex\"\ncommand = [\"/bin/false\"]\n");
    assert!(
        check(&report, "agent.mute")["finding"]
            .as_str()
            .unwrap()
            .contains("/bin/false --version")
    );
}

#[test]
fn help_shows_the_three_steps_and_an_example_for_each_verb() {
    let dir = tempfile::tempdir().unwrap();
    let help = stdout(&run(pilothouse(dir.path()).arg("--help")));
    for line in [
        "pilothouse host",
        "pilothouse pair",
        "pilothouse join",
        "pilothouse answer REQUEST --allow",
    ] {
        assert!(help.contains(line), "{line}\n{help}");
    }
    assert!(!help.contains("agent-exec"));
    for verb in ["host", "pair", "devices", "doctor"] {
        let help = stdout(&run(pilothouse(dir.path()).args([verb, "--help"])));
        assert!(help.contains("Examples:"), "{verb}\n{help}");
    }
}

#[test]
fn without_a_configuration_the_directory_is_offered_unless_that_would_be_everything() {
    let dir = tempfile::tempdir().unwrap();
    let bare = |at: &Path| {
        let mut command = pilothouse(dir.path());
        command
            .current_dir(at)
            .args(["host", "--listen", "127.0.0.1:0", "--state"])
            .arg(dir.path().join("state"));
        command
    };
    for everything in [dir.path(), Path::new("/")] {
        let mut running = Running::start(&mut bare(everything));
        running.signal("-TERM");
        assert!(running.child.wait().unwrap().success());
        let mut said = String::new();
        running
            .child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(said.contains("[workspaces.app]"), "{said}");
    }
}

#[test]
fn an_agent_that_was_found_once_is_found_again_by_a_daemon_with_a_shorter_path() {
    let dir = tempfile::tempdir().unwrap();
    let tools = dir.path().join("tools");
    write_program(&tools.join("codex"), "echo codex-cli 1.2.3");
    let mut first = pilothouse(dir.path());
    first.env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    let mut running = Running::start(
        first
            .args(["host", "--listen", "127.0.0.1:0", "--state"])
            .arg(dir.path().join("state")),
    );
    running.signal("-TERM");
    running.child.wait().unwrap();
    let output = run(verb(dir.path(), &["doctor", "--json"]).env("PATH", "/usr/bin:/bin"));
    let report = serde_json::from_slice(&output.stdout).unwrap();
    let agent = check(&report, "agent.codex");
    assert!(
        agent["finding"]
            .as_str()
            .unwrap()
            .contains(tools.to_str().unwrap()),
        "{agent}"
    );
}

#[test]
fn agent_exec_becomes_the_agent_only_for_the_daemon_that_started_it() {
    let dir = tempfile::tempdir().unwrap();
    let exec = |parent: u32, words: &[&str]| {
        run(pilothouse(dir.path())
            .args(["agent-exec", "--parent", &parent.to_string(), "--"])
            .args(words))
    };
    let output = exec(std::process::id(), &["printf", "%s", "--parent=7"]);
    assert_eq!(stdout(&output), "--parent=7", "{}", stderr(&output));
    let orphan = exec(1, &["echo", "never"]);
    assert!(
        orphan.status.code() == Some(127)
            && stdout(&orphan).is_empty()
            && stderr(&orphan).contains("process 1")
    );
    let missing = exec(std::process::id(), &["/not/there"]);
    assert!(
        missing.status.code() == Some(127) && stderr(&missing).contains("/not/there"),
        "{}",
        stderr(&missing)
    );
}
