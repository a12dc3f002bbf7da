//! Waiting for what another process does.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long a wait may take before the test fails: many times what any of them needs on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

static PATIENCE_MS: AtomicU64 = AtomicU64::new(0);

/// How long a wait may take in this process: [`PATIENCE`], unless it is less patient.
pub fn patience() -> Duration {
    match PATIENCE_MS.load(Ordering::Relaxed) {
        0 => PATIENCE,
        ms => Duration::from_millis(ms),
    }
}

/// Makes this process less patient: where many steps wait, and one that waits in vain is only one of them.
pub fn wait_at_most(patience: Duration) {
    let ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    PATIENCE_MS.store(ms, Ordering::Relaxed);
}

/// Time between two looks at something that tells nobody when it changes.
const LOOK_AGAIN: Duration = Duration::from_millis(4);

/// Looks until `look` finds something; fails with what it said last.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let (began, patience) = (Instant::now(), patience());
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) if began.elapsed() > patience => {
                panic!("waited {patience:?} for {what}; instead: {instead}")
            }
            Err(_) => thread::sleep(LOOK_AGAIN),
        }
    }
}

/// `Ok` for what is there, and for what is not, the whole of what is.
pub fn there<T>(found: Option<T>, instead: &(impl Debug + ?Sized)) -> Result<T, String> {
    found.ok_or_else(|| format!("{instead:#?}"))
}
