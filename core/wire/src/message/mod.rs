//! Messages: JSON objects with a `type`, one per text frame, frozen since version 0.1.0. How a text frame
//! travels is the connection's [`crate::stream`].
//!
//! Within a protocol version messages only grow: unknown fields are ignored, an unknown type is
//! [`DecodeError::Unknown`], which a host answers with `error` and a device skips. An unknown or malformed *command* is
//! never ignored: [`DecodeError::Command`] carries the refusal with which the host answers it. What a device cannot read of
//! its host's answers is [`DecodeError::Part`]: an error about that subscription, query or command, and nothing else.

mod blob;
mod device;
mod host;
mod paging;
mod query;

pub use device::{DeviceMessage, HELD_FOR_SIGN_IN, Hello, KNOWN_WORDS, Pair, SubId};
pub use host::{ByeReason, ErrorAbout, ErrorCode, HostMessage, Limits, Paired, Welcome, WireError};
pub use paging::{PAGE_BYTES, entries_in_pages, feed_in_pages, subscribed_in_pages};
pub use query::{
    AgentInfo, AgentReadiness, BLOB_CHUNK, Base64, BlobChunk, CheckOutcome, DoctorCheck,
    DoctorReport, OlderItems, Query, QueryAnswer, QueryResult, WorkspaceInfo,
};

use crate::{
    duplex::{DuplexError, Frame, FrameReceiver, FrameSender, MAX_FRAME},
    link::rhythm::HOST_SILENCE,
    stream::{DeflatingSender, Encoding, InflatingReceiver},
};
use pilothouse_domain::{CommandBody, CommandId, Refusal};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::marker::PhantomData;
use tokio::time::{Instant, timeout_at};

/// One side's messages.
pub trait Message: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The types this side may send.
    const TYPES: &'static [&'static str];

    /// This message's type.
    fn type_name(&self) -> &'static str;

    /// A better error for a message of a known type that did not read.
    fn diagnose(kind: &str, text: &str, reason: String) -> DecodeError {
        let _ = text;
        DecodeError::Malformed {
            kind: kind.to_owned(),
            reason,
        }
    }

    /// The query and the part of a stored text that this message answers it with, if it does.
    fn blob(&self) -> Option<(u32, &BlobChunk)> {
        None
    }

    /// The message that answers a query with a part of a stored text, if this side sends such.
    fn of_blob(id: u32, chunk: BlobChunk) -> Option<Self> {
        let _ = (id, chunk);
        None
    }
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It is over [`MAX_FRAME`].
    #[error(
        "a `{kind}` message has {size} bytes, at most {MAX_FRAME} can be sent; send it in pages"
    )]
    TooLarge {
        /// Its type.
        kind: &'static str,
        /// Its size in bytes.
        size: usize,
    },
    /// It does not serialise.
    #[error("a `{kind}` message does not serialise: {reason}")]
    Unserialisable {
        /// Its type.
        kind: &'static str,
        /// Why.
        reason: String,
    },
}

/// Why a frame is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A type, or an outcome of a command, that this version does not know; the connection can go on.
    #[error("a message of the unknown type `{kind}` came; the other side is newer")]
    Unknown {
        /// The type, cut to 160 characters.
        kind: String,
    },
    /// A command that this version does not know, or not in this form; to be answered with this refusal.
    #[error("command {id} cannot be taken: {refusal}")]
    Command {
        /// The command.
        id: CommandId,
        /// The refusal to answer with.
        refusal: Refusal,
    },
    /// A query that this version does not know, or not in this form; to be answered with `result` and an error.
    #[error("query {id} cannot be answered: {reason}")]
    Query {
        /// The query.
        id: u32,
        /// What is wrong.
        reason: String,
    },
    /// Something of a host, about one subscription, query or command, that this version does not know: only that is lost.
    #[error("a `{kind}` message does not read: {reason}")]
    Part {
        /// Its type.
        kind: String,
        /// What it is about.
        about: ErrorAbout,
        /// What is wrong.
        reason: String,
    },
    /// A known type with wrong content.
    #[error("a `{kind}` message is malformed: {reason}")]
    Malformed {
        /// Its type.
        kind: String,
        /// What is wrong.
        reason: String,
    },
    /// No JSON object with a `type`.
    #[error("a frame is no message: {0}")]
    NotAMessage(String),
}

