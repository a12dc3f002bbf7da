//! What opencode can do as measured (docs/agents-probes.md, section 9).

use crate::rpc::facts;
use pilothouse_domain::Capabilities;

/// The version on which the profile was measured.
pub const MEASURED_VERSION: &str = "1.18.33";
/// When.
pub const MEASURED_AT: &str = "2026-12-01";

/// The family's capabilities, which no handshake changes.
pub fn capabilities() -> Capabilities {
    facts::measured(include_str!("profile.json"), MEASURED_VERSION, MEASURED_AT)
}
