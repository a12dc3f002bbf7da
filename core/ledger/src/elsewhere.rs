//! Agents that run where no process of theirs is this ledger's: a note says that this ledger was connected with one, so that
//! its next life connects again and goes on with what was going on.

use pilothouse_domain::{AgentName, Incarnation};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

/// Extension of the notes' names, beside the records of processes.
pub(crate) const EXTENSION: &str = "elsewhere";

/// A connection with an agent that runs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The agent instance.
    pub(crate) agent: AgentName,
    /// Its protocol family.
    pub(crate) family: String,
    /// Which life of it.
    pub(crate) incarnation: Incarnation,
}

impl Note {
    /// Whether a file is one, by its name.
    pub(crate) fn is_named_by(path: &Path) -> bool {
        path.extension()
            .is_some_and(|extension| extension == EXTENSION)
    }

    pub(crate) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Written aside and renamed, so that it is whole or not there.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let aside = path.with_extension("note");
        let mut file = File::create(&aside)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    }
}
