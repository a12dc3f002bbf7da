//! The families that this build knows.

use crate::{acp::AcpAdapter, codex::CodexAdapter, contract::ProviderAdapter};
use std::sync::Arc;

/// All families, by their name in host.toml's `protocol`.
pub fn families() -> Vec<Arc<dyn ProviderAdapter>> {
    vec![Arc::new(CodexAdapter::new()), Arc::new(AcpAdapter::new())]
}

/// The family of that name.
pub fn family(name: &str) -> Option<Arc<dyn ProviderAdapter>> {
    families()
        .into_iter()
        .find(|adapter| adapter.family() == name)
}
