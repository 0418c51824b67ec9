//! The run: consumers work, tasks are put with a delay, consumers are killed and replaced.

use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::child::Consumer;
use crate::kill::{Kill, Killer};
use crate::options::Options;
use crate::progress::Progress;
use crate::table::{Plan, Producer};
use crate::{Result, watchdog};

/// Pause between two checks of the progress.
const TICK: Duration = Duration::from_millis(5);
/// Reads shared memory at the same cost for any number of tasks. NULL while a new queue is being counted.
const LEFT: &str = "
    SELECT CASE WHEN (s->>'exact')::boolean THEN (s->'tasks'->>'total')::bigint END
    FROM xqueue.stats('tour.files') AS s";
const CONNECTED: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'xqueue tour consumer %'";

pub struct Outcome {
    pub kills: Vec<Kill>,
    pub elapsed: Duration,
}

pub fn run(db: &mut Client, plan: &Plan, options: &Options) -> Result<Outcome> {
    let total = plan.files.len();
    let left = db.prepare(LEFT)?;
    let mut producer = Producer::new(db, plan)?;
    let killer = Killer::new(db)?;
    let mut kills: Vec<Kill> = Vec::new();
    let mut progress = Progress::new(total, !options.test)?;
    watchdog::enter("starting consumers");
    let mut consumers: Vec<Consumer> =
        (1..=options.consumers).map(Consumer::start).collect::<Result<_>>()?;
    let begin = Instant::now();
    loop {
        if let Some(in_queue) = db.query_one(&left, &[])?.get::<_, Option<i64>>(0) {
            let missing = producer.left() + in_queue as usize;
            let done = total.saturating_sub(missing);
            watchdog::enter(format!("{missing} of {total} files were not digested yet"));
            progress.show(done, kills.len());
            if missing == 0 {
                break;
            }
            producer.advance(db, done as f64 / total as f64)?;
            // The kills are spread over the first two thirds. Near the end none might hold a task.
            let number = kills.len();
            let is_due = 3 * done * (options.kills + 2) > 2 * total * (number + 1);
            if number < options.kills
                && is_due
                && let Some((victim, kill)) = killer.kill(db, &mut consumers, number)?
            {
                consumers[victim] = Consumer::start(options.consumers + number + 1)?;
                kills.push(kill);
                continue;
            }
        }
        consumers.iter_mut().try_for_each(Consumer::check)?;
        sleep(TICK);
    }
    let elapsed = begin.elapsed();
    progress.finish();
    watchdog::enter("waiting for the consumers to leave the server");
    consumers.into_iter().try_for_each(Consumer::leave)?;
    while db.query_one(CONNECTED, &[])?.get::<_, i64>(0) > 0 {
        sleep(TICK);
    }
    Ok(Outcome { kills, elapsed })
}
