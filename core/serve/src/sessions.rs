//! Which devices are connected, and how to end their connections.

use pilothouse_domain::DeviceId;
use pilothouse_wire::message::ByeReason;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// All open connections of paired devices: at most one per device.
#[derive(Default)]
pub struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    open: BTreeMap<DeviceId, Open>,
    /// When devices were here last: at most one time for each that is paired.
    left: BTreeMap<DeviceId, Instant>,
    next: u64,
    /// Set when the host stops: whoever comes later is sent away at once.
    closing: bool,
}

struct Open {
    number: u64,
    end: oneshot::Sender<ByeReason>,
}

/// An open connection's place in the list, left when dropped.
pub struct Place {
    sessions: Arc<Sessions>,
    device: DeviceId,
    number: u64,
}

impl Sessions {
    /// Enters a connection; an older one of the same device is ended. The receiver fires when this one is to end.
    pub fn enter(self: &Arc<Self>, device: DeviceId) -> (Place, oneshot::Receiver<ByeReason>) {
        let (end, ended) = oneshot::channel();
        let mut inner = self.lock();
        inner.next += 1;
        let number = inner.next;
        if inner.closing {
            let _ = end.send(ByeReason::Shutdown);
        } else if let Some(older) = inner.open.insert(device, Open { number, end }) {
            let _ = older.end.send(ByeReason::Replaced);
        }
        (
            Place {
                sessions: self.clone(),
                device,
                number,
            },
            ended,
        )
    }

    /// Ends a device's connection, if it has one.
    pub fn end(&self, device: DeviceId, reason: ByeReason) {
        if let Some(open) = self.lock().open.remove(&device) {
            let _ = open.end.send(reason);
        }
    }

    /// Ends all connections and lets no new one in.
    pub fn end_all(&self, reason: &ByeReason) {
        let mut inner = self.lock();
        inner.closing = true;
        for (_, open) in std::mem::take(&mut inner.open) {
            let _ = open.end.send(reason.clone());
        }
    }

    /// The devices that are connected.
    pub fn connected(&self) -> Vec<DeviceId> {
        self.lock().open.keys().copied().collect()
    }

    /// How long ago a device left, if it was here since the host was started.
    pub fn left(&self, device: DeviceId) -> Option<Duration> {
        self.lock().left.get(&device).map(Instant::elapsed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.sessions.lock();
        inner.left.insert(self.device, Instant::now());
        if inner
            .open
            .get(&self.device)
            .is_some_and(|open| open.number == self.number)
        {
            inner.open.remove(&self.device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 16])
    }

    #[test]
    fn a_device_that_connects_anew_ends_its_older_connection_and_no_other() {
        let sessions = Arc::new(Sessions::default());
        let (first, mut first_end) = sessions.enter(device(1));
        let (_other, mut other_end) = sessions.enter(device(2));
        let (_second, mut second_end) = sessions.enter(device(1));
        assert_eq!(first_end.try_recv(), Ok(ByeReason::Replaced));
        assert!(second_end.try_recv().is_err() && other_end.try_recv().is_err());
        drop(first);
        assert_eq!(
            sessions.connected(),
            [device(1), device(2)],
            "an old place does not take the new one's"
        );
    }

    #[test]
    fn whoever_comes_while_the_host_stops_is_sent_away() {
        let sessions = Arc::new(Sessions::default());
        let (_first, mut first_end) = sessions.enter(device(1));
        sessions.end_all(&ByeReason::Shutdown);
        let (_second, mut second_end) = sessions.enter(device(2));
        assert_eq!(first_end.try_recv(), Ok(ByeReason::Shutdown));
        assert_eq!(second_end.try_recv(), Ok(ByeReason::Shutdown));
        assert!(sessions.connected().is_empty());
    }
}
