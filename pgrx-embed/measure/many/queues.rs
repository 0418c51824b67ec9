//! Many queues in one database: the time of the views, and the memory.

use std::fs;

use postgres::Client;

use super::server::{Scratch, Server};
use crate::effort::Effort;
use crate::numbers::{Sample, milliseconds};
use crate::report::{Section, row};
use crate::{Result, watchdog};

pub const CASE: &str = "many-queues";
const DATABASE: &str = "measure_many_queues";
/// Queues created in one transaction: each takes some locks.
const AT_A_TIME: u32 = 50;
/// Additional slots, not used by the case.
const SPARE: u32 = 16;
/// The difference, in slots, between two sizes of shared memory.
const DIFFERENCE: u32 = 1000;
const SHARED: &str = "
    SELECT sum(allocated_size)::float8 FROM pg_shmem_allocations WHERE name LIKE 'xqueue%'";
const CONTEXTS: &str =
    "SELECT pg_backend_pid(), sum(total_bytes)::float8 FROM pg_backend_memory_contexts";
const WORKER: &str = "
    SELECT pid FROM pg_stat_activity
    WHERE backend_type LIKE 'xqueue worker%' AND datname = current_database()";
const LOOKS: usize = 5;

pub fn measure(effort: &Effort) -> Result<Section> {
    let (server, queues) = (Server::of(effort)?, effort.many.queues);
    let slots = queues + SPARE;
    let (mut rows, shared) = server.with_settings(&[("xqueue.max_queues", slots)], || {
        let mut rows = of_database(&Scratch::create(DATABASE)?, queues)?;
        let shared = shared_memory()?;
        rows.push(row(format!("shared memory with {slots} slots"), [kilobytes(shared)]));
        Ok((rows, shared))
    })?;
    let more = [("xqueue.max_queues", slots + DIFFERENCE)];
    let of_one = (server.with_settings(&more, shared_memory)? - shared) / f64::from(DIFFERENCE);
    rows.push(row("shared memory for each slot more", [kilobytes(of_one)]));
    Ok(Section {
        title: "Many queues",
        header: vec!["", ""],
        rows,
        notes: vec![format!(
            "{queues} queues in one database. A view: the median of {LOOKS} looks. A backend has put, taken and acked a task in \
             each queue: how much it has grown since the first, for each further one. Contexts are the memory that the \
             server manages, caches of tables and plans (pg_backend_memory_contexts); anonymous memory is all of the \
             process that it shares with none."
        )],
        plot: None,
    })
}

fn of_database(scratch: &Scratch, queues: u32) -> Result<Vec<Vec<String>>> {
    let mut db = scratch.connect()?;
    watchdog::enter(format!("creating {queues} queues"));
    let mut times = Sample::default();
    times.time(|| create(&mut db, queues, "{}"))?;
    let mut rows = vec![row("all are created after", [milliseconds(times.median())])];
    for view in [
        "SELECT * FROM xqueue.queues".to_owned(),
        format!("SELECT * FROM xqueue.queues WHERE queue = 'q_{}'::regclass", queues / 2),
        format!("SELECT xqueue.stats('q_{}')", queues / 2),
    ] {
        watchdog::enter(&view[..]);
        let mut times = Sample::default();
        for _ in 0..LOOKS {
            times.time(|| db.query(&view, &[]))?;
        }
        rows.push(row(format!("`{view}`"), [milliseconds(times.median())]));
    }
    watchdog::enter(format!("a backend that uses {queues} queues"));
    let mut user = scratch.connect()?;
    use_queue(&mut user, 1)?;
    let before = Memory::of(&mut user)?;
    for queue in 2..=queues {
        use_queue(&mut user, queue)?;
    }
    let after = Memory::of(&mut user)?;
    let each = |after: f64, before: f64| kilobytes((after - before) / f64::from(queues - 1));
    rows.push(row("a backend: contexts for each queue", [each(after.contexts, before.contexts)]));
    rows.push(row(
        "a backend: anonymous memory for each",
        [each(after.anonymous, before.anonymous)],
    ));
    rows.push(row("a backend: anonymous memory at the end", [kilobytes(after.anonymous)]));
    if let Some(worker) = db.query_opt(WORKER, &[])? {
        let anonymous = anonymous_memory(worker.get(0))?;
        rows.push(row("the database's worker: anonymous memory", [kilobytes(anonymous)]));
    }
    Ok(rows)
}

/// Creates the queues q_1, q_2 and so on.
pub fn create(db: &mut Client, queues: u32, options: &str) -> Result<()> {
    for first in (1..=queues).step_by(AT_A_TIME as usize) {
        let last = queues.min(first + AT_A_TIME - 1);
        db.batch_execute(&format!(
            "SELECT count(xqueue.create('q_' || n, '{options}')) FROM generate_series({first}, {last}) n"
        ))?;
    }
    Ok(())
}

fn use_queue(db: &mut Client, queue: u32) -> Result<()> {
    db.batch_execute(&format!("SELECT xqueue.put('q_{queue}', '{{}}')"))?;
    let take = format!("SELECT (task->>'id')::bigint FROM xqueue.take('q_{queue}') task");
    let task: i64 = db.query_one(&take, &[])?.get(0);
    Ok(db.batch_execute(&format!("SELECT xqueue.ack('q_{queue}', {task}::bigint)"))?)
}

/// The memory of a backend, in bytes.
struct Memory {
    contexts: f64,
    anonymous: f64,
}

impl Memory {
    fn of(db: &mut Client) -> Result<Memory> {
        let row = db.query_one(CONTEXTS, &[])?;
        Ok(Memory { anonymous: anonymous_memory(row.get(0))?, contexts: row.get(1) })
    }
}

fn anonymous_memory(pid: i32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(anonymous(&status).ok_or("/proc does not tell the memory of a process")?)
}

/// Parses a process's status, and returns bytes.
fn anonymous(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
}

fn shared_memory() -> Result<f64> {
    Ok(super::server::connect("postgres")?.query_one(SHARED, &[])?.get(0))
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} kB", bytes / 1000.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_status_of_a_process_tells_its_anonymous_memory() {
        let status = "VmRSS:\t  9000 kB\nRssAnon:\t    2048 kB\nRssFile:\t 1 kB\n";
        assert_eq!(super::anonymous(status), Some(2_097_152.0));
        assert_eq!(super::anonymous("Name:\tpostgres\n"), None);
    }
}
