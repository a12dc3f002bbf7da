//! The pairing offer: what a host shows as a QR code and as text, so that a device knows whom to trust.
//!
//! Text form: `pilothouse:pair?` and base64url over version, fields and a checksum, about 200 characters. A custom
//! scheme, so that no browser and no server ever sees it. The checksum finds typing and copying errors; it is no
//! protection, the secret inside is.

use crate::identity::SpkiHash;
use base64::{DecodeError, Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pilothouse_domain::HostId;
use std::{fmt, net::SocketAddr};

/// What every offer begins with.
pub const OFFER_PREFIX: &str = "pilothouse:pair?";
/// The form of offer that is written.
pub const OFFER_VERSION: u8 = 1;
/// Addresses that one offer can hold.
pub const OFFER_ADDRESSES: usize = 8;
/// Bytes of a host name or of an address in an offer.
pub const OFFER_TEXT: usize = 200;

const CHECKSUM: usize = 4;
const TAG_TEXT: u8 = 0;
const TAG_V4: u8 = 4;
const TAG_V6: u8 = 6;

/// The one-time secret of an offer, 128 bits. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingSecret([u8; 16]);

impl PairingSecret {
    /// Wraps 16 random bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A fresh one from the system's randomness.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn random() -> Result<Self, std::io::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes))
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for PairingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingSecret(secret)")
    }
}

/// Everything a device needs to find a host, to know it for certain, and to be let in once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingOffer {
    /// Form of the offer; [`OFFER_VERSION`] here.
    pub version: u8,
    /// The host.
    pub host_id: HostId,
    /// What the host calls itself, at most [`OFFER_TEXT`] bytes.
    pub host_name: String,
    /// `host:port`, best first; 1 to [`OFFER_ADDRESSES`].
    pub addresses: Vec<String>,
    /// The host's key.
    pub spki_sha256: SpkiHash,
    /// Proves that the device saw the offer.
    pub secret: PairingSecret,
    /// Host time in ms after which the host refuses the secret.
    pub expires_at_ms: u64,
}

/// Why an offer cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferWriteError {
    /// No address, or too many.
    #[error(
        "an offer holds 1 to {OFFER_ADDRESSES} addresses, not {0}; name the ones a phone can reach"
    )]
    Addresses(usize),
    /// A text that is too long or empty.
    #[error("`{0}` is empty or longer than {OFFER_TEXT} bytes and cannot stand in an offer")]
    Text(String),
}

/// What is wrong with a text that should be an offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferParseError {
    /// Something else altogether.
    #[error("this is not a pairing code: it has to begin with `{OFFER_PREFIX}`")]
    NotAnOffer,
    /// A character that no code has.
    #[error(
        "`{character}` at position {position} cannot stand in a pairing code; a character was mistyped there"
    )]
    Character {
        /// The character.
        character: char,
        /// Position in the text without white space, from 1.
        position: usize,
    },
    /// Too short, or cut in the middle.
    #[error("the pairing code is not complete: copy all of it, to the last character")]
    Incomplete,
    /// The checksum does not fit.
    #[error(
        "the pairing code has a typing error: a character is wrong, missing or doubled; scan or copy it again"
    )]
    Checksum,
    /// Made by a newer host.
    #[error("the pairing code has version {found}, this app knows {OFFER_VERSION}; update the app")]
    Version {
        /// The version found.
        found: u8,
    },
    /// Undamaged, yet not in the form that its version asks for.
    #[error("the pairing code was made wrongly ({0}); update the host and make a new one")]
    Malformed(&'static str),
}

impl PairingOffer {
    /// The text form, for the QR code and for copying.
    ///
    /// # Errors
    /// [`OfferWriteError`] for a field out of bounds.
    pub fn to_text(&self) -> Result<String, OfferWriteError> {
        if !(1..=OFFER_ADDRESSES).contains(&self.addresses.len()) {
            return Err(OfferWriteError::Addresses(self.addresses.len()));
        }
        let mut body = vec![OFFER_VERSION];
        body.extend_from_slice(self.host_id.as_bytes());
        body.extend_from_slice(self.spki_sha256.as_bytes());
        body.extend_from_slice(self.secret.as_bytes());
        body.extend_from_slice(&self.expires_at_ms.to_be_bytes());
        put_text(&mut body, &self.host_name)?;
        for address in &self.addresses {
            put_address(&mut body, address)?;
        }
        let sum = checksum(&body);
        body.extend_from_slice(&sum);
        Ok(format!("{OFFER_PREFIX}{}", URL_SAFE_NO_PAD.encode(body)))
    }

