//! Locks between processes: a file under `flock` that holds its owner's pid. The system drops the lock with the
//! process, however it dies, so there is no stale lock to clear away.

use crate::error::{Result, StoreError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Ownership of something that only one process may have, given back when dropped.
#[derive(Debug)]
pub struct Lease {
    file: File,
    path: PathBuf,
}

impl Lease {
    /// Takes the lock or says who has it.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let mut file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                write_pid(&mut file)
                    .map_err(|source| io_error(path, "writing the lock file", source))?;
                Ok(Self {
                    file,
                    path: path.to_owned(),
                })
            }
            Err(Errno::WOULDBLOCK) => Err(StoreError::Locked {
                path: path.to_owned(),
                pid: read_pid(&mut file),
            }),
            Err(errno) => Err(io_error(path, "locking", errno.into())),
        }
    }

    /// Waits for the lock; for the moments in which a file is opened and migrated.
    pub(crate) fn wait(path: &Path) -> Result<Self> {
        let file = open(path)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        file,
                        path: path.to_owned(),
                    });
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io_error(path, "locking", errno.into())),
            }
        }
    }

    /// The process that holds the lock; `None` if nobody does.
    pub(crate) fn holder(path: &Path) -> Result<Option<u32>> {
        let Ok(mut file) = File::open(path) else {
            return Ok(None);
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(Errno::WOULDBLOCK) => Ok(read_pid(&mut file)),
            Err(errno) => Err(io_error(path, "looking at the lock", errno.into())),
        }
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The lock would go with the descriptor, but a child that was just forked may still have a copy of it.
        let _ = self.file.set_len(0);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn open(path: &Path) -> Result<File> {
    private_file(path).map_err(|source| io_error(path, "opening the lock file", source))
}

/// Opens a file for writing; one that is made is for this user only, since what people tell their agents is private.
pub(crate) fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Makes a directory, for this user only, and those above it, unless it is there.
pub(crate) fn private_dir(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| io_error(path, "making the directory", source))
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(std::process::id().to_string().as_bytes())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Sorts a file error into what a person can act on.
pub(crate) fn io_error(path: &Path, doing: &'static str, source: std::io::Error) -> StoreError {
    use std::io::ErrorKind;
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull { path, doing },
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { path, doing }
        }
        _ => StoreError::Io {
            path,
            doing,
            source,
        },
    }
}

/// Why a file system does not take what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskTrouble {
    /// It is mounted read-only, or this user may not write.
    ReadOnly,
    /// It has no room.
    Full,
}

/// Asks the file system of a file what is wrong with it.
pub(crate) fn disk_trouble(file: &Path) -> Option<DiskTrouble> {
    let dir = file.parent()?;
    let stat = rustix::fs::statvfs(dir).ok()?;
    if stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY)
        || rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err()
    {
        return Some(DiskTrouble::ReadOnly);
    }
    // Less than the page and frame header that the smallest write needs, with some slack for SQLite's own files.
    (stat.f_bavail.saturating_mul(stat.f_frsize) < 64 * 1024).then_some(DiskTrouble::Full)
}
