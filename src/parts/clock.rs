//! Dates transaction ids. A row holds the id of the transaction that wrote it, so the clock tells how long a task has
//! been ready or taken without a column for it.
//!
//! A sample says that all ids below `next` had been assigned at an instant. Samples are kept in levels, each with eight
//! times the spacing of the level before. A recent id is dated to a quarter of a millisecond, an old id to an eighth of
//! its age.
//!
//! Readers take no lock. The races:
//!
//! 1. Two processes add a sample at the same time: the second one adds none.
//! 2. A reader reads while a sample is added: there are two copies, and the writer changes the one not in use. A writer
//!    that is suspended halfway delays no reader.
//! 3. The copy that a reader uses changes because a sample is complete: `version` has risen, and the reader tries
//!    again.
//! 4. The clock is set back: all samples are discarded.

use crate::server::shared_memory::{Shared, Zeroed};
use crate::server::xact;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, fence};

/// Minimum distance between samples of the first level (µs).
const SPACING: i64 = 250;
/// Factor between the spacings of two successive levels.
const RATIO: i64 = 8;
/// Lag behind the last sample (µs) from which the clock counts as set back; a smaller lag only means that another
/// process read the clock later.
const SET_BACK: i64 = 1_000_000;
const LEVELS: usize = 10;
const SAMPLES: usize = 64;
/// First normal transaction id; smaller ids belong to bootstrap rows.
const FIRST_ID: u32 = 3;
/// Maximum number of ids assigned since the last sample. A frozen row can keep an id of long ago, so all other ids are
/// older than the sample.
const AHEAD: u32 = 1 << 28;

pub(super) static CLOCK: Shared<Clock> = Shared::new();

pub(super) struct Clock {
    /// A sample is being added.
    is_advancing: AtomicBool,
    /// Number of changes of copies. Readers use the copy with this number modulo two.
    version: AtomicU64,
    /// The end of the last transaction that left no sample because it followed another too closely.
    unsampled: Sample,
    /// They are equal except while a sample is being added.
    copies: [Levels; 2],
}

/// The samples, each level with `RATIO` times the spacing of the level before.
struct Levels([Level; LEVELS]);

struct Level {
    /// Number of samples ever added; the last `SAMPLES` of them are kept.
    count: AtomicU64,
    samples: [Sample; SAMPLES],
}

/// A sample: all ids below `next` had been assigned at the instant `at`.
struct Sample {
    next: AtomicU64,
    at: AtomicI64,
}

// SAFETY: numbers.
unsafe impl Zeroed for Clock {}

/// Advances the clock: at the end of each transaction that changed queues, and when a worker starts. Must neither
/// allocate nor fail.
pub fn tick(now: i64) {
    CLOCK.get()[0].tick(now, xact::next_id());
}

/// Returns the time since a transaction got its id (µs), or None if it is not known. For ids from before the server's
/// start it is a lower bound.
pub fn age(id: u32, now: i64) -> Option<i64> {
    CLOCK.get()[0].instant(id, now).map(|instant| now.saturating_sub(instant).max(0))
}

impl Clock {
    fn tick(&self, now: i64, next: u64) {
        if !self.copy(self.version.load(Acquire)).is_due(now) {
            self.unsampled.next.fetch_max(next, Relaxed);
            self.unsampled.at.fetch_max(now, Relaxed);
            return;
        }
        if self.is_advancing.swap(true, Acquire) {
            return;
        }
        let mut version = self.version.load(Relaxed);
        // Instants from before the clock was set back cannot be compared with new ones.
        let is_set_back = self.copy(version).last().is_some_and(|(_, at)| is_set_back(now, at));
        if is_set_back {
            self.unsampled.set(0, i64::MIN);
        }
        let unsampled = self.unsampled.get();
        for _ in 0..self.copies.len() {
            version += 1;
            let copy = self.copy(version);
            if is_set_back {
                copy.clear();
            }
            copy.add(next, now, unsampled);
            self.version.store(version, Release);
            // A reader that sees a change of the copy it uses also sees that the version has risen.
            fence(Release);
        }
        self.is_advancing.store(false, Release);
    }

    fn copy(&self, version: u64) -> &Levels {
        &self.copies[(version % 2) as usize]
    }

    fn instant(&self, id: u32, now: i64) -> Option<i64> {
        loop {
            let version = self.version.load(Acquire);
            let found = self.copy(version).instant(id, now);
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return found;
            }
        }
    }
}

impl Levels {
    fn last(&self) -> Option<(u64, i64)> {
        self.0[0].last()
    }

    fn is_due(&self, now: i64) -> bool {
        self.0[0].is_due(now, SPACING)
    }

    fn clear(&self) {
        self.0.iter().for_each(|level| level.count.store(0, Relaxed));
    }

    fn add(&self, next: u64, now: i64, unsampled: (u64, i64)) {
        let last = self.last().map(|last| if unsampled.1 > last.1 { unsampled } else { last });
        let mut spacing = SPACING;
        for level in &self.0 {
            if !level.is_due(now, spacing) {
                break;
            }
            // Keeps ids assigned just before a pause from being dated to its end.
            let ended = last.filter(|(_, at)| now.saturating_sub(*at) >= spacing);
            if let Some((next, at)) = ended
                && level.last().is_none_or(|(_, before)| before < at)
            {
                level.add(next, at);
            }
            level.add(next, now);
            spacing *= RATIO;
        }
    }

