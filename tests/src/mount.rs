//! Small and read-only file systems, for full disks and read-only directories. Root only.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Whether file systems can be mounted here.
///
/// # Panics
/// It is not root and `PILOTHOUSE_NOT_ROOT` is not set: a test that is skipped in silence tests nothing.
pub fn allowed() -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(
        root || env::var_os("PILOTHOUSE_NOT_ROOT").is_some(),
        "this test mounts a small tmpfs: run it as root, or set PILOTHOUSE_NOT_ROOT=1 to leave it out"
    );
    root
}

/// A mounted file system, unmounted when dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// A tmpfs of so many KiB.
    pub fn tmpfs(at: &Path, kib: u32) -> Self {
        let options = format!("size={kib}k,mode=0700");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "pilothouse-test"])
            .arg(at));
        Self(at.to_owned())
    }

    /// A directory over itself, read-only.
    pub fn read_only(at: &Path) -> Self {
        run(Command::new("mount").arg("--bind").arg(at).arg(at));
        let mount = Self(at.to_owned());
        run(Command::new("mount")
            .args(["-o", "remount,bind,ro"])
            .arg(at));
        mount
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazy: a program that is still ending may hold it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
