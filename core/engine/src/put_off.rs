//! What is put off after a failure: longer with each failure in a row, never twice at the same pace, and due only once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The first longest wait; it doubles up to [`LAST_WAIT`]. A wait is at least half of it.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(30);
/// Failures in a row after which counting on would change nothing.
const MOST_TIMES: u32 = 16;

/// Things that wait for another try, by what they are.
#[derive(Debug)]
pub(crate) struct PutOff<K> {
    /// Until when, or `None` while the try that was due is under way; and how often it has failed in a row.
    waits: BTreeMap<K, (Option<Instant>, u32)>,
}

impl<K> Default for PutOff<K> {
    fn default() -> Self {
        Self {
            waits: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> PutOff<K> {
    /// It has failed: it waits, about twice as long as the last time. `draw` is any byte, for the jitter: what failed
    /// in many places at once is not tried again at once in all of them.
    pub(crate) fn failed(&mut self, what: K, now: Instant, draw: u8) {
        let (until, times) = self.waits.entry(what).or_insert((None, 0));
        let longest = FIRST_WAIT
            .saturating_mul(1u32.checked_shl(*times).unwrap_or(u32::MAX))
            .min(LAST_WAIT);
        let half = longest / 2;
        *until = Some(now + half + half * u32::from(draw) / u32::from(u8::MAX));
        *times = (*times + 1).min(MOST_TIMES);
    }

    /// It has succeeded, or is not wanted any more: the next failure is the first again.
    pub(crate) fn forget(&mut self, what: K) {
        self.waits.remove(&what);
    }

    /// Those whose wait is over. They are given once: until they fail again they are not due, or whoever sleeps until
    /// [`Self::next`] would not sleep while a try is under way.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<K> {
        let mut due = Vec::new();
        for (what, (until, _)) in &mut self.waits {
            if until.is_some_and(|at| at <= now) {
                *until = None;
                due.push(*what);
            }
        }
        due
    }

    /// Forgets what is not waiting and of which `keep` says no.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.waits
            .retain(|what, (until, _)| until.is_some() || keep(*what));
    }

    pub(crate) fn is_waiting(&self, what: K) -> bool {
        self.waits
            .get(&what)
            .is_some_and(|(until, _)| until.is_some())
    }

    /// When the next wait is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waits.values().filter_map(|(until, _)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_WAIT, LAST_WAIT, PutOff};
    use std::time::{Duration, Instant};

    #[test]
    fn what_was_due_is_not_due_again_while_its_try_is_under_way() {
        let start = Instant::now();
        let mut put_off = PutOff::default();
        put_off.failed(1, start, u8::MAX);
        assert_eq!(put_off.next(), Some(start + FIRST_WAIT));
        assert!(put_off.take_due(start).is_empty() && put_off.is_waiting(1));
        let then = start + FIRST_WAIT;
        assert_eq!(put_off.take_due(then), [1]);
        assert_eq!(put_off.next(), None, "nothing to wake up for");
        assert!(put_off.take_due(then).is_empty() && !put_off.is_waiting(1));
        put_off.failed(1, then, u8::MAX);
        assert_eq!(put_off.next(), Some(then + 2 * FIRST_WAIT));
        put_off.forget(1);
        put_off.failed(1, then, u8::MAX);
        assert_eq!(put_off.next(), Some(then + FIRST_WAIT));
    }

    #[test]
    fn a_wait_grows_to_its_longest_and_no_further() {
        let mut now = Instant::now();
        let mut put_off = PutOff::default();
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            put_off.failed((), now, u8::MAX);
            let next = put_off.next().unwrap();
            assert!(next - now >= last);
            last = next - now;
            now = next;
            assert_eq!(put_off.take_due(now).len(), 1);
        }
        assert_eq!(last, LAST_WAIT);
    }
    #[test]
    fn a_wait_is_drawn_from_its_upper_half() {
        let now = Instant::now();
        let wait = |draw| {
            let mut put_off = PutOff::default();
            put_off.failed((), now, draw);
            put_off.failed((), now, draw);
            put_off.next().unwrap() - now
        };
        assert_eq!((wait(0), wait(u8::MAX)), (FIRST_WAIT, 2 * FIRST_WAIT));
        assert!((0..u8::MAX).all(|draw| wait(draw) < wait(draw + 1)));
    }
}
