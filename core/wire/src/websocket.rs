//! WebSocket over the pinned TLS of [`crate::tls`]: what a host accepts and a device dials.
//!
//! Nothing is answered before the client has proven a key: plain HTTP on the port meets a TLS error. After TLS the
//! upgrade request must be for [`PATH`], carry no `Origin` (browsers always send one, devices never) and name a `Host`
//! that the listener knows. Secrets never stand in the URL.

use crate::{
    duplex::{
        BoxFuture, Close, CloseCode, Direction, Duplex, DuplexError, Frame, FrameReceiver,
        FrameSender, MAX_BINARY, MAX_FRAME,
    },
    hosts::HostAllowList,
    identity::{HostIdentity, IdentityError, P256PublicKey, SpkiHash},
    tls::{self, ChannelBinding},
};
use futures_util::{SinkExt, StreamExt, stream};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        error::CapacityError,
        handshake::server::{ErrorResponse, Request, Response},
        http::{StatusCode, header},
        protocol::{CloseFrame, WebSocketConfig, frame::coding},
    },
};

/// The only path that is served.
pub const PATH: &str = "/v1";
/// Default port of a host.
pub const DEFAULT_PORT: u16 = 7433;
/// Time that TLS and the upgrade may take together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a close to reach the peer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Handshakes that may be under way at once on one listener.
const PENDING_HANDSHAKES: usize = 128;
/// Bytes of a close reason that the protocol can carry.
const CLOSE_REASON: usize = 120;

/// A connection whose peer has proven a key. Whether that key may do anything is the caller's question.
#[derive(Debug)]
pub struct Established {
    /// The peer's public key.
    pub peer: P256PublicKey,
    /// Keying material of this connection, for pairing.
    pub binding: ChannelBinding,
    /// Where the peer is, for logs and for "last seen from".
    pub address: String,
    /// The open connection.
    pub duplex: Box<dyn Duplex>,
}

impl Established {
    /// The fingerprint by which the peer is known.
    pub fn peer_hash(&self) -> SpkiHash {
        self.peer.spki_sha256()
    }
}

/// Why an incoming connection came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The peer did not finish TLS and the upgrade in time.
    #[error("the peer at {address} did not finish its handshake within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    Timeout {
        /// The peer.
        address: String,
    },
    /// TLS failed: no certificate, an old version, or not TLS at all.
    #[error("TLS with {address} failed: {reason}")]
    Tls {
        /// The peer.
        address: String,
        /// What rustls said.
        reason: String,
    },
    /// The upgrade request was refused.
    #[error("a request from {address} was refused: {refusal}")]
    Refused {
        /// The peer.
        address: String,
        /// Why.
        refusal: UpgradeRefusal,
    },
    /// The upgrade request was no WebSocket request, or the connection broke.
    #[error("the upgrade with {address} failed: {reason}")]
    Upgrade {
        /// The peer.
        address: String,
        /// What went wrong.
        reason: String,
    },
}

/// Why an upgrade request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeRefusal {
    /// A browser speaks (403).
    #[error("it carries an Origin header, so a browser sent it")]
    Origin,
    /// The `Host` header is missing, repeated or unknown (421).
    #[error(
        "its Host header is not one of this host's names or addresses; add it to the host's configuration"
    )]
    Host,
    /// Another path or a query (404).
    #[error("its path is not {PATH}")]
    Path,
}

impl UpgradeRefusal {
    fn status(&self) -> StatusCode {
        match self {
            UpgradeRefusal::Origin => StatusCode::FORBIDDEN,
            UpgradeRefusal::Host => StatusCode::MISDIRECTED_REQUEST,
            UpgradeRefusal::Path => StatusCode::NOT_FOUND,
        }
    }
}

/// A host's end: turns byte streams into [`Established`] connections. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor {
    tls: TlsAcceptor,
    allowed: Arc<HostAllowList>,
}

impl Acceptor {
    /// An acceptor for this identity that answers to these names.
    ///
    /// # Errors
    /// [`IdentityError::Tls`] if rustls does not take the key.
    pub fn new(identity: &HostIdentity, allowed: HostAllowList) -> Result<Self, IdentityError> {
        Ok(Self {
            tls: TlsAcceptor::from(tls::server_config(identity)?),
            allowed: Arc::new(allowed),
        })
    }

