//! What a streamed answer costs on the socket: real codex, host, TLS and device, counted by a proxy between them.

use crate::stories::conversation;
use pilothouse_domain::{Mode, ThreadId};
use pilothouse_tests::{Device, World};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Characters of the answer, and per delta: 3,000 deltas in about 30 s.
const CHARACTERS: usize = 10_000;
const CHUNK: f64 = 10.0 / 3.0;
const SECONDS: f64 = 30.0;
/// The bars.
const DEFLATED: u64 = 9 * 1024;
const PAYLOAD: u64 = 13 * 1024;
const FRAMES_A_SECOND: f64 = 5.0;
/// Frames beside the text: the outcome, the entries at the beginning and the end, the feed with each, a pong or two.
const BESIDE: f64 = 24.0;
/// What a frame needs beside its deflated message: a header and a tag of TLS, its type (5 + 16 + 1), a header of
/// WebSocket (2 below 126 bytes), the byte of kind.
const AROUND: u64 = 5 + 16 + 1 + 2 + 1;

/// An answer as agents write them: prose of changing words, a list, code.
fn answer() -> String {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(repository.join("docs/agents-probes.md")).unwrap();
    let text: String = text.chars().take(CHARACTERS).collect();
    assert_eq!(text.chars().count(), CHARACTERS);
    text
}

fn speaks(world: &World, device: &Device, thread: ThreadId, name: &str, steps: serde_json::Value) {
    world.model.script(name, &steps);
    let sent = device.say(thread, &format!("go [[script:{name}]] [[id:{name}]]"));
    device.accepted(&sent);
}

#[test]
fn a_long_answer_costs_what_its_bar_says() {
    let world = World::start();
    let counter = Counter::start(world.host.address());
    let device = Device::pair(
        &world.dir().join("phone"),
        "phone",
        &world.host,
        Some(counter.address),
    );
    let thread = device.new_thread("codex", Mode::Ask);
    speaks(
        &world,
        &device,
        thread,
        "first",
        json!([{"text": "Ready."}]),
    );
    device.completed(thread, 1);

    let text = answer();
    let deltas = CHARACTERS as f64 / CHUNK;
    let steps = json!([{"text": text, "chunk": CHUNK, "delay": SECONDS * 1000.0 / deltas}]);
    device.idle(thread);
    let (before, begun) = (counter.records(), Instant::now());
    speaks(&world, &device, thread, "long", steps);
    device.completed(thread, 2);
    let (after, took) = (counter.records(), begun.elapsed());
    let (frames, payload) = (after.count - before.count, after.bytes - before.bytes);
    let deflated = payload - frames * AROUND;
    let a_second = frames as f64 / took.as_secs_f64();
    eprintln!(
        "{CHARACTERS} characters in {deltas:.0} deltas over {:.1} s: {frames} frames ({a_second:.2} a second), {deflated} \
         bytes deflated, {payload} bytes on the socket",
        took.as_secs_f64()
    );
    assert!(took > Duration::from_secs(20), "it streamed: {took:?}");
    // A text over 4 KB stands by its address, with its beginning.
    let shown = conversation(&device, thread);
    assert!(
        shown
            .last()
            .is_some_and(|shown| shown.starts_with(&text[..1000]))
    );
    assert!(
        frames > 60,
        "{frames} frames: the text came while it was said"
    );
    let most = FRAMES_A_SECOND * took.as_secs_f64() + BESIDE;
    assert!(frames as f64 <= most, "{frames} frames, at most {most}");
    // A busy machine streams for longer, in more frames.
    let longer = (took.as_secs_f64() / SECONDS).max(1.0);
    let within = |bytes: u64, bar: u64| bytes as f64 <= bar as f64 * longer;
    assert!(within(deflated, DEFLATED), "{deflated} bytes deflated");
    assert!(within(payload, PAYLOAD), "{payload} bytes on the socket");
}

/// Records of TLS with application data, and their bytes on the socket with their headers.
#[derive(Debug, Clone, Copy, Default)]
struct Records {
    count: u64,
    bytes: u64,
}

/// Passes connections on to the host, and counts what the host sends.
struct Counter {
    address: SocketAddr,
    records: Arc<Mutex<Records>>,
}

impl Counter {
    fn start(host: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let records = Arc::new(Mutex::new(Records::default()));
        let counted = records.clone();
        thread::spawn(move || {
            for device in listener.incoming().map_while(Result::ok) {
                let Ok(host) = TcpStream::connect(host) else {
                    continue;
                };
                let _ = (device.set_nodelay(true), host.set_nodelay(true));
                let (from_device, from_host) =
                    (device.try_clone().unwrap(), host.try_clone().unwrap());
                thread::spawn(move || pass(from_device, host, |_| ()));
                let (counted, mut reader) = (counted.clone(), RecordReader::default());
                let count = move |bytes: &[u8]| reader.read(bytes, &mut counted.lock().unwrap());
                thread::spawn(move || pass(from_host, device, count));
            }
        });
        Self { address, records }
    }

    fn records(&self) -> Records {
        *self.records.lock().unwrap()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut count: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        count(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = (
        from.shutdown(std::net::Shutdown::Both),
        to.shutdown(std::net::Shutdown::Both),
    );
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
