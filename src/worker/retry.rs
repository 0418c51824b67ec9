//! When the worker tries again what could not be done.

use std::time::{Duration, Instant};

/// When something may be tried again.
#[derive(Default)]
pub struct Retry {
    at: Option<Instant>,
    pause: Duration,
    pub has_failed: bool,
}

impl Retry {
    pub fn is_due(&self) -> bool {
        self.at.is_none_or(|at| Instant::now() >= at)
    }

    pub fn left(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub fn after(&mut self, (first, longest): (Duration, Duration)) {
        self.pause = (self.pause * 2).clamp(first, longest);
        self.at = Some(Instant::now() + self.pause);
    }

    pub fn succeed(&mut self) {
        (self.at, self.pause) = (None, Duration::ZERO);
    }
}
