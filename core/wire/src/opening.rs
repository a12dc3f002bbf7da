//! The first messages of a connection: pairing, or hello and welcome.
//!
//! A host reads one [`Opening`] from every connection. From a key it does not know it accepts `pair` and nothing else;
//! with a `pair` it asks its [`crate::pairing::PairingSecrets`], answers `paired` or `bye`, and closes either way: the
//! paired device dials anew and says `hello`.

use crate::{
    connect::{ConnectError, Connector},
    duplex::{Close, CloseCode, DuplexError},
    message::{
        ByeReason, DecodeError, DeviceMessage, Hello, HostMessage, Incoming, Message, Outgoing,
        Pair, Paired, ReceiveError, SendError,
    },
    offer::PairingOffer,
    pairing::{PairingProof, PairingRefusal},
    tls::ChannelBinding,
    websocket::Established,
};
use std::time::Duration;
use tokio::time::timeout;

/// Time for the first message of a connection, and for its answer.
pub const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// Characters of a name that a device gives itself; more are cut by [`read_opening`].
pub const NAME_CHARS: usize = 80;

/// Both halves of a connection as a host uses it.
pub type HostEnds = (Outgoing<HostMessage>, Incoming<DeviceMessage>);
/// Both halves of a connection as a device uses it.
pub type DeviceEnds = (Outgoing<DeviceMessage>, Incoming<HostMessage>);

impl Established {
    /// Takes the connection apart for a host.
    pub fn host_ends(self) -> HostEnds {
        let (sender, receiver) = self.duplex.split();
        (Outgoing::new(sender), Incoming::new(receiver))
    }

    /// Takes the connection apart for a device.
    pub fn device_ends(self) -> DeviceEnds {
        let (sender, receiver) = self.duplex.split();
        (Outgoing::new(sender), Incoming::new(receiver))
    }
}

/// How a device opens a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// As a paired one.
    Hello(Hello),
    /// As one that wants to be.
    Pair(Pair),
}

/// Why a connection did not open. [`OpeningError::bye`] says what to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// No message in time.
    #[error("the device said nothing for {} s", OPENING_TIMEOUT.as_secs())]
    Timeout,
    /// A key that is not paired sent something else than `pair`.
    #[error("a device that is not paired sent `{0}`")]
    NotPaired(String),
    /// A paired device sent something else than `hello`.
    #[error("a device began with `{0}` instead of `hello`")]
    Unexpected(String),
    /// A frame that is no message.
    #[error(transparent)]
    Decode(DecodeError),
    /// The connection ended.
    #[error(transparent)]
    Ended(DuplexError),
}

impl OpeningError {
    /// What to tell the device, if it still listens.
    pub fn bye(&self) -> Option<ByeReason> {
        match self {
            Self::Timeout => Some(ByeReason::Silent),
            Self::NotPaired(_) => Some(ByeReason::Unauthorised),
            Self::Unexpected(_) | Self::Decode(_) => Some(ByeReason::Protocol {
                problem: self.to_string(),
            }),
            Self::Ended(_) => None,
        }
    }
}

/// Reads a device's first message, at most [`OPENING_TIMEOUT`]. `known` says whether its key is paired: if not, only
/// one well-formed `pair` is accepted. Names are trimmed, freed of control characters and cut to [`NAME_CHARS`].
///
/// # Errors
/// [`OpeningError`]; answer with its [`OpeningError::bye`] by [`say_bye`].
pub async fn read_opening(
    incoming: &mut Incoming<DeviceMessage>,
    known: bool,
) -> Result<Opening, OpeningError> {
    let first = match timeout(OPENING_TIMEOUT, incoming.receive()).await {
        Err(_) | Ok(Err(ReceiveError::Silent)) => return Err(OpeningError::Timeout),
        Ok(Err(ReceiveError::Duplex(error))) => return Err(OpeningError::Ended(error)),
        Ok(Err(ReceiveError::Decode(error))) if known => return Err(OpeningError::Decode(error)),
        Ok(Err(ReceiveError::Decode(_))) => {
            return Err(OpeningError::NotPaired("something unreadable".to_owned()));
        }
        Ok(Ok(message)) => message,
    };
    match first {
        DeviceMessage::Pair(pair) => Ok(Opening::Pair(Pair {
            device_name: plain_name(&pair.device_name),
            platform: plain_name(&pair.platform),
            ..pair
        })),
        DeviceMessage::Hello(hello) if known => Ok(Opening::Hello(Hello {
            device_name: plain_name(&hello.device_name),
            ..hello
        })),
        other if known => Err(OpeningError::Unexpected(other.type_name().to_owned())),
        other => Err(OpeningError::NotPaired(other.type_name().to_owned())),
    }
}