    /// Reads the text form. White space and line breaks, as terminals and mails put them in, are ignored.
    ///
    /// # Errors
    /// [`OfferParseError`] says what is wrong, in words for the person who typed or scanned it.
    pub fn parse(text: &str) -> Result<Self, OfferParseError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let encoded = match text.get(..OFFER_PREFIX.len()) {
            Some(prefix) if prefix.eq_ignore_ascii_case(OFFER_PREFIX) => {
                &text[OFFER_PREFIX.len()..]
            }
            _ => return Err(OfferParseError::NotAnOffer),
        };
        if let Some((index, character)) = encoded.char_indices().find(|(_, c)| !is_base64url(*c)) {
            return Err(OfferParseError::Character {
                character,
                position: OFFER_PREFIX.len() + index + 1,
            });
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(encoded)
            .map_err(|error| match error {
                DecodeError::InvalidLength(_) => OfferParseError::Incomplete,
                _ => OfferParseError::Checksum,
            })?;
        let Some((body, sum)) = bytes.split_last_chunk::<CHECKSUM>() else {
            return Err(OfferParseError::Incomplete);
        };
        if checksum(body) != *sum {
            return Err(OfferParseError::Checksum);
        }
        let mut reader = Reader(body);
        let version = reader.take::<1>()?[0];
        if version != OFFER_VERSION {
            return Err(OfferParseError::Version { found: version });
        }
        let offer = PairingOffer {
            version,
            host_id: HostId::from_bytes(reader.take()?),
            spki_sha256: SpkiHash::from_bytes(reader.take()?),
            secret: PairingSecret(reader.take()?),
            expires_at_ms: u64::from_be_bytes(reader.take()?),
            host_name: reader.text()?,
            addresses: reader.addresses()?,
        };
        Ok(offer)
    }
}

fn is_base64url(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    let hash = pilothouse_domain::hash::sha256(body);
    [hash[0], hash[1], hash[2], hash[3]]
}

fn put_text(body: &mut Vec<u8>, text: &str) -> Result<(), OfferWriteError> {
    match u8::try_from(text.len()) {
        Ok(len) if usize::from(len) <= OFFER_TEXT && len > 0 => {
            body.push(len);
            body.extend_from_slice(text.as_bytes());
            Ok(())
        }
        _ => Err(OfferWriteError::Text(text.chars().take(80).collect())),
    }
}

/// IP addresses take 7 or 19 bytes instead of up to 47: a smaller QR code is read from farther away.
fn put_address(body: &mut Vec<u8>, address: &str) -> Result<(), OfferWriteError> {
    match address.parse::<SocketAddr>() {
        Ok(SocketAddr::V4(v4)) if v4.to_string() == address => {
            body.push(TAG_V4);
            body.extend_from_slice(&v4.ip().octets());
            body.extend_from_slice(&v4.port().to_be_bytes());
            Ok(())
        }
        Ok(SocketAddr::V6(v6)) if v6.to_string() == address && v6.scope_id() == 0 => {
            body.push(TAG_V6);
            body.extend_from_slice(&v6.ip().octets());
            body.extend_from_slice(&v6.port().to_be_bytes());
            Ok(())
        }
        _ => {
            body.push(TAG_TEXT);
            put_text(body, address)
        }
    }
}

struct Reader<'a>(&'a [u8]);

const ENDS_EARLY: OfferParseError = OfferParseError::Malformed("it ends in the middle of a field");

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], OfferParseError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(ENDS_EARLY)?;
        self.0 = rest;
        Ok(*head)
    }

    fn text(&mut self) -> Result<String, OfferParseError> {
        let len = usize::from(self.take::<1>()?[0]);
        if len == 0 || len > OFFER_TEXT {
            return Err(OfferParseError::Malformed("a text is empty or too long"));
        }
        let (head, rest) = self.0.split_at_checked(len).ok_or(ENDS_EARLY)?;
        self.0 = rest;
        String::from_utf8(head.to_vec())
            .map_err(|_| OfferParseError::Malformed("a text is not UTF-8"))
    }

    fn addresses(&mut self) -> Result<Vec<String>, OfferParseError> {
        let mut addresses = Vec::new();
        while !self.0.is_empty() {
            if addresses.len() == OFFER_ADDRESSES {
                return Err(OfferParseError::Malformed("it holds too many addresses"));
            }
            addresses.push(match self.take::<1>()?[0] {
                TAG_V4 => {
                    let ip = std::net::Ipv4Addr::from(self.take::<4>()?);
                    SocketAddr::from((ip, u16::from_be_bytes(self.take()?))).to_string()
                }
                TAG_V6 => {
                    let ip = std::net::Ipv6Addr::from(self.take::<16>()?);
                    SocketAddr::from((ip, u16::from_be_bytes(self.take()?))).to_string()
                }
                TAG_TEXT => self.text()?,
                _ => {
                    return Err(OfferParseError::Malformed(
                        "it holds an unknown kind of address",
                    ));
                }
            });
        }
        if addresses.is_empty() {
            return Err(OfferParseError::Malformed("it holds no address"));
        }
        Ok(addresses)
    }
}
