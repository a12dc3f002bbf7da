//! A line between a device and its host on which bytes take their time, and the records of TLS that the host sends are
//! counted.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Records of TLS with application data that the host sent, and their bytes on the socket with their headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Records {
    /// How many.
    pub count: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

struct Shared {
    host: SocketAddr,
    delay: Duration,
    records: Mutex<Records>,
    ended: AtomicBool,
}

/// A running relay; connections that it has passed on outlive it.
pub struct Relay {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 and passes everything on to a host and back, each way `delay` later.
    ///
    /// # Panics
    /// There is no free port.
    pub fn start(host: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            host,
            delay,
            records: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for device in listener.incoming() {
                if accepting.ended.load(Ordering::Acquire) {
                    return;
                }
                // A device whose connection fails here dials again.
                let _ = device.and_then(|device| connect(&accepting, device));
            }
        });
        Self { shared, address }
    }

    /// Where devices connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the host has sent so far, over all connections.
    pub fn records(&self) -> Records {
        *self
            .shared
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

fn connect(shared: &Arc<Shared>, device: TcpStream) -> std::io::Result<()> {
    let host = TcpStream::connect(shared.host)?;
    device.set_nodelay(true)?;
    host.set_nodelay(true)?;
    let (from_device, from_host) = (device.try_clone()?, host.try_clone()?);
    let delay = shared.delay;
    thread::spawn(move || pass(from_device, host, delay, |_| ()));
    let (shared, mut reader) = (shared.clone(), RecordReader::default());
    let count = move |bytes: &[u8]| {
        let mut records = shared
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        reader.read(bytes, &mut records);
    };
    thread::spawn(move || pass(from_host, device, delay, count));
    Ok(())
}

/// Reads on one thread and writes on another, so that what comes close together stays close together however long the line.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration, mut count: impl FnMut(&[u8])) {
    let (sender, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    let back = from.try_clone();
    let writer = thread::spawn(move || {
        for (at, bytes) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        // Whoever still sends into a line that is cut hears of it.
        let _ = back.and_then(|back| back.shutdown(Shutdown::Both));
    });
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        count(&buffer[..length]);
        let at = Instant::now() + delay;
        if sender.send((at, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    drop(sender);
    let _ = writer.join();
}

/// Finds the records of TLS in a stream of bytes.
#[derive(Default)]
struct RecordReader {
    header: Vec<u8>,
    /// Bytes of the current record that have not come.
    left: usize,
}

impl RecordReader {
    const HEADER: usize = 5;
    const APPLICATION_DATA: u8 = 23;

    fn read(&mut self, mut bytes: &[u8], records: &mut Records) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            (self.left, bytes) = (self.left - skipped, &bytes[skipped..]);
            let wanted = (Self::HEADER - self.header.len()).min(bytes.len());
            self.header.extend(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            if let [kind, _, _, high, low] = self.header[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.header.clear();
                if kind == Self::APPLICATION_DATA {
                    records.count += 1;
                    records.bytes += (Self::HEADER + self.left) as u64;
                }
            }
        }
    }
}