/// A name as it may be shown: no control or direction characters, at most [`NAME_CHARS`].
fn plain_name(name: &str) -> String {
    let shown = |c: &char| {
        !c.is_control()
            && !matches!(*c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let plain: String = name.trim().chars().filter(shown).take(NAME_CHARS).collect();
    if plain.is_empty() {
        "unnamed".to_owned()
    } else {
        plain
    }
}

/// Tells a device why, and closes. Failing is of no interest: the device may be gone.
pub async fn say_bye(outgoing: &mut Outgoing<HostMessage>, reason: ByeReason) {
    let code = match &reason {
        ByeReason::Shutdown | ByeReason::Done => CloseCode::GoingAway,
        ByeReason::Protocol { .. } => CloseCode::Protocol,
        _ => CloseCode::Policy,
    };
    let close = Close::new(code, reason.to_string());
    let farewell = async {
        let _ = outgoing.send(&HostMessage::Bye { reason }).await;
        let _ = outgoing.frames().close(close).await;
    };
    let _ = timeout(Duration::from_secs(2), farewell).await;
}

/// Answers a `pair` and closes.
pub async fn answer_pair(
    outgoing: &mut Outgoing<HostMessage>,
    answer: Result<Paired, PairingRefusal>,
) {
    match answer {
        Err(refusal) => say_bye(outgoing, ByeReason::Pairing { refusal }).await,
        Ok(paired) => {
            let farewell = async {
                let _ = outgoing.send(&HostMessage::Paired(paired)).await;
                let _ = outgoing
                    .frames()
                    .close(Close::new(CloseCode::Normal, "paired"))
                    .await;
            };
            let _ = timeout(Duration::from_secs(2), farewell).await;
        }
    }
}

/// Why a device could not pair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The host was not reached, or another one answered.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The host said no.
    #[error(transparent)]
    Refused(#[from] PairingRefusal),
    /// The host ended the connection for another reason.
    #[error("the host ended the pairing: {0}")]
    Bye(ByeReason),
    /// The message could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The host's answer did not come or was not understood.
    #[error("the host gave no answer to the pairing ({0}); look at the host, and try again")]
    NoAnswer(String),
    /// The host that answered has the right key but another id than the offer.
    #[error("the host gave itself another id than its pairing code; make a new code on the host")]
    OtherHost,
}

/// The message that asks to be paired over this connection.
pub fn pair_message(
    offer: &PairingOffer,
    binding: &ChannelBinding,
    connector: &Connector,
    device_name: &str,
    platform: &str,
) -> DeviceMessage {
    DeviceMessage::Pair(Pair {
        proof: PairingProof::make(&offer.secret, binding, &connector.device().public_key()),
        device_name: device_name.to_owned(),
        platform: platform.to_owned(),
    })
}

/// A device's whole pairing: dials the offer's addresses, proves the secret, reads the answer. `connector` must have
/// the offer's pin. Waits up to two minutes, for a host whose person is asked. Returns the answer and the address that
/// worked.
///
/// # Errors
/// [`PairError`]; the offer may be used up or not, a second try with it is harmless.
pub async fn pair(
    connector: &Connector,
    offer: &PairingOffer,
    device_name: &str,
    platform: &str,
) -> Result<(Paired, String), PairError> {
    let connection = connector.connect(&offer.addresses).await?;
    let address = connection.address.clone();
    let message = pair_message(offer, &connection.binding, connector, device_name, platform);
    let (mut outgoing, mut incoming) = connection.device_ends();
    outgoing.send(&message).await?;
    let answer = timeout(Duration::from_secs(120), incoming.receive()).await;
    let _ = outgoing
        .frames()
        .close(Close::new(CloseCode::Normal, "pairing is over"))
        .await;
    match answer {
        Ok(Ok(HostMessage::Paired(paired))) if paired.host_id == offer.host_id => {
            Ok((paired, address))
        }
        Ok(Ok(HostMessage::Paired(_))) => Err(PairError::OtherHost),
        Ok(Ok(HostMessage::Bye {
            reason: ByeReason::Pairing { refusal },
        })) => Err(PairError::Refused(refusal)),
        Ok(Ok(HostMessage::Bye { reason })) => Err(PairError::Bye(reason)),
        Ok(Ok(other)) => Err(PairError::NoAnswer(format!(
            "it sent `{}`",
            other.type_name()
        ))),
        Ok(Err(error)) => Err(PairError::NoAnswer(error.to_string())),
        Err(_) => Err(PairError::NoAnswer("no answer in 2 minutes".to_owned())),
    }
}
