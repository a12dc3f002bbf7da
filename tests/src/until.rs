//! Waiting for what another process does.

use std::{
    fmt::Debug,
    thread,
    time::{Duration, Instant},
};

/// How long a wait may take before the test fails: many times what any of them needs on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Time between two looks at something that tells nobody when it changes.
const LOOK_AGAIN: Duration = Duration::from_millis(4);

/// Looks until `look` finds something; fails with what it said last.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) if began.elapsed() > PATIENCE => {
                panic!("waited {PATIENCE:?} for {what}; instead: {instead}")
            }
            Err(_) => thread::sleep(LOOK_AGAIN),
        }
    }
}

/// `Ok` for what is there, and for what is not, the whole of what is.
pub fn there<T>(found: Option<T>, instead: &(impl Debug + ?Sized)) -> Result<T, String> {
    found.ok_or_else(|| format!("{instead:#?}"))
}
