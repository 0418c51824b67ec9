//! A pause before work is tried again.
//!
//! 1. Each pause is twice as long as the previous one, within limits.
//! 2. `end` ends a pause early, but the next one still doubles.
//! 3. `Pause::NONE` resets the length after the work has succeeded.

use std::time::Duration;

/// The first pause, and the longest.
pub type Limits = (Duration, Duration);

/// All-zero bytes are no pause.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Length (µs); 0 without a pause.
    pub length: i64,
    pub until: i64,
}

impl Pause {
    pub const NONE: Pause = Pause { length: 0, until: 0 };

    /// Begins a pause, twice as long as the last one.
    pub fn begin(&mut self, now: i64, (first, longest): Limits) {
        let micros = |length: Duration| length.as_micros() as i64;
        self.length = (self.length * 2).clamp(micros(first), micros(longest));
        self.until = now.saturating_add(self.length);
    }

    /// Ends the pause early. The next pause is still twice as long.
    pub fn end(&mut self) {
        self.until = 0;
    }

    /// Returns when the pause ends. It counts as ended if the clock stands more than its length before its begin.
    pub fn end_at(&self, now: i64) -> i64 {
        let is_beyond = self.until > now.saturating_add(self.length.saturating_mul(2));
        if is_beyond { now } else { self.until }
    }

    pub fn left(&self, now: i64) -> Duration {
        Duration::from_micros(self.end_at(now).saturating_sub(now).max(0) as u64)
    }

    pub fn is_over(&self, now: i64) -> bool {
        self.end_at(now) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_outlast_no_clock() {
        let mut pause = Pause::NONE;
        assert!(pause.is_over(0));
        let limits = (Duration::from_micros(10), Duration::from_micros(30));
        let lefts = [0, 100, 200].map(|now| {
            pause.begin(now, limits);
            pause.left(now).as_micros()
        });
        assert_eq!(lefts, [10, 20, 30]);
        assert!(!pause.is_over(229));
        assert!(pause.is_over(230));
        assert!(!pause.is_over(170), "the clock was set back a little");
        assert!(pause.is_over(169), "the clock was set back by more than the pause");
    }
}
