//! Many connections wait for a task: how soon is one woken, and is a task lost when half of them die?

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::Client;

use super::connections::Connections;
use super::server::{Scratch, Server};
use crate::effort::Effort;
use crate::numbers::Sample;
use crate::report::{Section, row};
use crate::{Result, watchdog};

pub const CASE: &str = "many-waiters";
const DATABASE: &str = "measure_many_waiters";
const TABLES: &str =
    "SET synchronous_commit = off; SELECT xqueue.create('woken'); CREATE TABLE acked (id bigint);";
const PUT: &str = "SELECT (task->>'id')::bigint FROM xqueue.put('woken', '{}') task";
/// Connections in addition to the waiting ones.
const OTHERS: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// Pause before each put, in which connections that have just acked fall asleep again.
const LULL: Duration = Duration::from_millis(2);
const LEFT: &str = "
    SELECT (SELECT count(*) FROM woken), count(*), count(DISTINCT id) FROM acked";

pub fn measure(effort: &Effort) -> Result<Section> {
    let (server, many) = (Server::of(effort)?, &effort.many);
    let settings = [("max_connections", many.waiters as u32 + OTHERS)];
    let (rows, note) = server.with_settings(&settings, || {
        let scratch = Scratch::create(DATABASE)?;
        let mut crowd = Crowd::open(&scratch, many.waiters)?;
        let mut rows = vec![crowd.wakes("all of them wait", many.wakes)?];
        rows.push(crowd.wakes_while_half_die(many.wakes)?);
        rows.push(crowd.wakes("the other half waits", many.wakes)?);
        let note = crowd.what_is_lost()?;
        Ok((rows, note))
    })?;
    Ok(Section {
        title: "Many connections that wait",
        header: vec!["since COMMIT of a put was sent", "n", "median", "p99", "max"],
        rows,
        notes: vec![
            format!(
                "{} connections wait in `take`, until one has the task in hand, synchronous_commit off. Every other one of those that die closes its \
                 socket, the others are terminated; a put comes every {} ms meanwhile.",
                many.waiters,
                LULL.as_millis()
            ),
            note,
        ],
        plot: None,
    })
}

struct Crowd {
    connections: Connections,
    db: Client,
    killer: Client,
    /// When the COMMIT of each task's put was sent. Entries go when the task is taken.
    sent: HashMap<i64, Instant>,
    put: i64,
}

impl Crowd {
    fn open(scratch: &Scratch, count: usize) -> Result<Crowd> {
        watchdog::enter(format!("opening {count} connections"));
        let mut db = scratch.connect()?;
        db.batch_execute(TABLES)?;
        let connections = Connections::open(&scratch.name, count)?;
        Ok(Crowd { connections, db, killer: scratch.connect()?, sent: HashMap::new(), put: 0 })
    }

    /// Puts tasks one after the other, each while all connections wait.
    fn wakes(&mut self, name: &str, count: usize) -> Result<Vec<String>> {
        watchdog::enter(name);
        let mut times = Sample::default();
        for _ in 0..count {
            self.until_all_wait()?;
            self.put()?;
            self.take_in(&mut times, 1)?;
        }
        Ok(row(name, times.cells()))
    }

    fn wakes_while_half_die(&mut self, count: usize) -> Result<Vec<String>> {
        let name = "half of them die meanwhile";
        watchdog::enter(name);
        let mut times = Sample::default();
        self.until_all_wait()?;
        // A quarter of the puts come before the deaths, so that some of the dying connections hold tasks.
        for _ in 0..count / 4 {
            self.put()?;
        }
        self.connections.kill_half(&mut self.killer)?;
        for _ in count / 4..count {
            self.put()?;
        }
        // Dead connections can have taken tasks without reporting them.
        self.until_none_is_left()?;
        self.take_in(&mut times, 0)?;
        Ok(row(name, times.cells()))
    }

    fn put(&mut self) -> Result<()> {
        sleep(LULL);
        let mut transaction = self.db.transaction()?;
        let task = transaction.query_one(PUT, &[])?.get(0);
        let sent = Instant::now();
        transaction.commit()?;
        self.sent.insert(task, sent);
        self.put += 1;
        Ok(())
    }

    /// Waits until `least` tasks are taken, and records these and all others reported so far.
    fn take_in(&mut self, times: &mut Sample, least: usize) -> Result<()> {
        let mut taken = Vec::new();
        for _ in 0..least {
            taken.push(self.connections.taken.recv_timeout(PATIENCE)?);
        }
        taken.extend(self.connections.taken.try_iter());
        for taken in taken {
            if let Some(sent) = self.sent.remove(&taken.task) {
                times.add_duration(taken.at.saturating_duration_since(sent));
            }
        }
        Ok(())
    }

    fn until_all_wait(&mut self) -> Result<()> {
        let all = self.connections.count() as i32;
        let waiting = "SELECT (xqueue.stats('woken')->>'consumers')::int";
        until(|| Ok(self.db.query_one(waiting, &[])?.get::<_, i32>(0) == all))
    }

    fn until_none_is_left(&mut self) -> Result<()> {
        until(|| Ok(self.db.query_one(LEFT, &[])?.get::<_, i64>(0) == 0))
    }

    fn what_is_lost(&mut self) -> Result<String> {
        self.until_none_is_left()?;
        let row = self.db.query_one(LEFT, &[])?;
        let [left, acked, distinct]: [i64; 3] = std::array::from_fn(|place| row.get(place));
        Ok(format!(
            "Of {} tasks put {} were acked, {} more than once; {} were lost.",
            self.put,
            distinct,
            acked - distinct,
            self.put - distinct - left
        ))
    }
}

fn until(mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !is_so()? {
        if begin.elapsed() > PATIENCE {
            return Err("it takes too long".into());
        }
        sleep(LOOK);
    }
    Ok(())
}
