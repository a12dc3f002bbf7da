//! When to try again and when to give a peer up: pure, with time and randomness given.
//!
//! Times are [`Duration`]s since any fixed moment of the caller's choice.

use std::time::Duration;

/// First ceiling of the wait between two attempts.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(250);
/// Last ceiling of the wait between two attempts; it is kept for ever.
pub const BACKOFF_LAST: Duration = Duration::from_secs(30);
/// A connection that lived shorter than this does not count as a success: its end waits longer than the one before.
pub const STABLE_AFTER: Duration = Duration::from_secs(5);
/// Time between two pings.
pub const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Pings without any frame in return after which a peer is stale.
pub const MISSES: u32 = 2;
/// Time for the answer to a probe on foreground or network change.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// Silence after which a host gives up a device: two missed pings, and time for a third. A host only listens, by
/// [`crate::message::Incoming::receive_alive`], and wakes for nothing while no device is connected.
pub const HOST_SILENCE: Duration = Duration::from_secs(45);

/// Exponential backoff with full jitter: each wait is anywhere from nothing to a ceiling that doubles.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// No failure yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest that the next wait can be.
    pub fn ceiling(&self) -> Duration {
        let doubled = BACKOFF_FIRST
            .saturating_mul(1u32.checked_shl(self.failures.min(31)).unwrap_or(u32::MAX));
        doubled.min(BACKOFF_LAST)
    }

    /// Counts a failure and returns how long to wait, drawn by `random` (any 64 random bits).
    pub fn next_wait(&mut self, random: u64) -> Duration {
        let ceiling_us = u64::try_from(self.ceiling().as_micros()).unwrap_or(u64::MAX - 1);
        self.failures = self.failures.saturating_add(1);
        Duration::from_micros(random % (ceiling_us + 1))
    }

    /// Goes to the longest waits at once: trying soon is pointless.
    pub fn despair(&mut self) {
        self.failures = self.failures.max(7);
    }

    /// Starts over, after a connection that lasted or when a person looks.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// What the moment asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// Nothing until then.
    WaitUntil(Duration),
    /// Send a ping now.
    Ping,
    /// The peer gives no sign of life.
    Stale,
}

/// The device's side of liveness.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    next_ping: Duration,
    unanswered: u32,
    probe: Option<Probe>,
}

#[derive(Debug, Clone, Copy)]
enum Probe {
    Wanted,
    Sent { deadline: Duration },
}

impl Heartbeat {
    /// A connection that was alive at `now`.
    pub fn new(now: Duration) -> Self {
        Self {
            next_ping: now + PING_INTERVAL,
            unanswered: 0,
            probe: None,
        }
    }

    /// Any frame came in.
    pub fn heard(&mut self) {
        self.unanswered = 0;
        if let Some(Probe::Sent { .. }) = self.probe {
            self.probe = None;
        }
    }

    /// Foreground or network change: ask now, and wait less long than usual. A probe under way stays as it is.
    pub fn probe(&mut self) {
        self.probe.get_or_insert(Probe::Wanted);
    }

    /// What to do at `now`. A returned [`Beat::Ping`] counts as sent.
    pub fn beat(&mut self, now: Duration) -> Beat {
        match self.probe {
            Some(Probe::Wanted) => {
                self.probe = Some(Probe::Sent {
                    deadline: now + PROBE_TIMEOUT,
                });
                return Beat::Ping;
            }
            Some(Probe::Sent { deadline }) if now >= deadline => return Beat::Stale,
            _ => {}
        }
        if now >= self.next_ping {
            if self.unanswered >= MISSES {
                return Beat::Stale;
            }
            self.unanswered += 1;
            self.next_ping = now + PING_INTERVAL;
            return Beat::Ping;
        }
        match self.probe {
            Some(Probe::Sent { deadline }) => Beat::WaitUntil(deadline.min(self.next_ping)),
            _ => Beat::WaitUntil(self.next_ping),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn ceilings_double_from_a_quarter_second_to_thirty_seconds_and_stay() {
        let mut backoff = Backoff::new();
        let ceilings: Vec<_> = (0..200)
            .map(|_| {
                let ceiling = backoff.ceiling();
                backoff.next_wait(7);
                ceiling
            })
            .collect();
        let ms: Vec<_> = ceilings[..9].iter().map(Duration::as_millis).collect();
        assert_eq!(ms, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(ceilings[199], BACKOFF_LAST);
        backoff.reset();
        assert_eq!(backoff.ceiling(), BACKOFF_FIRST);
    }

    #[test]
    fn waits_spread_over_the_whole_range_and_never_exceed_it() {
        for failures in 0..12 {
            let mut low = Duration::MAX;
            let mut high = Duration::ZERO;
            for draw in 0..1000u64 {
                let mut backoff = Backoff { failures };
                let ceiling = backoff.ceiling();
                let wait = backoff.next_wait(draw.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                assert!(wait <= ceiling);
                low = low.min(wait);
                high = high.max(wait);
            }
            let ceiling = Backoff { failures }.ceiling();
            assert!(
                low < ceiling / 10 && high > ceiling * 9 / 10,
                "{low:?} to {high:?} of {ceiling:?}"
            );
        }
    }

    #[test]
    fn two_missed_pings_make_a_peer_stale_and_any_frame_resets_the_count() {
        let mut heart = Heartbeat::new(s(0));
        assert_eq!(heart.beat(s(0)), Beat::WaitUntil(s(15)));
        assert_eq!(heart.beat(s(15)), Beat::Ping);
        assert_eq!(heart.beat(s(15)), Beat::WaitUntil(s(30)));
        assert_eq!(heart.beat(s(30)), Beat::Ping);
        heart.heard();
        assert_eq!(heart.beat(s(45)), Beat::Ping);
        assert_eq!(heart.beat(s(60)), Beat::Ping);
        assert_eq!(heart.beat(s(74)), Beat::WaitUntil(s(75)));
        assert_eq!(heart.beat(s(75)), Beat::Stale);
    }

    #[test]
    fn a_probe_asks_at_once_and_gives_up_after_four_seconds() {
        let mut heart = Heartbeat::new(s(0));
        heart.probe();
        assert_eq!(heart.beat(s(1)), Beat::Ping);
        heart.probe();
        assert_eq!(
            heart.beat(s(2)),
            Beat::WaitUntil(s(5)),
            "a probe under way is not prolonged"
        );
        assert_eq!(heart.beat(s(5)), Beat::Stale);

        let mut heart = Heartbeat::new(s(0));
        heart.probe();
        assert_eq!(heart.beat(s(1)), Beat::Ping);
        heart.heard();
        assert_eq!(heart.beat(s(5)), Beat::WaitUntil(s(15)));
    }

    #[test]
    fn a_frame_that_came_before_the_probe_was_sent_does_not_answer_it() {
        let mut heart = Heartbeat::new(s(0));
        heart.probe();
        heart.heard();
        assert_eq!(heart.beat(s(1)), Beat::Ping);
        assert_eq!(heart.beat(s(5)), Beat::Stale);
    }
}
