//! What is put off after a failure: longer with each failure in a row, and due only once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The first wait; it doubles up to [`LAST_WAIT`].
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
    /// It has failed: it waits, twice as long as the last time.
    pub(crate) fn failed(&mut self, what: K, now: Instant) {
        let (until, times) = self.waits.entry(what).or_insert((None, 0));
        let wait = FIRST_WAIT
            .saturating_mul(1u32.checked_shl(*times).unwrap_or(u32::MAX))
            .min(LAST_WAIT);
        *until = Some(now + wait);
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
        put_off.failed(1, start);
        assert_eq!(put_off.next(), Some(start + FIRST_WAIT));
        assert!(put_off.take_due(start).is_empty() && put_off.is_waiting(1));
        let then = start + FIRST_WAIT;
        assert_eq!(put_off.take_due(then), [1]);
        assert_eq!(put_off.next(), None, "nothing to wake up for");
        assert!(put_off.take_due(then).is_empty() && !put_off.is_waiting(1));
        put_off.failed(1, then);
        assert_eq!(put_off.next(), Some(then + 2 * FIRST_WAIT));
        put_off.forget(1);
        put_off.failed(1, then);
        assert_eq!(put_off.next(), Some(then + FIRST_WAIT));
    }

    #[test]
    fn a_wait_grows_to_its_longest_and_no_further() {
        let mut now = Instant::now();
        let mut put_off = PutOff::default();
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            put_off.failed((), now);
            let next = put_off.next().unwrap();
            assert!(next - now >= last);
            last = next - now;
            now = next;
            assert_eq!(put_off.take_due(now).len(), 1);
        }
        assert_eq!(last, LAST_WAIT);
    }
}
