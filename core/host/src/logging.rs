//! Log lines on stderr. Never parameters, environments, headers or secrets: types that hold one hide it in `Debug`.

use tracing_subscriber::EnvFilter;

/// The variable that says what is logged, e.g. `debug`, or `pilothouse_ledger=trace`.
pub const VARIABLE: &str = "PILOTHOUSE_LOG";

/// Starts logging: for a daemon what a person wants to know, otherwise warnings.
pub fn start(daemon: bool) {
    let usual = if daemon {
        "warn,pilothouse_host=info,pilothouse_ledger=info,pilothouse_serve=info,pilothouse_wire=info"
    } else {
        "warn"
    };
    let named = std::env::var(VARIABLE).unwrap_or_default();
    let filter = match EnvFilter::try_new(if named.is_empty() { usual } else { &named }) {
        Ok(filter) => filter,
        Err(_) => EnvFilter::new(usual),
    };
    // Fails only if logging was started before, as in tests.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}
