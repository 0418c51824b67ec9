//! The time until a dead consumer's task is ready again.

use std::time::{Duration, Instant};

use postgres::{Client, Statement};

use crate::effort::Effort;
use crate::holder::Holder;
use crate::numbers::{Sample, milliseconds};
use crate::report::{Section, row};
use crate::snapshot::OldSnapshot;
use crate::{Result, database, watchdog};

const IS_READY: &str = "SELECT status = 'R' FROM measure.held WHERE id = $1";
/// The tasks that a consumer acks, and the task that it then holds.
const REFILL: &str = "
    TRUNCATE measure.held;
    INSERT INTO measure.held (payload) SELECT '{}' FROM generate_series(0, {before});";
/// A task that takes longer counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut poll = Poll::open()?;
    let mut killer = database::connect("xqueue measure killer")?;
    let terminate = killer.prepare("SELECT pg_terminate_backend($1)")?;
    let (mut killed, mut terminated) = (Sample::default(), Sample::default());
    for _ in 0..effort.kills {
        killed.add_duration(poll.killed(0)?);

        let holder = Holder::start(0)?;
        let begin = Instant::now();
        killer.execute(&terminate, &[&holder.backend])?;
        terminated.add_duration(poll.until_ready(&holder, begin)?);
    }
    let before = effort.deep / 10;
    let (mut veterans, mut pinned) = (Sample::default(), Sample::default());
    for _ in 0..effort.kills.div_ceil(10) {
        watchdog::enter(format!("a consumer is killed after {before} tasks"));
        poll.refill(before)?;
        veterans.add_duration(poll.killed(before)?);

        watchdog::enter(format!("the same after {before} tasks beside an old snapshot"));
        poll.refill(before)?;
        let _snapshot = OldSnapshot::take()?;
        pinned.add_duration(poll.killed(before)?);
    }
    Ok(Section {
        title: "A consumer dies: its task is ready again",
        header: vec!["the consumer's end", "n", "median", "p99", "max"],
        rows: vec![
            row("SIGKILL of the client process", killed.cells()),
            row("pg_terminate_backend", terminated.cells()),
            row(format!("SIGKILL after it has acked {before} tasks"), veterans.cells()),
            row("the same beside an old snapshot", pinned.cells()),
        ],
        notes: vec![format!(
            "From just before the signal to the answer of the first poll that saw the task ready: too \
             long by up to one poll (median {}, p99 {}). The polling connection keeps a core busy.",
            milliseconds(poll.last.median()),
            milliseconds(poll.last.percentile(0.99)),
        )],
        plot: None,
    })
}

/// A connection that polls whether a task is ready.
pub struct Poll {
    db: Client,
    is_ready: Statement,
    /// The time between the last poll that found the task not ready and the one that found it ready.
    last: Sample,
}

impl Poll {
    /// Creates a queue with some tasks.
    pub fn open() -> Result<Poll> {
        let mut db = database::connect("xqueue measure")?;
        db.batch_execute(
            "SELECT xqueue.create('measure.held');
             SELECT xqueue.put('measure.held', '[{}, {}, {}]');",
        )?;
        Ok(Poll { is_ready: db.prepare(IS_READY)?, db, last: Sample::default() })
    }

    fn refill(&mut self, before: u32) -> Result<()> {
        self.db.batch_execute(&REFILL.replace("{before}", &before.to_string()))?;
        Ok(self.db.batch_execute("VACUUM ANALYZE measure.held")?)
    }

    /// Returns the time until a killed consumer's task is ready, after the consumer had acked `before` other tasks.
    pub fn killed(&mut self, before: u32) -> Result<Duration> {
        let mut holder = Holder::start(before)?;
        let begin = Instant::now();
        holder.kill()?;
        self.until_ready(&holder, begin)
    }

    fn until_ready(&mut self, holder: &Holder, begin: Instant) -> Result<Duration> {
        let mut before = begin;
        loop {
            let ready: bool = self.db.query_one(&self.is_ready, &[&holder.task])?.get(0);
            let now = Instant::now();
            if ready {
                self.last.add_duration(now - before);
                return Ok(now - begin);
            }
            if now - begin > PATIENCE {
                return Err(format!("a task is still taken {PATIENCE:?} after the death").into());
            }
            before = now;
        }
    }
}
