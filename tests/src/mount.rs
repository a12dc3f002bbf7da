//! Small and read-only file systems, for full disks and read-only directories. Root only, with the right to mount.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Whether the tests that mount something are to run: yes, unless `PILOTHOUSE_NOT_ROOT` is set, as root or not.
///
/// # Panics
/// A file system cannot be mounted here. That is tried and not guessed from the user: in a container, root often lacks the
/// right to mount. And a test that is skipped in silence tests nothing.
pub fn allowed() -> bool {
    if env::var_os("PILOTHOUSE_NOT_ROOT").is_some() {
        return false;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tried = mount_tmpfs(dir.path(), 64).output();
    let _unmounted = Mount(dir.path().to_owned());
    assert!(
        tried.as_ref().is_ok_and(|output| output.status.success()),
        "this test mounts a small tmpfs, and that fails here: run it as root with the right to mount (CAP_SYS_ADMIN), or set \
         PILOTHOUSE_NOT_ROOT=1 to leave it out: {tried:?}"
    );
    true
}

fn mount_tmpfs(at: &Path, kib: u32) -> Command {
    let mut command = Command::new("mount");
    command
        .args(["-t", "tmpfs", "-o", &format!("size={kib}k,mode=0700")])
        .arg("pilothouse-test")
        .arg(at);
    command
}

/// A mounted file system, unmounted when dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// A tmpfs of so many KiB.
    pub fn tmpfs(at: &Path, kib: u32) -> Self {
        run(&mut mount_tmpfs(at, kib));
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
