//! An agent that is to outlive the daemon runs only once it is recorded: none is left that no later daemon could find.

use crate::common::DEADLINE;
use pilothouse_domain::Incarnation;
use pilothouse_providers::{
    contract::Launch,
    process::{
        Recorded,
        detached::{DetachedProcess, DetachedRecord, EXTENSION},
        kill_recorded,
    },
};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

const DIR: &str = "PILOTHOUSE_TEST_DIR";

/// Says that it runs, whether it is recorded by then, and what its input is; then lives on.
fn agent(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "test -e {dir}/agent.{EXTENSION} && echo recorded > {dir}/said; \
         readlink /proc/self/fd/0 >> {dir}/said; mv {dir}/said {dir}/ran; exec sleep 86399"
    )
}

/// Not a test: a daemon, to be killed.
#[tokio::test]
async fn plays_the_daemon() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let wrapper = [
        env!("CARGO_BIN_EXE_pilothouse"),
        "agent-exec",
        "--parent",
        &std::process::id().to_string(),
        "--",
    ];
    let launch = Launch {
        agent: "codex".into(),
        incarnation: Incarnation::from_bytes([7; 16]),
        command: vec!["sh".into(), "-c".into(), agent(&dir)],
        modes: Default::default(),
        mcp: Default::default(),
        env: Default::default(),
        cwd: "/".into(),
        wrapper: wrapper.map(str::to_owned).to_vec(),
        sandbox: None,
        opens: None,
        pid_file: Some(dir.join("agent.pid")),
    };
    let process = DetachedProcess::start(&launch, "codex", &[], &[], "secret", None).await;
    let _process = process.unwrap();
    std::future::pending::<()>().await;
}

fn daemon(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "detached::plays_the_daemon"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "waited too long: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The fields of `/proc/PID/stat` from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Whether no such process runs; one that was killed can be a zombie until its new parent reaps it.
fn is_gone(pid: u32) -> bool {
    stat(pid).is_none_or(|fields| fields[0] == "Z")
}

/// What a process has started that is `agent-exec` still.
fn helper_of(parent: u32) -> Option<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(|&pid: &u32| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            stat(pid).is_some_and(|fields| fields[1] == parent.to_string())
                && words.is_ok_and(|words| words.contains("agent-exec"))
        })
}

#[test]
fn an_agent_of_a_daemon_that_is_killed_before_it_has_recorded_it_never_runs() {
    let dir = tempfile::tempdir().unwrap();
    // What is recorded is written aside first: into this nothing is written until somebody reads.
    let aside = dir.path().join("agent.part");
    assert!(
        Command::new("mkfifo")
            .arg(aside)
            .status()
            .unwrap()
            .success()
    );
    let mut daemon = daemon(dir.path());
    let helper = until("the helper", || helper_of(daemon.id()));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    until("its end", || is_gone(helper).then_some(()));
    assert!(!dir.path().join("ran").exists());
    assert!(!dir.path().join("agent").with_extension(EXTENSION).exists());
    let said = std::fs::read_to_string(dir.path().join("agent.out")).unwrap();
    assert!(said.contains("is gone"), "{said}");
}

#[test]
fn an_agent_runs_when_it_is_recorded_and_lives_on_when_its_daemon_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = daemon(dir.path());
    let ran = until("the agent", || {
        std::fs::read_to_string(dir.path().join("ran")).ok()
    });
    assert_eq!(ran, "recorded\n/dev/null\n");
    let path = dir.path().join("agent").with_extension(EXTENSION);
    let record = DetachedRecord::read(&path).unwrap();
    assert_eq!(record.secret, "secret");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(record.is_alive());
    assert_eq!(kill_recorded(&path).unwrap(), Recorded::Killed);
    assert!(!record.is_alive());
}
