//! Samples, and what is said of them.

use std::time::Duration;

/// Measured times in microseconds. Negative ones are possible: what was waited for may happen
/// before what it is compared with.
#[derive(Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn add(&mut self, microseconds: f64) {
        self.0.push(microseconds);
    }

    pub fn add_duration(&mut self, duration: Duration) {
        self.add(duration.as_secs_f64() * 1e6);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value that `share` of all do not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    /// Number, median, 99th percentile and maximum, for a table.
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
