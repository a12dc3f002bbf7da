//! A device's end of the WebSocket: dials a list of addresses and accepts exactly one host.

use crate::{
    identity::{DeviceIdentity, DeviceKeyError, IdentityError, SpkiHash},
    tls::{self, WrongHostKey},
    websocket::{Established, PATH, WebSocketDuplex, dial_tcp, limits, tls_cause},
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use rustls::pki_types::{DnsName, ServerName};
use std::{fmt, io, time::Duration};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite;

/// Time for one address: TCP, TLS and the upgrade.
pub const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Head start of each address before the next is tried as well.
const STAGGER: Duration = Duration::from_millis(400);

/// Dials one host. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    device: DeviceIdentity,
    pin: SpkiHash,
}

impl Connector {
    /// A connector for this device to the host with this key.
    ///
    /// # Errors
    /// [`IdentityError::Tls`] if rustls does not take the key.
    pub fn new(device: &DeviceIdentity, pin: SpkiHash) -> Result<Self, IdentityError> {
        Ok(Self {
            tls: TlsConnector::from(tls::client_config(device, pin)?),
            device: device.clone(),
            pin,
        })
    }

    /// The device that dials.
    pub fn device(&self) -> &DeviceIdentity {
        &self.device
    }

    /// The key that the host must have.
    pub fn pin(&self) -> SpkiHash {
        self.pin
    }

    /// Tries `addresses` (`host:port`, the one that worked last first): each starts when the one before it has failed
    /// or has had 400 ms; the first that gets through TLS and the upgrade wins, the others are dropped.
    /// [`Established::address`] says which one it was.
    ///
    /// # Errors
    /// [`ConnectError`] with what happened at each address.
    pub async fn connect(&self, addresses: &[String]) -> Result<Established, ConnectError> {
        let mut waiting = addresses.iter();
        let mut running = FuturesUnordered::new();
        let mut failures = Vec::new();
        loop {
            if running.is_empty() {
                match waiting.next() {
                    Some(address) => running.push(self.attempt(address)),
                    None => return Err(ConnectError { failures }),
                }
            }
            let more = waiting.len() > 0;
            tokio::select! {
                Some(result) = running.next() => match result {
                    Ok(established) => return Ok(established),
                    Err(failure) => {
                        failures.push(failure);
                        if let Some(address) = waiting.next() {
                            running.push(self.attempt(address));
                        }
                    }
                },
                () = sleep(STAGGER), if more => {
                    if let Some(address) = waiting.next() {
                        running.push(self.attempt(address));
                    }
                }
            }
        }
    }

    async fn attempt(&self, address: &str) -> Result<Established, AddressFailure> {
        let result = match timeout(ADDRESS_TIMEOUT, self.dial(address)).await {
            Ok(result) => result,
            Err(_) => Err(AttemptError::Timeout),
        };
        result.map_err(|error| AddressFailure {
            address: address.to_owned(),
            error,
        })
    }

    async fn dial(&self, address: &str) -> Result<Established, AttemptError> {
        let stream = dial_tcp(address).await.map_err(AttemptError::from_tcp)?;
        // The name is not checked and not sent; TLS only wants one.
        let name = DnsName::try_from("pilothouse.invalid")
            .map_err(|e| AttemptError::Tls(e.to_string()))?;
        let stream = self
            .tls
            .connect(ServerName::DnsName(name), stream)
            .await
            .map_err(|e| AttemptError::from_tls(&e))?;
        let facts =
            tls::peer_facts(stream.get_ref().1).map_err(|e| AttemptError::Tls(e.to_string()))?;
        let url = format!("wss://{address}{PATH}");
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(limits()))
            .await
            .map_err(AttemptError::from_upgrade)?;
        Ok(Established {
            peer: facts.key,
            binding: facts.binding,
            address: address.to_owned(),
            duplex: Box::new(WebSocketDuplex(socket)),
        })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Connector({} to {})",
            self.device.spki_sha256(),
            self.pin
        )
    }
}

/// No address led to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// What happened at each address, in the order of failing.
    pub failures: Vec<AddressFailure>,
}

impl ConnectError {
    /// The failure that tells a person most: a wrong key before a refusal before silence.
    pub fn most_telling(&self) -> Option<&AddressFailure> {
        self.failures
            .iter()
            .min_by_key(|failure| failure.error.rank())
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return f.write_str("the host has no address; pair again, or add one");
        }
        f.write_str("the host could not be reached: ")?;
        for (index, failure) in self.failures.iter().enumerate() {
            write!(f, "{}{failure}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectError {}

/// What happened at one address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {error}")]
pub struct AddressFailure {
    /// The address as it was given.
    pub address: String,
    /// Why it did not work.
    pub error: AttemptError,
}

/// Why one address did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError {
    /// Another key than the pinned one.
    #[error(transparent)]
    WrongHost(#[from] WrongHostKey),
    /// This device's key cannot sign.
    #[error(transparent)]
    DeviceKey(#[from] DeviceKeyError),
    /// The host refused the upgrade, e.g. because it does not know the name under which it was asked.
    #[error(
        "the host answered {status}; check the address, and the names in the host's configuration"
    )]
    Refused {
        /// HTTP status.
        status: u16,
    },
    /// TLS failed otherwise.
    #[error("TLS failed ({0}); is this a Pilothouse host?")]
    Tls(String),
    /// The upgrade failed otherwise.
    #[error("the connection was opened, but no WebSocket ({0}); is this a Pilothouse host?")]
    Upgrade(String),
    /// The name, route or port does not lead anywhere.
    #[error("not reachable ({0}); is the host running, and is this its network?")]
    Unreachable(String),
    /// No answer.
    #[error("no answer within {} s; is the host awake, and is this its network?", ADDRESS_TIMEOUT.as_secs())]
    Timeout,
}

impl AttemptError {
    fn rank(&self) -> u8 {
        match self {
            AttemptError::WrongHost(_) => 0,
            AttemptError::DeviceKey(_) => 1,
            AttemptError::Refused { .. } => 2,
            AttemptError::Tls(_) => 3,
            AttemptError::Upgrade(_) => 4,
            AttemptError::Unreachable(_) => 5,
            AttemptError::Timeout => 6,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "the shape that map_err wants"
    )]
    fn from_tcp(error: io::Error) -> Self {
        AttemptError::Unreachable(error.to_string())
    }

    fn from_tls(error: &io::Error) -> Self {
        if let Some(wrong) = tls_cause::<WrongHostKey>(error) {
            return AttemptError::WrongHost(wrong);
        }
        if let Some(key) = tls_cause::<DeviceKeyError>(error) {
            return AttemptError::DeviceKey(key);
        }
        AttemptError::Tls(error.to_string())
    }

    fn from_upgrade(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Http(response) => AttemptError::Refused {
                status: response.status().as_u16(),
            },
            other => AttemptError::Upgrade(other.to_string()),
        }
    }
}
