//! Samples and their statistics.

use std::time::{Duration, Instant};

/// Measured times in microseconds. They can be negative: the measured event can happen before its reference.
#[derive(Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn add(&mut self, microseconds: f64) {
        self.0.push(microseconds);
    }

    pub fn add_duration(&mut self, duration: Duration) {
        self.add(duration.as_secs_f64() * 1e6);
    }

    /// Adds the duration of `what`.
    pub fn time<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let outcome = what();
        self.add_duration(begin.elapsed());
        outcome
    }

    pub fn append(&mut self, other: Sample) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value that a share of `share` of all values does not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let sorted = self.sorted();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Interpolates between the two neighbouring values, so that small samples are not biased.
    pub fn quantile(&self, share: f64) -> f64 {
        let sorted = self.sorted();
        let place = share * sorted.len().saturating_sub(1) as f64;
        let value = |place: f64| sorted.get(place as usize).copied().unwrap_or(f64::NAN);
        let (lower, upper) = (value(place.floor()), value(place.ceil()));
        lower + (upper - lower) * place.fract()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Returns number, median, 99th percentile and maximum, for a table.
    pub fn cells(&self) -> Vec<String> {
        let times = [self.median(), self.percentile(0.99), self.percentile(1.0)];
        [self.len().to_string()].into_iter().chain(times.map(milliseconds)).collect()
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Sample(values.into_iter().collect())
    }
}

pub fn milliseconds(microseconds: f64) -> String {
    format!("{:.3} ms", microseconds / 1000.0)
}

pub fn microseconds(microseconds: f64) -> String {
    format!("{microseconds:.1} µs")
}

#[cfg(test)]
mod tests {
    use super::Sample;

    #[test]
    fn a_quantile_lies_between_two_values() {
        let sample: Sample = [4.0, 1.0, 2.0, 3.0].into_iter().collect();
        assert_eq!([0.25, 0.5, 0.75].map(|share| sample.quantile(share)), [1.75, 2.5, 3.25]);
        assert_eq!(Sample::from_iter([7.0]).median(), 7.0);
        assert!(Sample::default().median().is_nan());
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let sample: Sample = (1..=200).map(f64::from).collect();
        assert_eq!([0.99, 1.0].map(|share| sample.percentile(share)), [198.0, 200.0]);
    }
}
