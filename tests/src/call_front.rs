//! What stands between a device and an HTTP server that takes a connection for each call: it can spoil a call once.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// How a call is spoiled; the server never hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoiled {
    /// Its connection is cut after it was sent.
    Cut,
    /// Somebody between answers that the server is not reached (502).
    BadGateway,
}

#[derive(Default)]
struct Spoiling {
    /// The beginning of the line of request, and how.
    next: Option<(String, Spoiled)>,
    spoiled: u64,
}

/// A running front. It ends with the process.
pub struct CallFront {
    port: u16,
    spoiling: Arc<Mutex<Spoiling>>,
}

impl CallFront {
    /// Listens on a free port of 127.0.0.1 and passes on to another one.
    ///
    /// # Panics
    /// There is no free port.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound port").port();
        let spoiling = Arc::<Mutex<Spoiling>>::default();
        let told = Arc::clone(&spoiling);
        thread::spawn(move || {
            for outside in listener.incoming().flatten() {
                let told = Arc::clone(&told);
                thread::spawn(move || pass_on(outside, server, &told));
            }
        });
        Self { port, spoiling }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Spoils the next call whose line of request begins so, once.
    pub fn spoil(&self, line: &str, how: Spoiled) {
        lock(&self.spoiling).next = Some((line.to_owned(), how));
    }

    /// How many calls were spoiled so far.
    pub fn spoiled(&self) -> u64 {
        lock(&self.spoiling).spoiled
    }
}

fn lock(spoiling: &Mutex<Spoiling>) -> std::sync::MutexGuard<'_, Spoiling> {
    spoiling.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes one connection on; `None` once it has ended.
fn pass_on(mut outside: TcpStream, server: u16, spoiling: &Mutex<Spoiling>) -> Option<()> {
    let mut head = Vec::new();
    let mut bytes = [0; 16 * 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = outside.read(&mut bytes).ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&bytes[..read]);
    }
    let how = {
        let mut spoiling = lock(spoiling);
        let meant = |(line, _): &mut (String, Spoiled)| head.starts_with(line.as_bytes());
        let taken = spoiling.next.take_if(meant);
        spoiling.spoiled += u64::from(taken.is_some());
        taken.map(|(_, how)| how)
    };
    match how {
        Some(Spoiled::Cut) => return outside.shutdown(Shutdown::Both).ok(),
        Some(Spoiled::BadGateway) => {
            let answer =
                "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno\n";
            return outside.write_all(answer.as_bytes()).ok();
        }
        None => {}
    }
    let mut inside = TcpStream::connect(("127.0.0.1", server)).ok()?;
    inside.write_all(&head).ok()?;
    let (mut from, mut to) = (outside.try_clone().ok()?, inside.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut inside, &mut outside);
    outside.shutdown(Shutdown::Both).ok()
}