    /// TLS, then the upgrade, within [`HANDSHAKE_TIMEOUT`]. `address` is for messages only.
    ///
    /// # Errors
    /// [`AcceptError`]; the peer has been told as far as its state allowed, and the stream is closed.
    pub async fn accept<S>(&self, stream: S, address: String) -> Result<Established, AcceptError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match timeout(HANDSHAKE_TIMEOUT, self.handshake(stream, &address)).await {
            Ok(result) => result,
            Err(_) => Err(AcceptError::Timeout { address }),
        }
    }

    async fn handshake<S>(&self, stream: S, address: &str) -> Result<Established, AcceptError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let tls_error = |reason: String| AcceptError::Tls {
            address: address.to_owned(),
            reason,
        };
        let stream = self
            .tls
            .accept(stream)
            .await
            .map_err(|e| tls_error(e.to_string()))?;
        let facts = tls::peer_facts(stream.get_ref().1).map_err(|e| tls_error(e.to_string()))?;
        let allowed = &self.allowed;
        let mut refused = None;
        #[expect(
            clippy::result_large_err,
            reason = "the callback's type is tungstenite's"
        )]
        let callback = |request: &Request, response: Response| match check_upgrade(request, allowed)
        {
            Ok(()) => Ok(response),
            Err(refusal) => {
                let mut answer = ErrorResponse::new(None);
                *answer.status_mut() = refusal.status();
                refused = Some(refusal);
                Err(answer)
            }
        };
        let upgraded =
            tokio_tungstenite::accept_hdr_async_with_config(stream, callback, Some(limits())).await;
        let address = address.to_owned();
        match (upgraded, refused) {
            (Ok(socket), _) => Ok(Established {
                peer: facts.key,
                binding: facts.binding,
                address,
                duplex: Box::new(WebSocketDuplex(socket)),
            }),
            (Err(_), Some(refusal)) => Err(AcceptError::Refused { address, refusal }),
            (Err(error), None) => Err(AcceptError::Upgrade {
                address,
                reason: error.to_string(),
            }),
        }
    }

    /// Accepts connections from `listener` until the receiving end of `connections` is dropped. Each handshake runs in
    /// a task of its own, at most 128 at once; what fails is logged (never with secrets) and forgotten.
    pub async fn serve(self, listener: TcpListener, connections: mpsc::Sender<Established>) {
        let pending = Arc::new(Semaphore::new(PENDING_HANDSHAKES));
        loop {
            let accepted = tokio::select! {
                () = connections.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    // Out of file descriptors, mostly: without a pause this loop would spin.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = pending.clone().try_acquire_owned() else {
                tracing::warn!(%address, "too many handshakes under way; a connection was dropped");
                continue;
            };
            let (acceptor, connections) = (self.clone(), connections.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let result = acceptor.accept(stream, address.to_string()).await;
                drop(permit);
                match result {
                    Ok(established) => drop(connections.send(established).await),
                    Err(error) => tracing::info!(%error, "no connection"),
                }
            });
        }
    }
}

fn check_upgrade(request: &Request, allowed: &HostAllowList) -> Result<(), UpgradeRefusal> {
    if request.headers().contains_key(header::ORIGIN) {
        return Err(UpgradeRefusal::Origin);
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (
        hosts.next().and_then(|host| host.to_str().ok()),
        hosts.next(),
    ) {
        (Some(host), None) if allowed.allows(host) => {}
        _ => return Err(UpgradeRefusal::Host),
    }
    if request.uri().path() != PATH || request.uri().query().is_some() {
        return Err(UpgradeRefusal::Path);
    }
    Ok(())
}

/// Limits and buffers of both ends. The read buffer is allocated for every connection, so it is small.
pub(crate) fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .write_buffer_size(16 * 1024)
        .max_message_size(Some(MAX_BINARY))
        .max_frame_size(Some(MAX_BINARY))
}

/// The typed reason inside an error of a TLS stream, if it is of type `E`.
pub(crate) fn tls_cause<E: std::error::Error + Clone + 'static>(error: &io::Error) -> Option<E> {
    let cause = match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => other,
        rustls::Error::Other(other) => other,
        _ => return None,
    };
    cause.0.downcast_ref::<E>().cloned()
}

/// A device's TCP stream, tuned.
pub(crate) async fn dial_tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// An open WebSocket as a [`Duplex`].
pub(crate) struct WebSocketDuplex<S>(pub(crate) WebSocketStream<S>);

