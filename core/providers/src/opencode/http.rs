//! HTTP/1.1 to one server, a connection for each call. How a connection is made is a parameter: on loopback it is a plain
//! socket, to an opencode elsewhere what its [`Endpoint`] says.

use super::outgoing::{Request, encoded};
use crate::endpoint::Endpoint;
pub use crate::endpoint::Io;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use std::{io, net::SocketAddr, path::Path, time::Duration};
use tokio::net::TcpStream;

/// Bytes of an answer's body; a longer one is given up.
pub(super) const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// Makes connections to one server.
pub trait Connector: Send + Sync + 'static {
    /// A new connection.
    fn connect(&self) -> BoxFuture<'_, io::Result<Box<dyn Io>>>;
    /// What stands in `Host`.
    fn authority(&self) -> String;
}

/// Plain connections to an address.
#[derive(Debug, Clone, Copy)]
pub struct Plain(pub SocketAddr);

impl Connector for Plain {
    fn connect(&self) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        let address = self.0;
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }

    fn authority(&self) -> String {
        self.0.to_string()
    }
}

impl Connector for Endpoint {
    fn connect(&self) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        Self::connect(self)
    }

    fn authority(&self) -> String {
        Self::authority(self)
    }
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Where the next page of a list begins, if there is one.
    pub(super) next: Option<String>,
}

/// The header that says where the next page begins, and the bytes of it at most.
const NEXT: &str = "x-next-cursor";
const CURSOR: usize = 4096;

/// Why an HTTP call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HttpError {
    /// No connection: nothing was said.
    Unreachable(String),
    /// It was cut after the request may have been heard.
    Cut(String),
    /// The answer is longer than [`BODY_LIMIT`].
    TooLong,
    /// No answer in time.
    Timeout,
}

/// One server.
pub(super) struct Http {
    connector: Box<dyn Connector>,
    authorization: String,
    /// What every call is about that names nothing else: one opencode serves several directories.
    directory: String,
}

impl Http {
    /// `password` is that of the user `opencode`, by HTTP's Basic scheme; `directory` is where its conversations work.
    pub(super) fn new(connector: Box<dyn Connector>, password: &str, directory: &Path) -> Self {
        let word = STANDARD.encode(format!("opencode:{password}"));
        Self {
            connector,
            authorization: format!("Basic {word}"),
            directory: encoded(&directory.to_string_lossy()),
        }
    }

    /// Makes a call and reads its whole answer, within `deadline`.
    pub(super) async fn call(
        &self,
        request: Request,
        deadline: Duration,
    ) -> Result<Answer, HttpError> {
        let answer = async {
            let answer = self.send(request).await?;
            let next = answer
                .headers()
                .get(NEXT)
                .and_then(|next| next.to_str().ok());
            let next = next.filter(|next| next.len() <= CURSOR).map(str::to_owned);
            let status = answer.status().as_u16();
            let mut body = answer.into_body();
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| HttpError::Cut(error.to_string()))?;
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                if bytes.len() + data.len() > BODY_LIMIT {
                    return Err(HttpError::TooLong);
                }
                bytes.extend_from_slice(data);
            }
            Ok(Answer {
                status,
                body: bytes,
                next,
            })
        };
        tokio::time::timeout(deadline, answer)
            .await
            .unwrap_or(Err(HttpError::Timeout))
    }

    /// Begins to read a stream that does not end, within `deadline`.
    pub(super) async fn stream(
        &self,
        path: &str,
        deadline: Duration,
    ) -> Result<Incoming, HttpError> {
        let request = Request {
            method: "GET",
            path: path.to_owned(),
            body: None,
        };
        let answer = tokio::time::timeout(deadline, self.send(request))
            .await
            .unwrap_or(Err(HttpError::Timeout))?;
        match answer.status().as_u16() {
            200 => Ok(answer.into_body()),
            status => Err(HttpError::Cut(format!(
                "its stream of events answers {status}"
            ))),
        }
    }

    async fn send(&self, request: Request) -> Result<hyper::Response<Incoming>, HttpError> {
        let unreachable = |error: &dyn std::fmt::Display| HttpError::Unreachable(error.to_string());
        let stream = self
            .connector
            .connect()
            .await
            .map_err(|error| unreachable(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(&error))?;
        // Ends with the answer, or when that is dropped.
        tokio::spawn(connection);
        let body = request.body.map(|body| body.to_string());
        let mut built = hyper::Request::builder()
            .method(request.method)
            .uri(&request.path)
            .header(header::HOST, self.connector.authority())
            .header(header::AUTHORIZATION, &self.authorization)
            .header("x-opencode-directory", &self.directory);
        if body.is_some() {
            built = built.header(header::CONTENT_TYPE, "application/json");
        }
        let built = built
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| unreachable(&error))?;
        sender
            .send_request(built)
            .await
            .map_err(|error| HttpError::Cut(error.to_string()))
    }
}

/// The path of the stream of all directories' events.
pub(super) const EVENTS: &str = "/global/event";
