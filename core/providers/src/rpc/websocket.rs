//! Lines over a WebSocket: each text message is one line, so that a codec of lines serves both ways.

use super::{cutting::Cutting, frames::FRAME_LIMIT};
use crate::process::agent::Channel;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use std::time::Duration;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream,
    },
    sync::oneshot,
    time::{MissedTickBehavior, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        self, Message,
        client::IntoClientRequest as _,
        http::{HeaderValue, header::AUTHORIZATION},
        protocol::WebSocketConfig,
    },
};

/// Bytes of a message, which no message has: they are cut before.
const MESSAGE_LIMIT: usize = 2 * FRAME_LIMIT;
/// Bytes between the socket and the codec.
const BETWEEN: usize = 64 * 1024;
/// How many pings may have no answer before the connection counts as dead: a network that changed under it says nothing.
const MISSED: u32 = 2;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    /// The other side does not take the token.
    #[error("it refuses the token")]
    Unauthorized,
    /// It answers, but not as a WebSocket.
    #[error("it answers {0} where a WebSocket was asked for")]
    Status(u16),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Makes a connected stream a channel of lines. `authority` stands in `Host`; `token` is sent as bearer. With
/// `ping` a sign of life is asked for that often; a connection on which nothing comes for [`MISSED`] of them and a half ends.
pub(crate) async fn upgrade<S>(
    stream: S,
    authority: &str,
    token: Option<&str>,
    ping: Option<Duration>,
) -> Result<Channel, UpgradeError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let other = |error: &dyn std::fmt::Display| UpgradeError::Other(error.to_string());
    // Whether it is encrypted was decided by whoever made the stream; no `Origin` is sent, which codex refuses.
    let mut request = format!("ws://{authority}/")
        .into_client_request()
        .map_err(|error| other(&error))?;
    if let Some(token) = token {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| other(&error))?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT));
    let (socket, _) = client_async_with_config(request, Cutting::new(stream), Some(config))
        .await
        .map_err(|error| match error {
            tungstenite::Error::Http(answer) if answer.status() == 401 => {
                UpgradeError::Unauthorized
            }
            tungstenite::Error::Http(answer) => UpgradeError::Status(answer.status().as_u16()),
            error => other(&error),
        })?;
    let (sink, source) = socket.split();
    let (input, lines) = tokio::io::duplex(BETWEEN);
    let (output, text) = tokio::io::duplex(BETWEEN);
    let (heard, over) = oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            () = speak(BufReader::new(lines), sink, ping) => {}
            // Nothing is said any more into what is dead, and no write is waited for.
            _ = over => {}
        }
    });
    tokio::spawn(async move {
        listen(source, text, ping).await;
        drop(heard);
    });
    Ok(Channel {
        input: Box::new(input),
        output: Box::new(output),
    })
}

/// Sends each line as a message, until no more comes.
async fn speak<S>(
    mut lines: BufReader<DuplexStream>,
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    ping: Option<Duration>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut line = Vec::new();
    // Also while something is said: what was said may have no answer of its own.
    let mut pings = tokio::time::interval(ping.unwrap_or(Duration::MAX));
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            read = lines.read_until(b'\n', &mut line) => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                Message::text(text)
            }
            // What was read of a line so far stays in `line`.
            _ = pings.tick(), if ping.is_some() => Message::Ping(tungstenite::Bytes::new()),
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let _ = sink.close().await;
}

/// Gives each message as a line, until the connection ends or is dead.
async fn listen<S>(
    mut source: SplitStream<WebSocketStream<S>>,
    mut text: DuplexStream,
    ping: Option<Duration>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let heard = match ping {
            Some(ping) => timeout(ping * MISSED + ping / 2, source.next())
                .await
                .unwrap_or_default(),
            None => source.next().await,
        };
        let Some(Ok(message)) = heard else {
            return;
        };
        let mut bytes = match message {
            Message::Text(_) | Message::Binary(_) => message.into_data().to_vec(),
            _ => continue,
        };
        // Between JSON's words a line feed is a blank.
        for byte in &mut bytes {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        bytes.push(b'\n');
        if text.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
