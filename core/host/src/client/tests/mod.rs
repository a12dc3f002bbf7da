//! What a person types and reads and what a script reads, held by examples. `UPDATE_GOLDEN=1` writes them anew.

mod choosing;
mod hiding;
mod reading;
mod rows;
mod scripting;
mod together;
mod typing;
mod verbs;
mod watching;

use std::{fs, path::PathBuf};

/// Compares a text with the kept one of that name.
fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("golden/client")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(
        kept, text,
        "{name} (if the change is meant: UPDATE_GOLDEN=1)"
    );
}
