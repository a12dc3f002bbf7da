//! What opencode can do as measured (docs/agents-probes.md, section 9).

use crate::rpc::facts;
use pilothouse_domain::Capabilities;
use serde_json::Value;
use std::sync::OnceLock;

/// The version on which the profile was measured.
pub const MEASURED_VERSION: &str = "1.18.33";

fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(include_str!("profile.json")).unwrap_or_default())
}

/// The family's capabilities, which no handshake changes.
pub fn capabilities() -> Capabilities {
    let mut known = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    let measured_at = table()["observed_at"].as_str().unwrap_or_default();
    facts::learn(&mut known, &table()["facts"], MEASURED_VERSION, measured_at);
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_the_profile_names_a_known_flag_and_a_known_value() {
        let facts = table()["facts"].as_object().unwrap();
        assert_eq!(capabilities().facts.len(), facts.len());
        assert_eq!(table()["version"], MEASURED_VERSION);
    }
}
