//! How a link gets a connection.

use crate::{
    connect::{ConnectError, Connector},
    duplex::{BoxFuture, Duplex},
};
use std::sync::{Mutex, PoisonError};

/// A fresh connection to the right host: its key is proven.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub duplex: Box<dyn Duplex>,
    /// Where it leads, for people.
    pub address: String,
}

/// Gets connections to one host.
pub trait Dialer: Send + Sync {
    /// One attempt, over all ways there are, with its own timeouts. May be dropped in the middle.
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, ConnectError>>;
}

/// Dials a host's addresses over WSS, the one that worked last first.
#[derive(Debug)]
pub struct HostDialer {
    connector: Connector,
    addresses: Mutex<Vec<String>>,
}

impl HostDialer {
    /// Dials these addresses (`host:port`), best first.
    pub fn new(connector: Connector, addresses: Vec<String>) -> Self {
        Self {
            connector,
            addresses: Mutex::new(addresses),
        }
    }

    /// The addresses in the order in which they will be tried.
    pub fn addresses(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn prefer(&self, address: &str) {
        let mut addresses = self.lock();
        if let Some(index) = addresses.iter().position(|known| known == address) {
            addresses[..=index].rotate_right(1);
        }
    }
}

impl Dialer for HostDialer {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, ConnectError>> {
        Box::pin(async move {
            let established = self.connector.connect(&self.addresses()).await?;
            self.prefer(&established.address);
            Ok(Dialled {
                duplex: established.duplex,
                address: established.address,
            })
        })
    }
}
