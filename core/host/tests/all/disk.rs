//! Disks that are full or read-only, and a database of a newer version. Mounting needs root with the right to mount; without
//! it these tests fail, unless `PILOTHOUSE_NOT_ROOT` leaves them out.

use crate::{
    common::{TestDevice, TestHost, create, soon, write_config},
    process::{Running, host, pilothouse, run, stderr},
};
use pilothouse_domain::{Outcome, Refusal};
use pilothouse_host::control::{Answer, Ask, ask};
use pilothouse_wire::offer::PairingOffer;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

struct Mounted(PathBuf);

impl Mounted {
    /// `None` only if `PILOTHOUSE_NOT_ROOT` leaves such tests out: a test that is skipped in silence tests nothing.
    fn tmpfs(at: &Path, options: &str) -> Option<Self> {
        if std::env::var_os("PILOTHOUSE_NOT_ROOT").is_some() {
            return None;
        }
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(at)
            .output();
        assert!(
            mounted.as_ref().is_ok_and(|output| output.status.success()),
            "this test mounts a small tmpfs, and that fails here: run it as root with the right to mount (CAP_SYS_ADMIN), or set \
             PILOTHOUSE_NOT_ROOT=1 to leave it out: {mounted:?}"
        );
        Some(Self(at.to_owned()))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(
            Command::new("mount")
                .args(["-o", &options])
                .arg(&self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).status();
    }
}

#[test]
fn a_read_only_state_directory_is_told_with_its_path_and_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::tmpfs(&dir.path().join("disk"), "size=8m") else {
        return;
    };
    let config = write_config(dir.path());
    let start = || {
        let mut command = pilothouse(dir.path());
        command
            .args(["host", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config);
        command.arg("--state").arg(mounted.0.join("state"));
        command
    };
    mounted.remount("ro");
    let output = run(&mut start());
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("disk/state") && said.contains("read-only"),
        "{said}"
    );

    mounted.remount("rw");
    drop(Running::start(&mut start()));
    mounted.remount("ro");
    let output = run(&mut start());
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("disk/state") && said.contains("read-only"),
        "{said}"
    );
}

#[test]
fn a_disk_without_room_for_the_state_is_told_and_nothing_half_made_stays_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::tmpfs(&dir.path().join("state"), "size=32k") else {
        return;
    };
    let output = run(&mut host(dir.path()));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("state") && (said.contains("room") || said.contains("space")),
        "{said}"
    );
    mounted.remount("size=32m");
    let running = Running::start(&mut host(dir.path()));
    assert!(running.first_line.starts_with("listening on"));
}

#[tokio::test]
async fn a_disk_that_fills_up_refuses_commands_for_now_and_takes_them_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::tmpfs(&dir.path().join("state"), "size=4m") else {
        return;
    };
    let state = mounted.0.clone();
    let host = TestHost::start_with(|options| options.state = Some(state.clone())).await;
    let path = pilothouse_host::state::StatePath::choose(Some(&state)).unwrap();
    let scopes = vec![
        pilothouse_domain::Scope::Read,
        pilothouse_domain::Scope::Operate,
    ];
    let asked = async {
        ask(&path, &Ask::Pair { scopes })
            .await
            .unwrap()
            .first()
            .await
            .unwrap()
    };
    let Answer::Offer(offer) = soon("an offer", asked).await else {
        panic!()
    };
    let offer = PairingOffer::parse(&offer.code).unwrap();
    let device = TestDevice::new("phone");
    device.pair(&offer).await.unwrap();
    let (mut connection, _) = device.at(&offer).connect().await;
    assert!(matches!(
        connection.command(&create(1, "before")).await,
        Outcome::Accepted { .. }
    ));

    let filler = state.join("filler");
    let _ = std::fs::write(&filler, vec![0; 8 * 1024 * 1024]);
    let full = Outcome::Refused {
        refusal: Refusal::DiskFull,
    };
    let mut refused = None;
    for number in 2..200 {
        let made = create(number, &"t".repeat(150));
        if connection.command(&made).await == full {
            refused = Some(made);
            break;
        }
    }
    let refused = refused.expect("the disk is full");
    assert!(connection.is_alive().await);
    std::fs::remove_file(&filler).unwrap();
    let outcome = connection.command(&refused).await;
    assert!(
        matches!(outcome, Outcome::Accepted { .. }),
        "not final, and the same id works later: {outcome:?}"
    );
    host.daemon.stop().await;
}

#[test]
fn a_database_of_a_newer_version_is_left_alone_and_the_way_out_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(&mut host(dir.path()));
    running.signal("-TERM");
    assert!(running.child.wait().unwrap().success());
    let file = dir.path().join("state/ledger.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.pragma_update(None, "user_version", 9_999).unwrap();
    database.close().unwrap();
    let before = std::fs::read(&file).unwrap();
    let output = run(&mut host(dir.path()));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("9999") && said.contains("update"), "{said}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
