//! The cost of `stats`, with few and with many tasks.

use std::thread::sleep;
use std::time::Duration;

use postgres::Client;

use crate::effort::Effort;
use crate::numbers::{Sample, microseconds};
use crate::pgbench::{Bench, Length, Script};
use crate::report::{Section, row};
use crate::{Result, database};

/// Turns an existing table of this number of rows into a queue.
const TABLES: &str = "
    CREATE FUNCTION measure.fill(queue text, tasks bigint) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('CREATE TABLE %s (id bigint PRIMARY KEY, payload jsonb)', queue);
        EXECUTE format('INSERT INTO %s SELECT n, ''{}'' FROM generate_series(1, $1) n', queue)
            USING tasks;
        PERFORM xqueue.upgrade(queue);
    END $$;
    CREATE FUNCTION measure.time_stats(queue text, calls int) RETURNS SETOF float8
    LANGUAGE plpgsql AS $$
    DECLARE
        start timestamptz;
    BEGIN
        FOR n IN 1..calls LOOP
            start := clock_timestamp();
            PERFORM xqueue.stats(queue);
            RETURN NEXT extract(epoch FROM clock_timestamp() - start) * 1e6;
        END LOOP;
    END $$;
    CREATE FUNCTION measure.time_nothing(calls int) RETURNS SETOF float8 LANGUAGE plpgsql AS $$
    DECLARE
        start timestamptz;
    BEGIN
        FOR n IN 1..calls LOOP
            start := clock_timestamp();
            PERFORM length('measure.few');
            RETURN NEXT extract(epoch FROM clock_timestamp() - start) * 1e6;
        END LOOP;
    END $$;";
const FEW_ROWS: i64 = 10;

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    for (queue, tasks) in [("measure.few", FEW_ROWS), ("measure.many", effort.many_rows)] {
        db.execute("SELECT measure.fill($1, $2)", &[&queue, &tasks])?;
        until_exact(&mut db, queue, tasks)?;
    }
    let calls = effort.stats_calls;
    let nothing = sample(&db.query("SELECT measure.time_nothing($1)", &[&calls])?);
    let mut rows = Vec::new();
    let mut outside = vec![bench(effort, "SELECT 1;")?];
    for (queue, tasks) in [("measure.few", FEW_ROWS), ("measure.many", effort.many_rows)] {
        let times = sample(&db.query("SELECT measure.time_stats($1, $2)", &[&queue, &calls])?);
        let cells = [times.median(), times.percentile(0.99)].map(microseconds);
        outside.push(bench(effort, &format!("SELECT xqueue.stats('{queue}');"))?);
        let more = outside[outside.len() - 1] - outside[0];
        let name = format!("stats() of {tasks} rows");
        rows.push(row(name, cells.into_iter().chain([microseconds(more)])));
    }
    Ok(Section {
        title: "stats()",
        header: vec!["", "inside: median", "p99", "outside, more than SELECT 1: mean"],
        rows,
        notes: vec![format!(
            "Inside: {calls} calls in a PL/pgSQL loop, where calling length() takes {}. Outside: the \
             mean latency of pgbench -M prepared; that of SELECT 1 is {}.",
            microseconds(nothing.median()),
            microseconds(outside[0]),
        )],
        plot: None,
    })
}

/// Waits until the worker has counted the new queue.
fn until_exact(db: &mut Client, queue: &str, tasks: i64) -> Result<()> {
    let counted = "
        SELECT (stats->>'exact')::boolean AND (stats->'tasks'->>'ready')::bigint = $2
        FROM xqueue.stats($1::text) stats";
    while !db.query_one(counted, &[&queue, &tasks])?.get::<_, bool>(0) {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn sample(rows: &[postgres::Row]) -> Sample {
    rows.iter().map(|row| row.get::<_, f64>(0)).collect()
}

/// Returns the mean latency of a statement in microseconds.
fn bench(effort: &Effort, sql: &str) -> Result<f64> {
    let script = Script::new(sql)?;
    Ok(Bench { clients: 1, commit: "on", length: Length::Seconds(effort.seconds.min(3)) }
        .run(&script, &[])?
        .latency)
}
