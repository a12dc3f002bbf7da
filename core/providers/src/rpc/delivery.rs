//! Events on their way to the ledger, of bounded weight however much an agent says at once.

use super::budget::written;
use crate::contract::{EventSender, RuntimeEvents};
use pilothouse_domain::ProviderEvent;

/// Bytes of a batch that waits among others; a heavier one has the way for itself.
pub(crate) const LIGHT: usize = 1024 * 1024;

/// Bytes of an event.
pub(crate) fn weight(event: &ProviderEvent) -> usize {
    written(&event.kind)
}

/// Hands a batch of that weight over, as soon as there is room. Where nobody listens any more, it is thrown away.
pub(crate) async fn deliver(sender: &EventSender, batch: RuntimeEvents, weight: usize) {
    let room = match weight {
        ..=LIGHT => 1,
        _ => sender.max_capacity(),
    };
    if let Ok(mut room) = sender.reserve_many(room).await
        && let Some(place) = room.next()
    {
        place.send(batch);
    }
}
