//! PgQ: events for one consumer, in batches created by a ticker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::sql::SqlPeer;
use super::{Load, Peer, Work};
use crate::{Result, database};

/// Interval of the ticks, the shortest that PgQ's daemon allows.
const TICK: Duration = Duration::from_millis(10);
const BATCH: &str = "SELECT pgq.next_batch('measure', 'measure')";
const EVENTS: &str = "SELECT ev_id, ev_data FROM pgq.get_batch_events($1)";
const FINISH: &str = "SELECT pgq.finish_batch($1)";

pub struct Pgq(SqlPeer);

impl Pgq {
    pub fn new(peer: SqlPeer) -> Pgq {
        Pgq(peer)
    }
}

impl Peer for Pgq {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn version(&self) -> &str {
        self.0.version()
    }

    /// Returns true for a lifecycle, although PgQ has no work with single tasks.
    fn does(&self, work: Work) -> bool {
        work == Work::Lifecycle || self.0.does(work)
    }

    /// Fills the queue for puts only: a consumer gets no event that was put before its registration.
    fn fill(&mut self, tasks: u32, commit: &'static str) -> Result<()> {
        self.0.fill(tasks, commit)
    }

    /// Runs one consumer and a ticker while the clients put. The rate counts consumed events.
    fn run(&mut self, work: Work, load: &Load) -> Result<f64> {
        if work != Work::Lifecycle {
            return self.0.run(work, load);
        }
        let over = AtomicBool::new(false);
        let commit = load.commit;
        thread::scope(|scope| {
            let consumer = scope.spawn(|| count(commit, &over).map_err(|error| error.to_string()));
            let begin = Instant::now();
            let put = self.0.run(Work::Put, load);
            let seconds = begin.elapsed().as_secs_f64();
            over.store(true, Ordering::Relaxed);
            let consumed = consumer.join().map_err(|_| "the consumer panicked")??;
            put?;
            Ok(consumed as f64 / seconds)
        })
    }
}

fn count(commit: &str, over: &AtomicBool) -> Result<usize> {
    let mut db = database::connect("xqueue measure consumer")?;
    db.batch_execute(&format!("SET synchronous_commit = {commit}"))?;
    let mut events = 0;
    while !over.load(Ordering::Relaxed) {
        db.batch_execute("SELECT pgq.ticker('measure')")?;
        match consume(&mut db)? {
            Some(batch) => events += batch,
            None => thread::sleep(TICK),
        }
    }
    Ok(events)
}

/// Returns the number of events in the next batch, or None without a batch.
fn consume(db: &mut postgres::Client) -> Result<Option<usize>> {
    let Some(batch) = db.query_one(BATCH, &[])?.get::<_, Option<i64>>(0) else {
        return Ok(None);
    };
    let events = db.query(EVENTS, &[&batch])?.len();
    db.execute(FINISH, &[&batch])?;
    Ok(Some(events))
}
