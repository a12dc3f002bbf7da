//! What a runtime told, read in order: shared by the stages of all families.

use crate::support::PATIENCE;
use pilothouse_domain::{ProviderEvent, ProviderEventKind, provider::TurnStatus, run::RunError};
use pilothouse_providers::contract::RuntimeEvents;
use tokio::sync::mpsc;

/// The next event after place `next` of what was `seen` that `wanted` gives something for; those before it are looked at once.
pub(crate) async fn until<T>(
    events: &mut mpsc::Receiver<RuntimeEvents>,
    seen: &mut Vec<ProviderEvent>,
    next: &mut usize,
    what: &str,
    wanted: impl Fn(&ProviderEvent) -> Option<T>,
) -> T {
    let outcome = tokio::time::timeout(PATIENCE, async {
        loop {
            while *next < seen.len() {
                *next += 1;
                if let Some(found) = wanted(&seen[*next - 1]) {
                    return Some(found);
                }
            }
            seen.extend(events.recv().await?.events);
        }
    })
    .await;
    match outcome {
        Ok(Some(found)) => found,
        Ok(None) => panic!("the events ended before {what}: {seen:#?}"),
        Err(_) => panic!("{what} did not come: {seen:#?}"),
    }
}

/// How a turn ended, of the event that says so.
pub(crate) fn turn_end(event: &ProviderEvent) -> Option<(TurnStatus, Option<RunError>)> {
    match &event.kind {
        ProviderEventKind::TurnEnded { status, error } => Some((*status, error.clone())),
        _ => None,
    }
}
