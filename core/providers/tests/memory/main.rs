//! What a hostile agent can cost in memory, counted by the allocator: after every frame a codec of each family holds no more
//! than its declared budget (docs/decisions/035), and reading a frame costs no more than is declared for that.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![expect(
    clippy::print_stderr,
    reason = "what was measured is read with --nocapture"
)]

mod acp;
mod claude;
mod codex;
mod flood;
mod opencode;
mod pi;
#[path = "../all/thread.rs"]
mod thread;

use peak_alloc::PeakAlloc;
use pilothouse_domain::ProviderEvent;
use pilothouse_providers::codex::{FRAME_LIMIT, HELD_LIMIT, READING_LIMIT};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Only one test allocates at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes that a codec is given at a time, as from the pipe of an agent.
const PIECE: usize = 4096;
/// What the allocator counts beside what a codec holds: empty queues and maps.
const SLACK: usize = 1024 * 1024;
const MIB: usize = 1024 * 1024;

/// What came of bytes.
#[derive(Default)]
struct Came {
    events: Vec<ProviderEvent>,
    /// Answers that needed no person.
    answers: usize,
}

/// A codec of a family.
trait Fed {
    /// Takes bytes.
    fn feed(&mut self, bytes: &[u8]) -> Came;
    /// Bytes that it says it holds.
    fn held(&self) -> usize;
}

macro_rules! fed {
    ($codec:ty, $told:ident, $answer:ident) => {
        impl crate::Fed for $codec {
            fn feed(&mut self, bytes: &[u8]) -> crate::Came {
                let mut came = crate::Came::default();
                for one in self.receive(bytes) {
                    match one {
                        $told::Event(event) => came.events.push(event),
                        $told::$answer(_) => came.answers += 1,
                        #[allow(unreachable_patterns, reason = "opencode's replies come apart")]
                        _ => {}
                    }
                }
                came
            }

            fn held(&self) -> usize {
                self.held_bytes()
            }
        }
    };
}
pub(crate) use fed;

/// Feeds an agent's frames, made one after another, and holds the codec to its budget. Gives the most that it said it holds.
fn hold_to_the_budget<C: Fed>(
    what: &str,
    codec: impl FnOnce() -> C,
    frames: usize,
    mut frame: impl FnMut(usize) -> Vec<u8>,
) -> usize {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = ALLOCATED.current_usage();
    let mut codec = codec();
    let (mut most_held, mut most_said, mut most_read, mut fed) = (0, 0, 0, 0);
    for number in 0..frames {
        let bytes = frame(number);
        assert!(bytes.len() <= FRAME_LIMIT, "{what}: frame {number} is none");
        fed += bytes.len();
        ALLOCATED.reset_peak_usage();
        for piece in bytes.chunks(PIECE) {
            codec.feed(piece);
        }
        // Threads of other tests may free a little meanwhile.
        let peak = ALLOCATED.peak_usage().saturating_sub(before + bytes.len());
        drop(bytes);
        let held = ALLOCATED.current_usage().saturating_sub(before);
        assert!(
            held <= HELD_LIMIT,
            "{what}: {} MiB are held after frame {number}",
            held / MIB
        );
        assert!(
            held <= codec.held() + SLACK,
            "{what}: {held} bytes are held after frame {number}, and {} are said to be",
            codec.held()
        );
        assert!(
            peak <= HELD_LIMIT + READING_LIMIT,
            "{what}: {} MiB were needed for frame {number}",
            peak / MIB
        );
        most_held = most_held.max(held);
        most_said = most_said.max(codec.held());
        most_read = most_read.max(peak - held.min(peak));
    }
    eprintln!(
        "{what}: {} MiB in {frames} frames; at most {} MiB held, {} MiB more while one was read",
        fed / MIB,
        most_held / MIB,
        most_read / MIB
    );
    most_said
}

/// A frame as a line.
fn line(frame: &Value) -> Vec<u8> {
    let mut bytes = frame.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Several frames as lines, that come at once.
fn lines(frames: impl Iterator<Item = Value>) -> Vec<u8> {
    frames.flat_map(|frame| line(&frame)).collect()
}

/// A text of so many bytes that names a number.
fn long(number: usize, bytes: usize) -> String {
    format!("{number:08}{}", "x".repeat(bytes - 8))
}

/// JSON of which each byte takes as much memory as it can.
fn crowded(values: usize) -> String {
    format!("[{}0]", "0,".repeat(values))
}
