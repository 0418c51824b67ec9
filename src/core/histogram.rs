//! Histograms of durations, with the same buckets for all queues.

/// Upper bounds of all buckets except the last, in microseconds: one and three times each power of ten from a
/// millisecond to eight hours.
pub const BOUNDS: [i64; 16] = [
    1_000,
    3_000,
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// Number of durations in each bucket, and their sum. The last bucket has no upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Histogram {
    pub counts: [u64; BOUNDS.len() + 1],
    /// In microseconds.
    pub sum: u64,
}

impl Histogram {
    /// Adds a duration. A negative duration, for instance after a clock was set back, counts as zero.
    pub fn add(&mut self, length: i64) {
        let length = length.max(0);
        self.counts[BOUNDS.partition_point(|bound| *bound < length)] += 1;
        self.sum += length as u64;
    }

    pub fn absorb(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the least bound, in microseconds, that at least this share of the durations does not exceed. Returns
    /// None if the histogram is empty, or the share reaches into the last bucket.
    pub fn quantile(&self, share: f64) -> Option<i64> {
        let wanted = (self.total() as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let is_reached = |count: &u64| {
            sum += count;
            sum >= wanted
        };
        BOUNDS.get(self.counts.iter().position(is_reached)?).copied()
    }

    /// Returns the bounds in seconds, each with the number of durations up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BOUNDS.iter().map(|bound| *bound as f64 / 1e6).zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        for length in [-5, 0, 1_000, 1_001, 30_000_000_000, 30_000_000_001, i64::MAX / 4] {
            histogram.add(length);
        }
        assert_eq!(histogram.counts[0], 3);
        assert_eq!(histogram.counts[1], 1);
        assert_eq!(histogram.counts[15], 1);
        assert_eq!(histogram.counts[16], 2);
        assert_eq!(histogram.total(), 7);
        assert_eq!(histogram.sum, 60_000_002_002 + (i64::MAX / 4) as u64);
    }

    #[test]
    fn cumulative_counts_grow_up_to_the_last_bound() {
        let mut histogram = Histogram::default();
        [500, 2_000, 2_500, i64::MAX / 4].into_iter().for_each(|length| histogram.add(length));
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative[..3], [(0.001, 1), (0.003, 3), (0.01, 3)]);
        assert_eq!(cumulative[15], (30_000.0, 3));
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..98).for_each(|_| histogram.add(10));
        histogram.add(2_000_000);
        assert_eq!(histogram.quantile(0.5), Some(1_000));
        assert_eq!(histogram.quantile(0.98), Some(1_000));
        assert_eq!(histogram.quantile(1.0), Some(3_000_000));
        histogram.add(i64::MAX / 2);
        assert_eq!(histogram.quantile(0.99), Some(3_000_000));
        assert_eq!(histogram.quantile(1.0), None);
    }

    #[test]
    fn histograms_add_up() {
        let (mut all, mut one) = (Histogram::default(), Histogram::default());
        all.add(10);
        one.add(20);
        one.add(2_000);
        all.absorb(&one);
        assert_eq!((all.counts[0], all.counts[1], all.sum), (2, 1, 2_030));
    }
}
