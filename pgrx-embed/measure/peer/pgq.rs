//! PgQ: events for one consumer, in batches that a ticker cuts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::sql::SqlPeer;
use super::{Load, Peer, Work};
use crate::{Result, database};

/// How often batches are cut: as often as its daemon can.
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

    /// One task at a time is not in its vocabulary.
    fn does(&self, work: Work) -> bool {
        work == Work::Lifecycle || self.0.does(work)
    }

    /// It has no backlog that a take could begin with: what was put before is delivered to no consumer.
    fn fill(&mut self, tasks: u32, commit: &'static str) -> Result<()> {
        self.0.fill(tasks, commit)
    }

    /// The clients put, one consumer and a ticker run beside them. What counts is what was consumed.
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

/// How many events the next batch has, if there is one.
fn consume(db: &mut postgres::Client) -> Result<Option<usize>> {
    let Some(batch) = db.query_one(BATCH, &[])?.get::<_, Option<i64>>(0) else {
        return Ok(None);
    };
    let events = db.query(EVENTS, &[&batch])?.len();
    db.execute(FINISH, &[&batch])?;
    Ok(Some(events))
}