    fn instant(&self, id: u32, now: i64) -> Option<i64> {
        let (newest, at) = self.last()?;
        let id = widened(id, newest);
        // A transaction without a sample ended within one `SPACING` after the last sample.
        let mut before = at.saturating_add(SPACING).min(now);
        for level in &self.0 {
            let count = level.count();
            let later = level.first_above(id, count);
            if later == count.min(SAMPLES) {
                return Some(before);
            }
            before = level.sample(count, later).1;
            if later > 0 {
                return Some(before);
            }
        }
        Some(before)
    }
}

impl Sample {
    fn get(&self) -> (u64, i64) {
        (self.next.load(Relaxed), self.at.load(Relaxed))
    }

    fn set(&self, next: u64, at: i64) {
        self.next.store(next, Relaxed);
        self.at.store(at, Relaxed);
    }
}

/// A reader that has not checked the version can see a mix of several moments, so each method reads the count once.
impl Level {
    fn count(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    /// Returns a kept sample, counted from the oldest one, given the number of samples added.
    fn sample(&self, count: usize, index: usize) -> (u64, i64) {
        self.samples[(count - count.min(SAMPLES) + index) % SAMPLES].get()
    }

    fn last(&self) -> Option<(u64, i64)> {
        let last = self.count().checked_sub(1)?;
        Some(self.samples[last % SAMPLES].get())
    }

    fn is_due(&self, now: i64, spacing: i64) -> bool {
        let is_due = |(_, at)| is_set_back(now, at) || now.saturating_sub(at) >= spacing;
        self.last().is_none_or(is_due)
    }

    fn add(&self, next: u64, now: i64) {
        let count = self.count.load(Relaxed);
        self.samples[count as usize % SAMPLES].set(next, now);
        self.count.store(count + 1, Relaxed);
    }

    /// Returns the index of the first sample whose `next` is above an id.
    fn first_above(&self, id: u64, count: usize) -> usize {
        let (mut low, mut high) = (0, count.min(SAMPLES));
        while low < high {
            let middle = (low + high) / 2;
            if self.sample(count, middle).0 <= id { low = middle + 1 } else { high = middle }
        }
        low
    }
}

fn is_set_back(now: i64, at: i64) -> bool {
    at.saturating_sub(now) > SET_BACK
}

/// Completes the lower half of an id, which a row stores, given the id of the last sample.
fn widened(id: u32, last: u64) -> u64 {
    if id < FIRST_ID {
        return 0;
    }
    match id.wrapping_sub(last as u32) {
        ahead if ahead < AHEAD => last.saturating_add(ahead.into()),
        _ => last.saturating_sub((last as u32).wrapping_sub(id).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn clock() -> Box<Clock> {
        let sample = || Sample { next: AtomicU64::new(0), at: AtomicI64::new(0) };
        let level =
            || Level { count: AtomicU64::new(0), samples: std::array::from_fn(|_| sample()) };
        Box::new(Clock {
            is_advancing: AtomicBool::new(false),
            version: AtomicU64::new(0),
            unsampled: sample(),
            copies: std::array::from_fn(|_| Levels(std::array::from_fn(|_| level()))),
        })
    }

    #[test]
    fn nothing_is_known_before_the_first_sample() {
        assert_eq!(clock().instant(700, 5), None);
    }

    #[test]
    fn an_id_was_assigned_before_the_first_sample_above_it() {
        let clock = clock();
        for second in 1..=10 {
            clock.tick(second * SECOND, second as u64 * 100);
        }
        assert_eq!(clock.instant(250, 11 * SECOND), Some(3 * SECOND));
        assert_eq!(clock.instant(300, 11 * SECOND), Some(4 * SECOND));
        // Ids from before the first sample, and bootstrap rows, are as old as the first sample.
        assert_eq!(clock.instant(50, 11 * SECOND), Some(SECOND));
        assert_eq!(clock.instant(2, 11 * SECOND), Some(SECOND));
    }

    /// Freezing leaves the id in the row.
    #[test]
    fn a_frozen_row_of_long_ago_is_not_young() {
        let clock = clock();
        clock.tick(SECOND, 3_000_000_000);
        clock.tick(2 * SECOND, 3_000_000_100);
        assert_eq!(clock.instant(1000, 3 * SECOND), Some(SECOND));
    }

    #[test]
    fn what_has_left_no_sample_was_soon_after_the_last_one() {
        let clock = clock();
        clock.tick(SECOND, 100);
        clock.tick(SECOND + SPACING - 1, 101);
        assert_eq!(clock.instant(100, 60 * SECOND), Some(SECOND + SPACING));
        assert_eq!(clock.instant(100, SECOND + 1), Some(SECOND + 1), "not later than now");
    }

    #[test]
    fn ages_are_known_to_an_eighth() {
        let clock = clock();
        // One id per millisecond for an hour.
        let end = 3600 * 1000;
        for millisecond in 1..=end {
            clock.tick(millisecond * 1000, 1000 + millisecond as u64);
        }
        let now = end * 1000;
        for back in [1, 2, 5, 20, 100, 500, 3_000, 20_000, 100_000, 600_000, 3_000_000] {
            let id = 1000 + (end - back) as u32;
            let age = now - clock.instant(id, now).unwrap();
            let error = (age - back * 1000).abs();
            assert!(error <= 1000 + back * 1000 / 7, "{back} ms ago: {age} us");
        }
    }

    #[test]
    fn what_was_assigned_before_a_pause_is_as_old_as_the_pause() {
        let clock = clock();
        let burst = |start: i64| {
            // 200 ids in 100 ms, then a pause for the rest of the second.
            (0..200).for_each(|n| {
                let at = start * SECOND + n * 500;
                clock.tick(at, (start * 200 + n + 1) as u64);
            });
        };
        (1..=500).for_each(burst);
        let now = 501 * SECOND;
        for start in [500, 499, 490, 400, 250, 100] {
            for n in [0, 100, 199] {
                let assigned = start * SECOND + n * 500;
                let found = clock.instant((start * 200 + n) as u32, now).unwrap();
                let error = (found - assigned).abs();
                assert!(error <= (now - assigned) / 7, "{start}, {n}: {error} us");
            }
        }
        // The last id of the last burst, one second ago.
        assert_eq!(clock.instant(500 * 200 + 199, now), Some(500 * SECOND + 199 * 500));
    }

    #[test]
    fn so_is_what_has_left_no_sample() {
        let clock = clock();
        clock.tick(SECOND, 100);
        clock.tick(SECOND + 10, 101);
        clock.tick(2 * SECOND, 102);
        assert_eq!(clock.instant(100, 3 * SECOND), Some(SECOND + 10));
        assert_eq!(clock.instant(101, 3 * SECOND), Some(2 * SECOND));
        // The instant is still known after the first level has dropped it.
        (1..100).for_each(|n| clock.tick(2 * SECOND + n * 1000, 102 + n as u64));
        assert_eq!(clock.instant(100, 3 * SECOND), Some(SECOND + 10));
    }

    #[test]
    fn ids_are_found_beyond_the_end_of_their_lower_half() {
        let clock = clock();
        let wrap = 5u64 << 32;
        clock.tick(SECOND, wrap - 10);
        clock.tick(2 * SECOND, wrap + 10);
        clock.tick(3 * SECOND, wrap + 20);
        assert_eq!(clock.instant(u32::MAX - 20, 4 * SECOND), Some(SECOND));
        assert_eq!(clock.instant(u32::MAX - 1, 4 * SECOND), Some(2 * SECOND));
        assert_eq!(clock.instant(12, 4 * SECOND), Some(3 * SECOND));
    }

    #[test]
    fn a_process_that_is_late_forgets_nothing() {
        let clock = clock();
        clock.tick(SECOND, 100);
        clock.tick(2 * SECOND, 200);
        clock.tick(2 * SECOND - 900, 201);
        assert_eq!(clock.instant(50, 3 * SECOND), Some(SECOND));
        assert_eq!(clock.instant(150, 3 * SECOND), Some(2 * SECOND));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let clock = clock();
        clock.tick(10 * SECOND, 100);
        clock.tick(11 * SECOND, 200);
        clock.tick(SECOND, 300);
        assert_eq!(clock.instant(150, 2 * SECOND), Some(SECOND));
        assert_eq!(clock.instant(300, 2 * SECOND), Some(SECOND + SPACING));
    }

    #[test]
    fn a_reader_sees_no_sample_that_is_being_added() {
        let clock = clock();
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| {
                // The id equals the instant.
                (1..200_000).for_each(|n| clock.tick(n * SPACING, (n * SPACING) as u64));
            });
            while !adding.is_finished() {
                let version = clock.version.load(Acquire);
                let Some((_, now)) = clock.copy(version).last() else { continue };
                let wanted = (now - 3 * SPACING).max(SPACING);
                // The writer goes on meanwhile, so the sample that was found can belong to a level with wider spacing.
                let instant = clock.instant(wanted as u32, i64::MAX).unwrap();
                assert!(instant > wanted || now < 4 * SPACING, "{wanted}: {instant}");
            }
        });
    }

    #[test]
    fn a_writer_suspended_halfway_delays_no_reader() {
        let clock = clock();
        (1..=10).for_each(|second| clock.tick(second * SECOND, second as u64 * 100));
        assert!(!clock.is_advancing.swap(true, Relaxed));
        let changed = clock.copy(clock.version.load(Relaxed) + 1);
        changed.clear();
        changed.0[0].add(1100, 11 * SECOND);
        assert_eq!(clock.instant(250, 12 * SECOND), Some(3 * SECOND));
        clock.tick(12 * SECOND, 1200);
        assert_eq!(clock.instant(1100, 12 * SECOND), Some(10 * SECOND + SPACING), "none is added");
    }
}
