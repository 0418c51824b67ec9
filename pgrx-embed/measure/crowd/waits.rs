//! Wait events of a contender's backends, sampled repeatedly while it runs.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::{Result, database};

const LOOK: &str = "
    SELECT coalesce(wait_event_type || ':' || wait_event, 'running'), count(*)
    FROM pg_stat_activity WHERE application_name = 'pgbench' AND state = 'active' GROUP BY 1";
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The number of samples of each wait event, over all active backends.
#[derive(Default)]
pub struct Waits(BTreeMap<String, u64>);

impl Waits {
    /// Samples while `what` runs.
    pub fn during<T>(&mut self, what: impl FnOnce() -> Result<T>) -> Result<T> {
        thread::scope(|scope| {
            let (over, is_over) = mpsc::channel::<()>();
            let sampler = scope.spawn(move || look(&is_over).map_err(|error| error.to_string()));
            let outcome = what();
            drop(over);
            self.append(sampler.join().map_err(|_| "the sampler panicked")??);
            outcome
        })
    }

    fn add(&mut self, event: &str, count: u64) {
        *self.0.entry(event.to_owned()).or_default() += count;
    }

    pub fn append(&mut self, other: Waits) {
        for (event, count) in other.0 {
            self.add(&event, count);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the most frequent wait events with their shares.
    pub fn most_frequent(&self, count: usize) -> String {
        let mut events: Vec<_> = self.0.iter().collect();
        events.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let all: u64 = self.0.values().sum();
        let shares = events
            .into_iter()
            .take(count)
            .map(|(event, count)| format!("{event} {:.0} %", 100.0 * *count as f64 / all as f64));
        shares.collect::<Vec<_>>().join(", ")
    }
}

fn look(is_over: &Receiver<()>) -> Result<Waits> {
    let mut db = database::connect("xqueue measure waits")?;
    let look = db.prepare(LOOK)?;
    let mut waits = Waits::default();
    while is_over.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
        for row in db.query(&look, &[])? {
            waits.add(row.get(0), row.get::<_, i64>(1) as u64);
        }
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::Waits;

    #[test]
    fn the_most_frequent_come_first_with_their_share_of_all() {
        let mut waits = Waits::default();
        for (event, count) in [("LWLock:A", 10), ("running", 50), ("Lock:B", 30), ("LWLock:A", 10)]
        {
            waits.add(event, count);
        }
        assert_eq!(waits.most_frequent(2), "running 50 %, Lock:B 30 %");
        assert_eq!(Waits::default().most_frequent(5), "");
    }
}
