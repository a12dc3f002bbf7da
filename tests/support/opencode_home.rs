//! A home of opencode in which it has nothing to fetch.

use std::{fs, path::Path};

/// opencode fetches its plugins' library from npm's registry, beside everything else that it does at its start, unless its
/// configuration directory says that it is there: that takes a network, and a minute of a busy machine.
pub(crate) fn needs_no_registry(config: &Path) {
    let dir = config.join("opencode");
    fs::create_dir_all(dir.join("node_modules")).expect("opencode's configuration directory");
    let has = r#"{"dependencies": {"@opencode-ai/plugin": "*"}}"#;
    fs::write(dir.join("package.json"), has).expect("package.json");
    let lock = format!(r#"{{"packages": {{"": {has}}}}}"#);
    fs::write(dir.join("package-lock.json"), lock).expect("package-lock.json");
}