impl<S> Duplex for WebSocketDuplex<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    fn split(self: Box<Self>) -> (Box<dyn FrameSender>, Box<dyn FrameReceiver>) {
        let (sink, stream) = self.0.split();
        (
            Box::new(WebSocketSender {
                sink,
                closed: false,
            }),
            Box::new(WebSocketReceiver {
                stream,
                ended: None,
            }),
        )
    }
}

struct WebSocketSender<S> {
    sink: stream::SplitSink<WebSocketStream<S>, Message>,
    closed: bool,
}

impl<S> FrameSender for WebSocketSender<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    fn send(&mut self, frame: Frame) -> BoxFuture<'_, Result<(), DuplexError>> {
        Box::pin(async move {
            frame.within_limit()?;
            if self.closed {
                return Err(DuplexError::Closed(None));
            }
            let message = match frame {
                Frame::Text(text) => Message::Text(text.into()),
                Frame::Binary(bytes) => Message::Binary(bytes.into()),
            };
            self.sink.send(message).await.map_err(duplex_error)
        })
    }

    fn close(&mut self, close: Close) -> BoxFuture<'_, Result<(), DuplexError>> {
        Box::pin(async move {
            if std::mem::replace(&mut self.closed, true) {
                return Ok(());
            }
            let frame = CloseFrame {
                code: close_code(close.code),
                reason: cut(close.reason, CLOSE_REASON).into(),
            };
            match timeout(CLOSE_TIMEOUT, self.sink.send(Message::Close(Some(frame)))).await {
                Ok(
                    Ok(())
                    | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed),
                ) => Ok(()),
                Ok(Err(error)) => Err(duplex_error(error)),
                Err(_) => Err(DuplexError::Broken(
                    "the peer does not take any data".to_owned(),
                )),
            }
        })
    }
}

struct WebSocketReceiver<S> {
    stream: stream::SplitStream<WebSocketStream<S>>,
    ended: Option<DuplexError>,
}

impl<S> FrameReceiver for WebSocketReceiver<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, DuplexError>> {
        Box::pin(async move {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            let error = loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => {
                        let frame = Frame::Text(text.as_str().to_owned());
                        match frame.check(Direction::Incoming) {
                            Ok(()) => return Ok(frame),
                            Err(error) => break error,
                        }
                    }
                    Some(Ok(Message::Binary(bytes))) => return Ok(Frame::Binary(bytes.into())),
                    // Pings are answered by the library; liveness is judged on messages.
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(frame))) => {
                        let close =
                            frame.map(|f| Close::new(close_kind(f.code), f.reason.as_str()));
                        let closed = DuplexError::Closed(close);
                        self.ended = Some(closed.clone());
                        // Reading on once lets the library send its half of the closing handshake.
                        let _ = timeout(CLOSE_TIMEOUT, self.stream.next()).await;
                        return Err(closed);
                    }
                    Some(Err(error)) => break duplex_error(error),
                    None => break DuplexError::Closed(None),
                }
            };
            self.ended = Some(error.clone());
            Err(error)
        })
    }
}

fn duplex_error(error: tungstenite::Error) -> DuplexError {
    match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            DuplexError::Closed(None)
        }
        tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. }) => {
            DuplexError::TooLarge {
                direction: Direction::Incoming,
                limit: MAX_FRAME,
            }
        }
        other => DuplexError::Broken(other.to_string()),
    }
}

fn close_code(code: CloseCode) -> coding::CloseCode {
    match code {
        CloseCode::Normal => coding::CloseCode::Normal,
        CloseCode::GoingAway => coding::CloseCode::Away,
        CloseCode::Protocol => coding::CloseCode::Protocol,
        CloseCode::TooLarge => coding::CloseCode::Size,
        CloseCode::Policy => coding::CloseCode::Policy,
        CloseCode::Other(number) => coding::CloseCode::from(number),
    }
}

fn close_kind(code: coding::CloseCode) -> CloseCode {
    match code {
        coding::CloseCode::Normal => CloseCode::Normal,
        coding::CloseCode::Away => CloseCode::GoingAway,
        coding::CloseCode::Protocol => CloseCode::Protocol,
        coding::CloseCode::Size => CloseCode::TooLarge,
        coding::CloseCode::Policy => CloseCode::Policy,
        other => CloseCode::Other(other.into()),
    }
}

/// The longest start of `text` within `limit` bytes that ends between characters.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text.truncate(end);
    }
    text
}
