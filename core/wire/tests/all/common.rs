//! A host that listens, a device that dials, and deadlines for everything that is waited for.

use pilothouse_wire::{
    connect::Connector,
    hosts::HostAllowList,
    identity::{DeviceIdentity, FileKey, HostIdentity},
    tls,
    websocket::{Acceptor, Established},
};
use rustls::pki_types::ServerName;
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsConnector;

/// Generous: only a bug lets it pass.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long: {what}"),
    }
}

pub(crate) fn device() -> DeviceIdentity {
    DeviceIdentity::new(Arc::new(FileKey::generate().unwrap())).unwrap()
}

/// A host on a free port of loopback.
pub(crate) struct Listening {
    pub(crate) identity: HostIdentity,
    pub(crate) address: SocketAddr,
    pub(crate) connections: mpsc::Receiver<Established>,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    pub(crate) async fn start() -> Self {
        Self::start_as(HostIdentity::generate().unwrap(), "127.0.0.1:0").await
    }

    pub(crate) async fn start_as(identity: HostIdentity, at: &str) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = Acceptor::new(
            &identity,
            HostAllowList::new(["127.0.0.1", "localhost"], [address.port()]),
        )
        .unwrap();
        let (sender, connections) = mpsc::channel(8);
        let task = tokio::spawn(acceptor.serve(listener, sender));
        Self {
            identity,
            address,
            connections,
            task,
        }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        vec![self.address.to_string()]
    }

    pub(crate) fn connector(&self, device: &DeviceIdentity) -> Connector {
        Connector::new(device, self.identity.spki_sha256()).unwrap()
    }

    /// Both ends of a fresh connection: the host's, the device's.
    pub(crate) async fn connect(&mut self, device: &DeviceIdentity) -> (Established, Established) {
        let connector = self.connector(device);
        let addresses = self.addresses();
        let dialled = soon("dialling", connector.connect(&addresses))
            .await
            .unwrap();
        let accepted = soon("accepting", self.connections.recv()).await.unwrap();
        (accepted, dialled)
    }

    /// Stops listening, as a host does that is shut down.
    pub(crate) async fn stop(self) -> HostIdentity {
        self.task.abort();
        let _ = self.task.await;
        self.identity
    }
}

pub(crate) type ClientTls = tokio_rustls::client::TlsStream<TcpStream>;

pub(crate) async fn raw_tls(host: &Listening, device: &DeviceIdentity) -> ClientTls {
    let config = tls::client_config(device, host.identity.spki_sha256()).unwrap();
    let stream = TcpStream::connect(host.address).await.unwrap();
    TlsConnector::from(config)
        .connect(ServerName::try_from("x.invalid").unwrap(), stream)
        .await
        .unwrap()
}

pub(crate) async fn raw_client(
    host: &Listening,
    device: &DeviceIdentity,
) -> tokio_tungstenite::WebSocketStream<ClientTls> {
    let stream = raw_tls(host, device).await;
    let url = format!("wss://{}/v1", host.address);
    tokio_tungstenite::client_async(url, stream)
        .await
        .unwrap()
        .0
}
