//! Tasks per second beside a transaction that keeps an old snapshot, so that VACUUM removes nothing.

use postgres::Client;

use crate::effort::Effort;
use crate::pgbench::{Bench, Script};
use crate::report::Section;
use crate::scripts::{Contender, TABLES, Work};
use crate::{Result, database, watchdog};

const CONTENDERS: [Contender; 3] = [Contender::Hand, Contender::Rows, Contender::Next];
const CLIENTS: u32 = 4;
const BACKLOG: u32 = 1000;

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let (periods, seconds) = effort.pinned;
    let mut rows = Vec::new();
    for contender in CONTENDERS {
        let bench = Bench { clients: CLIENTS, commit: "off", seconds };
        let script = Script::new(&contender.script(Work::Lifecycle))?;
        let run = |period: &str| -> Result<f64> {
            watchdog::enter(format!("{}, {period}", contender.name()));
            Ok(bench.run(&script, &[("next", 0)])?.per_second)
        };
        fill(&mut db, contender.table())?;
        let before = run("without a snapshot")?;
        let mut holder = database::connect("xqueue measure snapshot")?;
        let mut snapshot = holder
            .build_transaction()
            .isolation_level(postgres::IsolationLevel::RepeatableRead)
            .start()?;
        snapshot.execute("SELECT", &[])?;
        let rates = (1..=periods).map(|period| run(&format!("period {period} beside a snapshot")));
        let rates = rates.collect::<Result<Vec<f64>>>()?;
        snapshot.rollback()?;
        let after =
            (1..).zip(&rates).map(|(period, rate)| (format!("{} s", period * seconds), *rate));
        for (since, rate) in [("none".to_string(), before)].into_iter().chain(after) {
            let ratio = format!("{:.2}", rate / before);
            rows.push(vec![contender.name().into(), since, format!("{rate:.0}"), ratio]);
        }
    }
    Ok(Section {
        title: "Tasks per second beside an old snapshot",
        header: vec!["by", "snapshot held for", "per second", "to none"],
        rows,
        notes: vec![format!(
            "put + take + ack by {CLIENTS} clients, synchronous_commit off, pgbench -M prepared; first \
             {seconds} s without, then beside a repeatable read transaction that has a snapshot and does \
             nothing."
        )],
    })
}

fn fill(db: &mut Client, table: &str) -> Result<()> {
    db.batch_execute(&format!(
        "TRUNCATE {table} RESTART IDENTITY;
         INSERT INTO {table} (payload) SELECT '{{\"n\": 1}}' FROM generate_series(1, {BACKLOG});"
    ))?;
    Ok(db.batch_execute(&format!("VACUUM ANALYZE {table}"))?)
}
