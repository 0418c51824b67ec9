//! A pause before something is tried again: twice as long each time, within limits, until something comes of it.

use std::time::Duration;

/// The first pause, and the longest.
pub type Limits = (Duration, Duration);

/// All-zero bytes are no pause.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Microseconds; 0 without one.
    pub length: i64,
    pub until: i64,
}

impl Pause {
    pub const NONE: Pause = Pause { length: 0, until: 0 };

    /// Begins one, twice as long as the last one.
    pub fn begin(&mut self, now: i64, (first, longest): Limits) {
        let micros = |length: Duration| length.as_micros() as i64;
        self.length = (self.length * 2).clamp(micros(first), micros(longest));
        self.until = now.saturating_add(self.length);
    }

    /// Ends it; the next one is twice as long all the same.
    pub fn end(&mut self) {
        self.until = 0;
    }

    /// Returns when it ends. The clock may have been set back: no pause is longer than it was to be.
    pub fn end_at(&self, now: i64) -> i64 {
        self.until.min(now.saturating_add(self.length))
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
        assert_eq!(pause.end_at(-1_000), -970, "the clock was set back");
    }
}
