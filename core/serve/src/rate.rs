//! How fast a device's commands are taken: a bucket of tokens that fills with time. Pure; time is given.

use std::time::Duration;

/// Commands that are taken at once.
const BURST: u64 = 200;
/// Time for one more.
const EVERY: Duration = Duration::from_millis(20);

/// A device's budget, as the moment at which its bucket is full again.
#[derive(Debug, Clone)]
pub(crate) struct Rate {
    full_at: Duration,
}

impl Rate {
    /// A full bucket.
    pub(crate) fn new(now: Duration) -> Self {
        Self { full_at: now }
    }

    /// Takes one token, or says how long it takes until there is one.
    pub(crate) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let depth = EVERY * u32::try_from(BURST).unwrap_or(u32::MAX);
        let after = self.full_at.max(now) + EVERY;
        match after.checked_sub(now + depth) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.full_at = after;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_steady_rate_holds() {
        let mut rate = Rate::new(Duration::ZERO);
        let passed = |rate: &mut Rate, times: &mut dyn Iterator<Item = Duration>| {
            times.filter(|now| rate.take(*now).is_ok()).count()
        };
        assert_eq!(
            passed(&mut rate, &mut std::iter::repeat_n(Duration::ZERO, 1000)),
            200
        );
        assert_eq!(
            passed(&mut rate, &mut (1..=10_000).map(Duration::from_millis)),
            500
        );
    }

    #[test]
    fn after_the_wait_that_was_named_there_is_a_token() {
        let mut rate = Rate::new(Duration::ZERO);
        while rate.take(Duration::ZERO).is_ok() {}
        let wait = rate.take(Duration::ZERO).unwrap_err();
        assert!(wait <= EVERY);
        assert_eq!(rate.take(wait), Ok(()));
    }
}
