//! What holds of every recording of every family, whole, cut and split.

use crate::{replay::Recorded, stage::Stage};
use pilothouse_domain::{Policy, ProviderEvent, ProviderEventKind, RequestStatus, Row};
use pilothouse_orchestrator::memory::MemoryThread;
use std::fmt::Debug;

/// Frames at which a longer recording is cut, unless PILOTHOUSE_RECORDING_CUTS=all.
const CUTS: usize = 300;
/// Bytes of a recording above which it is not split into the shortest pieces.
const SHORT: usize = 200_000;

/// A recording of a family as far as it was replayed.
pub(crate) trait Recording: Sized {
    /// What the codec gives.
    type Heard: PartialEq + Debug;

    /// The agents and names of all.
    fn all() -> Vec<(&'static str, String)>;
    /// The frames of one.
    fn records(agent: &str, name: &str) -> Vec<Recorded>;
    /// Before its first frame.
    fn new(name: &str, records: &[Recorded]) -> Self;
    /// Takes its next frame.
    fn step(&mut self, record: &Recorded);
    /// The threads that came of it.
    fn stage(&self) -> &Stage;
    /// What was heard so far.
    fn heard(&self) -> &[Self::Heard];
    /// An event among what was heard.
    fn event(heard: &Self::Heard) -> Option<&ProviderEvent>;
    /// A codec that reads what its agent wrote.
    fn reader(agent: &str, name: &str) -> impl FnMut(&[u8]) -> Vec<Self::Heard>;
    /// What its agent wrote by this frame.
    fn written(record: &Recorded) -> Option<Vec<u8>> {
        (record.dir != "c2s").then(|| record.line.clone())
    }
    /// The whole of one.
    fn of(agent: &str, name: &str) -> Self {
        let records = Self::records(agent, name);
        let mut recording = Self::new(name, &records);
        for record in &records {
            recording.step(record);
        }
        recording
    }
}

pub(crate) fn nothing_is_unknown<R: Recording>() {
    let mut unknown = Vec::new();
    let mut events = 0;
    for (agent, name) in R::all() {
        for event in R::of(agent, &name).heard().iter().filter_map(R::event) {
            events += 1;
            // A notice is for its person, and no frame that nobody knows.
            if let ProviderEventKind::Unknown { label, raw } = &event.kind
                && !label.starts_with("notice (")
            {
                unknown.push(format!("{agent}/{name}: {label}: {raw}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(events > 300, "{events} events of all recordings");
}

pub(crate) fn a_cut_leaves_nothing_open<R: Recording>() {
    let each = std::env::var("PILOTHOUSE_RECORDING_CUTS").is_ok_and(|cuts| cuts == "all");
    let mut failures = Vec::new();
    for (agent, name) in R::all() {
        let records = R::records(agent, &name);
        let step = match each {
            true => 1,
            false => records.len().div_ceil(CUTS).max(1),
        };
        let mut recording = R::new(&name, &records);
        for (at, record) in records.iter().enumerate() {
            recording.step(record);
            if at % step == 0 || at + 1 == records.len() {
                for left in recording.stage().left_open_after_loss() {
                    failures.push(format!("{agent}/{name} cut after frame {at}: {left}"));
                }
            }
        }
    }
    let first = failures.first();
    assert!(
        first.is_none(),
        "{} failures, first: {first:?}",
        failures.len()
    );
}

pub(crate) fn splitting_changes_nothing<R: Recording>() {
    for (agent, name) in R::all() {
        let records = R::records(agent, &name);
        let bytes: Vec<u8> = records.iter().filter_map(R::written).flatten().collect();
        let whole = R::reader(agent, &name)(&bytes);
        for length in [1, 3, 7, 1021] {
            if bytes.len() > SHORT && length < 7 {
                continue;
            }
            let mut reader = R::reader(agent, &name);
            let split: Vec<_> = bytes.chunks(length).flat_map(&mut reader).collect();
            assert!(split == whole, "{agent}/{name} in pieces of {length} bytes");
        }
    }
}

pub(crate) fn the_log_replays_to_the_same<R: Recording>() {
    for (agent, name) in R::all() {
        for memory in R::of(agent, &name).stage().threads.values() {
            let again =
                MemoryThread::replay(memory.state.thread, Policy::default(), &memory.entries);
            assert_eq!(again.digest(), memory.digest(), "{agent}/{name}");
            assert!(again.rows == memory.rows, "{agent}/{name}");
        }
    }
}

/// Of the recordings whose agent was not gone before their end.
pub(crate) fn no_request_stays_pending<R: Recording>(ends: impl Fn(&str) -> bool) {
    for (agent, name) in R::all() {
        if !ends(&name) {
            continue;
        }
        for memory in R::of(agent, &name).stage().threads.values() {
            for row in memory.rows.0.values() {
                if let Row::Request(request) = row {
                    assert_ne!(
                        request.status,
                        RequestStatus::Pending,
                        "{agent}/{name}: {request:#?}"
                    );
                }
            }
        }
    }
}

/// The tests of a family: what holds of each recording, and `$ends`, whether the recording of a name goes on to its end.
macro_rules! every_recording {
    ($recording:ty, $ends:expr) => {
        #[test]
        fn no_frame_of_any_recording_is_unknown() {
            $crate::every::nothing_is_unknown::<$recording>();
        }

        #[test]
        fn every_recording_cut_anywhere_leaves_nothing_open_once_the_runtime_is_lost() {
            $crate::every::a_cut_leaves_nothing_open::<$recording>();
        }

        #[test]
        fn a_recording_split_at_odd_bytes_gives_the_same() {
            $crate::every::splitting_changes_nothing::<$recording>();
        }

        #[test]
        fn what_a_device_replays_from_the_log_is_what_the_ledger_has() {
            $crate::every::the_log_replays_to_the_same::<$recording>();
        }

        #[test]
        fn no_request_of_a_recording_that_went_to_its_end_stays_pending() {
            $crate::every::no_request_stays_pending::<$recording>($ends);
        }
    };
}
pub(crate) use every_recording;
