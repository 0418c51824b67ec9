//! Whether a queue, or what an owner has of them, is too slow for the worker of the database, which has others to
//! serve.

use std::time::{Duration, Instant};

/// How long an owner's queues are left to job workers after one of them has reached the time limit: doubled each time, up
/// to a limit.
const OWNER_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The same for the queue itself: longer, so that it does not keep its owner's other queues slow.
const QUEUE_PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// Slow until an instant, and for longer if it is found slow again. Only time ends it: to be fast in between does not
/// make the pauses shorter, so that what is slow now and then costs no more in the long run than what always is.
#[derive(Clone, Copy, Debug)]
pub struct Slowness {
    pauses: (Duration, Duration),
    /// The last one.
    pause: Duration,
    until: Option<Instant>,
}

impl Slowness {
    pub fn of_owner() -> Slowness {
        Slowness { pauses: OWNER_PAUSES, pause: Duration::ZERO, until: None }
    }

    pub fn of_queue() -> Slowness {
        Slowness { pauses: QUEUE_PAUSES, ..Slowness::of_owner() }
    }

    /// It has reached the time limit.
    pub fn note_slow(&mut self, now: Instant) {
        if !self.is_remembered(now) {
            self.pause = Duration::ZERO;
        }
        if self.left(now).is_none() {
            self.pause = (self.pause * 2).clamp(self.pauses.0, self.pauses.1);
        }
        self.until = Some(now + self.pause);
    }

    /// It was not slow: the next pause is half as long as it would be.
    pub fn note_good(&mut self) {
        self.pause /= 2;
    }

    /// How long it is slow yet; None if it is not.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// It is slow, or was no longer ago than it was taken to be.
    pub fn is_in_doubt(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until + self.pause)
    }

    /// Returns whether its next pause depends on this one. A pause is remembered for as long as the longest one.
    pub fn is_remembered(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until + self.pauses.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_grow_while_it_is_slow_each_time() {
        let (mut slowness, mut now) = (Slowness::of_owner(), Instant::now());
        let mut pauses = vec![];
        assert!(slowness.left(now).is_none() && !slowness.is_in_doubt(now));
        for _ in 0..8 {
            slowness.note_slow(now);
            let left = slowness.left(now).unwrap();
            pauses.push(left.as_secs());
            now += left;
            assert!(slowness.left(now).is_none() && slowness.is_in_doubt(now));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn pauses_grow_as_well_if_it_is_fast_for_longer_than_each_of_them() {
        let (mut slowness, mut now) = (Slowness::of_queue(), Instant::now());
        let mut pauses = vec![];
        for _ in 0..7 {
            slowness.note_slow(now);
            let left = slowness.left(now).unwrap();
            pauses.push(left.as_secs());
            now += (2 * left + SECOND).min(left + 299 * SECOND);
            assert!(slowness.is_remembered(now));
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn what_is_slow_meanwhile_only_makes_it_last() {
        let (mut slowness, now) = (Slowness::of_queue(), Instant::now());
        slowness.note_slow(now);
        slowness.note_slow(now + 6 * SECOND);
        assert_eq!(slowness.left(now + 6 * SECOND), Some(10 * SECOND));
    }

    #[test]
    fn it_is_forgotten_after_the_longest_pause() {
        let (mut slowness, now) = (Slowness::of_owner(), Instant::now());
        slowness.note_slow(now);
        slowness.note_slow(now + SECOND);
        assert!(slowness.is_in_doubt(now + 4 * SECOND) && !slowness.is_in_doubt(now + 5 * SECOND));
        assert!(slowness.is_remembered(now + 62 * SECOND));
        assert!(!slowness.is_remembered(now + 63 * SECOND));
        slowness.note_slow(now + 63 * SECOND);
        assert_eq!(slowness.left(now + 63 * SECOND), Some(SECOND));
    }
}
