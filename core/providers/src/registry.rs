//! The families that this build knows.

use crate::{
    acp::AcpAdapter, claude::ClaudeAdapter, codex::CodexAdapter, contract::ProviderAdapter,
    opencode::OpencodeAdapter, pi::PiAdapter, replay::ReplayAdapter,
};
use std::sync::Arc;

/// The name of recordings in host.toml's `protocol`.
pub const REPLAY: &str = "replay";

/// All families, by their name in host.toml's `protocol`.
pub fn families() -> Vec<Arc<dyn ProviderAdapter>> {
    vec![
        Arc::new(CodexAdapter::new()),
        Arc::new(AcpAdapter::new()),
        Arc::new(ClaudeAdapter::new()),
        Arc::new(PiAdapter::new()),
        Arc::new(OpencodeAdapter::new()),
    ]
}

/// The family of that name.
pub fn family(name: &str) -> Option<Arc<dyn ProviderAdapter>> {
    families()
        .into_iter()
        .find(|adapter| adapter.family() == name)
}

/// The adapter of an agent as host.toml names it. A recording's depends on what was recorded.
pub fn adapter(protocol: &str, command: &[String]) -> Option<Arc<dyn ProviderAdapter>> {
    match protocol {
        REPLAY => Some(Arc::new(ReplayAdapter::new(command))),
        protocol => family(protocol),
    }
}
