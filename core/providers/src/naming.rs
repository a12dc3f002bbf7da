//! Naming files in a message: agents that look them up.

use crate::contract::OpenError;
use futures_util::future::BoxFuture;
use std::path::PathBuf;

/// Looks files up by a part of their name, as a person types it.
pub trait FindFiles: Send + Sync {
    /// Files whose path fits, the best first, as paths within the directory. The agent decides what fits and what it leaves
    /// out (what git ignores).
    fn find(&self, asked: FileSearch) -> BoxFuture<'_, Result<Vec<String>, OpenError>>;
}

/// Which files to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSearch {
    /// Where the conversation works.
    pub cwd: PathBuf,
    /// What was typed.
    pub text: String,
    /// At most so many.
    pub limit: u32,
}

/// Bytes of a path; Linux has none that is longer.
const PATH: usize = 4096;

/// The first of what an agent found that can stand in a message: paths within the directory, without control
/// characters.
pub(crate) fn fit(found: Vec<String>, limit: u32) -> Vec<String> {
    let fits = |path: &String| {
        !path.is_empty()
            && path.len() <= PATH
            && !path.starts_with('/')
            && !path.split('/').any(|part| part == "..")
            && !path.chars().any(char::is_control)
    };
    found
        .into_iter()
        .filter(fits)
        .take(limit as usize)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn what_leads_out_or_cannot_be_seen_is_left_out_and_the_rest_is_bounded() {
        let found = [
            "a",
            "",
            "/etc/passwd",
            "../b",
            "c/../d",
            "e\u{1b}[2J",
            "f..g/h",
            "i",
        ];
        let found = found.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(fit(found, 2), ["a", "f..g/h"]);
        assert_eq!(fit(vec!["x".repeat(4097), "y".into()], 5), ["y"]);
    }
}
