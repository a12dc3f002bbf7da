//! Our permission gate: an extension that makes pi ask (decision 016).
//!
//! pi loads it from a file (`-e`), which is written anew for each life of its process into a directory that only this user
//! can enter, and taken away when the process is done with.

use crate::rpc::frames::{cut, json, text_of};
use pilothouse_domain::Mode;
use serde_json::Value;
use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Name of its command, its status and its dialogs.
pub(super) const NAME: &str = "pilothouse-gate";
/// The extension.
const SOURCE: &str = include_str!("gate.js");

/// What the gate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GateState {
    /// pi's version.
    pub(super) agent: String,
    /// The mode that it is in, by its name.
    pub(super) mode: String,
}

/// Reads its status; `None` if it is no status of a gate that this version knows.
pub(super) fn state(frame: &Value) -> Option<GateState> {
    let told = json(&text_of(frame, "statusText")?).ok()?;
    (told.get("version").and_then(Value::as_u64) == Some(1)).then_some(())?;
    Some(GateState {
        agent: cut(&text_of(&told, "agent")?, 64),
        mode: cut(&text_of(&told, "mode")?, 64),
    })
}

/// The command that puts it into a mode.
pub(super) fn command(mode: Mode) -> String {
    format!("/{NAME} {}", mode.name())
}

/// Whether a person's words would be taken for a command of the gate.
pub(super) fn is_command(text: &str) -> bool {
    text.trim_start().starts_with(&format!("/{NAME}"))
}

/// The extension as a file; it goes with this value.
#[derive(Debug)]
pub(super) struct GateFile {
    dir: PathBuf,
    file: PathBuf,
}

impl GateFile {
    /// Writes it. `life` names this life of the process and no other.
    ///
    /// # Errors
    /// What the system says if there is no room, or something is there already.
    pub(super) fn write(life: &str) -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("{NAME}-{life}"));
        // Fails where somebody has put anything there.
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let file = dir.join("gate.js");
        let written = Self { dir, file };
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&written.file)?
            .write_all(SOURCE.as_bytes())?;
        Ok(written)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for GateFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.dir);
    }
}
