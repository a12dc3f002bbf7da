//! A process, held so that its number cannot mean another one.
//!
//! On Android there is none to hold: a phone runs no agent, it speaks with those that run elsewhere.

use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    process::Pid,
};
use std::io;

/// A held process.
pub(super) struct Held(OwnedFd);

impl Held {
    /// # Errors
    /// `NotFound` if there is none of that number; `Unsupported` on Android.
    pub(super) fn open(pid: Pid) -> io::Result<Self> {
        sys::open(pid).map(Self)
    }

    /// SIGKILL; whether there was something to kill.
    pub(super) fn kill(&self) -> bool {
        sys::kill(&self.0).is_ok()
    }

    /// Waits until it has ended.
    pub(super) fn wait(&self) {
        let mut waited = [PollFd::new(&self.0, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut waited, None) {}
    }
}

#[cfg(not(target_os = "android"))]
mod sys {
    use super::{OwnedFd, Pid, io};
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    pub(super) fn open(pid: Pid) -> io::Result<OwnedFd> {
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    }

    pub(super) fn kill(held: &OwnedFd) -> io::Result<()> {
        Ok(pidfd_send_signal(held, Signal::KILL)?)
    }
}

#[cfg(target_os = "android")]
mod sys {
    use super::{OwnedFd, Pid, io};

    pub(super) fn open(_: Pid) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn kill(_: &OwnedFd) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
