//! What an agent starts in sessions of its own is ended with the agent, however that ended.

use crate::{misbehaving::assert_gone, support::launch};
use pilothouse_providers::{
    contract::Escalation,
    process::{BoundProcess, Recorded, kill_recorded},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// An agent that starts two commands in sessions of their own, the second by a parent that is gone at once, and a third
/// without any environment. It writes their numbers into `DIR/1` … and lives on.
fn agent(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "setsid sh -c 'echo $$ > {dir}/1; exec sleep 86399' & \
         sh -c 'setsid sh -c \"echo \\$\\$ > {dir}/2; exec sleep 86399\" &' ; \
         env -i setsid sh -c 'echo $$ > {dir}/3; exec sleep 86399' & \
         exec sleep 86399"
    )
}

/// The numbers of an agent's commands, once they run.
async fn commands(dir: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    for name in ["1", "2", "3"] {
        let file = dir.join(name);
        let read = async {
            loop {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                if let Some(line) = text.strip_suffix('\n') {
                    return line.parse::<u32>().unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let pid = tokio::time::timeout(crate::support::PATIENCE, read).await;
        pids.push(pid.expect("the command runs"));
    }
    pids
}

async fn started(dir: &Path, pid_file: Option<PathBuf>) -> (BoundProcess, Vec<u32>) {
    let mut launch = launch(&["sh", "-c", &agent(dir)], Path::new("/"));
    launch.pid_file = pid_file;
    let (process, pipes) = BoundProcess::spawn(&launch, &[]).await.unwrap();
    // It does not read, so a closed input says nothing to it.
    drop(pipes);
    let commands = commands(dir).await;
    for pid in &commands {
        assert!(Path::new(&format!("/proc/{pid}")).exists());
    }
    (process, commands)
}

#[tokio::test]
async fn an_agent_that_we_kill_takes_its_commands_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (process, commands) = started(dir.path(), None).await;
    process.escalate(Escalation::Kill).unwrap();
    process.exited().await;
    for pid in commands {
        assert_gone(pid).await;
    }
}

#[tokio::test]
async fn an_agent_that_somebody_kills_takes_its_commands_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (process, commands) = started(dir.path(), None).await;
    let pid = Pid::from_raw(process.id() as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    process.exited().await;
    for pid in &commands[..2] {
        assert_gone(*pid).await;
    }
    // The one without environment cannot be told from a stranger any more.
    let _ = kill_process(Pid::from_raw(commands[2] as i32).unwrap(), Signal::KILL);
}

#[tokio::test]
async fn a_stranger_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut stranger = Command::new("sleep").arg("86399").spawn().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (bystander, others) = started(other.path(), None).await;
    let (process, _) = started(dir.path(), None).await;
    process.escalate(Escalation::Kill).unwrap();
    process.exited().await;
    assert!(stranger.try_wait().unwrap().is_none());
    assert!(!bystander.has_exited());
    for pid in others {
        assert!(Path::new(&format!("/proc/{pid}")).exists());
    }
    bystander.escalate(Escalation::Kill).unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

const HOST_DIR: &str = "PILOTHOUSE_TEST_HOST_DIR";

/// Not a test: a host, to be killed.
#[tokio::test]
async fn plays_the_host() {
    let Some(dir) = std::env::var_os(HOST_DIR).map(PathBuf::from) else {
        return;
    };
    let (process, _) = started(&dir, Some(dir.join("agent.pid"))).await;
    println!("\nagent {}", process.id());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn what_an_agent_of_a_killed_host_left_behind_is_ended_at_the_next_boot() {
    for agent_lives in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "descendants::plays_the_host", "--nocapture"])
            .env(HOST_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
        let agent = lines.find_map(|line| line.unwrap().strip_prefix("agent ").map(str::to_owned));
        let agent: u32 = agent.expect("it says its agent's id").parse().unwrap();
        host.kill().unwrap();
        host.wait().unwrap();
        if !agent_lives {
            // As the death signal does to a supervised one.
            kill_process(Pid::from_raw(agent as i32).unwrap(), Signal::KILL).unwrap();
            assert_gone(agent).await;
        }
        let commands = commands(dir.path()).await;
        let recorded = kill_recorded(&dir.path().join("agent.pid")).unwrap();
        assert_eq!(recorded, Recorded::Killed);
        assert_gone(agent).await;
        for pid in &commands[..2] {
            assert_gone(*pid).await;
        }
        if agent_lives {
            assert_gone(commands[2]).await;
        } else {
            let _ = kill_process(Pid::from_raw(commands[2] as i32).unwrap(), Signal::KILL);
        }
    }
}