/// Writes a message as a text frame.
///
/// # Errors
/// [`EncodeError::TooLarge`] over [`MAX_FRAME`].
pub fn encode<M: Message>(message: &M) -> Result<Frame, EncodeError> {
    let kind = message.type_name();
    let text = serde_json::to_string(message).map_err(|error| EncodeError::Unserialisable {
        kind,
        reason: error.to_string(),
    })?;
    if text.len() > MAX_FRAME {
        return Err(EncodeError::TooLarge {
            kind,
            size: text.len(),
        });
    }
    Ok(Frame::Text(text))
}

/// Writes a message as a frame of a connection with this encoding: like [`encode`], with parts of stored texts as bytes
/// where the peer reads them so.
///
/// # Errors
/// As [`encode`].
pub fn encode_as<M: Message>(
    message: &M,
    encoding: Option<Encoding>,
) -> Result<Frame, EncodeError> {
    match (encoding, message.blob()) {
        (Some(Encoding::Deflate), Some((id, chunk))) => Ok(Frame::Binary(blob::write(id, chunk))),
        _ => encode(message),
    }
}

/// Reads a message from a frame.
///
/// # Errors
/// [`DecodeError`], each kind with its own way to go on; never a panic, whatever the bytes.
pub fn decode<M: Message>(frame: &Frame) -> Result<M, DecodeError> {
    let text = match frame {
        Frame::Text(text) => text,
        Frame::Binary(bytes) => {
            let (id, chunk) = blob::read(bytes)?;
            return M::of_blob(id, chunk).ok_or_else(|| {
                DecodeError::NotAMessage("only hosts send parts of stored texts".to_owned())
            });
        }
    };
    if text.len() > MAX_FRAME {
        return Err(DecodeError::NotAMessage(format!(
            "it has over {MAX_FRAME} bytes"
        )));
    }
    pilothouse_json::from_str(text).map_err(|error| explain::<M>(text, &error))
}

fn explain<M: Message>(text: &str, error: &serde_json::Error) -> DecodeError {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "type")]
        kind: String,
    }
    let reason = shorten(&error.to_string());
    match pilothouse_json::from_str::<Head>(text) {
        Err(_) => DecodeError::NotAMessage(reason),
        Ok(head) if M::TYPES.contains(&head.kind.as_str()) => M::diagnose(&head.kind, text, reason),
        Ok(head) => DecodeError::Unknown {
            kind: shorten(&head.kind),
        },
    }
}

/// What a peer made us say is cut: it may be long, and it goes into logs.
fn shorten(text: &str) -> String {
    text.chars().take(160).collect()
}

/// A command or query that did not read, as far as it can be answered by its id.
fn diagnose_device(kind: &str, text: &str, reason: String) -> DecodeError {
    #[derive(Deserialize)]
    struct CommandHead {
        command: CommandParts,
    }
    #[derive(Deserialize)]
    struct CommandParts {
        id: CommandId,
        body: CommandName,
    }
    #[derive(Deserialize)]
    struct CommandName {
        command: String,
    }
    #[derive(Deserialize)]
    struct QueryHead {
        id: u32,
    }
    if kind == "command"
        && let Ok(CommandHead { command }) = pilothouse_json::from_str::<CommandHead>(text)
    {
        let name = shorten(&command.body.command);
        let refusal = if CommandBody::NAMES.contains(&name.as_str()) {
            Refusal::Invalid {
                field: name,
                problem: reason,
            }
        } else {
            Refusal::UnknownCommand { name }
        };
        return DecodeError::Command {
            id: command.id,
            refusal,
        };
    }
    if kind == "query"
        && let Ok(QueryHead { id }) = pilothouse_json::from_str::<QueryHead>(text)
    {
        return DecodeError::Query { id, reason };
    }
    DecodeError::Malformed {
        kind: kind.to_owned(),
        reason,
    }
}

/// What a host says that did not read, as far as it says what it is about.
fn diagnose_host(kind: &str, text: &str, reason: String) -> DecodeError {
    #[derive(Deserialize)]
    struct Head {
        sub: Option<SubId>,
        id: Option<u32>,
        command_id: Option<CommandId>,
        outcome: Option<OutcomeHead>,
    }
    #[derive(Deserialize)]
    struct OutcomeHead {
        outcome: String,
    }
    let kind = kind.to_owned();
    let Ok(head) = pilothouse_json::from_str::<Head>(text) else {
        return DecodeError::Malformed { kind, reason };
    };
    let about = match kind.as_str() {
        "feed" | "subscribed" | "entries" | "open_items" => {
            head.sub.map(|sub| ErrorAbout::Sub { sub })
        }
        "result" => head.id.map(|id| ErrorAbout::Query { id }),
        "outcome" => match (head.command_id, head.outcome) {
            (Some(id), Some(outcome)) if outcome.outcome == "refused" => {
                Some(ErrorAbout::Command { id })
            }
            // Of what was not refused nothing is concluded: it is passed over, and the device asks again.
            (Some(_), Some(_)) => return DecodeError::Unknown { kind },
            _ => None,
        },
        _ => None,
    };
    match about {
        Some(about) => DecodeError::Part {
            kind,
            about,
            reason,
        },
        None => DecodeError::Malformed { kind, reason },
    }
}

