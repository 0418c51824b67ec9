//! More databases than worker slots: lateness of delayed tasks, and of tasks of dead sessions.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use postgres::Client;

use super::server::{Scratch, Server};
use crate::effort::Effort;
use crate::numbers::Sample;
use crate::report::{Section, row};
use crate::{Result, watchdog};

pub const CASE: &str = "many-databases";
/// The commit timestamp of a row version shows when its task got its present state. Triggers would require job workers.
const QUEUES: &str = r#"
    SELECT xqueue.create('delayed', '{"features": {"delayed": true}}');
    ALTER TABLE delayed ADD due timestamptz;
    SELECT xqueue.create('held');
    SELECT xqueue.put('held', '{}');"#;
/// The tasks of a database are spread over time, a little later than those of the previous database. One more task is
/// due in all databases at the same time.
const PUT: &str = "
    INSERT INTO delayed (due, runat)
    SELECT due, due
    FROM (SELECT $1::timestamptz + make_interval(secs => $2::float8 + (n - 1) * $3::float8)
          FROM generate_series(1, $4::int) n
          UNION ALL SELECT $1::timestamptz + make_interval(secs => $3::float8 * $4::int / 2)) AS task (due)";
const WAITING: &str = "SELECT count(*) FROM delayed WHERE status = 'W'";
const LATENESS: &str = "
    SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - due)::float8 * 1e6
    FROM delayed WHERE status = 'R'";
const GIVEN_BACK: &str = "
    SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - $1::timestamptz)::float8 * 1e6
    FROM held WHERE status = 'R'";
const TASKS: u32 = 10;
/// Seconds between two tasks of a database.
const STEP: f64 = 3.0;
const HEAD_START: Duration = Duration::from_secs(10);
/// A task that takes longer counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(250);
const BETWEEN_DEATHS: Duration = Duration::from_millis(20);

pub fn measure(effort: &Effort) -> Result<Section> {
    let (server, many) = (Server::of(effort)?, &effort.many);
    let settings = [("max_worker_processes", many.places), ("track_commit_timestamp", 1)];
    let rows = server.with_settings(&settings, || {
        let mut databases = Vec::new();
        for number in 1..=many.databases {
            watchdog::enter(format!("creating database {number}"));
            let scratch = Scratch::create(&format!("measure_many_{number}"))?;
            scratch.connect()?.batch_execute(QUEUES)?;
            databases.push(scratch);
        }
        let mut clients = databases.iter().map(Scratch::connect).collect::<Result<Vec<_>>>()?;
        let rows = vec![delays(&mut clients)?, deaths(&databases, &mut clients)?];
        Ok(rows)
    })?;
    Ok(Section {
        title: "More databases than places for workers",
        header: vec!["later than it should be", "n", "median", "p99", "max", "never"],
        rows,
        notes: vec![format!(
            "{} databases with the extension, max_worker_processes {}. In each {TASKS} tasks become due one after the other, \
             {STEP} s apart, and one more in all at the same instant; then in each a session with a task dies. Until the \
             commit that makes the task ready. Never: not within {} s after the last.",
            many.databases,
            many.places,
            PATIENCE.as_secs()
        )],
        plot: None,
    })
}

fn delays(clients: &mut [Client]) -> Result<Vec<String>> {
    let begin = SystemTime::now() + HEAD_START;
    let databases = clients.len() as f64;
    for (number, db) in clients.iter_mut().enumerate() {
        let shift = STEP * number as f64 / databases;
        db.execute(PUT, &[&begin, &shift, &STEP, &(TASKS as i32)])?;
    }
    watchdog::enter("delayed tasks become due");
    let last = HEAD_START + Duration::from_secs_f64(STEP * f64::from(TASKS));
    let patience = Instant::now() + last + PATIENCE;
    let never = until_none(clients, patience, |db| Ok(db.query_one(WAITING, &[])?.get(0)))?;
    let mut times = Sample::default();
    for db in clients {
        for task in db.query(LATENESS, &[])? {
            times.add(task.get(0));
        }
    }
    Ok(row("a delayed task is ready", times.cells().into_iter().chain([never.to_string()])))
}

fn deaths(databases: &[Scratch], clients: &mut [Client]) -> Result<Vec<String>> {
    watchdog::enter("sessions die");
    let mut sessions = Vec::new();
    for database in databases {
        let mut session = database.connect()?;
        session.query_one("SELECT xqueue.take('held')", &[])?;
        sessions.push(session);
    }
    let mut deaths = Vec::new();
    for session in sessions {
        deaths.push(SystemTime::now());
        drop(session);
        sleep(BETWEEN_DEATHS);
    }
    let taken = "SELECT count(*) FROM held WHERE status = 'T'";
    let patience = Instant::now() + PATIENCE;
    let never = until_none(clients, patience, |db| Ok(db.query_one(taken, &[])?.get(0)))?;
    let mut times = Sample::default();
    for (db, death) in clients.iter_mut().zip(&deaths) {
        for task in db.query(GIVEN_BACK, &[death])? {
            times.add(task.get(0));
        }
    }
    let cells = times.cells().into_iter().chain([never.to_string()]);
    Ok(row("a dead session's task is ready", cells))
}

/// Waits until no task is left in any database, or until `patience`. Returns the number of tasks left.
fn until_none(
    clients: &mut [Client],
    patience: Instant,
    mut count: impl FnMut(&mut Client) -> Result<i64>,
) -> Result<i64> {
    loop {
        let mut left = 0;
        for db in clients.iter_mut() {
            left += count(db)?;
        }
        if left == 0 || Instant::now() > patience {
            return Ok(left);
        }
        sleep(LOOK);
    }
}
