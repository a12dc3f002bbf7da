//! Our permission gate: an extension that makes pi ask (decision 016).
//!
//! pi loads it from a file (`-e`), which is written anew for each life of its process where only this user can write.

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
    /// The entry before which it has just taken the session back, or why it did not.
    pub(super) back: Option<(String, Result<(), String>)>,
}

/// Reads its status; `None` if it is no status of a gate that this version knows.
pub(super) fn state(frame: &Value) -> Option<GateState> {
    let told = json(&text_of(frame, "statusText")?).ok()?;
    (told.get("version").and_then(Value::as_u64) == Some(1)).then_some(())?;
    Some(GateState {
        agent: cut(&text_of(&told, "agent")?, 64),
        mode: cut(&text_of(&told, "mode")?, 64),
        back: told.get("back").and_then(|back| {
            let problem = text_of(back, "problem").map(|problem| cut(&problem, 1024));
            Some((
                cut(&text_of(back, "entry")?, 256),
                problem.map_or(Ok(()), Err),
            ))
        }),
    })
}

/// The command that puts it into a mode.
pub(super) fn command(mode: Mode) -> String {
    format!("/{NAME} {}", mode.name())
}

/// The command that takes the session back to before an entry. `None` for an id that would be more than one word.
pub(super) fn back(entry: &str) -> Option<String> {
    let plain = !entry.is_empty()
        && entry.len() <= 256
        && entry.bytes().all(|byte| byte.is_ascii_graphic());
    plain.then(|| format!("/{NAME} back {entry}"))
}

/// Whether a person's words would be taken for a command of the gate.
pub(super) fn is_command(text: &str) -> bool {
    text.trim_start().starts_with(&format!("/{NAME}"))
}

/// The extension as a file.
#[derive(Debug)]
pub(super) struct GateFile {
    file: PathBuf,
    /// A directory that was made for it alone and goes with this value.
    own: Option<PathBuf>,
}

impl GateFile {
    /// Writes it beside `neighbour`, a file of the host's own, where all lives share it and each writes it anew; without
    /// one, into a directory of its own. `life` names this life of the process and no other.
    ///
    /// # Errors
    /// What the system says if there is no room, or something is there already.
    pub(super) fn write(life: &str, neighbour: Option<&Path>) -> io::Result<Self> {
        let Some(dir) = neighbour.and_then(Path::parent) else {
            let dir = std::env::temp_dir().join(format!("{NAME}-{life}"));
            // Fails where somebody has put anything there.
            fs::DirBuilder::new().mode(0o700).create(&dir)?;
            let written = Self {
                file: dir.join("gate.js"),
                own: Some(dir),
            };
            fill(&written.file)?;
            return Ok(written);
        };
        let file = dir.join(format!("{NAME}.js"));
        let fresh = dir.join(format!("{NAME}-{life}.js"));
        let _ = fs::remove_file(&fresh);
        fill(&fresh)?;
        fs::rename(&fresh, &file)?;
        Ok(Self { file, own: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }
}

fn fill(file: &Path) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(file)?
        .write_all(SOURCE.as_bytes())
}

impl Drop for GateFile {
    fn drop(&mut self) {
        if let Some(dir) = &self.own {
            let _ = fs::remove_file(&self.file);
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_a_file_of_the_host_it_is_written_anew_and_elsewhere_it_goes_with_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("1.pid");
        let first = GateFile::write("a", Some(&pid)).unwrap();
        let file = first.path().to_owned();
        fs::remove_file(&file).unwrap();
        fs::write(&file, "something else").unwrap();
        drop(first);
        let second = GateFile::write("b", Some(&pid)).unwrap();
        assert_eq!(second.path(), file);
        assert_eq!(fs::read_to_string(&file).unwrap(), SOURCE);
        let life = format!("test-{}", std::process::id());
        let alone = GateFile::write(&life, None).unwrap();
        let (file, again) = (alone.path().to_owned(), GateFile::write(&life, None));
        assert!(
            file.is_file() && again.is_err(),
            "what is there is not used"
        );
        drop(alone);
        assert!(!file.exists());
    }
}
