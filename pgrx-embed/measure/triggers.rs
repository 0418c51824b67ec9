//! The cost of the triggers for bulk loads: INSERT and COPY of many rows, compared with the same table and indexes
//! without triggers.

use std::time::Instant;

use postgres::Client;

use crate::effort::Effort;
use crate::numbers::{Sample, milliseconds};
use crate::report::Section;
use crate::{Result, database, watchdog};

const TABLES: &str = "
    SELECT xqueue.create('measure.loaded');
    CREATE TABLE measure.unloaded (LIKE measure.loaded INCLUDING ALL);";
const INSERT: &str =
    "INSERT INTO {table} (payload) SELECT '{\"n\": 1}' FROM generate_series(1, {count})";
const COPY: &str = "COPY {table} (payload) FROM PROGRAM 'yes \"{\\\"n\\\": 1}\" | head -n {count}'";
const WAYS: [(&str, &str); 2] = [("INSERT", INSERT), ("COPY", COPY)];
const PLAIN: &str = "measure.unloaded";
const QUEUE: &str = "measure.loaded";

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut rows = Vec::new();
    for (way, sql) in WAYS {
        watchdog::enter(format!("{way} of many rows"));
        let sql = sql.replace("{count}", &effort.deep.to_string());
        let (mut plain, mut queue) = (Sample::default(), Sample::default());
        for _ in 0..effort.rounds {
            plain.add(load(&mut db, PLAIN, &sql)?);
            queue.add(load(&mut db, QUEUE, &sql)?);
        }
        let cells = [plain.median(), queue.median()].map(milliseconds);
        let ratio = format!("{:.2}", queue.median() / plain.median());
        rows.push([way.into()].into_iter().chain(cells).chain([ratio]).collect());
    }
    db.batch_execute(&format!("TRUNCATE {PLAIN}, {QUEUE}"))?;
    Ok(Section {
        title: "Loading a table",
        header: vec!["", "without triggers", "a queue", "to without"],
        rows,
        notes: vec![format!(
            "{} rows in one statement into an empty table, key and indexes the same. Medians of {} rounds, in turn.",
            effort.deep, effort.rounds
        )],
        plot: None,
    })
}

/// Returns microseconds.
fn load(db: &mut Client, table: &str, sql: &str) -> Result<f64> {
    db.batch_execute(&format!("TRUNCATE {table}"))?;
    db.batch_execute("CHECKPOINT")?;
    let begin = Instant::now();
    db.batch_execute(&sql.replace("{table}", table))?;
    Ok(begin.elapsed().as_secs_f64() * 1e6)
}
