//! The time after a restart until many queues are counted, and accept puts under a capacity.

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use postgres::error::SqlState;

use super::queues;
use super::server::{Scratch, Server, Stop};
use crate::effort::Effort;
use crate::numbers::{Sample, milliseconds};
use crate::report::{Section, row};
use crate::{Result, watchdog};

pub const CASE: &str = "many-restart";
const DATABASE: &str = "measure_many_restart";
const OPTIONS: &str = r#"{"features": {"capacity": 1000}}"#;
const TASKS: u32 = 10;
/// Number of producers. Each puts one task into each queue of its share.
const PRODUCERS: u32 = 40;
const SPARE: u32 = 16;
const NOT_COUNTED: SqlState = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(300);

pub fn measure(effort: &Effort) -> Result<Section> {
    let (server, queues) = (Server::of(effort)?, effort.many.queues);
    let settings = [("xqueue.max_queues", queues + SPARE)];
    let rows = server.with_settings(&settings, || {
        let scratch = Scratch::create(DATABASE)?;
        watchdog::enter(format!("creating {queues} queues"));
        let mut db = scratch.connect()?;
        queues::create(&mut db, queues, OPTIONS)?;
        for queue in 1..=queues {
            db.batch_execute(&format!(
                "INSERT INTO q_{queue} (payload) SELECT '{{}}' FROM generate_series(1, {TASKS})"
            ))?;
        }
        drop(db);
        let mut rows = Vec::new();
        for stop in [Stop::Fast, Stop::Immediate] {
            watchdog::enter(format!("counting after a restart, {}", stop.name()));
            let (begin, started) = server.restart(stop)?;
            let exact = until_exact(&scratch, queues, begin)?;
            watchdog::enter(format!("puts after a restart, {}", stop.name()));
            let (begin, _) = server.restart(stop)?;
            let first = puts(&scratch, queues, begin)?;
            let again = puts(&scratch, queues, Instant::now())?;
            let times = [started, exact].map(|time| milliseconds(time.as_secs_f64() * 1e6));
            let puts = [(&first, 0.5), (&first, 1.0), (&again, 1.0)];
            let puts = puts.map(|(puts, share)| milliseconds(puts.percentile(share)));
            rows.push(row(stop.name(), times.into_iter().chain(puts)));
        }
        Ok(rows)
    })?;
    Ok(Section {
        title: "A restart with many queues",
        header: vec![
            "stop",
            "connections after the start",
            "then all are counted",
            "half of the puts have returned",
            "the last put",
            "the last, of new connections and counted queues",
        ],
        rows,
        notes: vec![format!(
            "{queues} queues of {TASKS} tasks with a capacity. Times but the first since the server took connections. Counted: \
             `stats` of each has been exact, asked one after the other. Puts, after another restart: by {PRODUCERS} producers \
             at a time, one into each queue; one that is refused, as the tasks are not yet counted, is tried again. Then once \
             more by as many new connections, since they began: what a put takes that is the first of its connection into a \
             queue."
        )],
        plot: None,
    })
}

fn until_exact(scratch: &Scratch, queues: u32, begin: Instant) -> Result<Duration> {
    let mut db = scratch.connect()?;
    for queue in 1..=queues {
        let exact = format!("SELECT (xqueue.stats('q_{queue}')->>'exact')::boolean");
        while !db.query_one(&exact, &[])?.get::<_, bool>(0) {
            if begin.elapsed() > PATIENCE {
                return Err(format!("q_{queue} is not counted").into());
            }
            sleep(LOOK);
        }
    }
    Ok(begin.elapsed())
}

/// Returns the time at which each put returned.
fn puts(scratch: &Scratch, queues: u32, begin: Instant) -> Result<Sample> {
    let mut all = Sample::default();
    thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                scope.spawn(move || {
                    let share = (1..=queues).filter(|queue| queue % PRODUCERS == producer);
                    produce(scratch, share, begin).map_err(|error| crate::explain(&*error))
                })
            })
            .collect();
        for producer in producers {
            all.append(producer.join().map_err(|_| "a producer panicked")??);
        }
        Ok(all)
    })
}

fn produce(scratch: &Scratch, queues: impl Iterator<Item = u32>, begin: Instant) -> Result<Sample> {
    let mut db = scratch.connect()?;
    let mut times = Sample::default();
    for queue in queues {
        let put = format!("SELECT xqueue.put('q_{queue}', '{{}}')");
        while let Err(error) = db.batch_execute(&put) {
            // The put waits some time for the count of the tasks, then fails with this error.
            if error.code() != Some(&NOT_COUNTED) || begin.elapsed() > PATIENCE {
                return Err(error.into());
            }
        }
        times.add_duration(begin.elapsed());
    }
    Ok(times)
}
