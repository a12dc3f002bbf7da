//! A TCP proxy between a device and its host: it sees bytes of TLS only, and can hold or cut them.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the device to the host.
    Up,
    /// From the host to the device.
    Down,
}

#[derive(Default)]
struct Line {
    held: [bool; 2],
    /// Bytes that may still pass before everything is cut.
    left: [Option<u64>; 2],
    refusing: bool,
    /// One number per cut: bytes of a connection made before are not let through any more.
    cuts: u64,
    open: Vec<(u64, TcpStream, TcpStream)>,
    /// Connections up to this number that lost their device: what it had sent is kept back for the host.
    stranded: u64,
    /// What the newest connection's device sent first.
    recorded: Vec<u8>,
    /// Bytes passed or held so far.
    arrived: [u64; 2],
    passed: [u64; 2],
    connections: u64,
}

/// Bytes of a connection's beginning that are kept for [`Proxy::replay`].
const RECORDED: usize = 64 * 1024;

struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
    ended: AtomicBool,
    host: Mutex<SocketAddr>,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Line)) {
        change(&mut self.line());
        self.changed.notify_all();
    }
}

/// A running proxy.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and passes everything on to a host.
    pub fn start(host: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            line: Mutex::default(),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
            host: Mutex::new(host),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for device in listener.incoming() {
                if accepting.ended.load(Ordering::Acquire) {
                    return;
                }
                if let Ok(device) = device {
                    connect(&accepting, device);
                }
            }
        });
        Self { shared, address }
    }

    /// Where devices connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes later connections on to another address of the host.
    pub fn set_host(&self, host: SocketAddr) {
        *self
            .shared
            .host
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = host;
    }

    /// Keeps bytes of one direction back from now on.
    pub fn hold(&self, way: Way) {
        self.shared.change(|line| line.held[way as usize] = true);
    }

    /// Lets bytes of both directions pass again, those kept back first, and forgets a cut that has not come yet.
    pub fn resume(&self) {
        self.shared.change(|line| {
            // The last bytes before a cut are on their way: it has come.
            if line.left.contains(&Some(0)) {
                line.cut();
            }
            line.held = [false; 2];
            line.left = [None; 2];
            line.stranded = 0;
        });
    }

    /// Whether a connection passes through now.
    pub fn is_connected(&self) -> bool {
        !self.shared.line().open.is_empty()
    }

    /// Takes the device away from every connection there is and keeps back what it had sent last: the host gets that with
    /// [`Self::resume`], by then behind what later connections brought. Those pass freely.
    pub fn strand(&self) {
        self.shared.change(|line| {
            line.held = [false; 2];
            line.stranded = line.connections;
            for (_, device, _) in &line.open {
                let _ = device.shutdown(Shutdown::Both);
            }
        });
    }

    /// Sends the host over a connection of its own what the newest connection's device sent first, as somebody who
    /// recorded it would; gives how many bytes the host answered before it ended the connection.
    ///
    /// # Errors
    /// The host cannot be reached.
    pub fn replay(&self) -> std::io::Result<u64> {
        let bytes = self.shared.line().recorded.clone();
        let address = *self
            .shared
            .host
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        // The host may have ended it before all was written.
        let _ = stream.write_all(&bytes);
        let mut answered = 0;
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            answered += length as u64;
        }
        Ok(answered)
    }

    /// Ends every connection at once, with what was kept back; later connections pass freely.
    pub fn cut(&self) {
        self.shared.change(|line| {
            line.held = [false; 2];
            line.left = [None; 2];
            line.stranded = 0;
            line.cut();
        });
    }

    /// Cuts everything as soon as so many more bytes went one way; later connections pass freely.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.shared
            .change(|line| line.left[way as usize] = Some(bytes));
    }

    /// Ends every connection and lets none through until told otherwise.
    pub fn refuse(&self, refuse: bool) {
        self.shared.change(|line| {
            line.refusing = refuse;
            if refuse {
                line.held = [false; 2];
                line.cut();
            }
        });
    }

    /// Bytes that came from one side so far, passed on or held.
    pub fn arrived(&self, way: Way) -> u64 {
        self.shared.line().arrived[way as usize]
    }

    /// Bytes that were passed on so far.
    pub fn passed(&self, way: Way) -> u64 {
        self.shared.line().passed[way as usize]
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.line().connections
    }

    /// Waits until more bytes than `count` came from one side.
    pub fn more_than(&self, way: Way, count: u64) {
        let line = self.shared.line();
        let waiting = |line: &mut Line| line.arrived[way as usize] <= count;
        let (line, timeout) = self
            .shared
            .changed
            .wait_timeout_while(line, crate::PATIENCE, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(
            !timeout.timed_out(),
            "no byte went {way:?} after the first {:?}",
            line.arrived
        );
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.cut();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl Line {
    fn cut(&mut self) {
        self.cuts += 1;
        for (_, device, host) in self.open.drain(..) {
            let _ = device.shutdown(Shutdown::Both);
            let _ = host.shutdown(Shutdown::Both);
        }
    }
}

fn connect(shared: &Arc<Shared>, device: TcpStream) {
    let address = *shared.host.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.line().refusing {
        return;
    }
    let Ok(host) = TcpStream::connect(address) else {
        return;
    };
    let pair = || Ok::<_, std::io::Error>((device.try_clone()?, host.try_clone()?));
    let (Ok(open), Ok(back)) = (pair(), pair()) else {
        return;
    };
    let _ = device.set_nodelay(true);
    let _ = host.set_nodelay(true);
    let (number, cuts) = {
        let mut line = shared.line();
        line.connections += 1;
        let number = line.connections;
        line.open.push((number, open.0, open.1));
        line.recorded.clear();
        (number, line.cuts)
    };
    let up = shared.clone();
    thread::spawn(move || {
        pass(&up, Way::Up, number, cuts, device, back.1);
        up.change(|line| line.open.retain(|(open, ..)| *open != number));
    });
    let down = shared.clone();
    thread::spawn(move || pass(&down, Way::Down, number, cuts, host, back.0));
}

fn pass(shared: &Shared, way: Way, number: u64, cuts: u64, mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        shared.change(|line| {
            line.arrived[way as usize] += length as u64;
            if way == Way::Up && number == line.connections {
                let room = RECORDED.saturating_sub(line.recorded.len());
                line.recorded.extend(&buffer[..length.min(room)]);
            }
        });
        let mut line = shared.line();
        while (line.held[way as usize] || (way == Way::Up && number <= line.stranded))
            && line.cuts == cuts
        {
            line = shared
                .changed
                .wait(line)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if line.cuts != cuts {
            break;
        }
        let mut passing = length;
        let mut last = false;
        if let Some(left) = &mut line.left[way as usize] {
            let all = usize::try_from(*left).unwrap_or(usize::MAX);
            passing = length.min(all);
            *left -= passing as u64;
            last = *left == 0;
        }
        drop(line);
        if to.write_all(&buffer[..passing]).is_err() {
            // What the host tells a device that is away must not end the connection that the device's last words wait on.
            if way == Way::Down && shared.line().stranded >= number {
                continue;
            }
            break;
        }
        shared.change(|line| line.passed[way as usize] += passing as u64);
        if last {
            shared.change(|line| {
                // Unless it was cut meanwhile.
                if line.left[way as usize] == Some(0) {
                    line.left = [None; 2];
                    line.cut();
                }
            });
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
