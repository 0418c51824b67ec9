//! Numbers of tasks put and done in the last minute.

/// Length of a slice of time, in microseconds.
const SLICE: i64 = 5_000_000;
const SLICES: usize = 12;

/// Tasks of the last minute, by slices of five seconds.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Rates {
    /// Number of the newest slice.
    newest: i64,
    slices: [Flow; SLICES],
}

/// Tasks put, and tasks done: acked, or deleted in another way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    pub put: u64,
    pub done: u64,
}

impl Rates {
    pub fn add(&mut self, now: i64, flow: Flow) {
        let slice = now.div_euclid(SLICE);
        // If the clock was set back, all slices are cleared.
        let passed = slice.checked_sub(self.newest).filter(|passed| *passed >= 0);
        let passed = passed.map_or(SLICES, |passed| passed.min(SLICES as i64) as usize);
        for passed in 0..passed {
            self.slices[(slice - passed as i64).rem_euclid(SLICES as i64) as usize] =
                Flow::default();
        }
        self.newest = slice;
        let newest = &mut self.slices[slice.rem_euclid(SLICES as i64) as usize];
        newest.put += flow.put;
        newest.done += flow.done;
    }

    /// Returns the tasks of the last minute. The slice in progress counts as far as it is filled.
    pub fn of_last_minute(mut self, now: i64) -> Flow {
        self.add(now, Flow::default());
        let sum = |of: fn(&Flow) -> u64| self.slices.iter().map(of).sum();
        Flow { put: sum(|flow| flow.put), done: sum(|flow| flow.done) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn flow(put: u64, done: u64) -> Flow {
        Flow { put, done }
    }

    #[test]
    fn the_last_minute_is_summed_up() {
        let mut rates = Rates::default();
        for second in 0..60 {
            rates.add(second * SECOND, flow(2, 1));
        }
        assert_eq!(rates.of_last_minute(59 * SECOND), flow(120, 60));
        // The minute leaves one slice after another.
        assert_eq!(rates.of_last_minute(62 * SECOND), flow(110, 55));
        assert_eq!(rates.of_last_minute(114 * SECOND), flow(10, 5));
        assert_eq!(rates.of_last_minute(115 * SECOND), flow(0, 0));
        assert_eq!(rates.of_last_minute(100_000 * SECOND), flow(0, 0));
    }

    #[test]
    fn slices_are_used_again() {
        let mut rates = Rates::default();
        rates.add(SECOND, flow(5, 5));
        rates.add(61 * SECOND, flow(1, 0));
        assert_eq!(rates.of_last_minute(62 * SECOND), flow(1, 0));
        rates.add(1000 * SECOND, flow(7, 0));
        assert_eq!(rates.of_last_minute(1001 * SECOND), flow(7, 0));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let mut rates = Rates::default();
        rates.add(1000 * SECOND, flow(5, 5));
        rates.add(-10 * SECOND, flow(1, 2));
        assert_eq!(rates.of_last_minute(-10 * SECOND), flow(1, 2));
    }
}
