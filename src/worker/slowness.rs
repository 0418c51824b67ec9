//! Whether a queue, or what an owner has of them, is too slow for the worker of the database, which has others to
//! serve.

use std::time::{Duration, Instant};

/// How long an owner's queues are left to job workers after one of them has reached the time limit: doubled each time, up
/// to a limit.
const OWNER_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The same for the queue itself: longer, so that it does not keep its owner's other queues slow.
const QUEUE_PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// Slow until an instant, and for longer if it is found slow again. Only time ends it.
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
        if self.left(now).is_none() {
            self.pause = (self.pause * 2).clamp(self.pauses.0, self.pauses.1);
        }
        self.until = Some(now + self.pause);
    }

    /// It has not. Once it has been fast for as long as it was taken to be slow, pauses begin anew.
    pub fn note_fast(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until + self.pause) {
            (self.pause, self.until) = (Duration::ZERO, None);
        }
    }

    /// How long it is slow yet; None if it is not.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// It was slow of late.
    pub fn is_in_doubt(&self) -> bool {
        self.until.is_some()
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
        assert!(slowness.left(now).is_none() && !slowness.is_in_doubt());
        for _ in 0..8 {
            slowness.note_slow(now);
            let left = slowness.left(now).unwrap();
            pauses.push(left.as_secs());
            now += left;
            assert!(slowness.left(now).is_none() && slowness.is_in_doubt());
            slowness.note_fast(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn what_is_slow_meanwhile_only_makes_it_last() {
        let (mut slowness, now) = (Slowness::of_queue(), Instant::now());
        slowness.note_slow(now);
        slowness.note_slow(now + 6 * SECOND);
        assert_eq!(slowness.left(now + 6 * SECOND), Some(10 * SECOND));
    }

    #[test]
    fn it_is_forgotten_once_it_has_been_fast_for_as_long() {
        let (mut slowness, now) = (Slowness::of_owner(), Instant::now());
        slowness.note_slow(now);
        slowness.note_slow(now + SECOND);
        slowness.note_fast(now + 3 * SECOND);
        assert!(slowness.is_in_doubt());
        slowness.note_fast(now + 5 * SECOND);
        assert!(!slowness.is_in_doubt());
        slowness.note_slow(now + 6 * SECOND);
        assert_eq!(slowness.left(now + 6 * SECOND), Some(SECOND));
    }
}
