//! The service at which codex and opencode are signed in: tests/support/issuer.mjs.

use crate::{model, places, process::Process};
use std::{path::Path, process::Command};

/// A running one.
pub struct Issuer {
    _process: Process,
    port: u16,
}

impl Issuer {
    /// Starts one on a free port.
    pub fn start(dir: &Path) -> Self {
        let mut command = Command::new("node");
        command.arg(places::support("issuer.mjs"));
        let process = Process::start("issuer", command, dir);
        let port = process.line("its port", |line| {
            line.strip_prefix("issuer on ")?.parse().ok()
        });
        Self {
            _process: process,
            port,
        }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A person enters the code of the newest sign-in.
    pub fn enter(&self) {
        model::ask(self.port, "PUT", "/_person/enters", "");
    }

    /// A person says no to the newest sign-in.
    pub fn refuse(&self) {
        model::ask(self.port, "PUT", "/_person/refuses", "");
    }

    /// How many sign-ins were begun.
    pub fn begun(&self) -> u64 {
        let answer = model::ask(self.port, "GET", "/_begun", "");
        answer["begun"].as_u64().unwrap_or(0)
    }
}