/// Why no message could be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message cannot be written; the connection lives on.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The connection has ended.
    #[error(transparent)]
    Duplex(#[from] DuplexError),
}

/// Why no message came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// A frame came that is no message of this version; the connection lives on.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The connection has ended.
    #[error(transparent)]
    Duplex(#[from] DuplexError),
    /// Only from [`Incoming::receive_alive`]: the other side gives no sign of life; say `bye{silent}` and close.
    #[error("no sign of life for {} s", HOST_SILENCE.as_secs())]
    Silent,
}

/// A sender of plain frames as one of an encoding.
pub(crate) fn sending(
    frames: Box<dyn FrameSender>,
    encoding: Option<Encoding>,
) -> Box<dyn FrameSender> {
    match encoding {
        Some(Encoding::Deflate) => Box::new(DeflatingSender::new(frames)),
        Some(Encoding::Other) | None => frames,
    }
}

/// A receiver of plain frames as one of an encoding.
pub(crate) fn receiving(
    frames: Box<dyn FrameReceiver>,
    encoding: Option<Encoding>,
) -> Box<dyn FrameReceiver> {
    match encoding {
        Some(Encoding::Deflate) => Box::new(InflatingReceiver::new(frames)),
        Some(Encoding::Other) | None => frames,
    }
}

/// The sending half of a connection, for messages of one side.
pub struct Outgoing<M> {
    frames: Box<dyn FrameSender>,
    encoding: Option<Encoding>,
    messages: PhantomData<fn(M)>,
}

impl<M: Message> Outgoing<M> {
    /// Sends messages as frames.
    pub fn new(frames: Box<dyn FrameSender>) -> Self {
        Self {
            frames,
            encoding: None,
            messages: PhantomData,
        }
    }

    /// The same half from `welcome` on, with what was agreed there.
    #[must_use]
    pub fn encoded(self, encoding: Option<Encoding>) -> Self {
        Self {
            frames: sending(self.frames, encoding),
            encoding,
            ..self
        }
    }

    /// What was agreed on.
    pub fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// Sends one message and flushes it. Not cancel-safe.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(&mut self, message: &M) -> Result<(), SendError> {
        self.frames
            .send(encode_as(message, self.encoding)?)
            .await
            .map_err(SendError::Duplex)
    }

    /// The half that sends frames.
    pub fn frames(&mut self) -> &mut dyn FrameSender {
        &mut *self.frames
    }
}

/// The receiving half of a connection, for messages of the other side.
pub struct Incoming<M> {
    frames: Box<dyn FrameReceiver>,
    heard: Instant,
    messages: PhantomData<fn() -> M>,
}

impl<M: Message> Incoming<M> {
    /// Reads frames as messages, of a side that was alive just now.
    pub fn new(frames: Box<dyn FrameReceiver>) -> Self {
        Self {
            frames,
            heard: Instant::now(),
            messages: PhantomData,
        }
    }

    /// The same half from `welcome` on, with what was agreed there.
    #[must_use]
    pub fn encoded(self, encoding: Option<Encoding>) -> Self {
        Self {
            frames: receiving(self.frames, encoding),
            ..self
        }
    }

    /// The next message. Cancel-safe.
    ///
    /// # Errors
    /// [`ReceiveError::Decode`] for one frame, after which one may go on; [`ReceiveError::Duplex`] for the end.
    pub async fn receive(&mut self) -> Result<M, ReceiveError> {
        let frame = self.frames.receive().await?;
        self.heard = Instant::now();
        Ok(decode(&frame)?)
    }

    /// The next message of a side that pings: for hosts. Cancel-safe, and calling it anew does not prolong the silence
    /// that is allowed, [`HOST_SILENCE`] after the last frame of any kind.
    ///
    /// # Errors
    /// Also [`ReceiveError::Silent`].
    pub async fn receive_alive(&mut self) -> Result<M, ReceiveError> {
        match timeout_at(self.heard + HOST_SILENCE, self.receive()).await {
            Ok(received) => received,
            Err(_) => Err(ReceiveError::Silent),
        }
    }
}
