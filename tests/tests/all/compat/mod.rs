//! Earlier versions: what they wrote, and they themselves. docs/compatibility.md says what is where.

mod binaries;
mod files;
mod newer;
mod shapes;
mod story;

use pilothouse_tests::places;
use std::path::PathBuf;

/// The versions whose files are kept, by their directory in tests/compat.
const VERSIONS: &[&str] = &["first-light", "v0.1.0"];

fn fixture(version: &str) -> PathBuf {
    places::root().join("tests/compat").join(version)
}
