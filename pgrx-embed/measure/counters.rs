//! Do the triggers, which count in shared memory, slow each other down? Many clients run lifecycles in plain SQL, on a
//! queue and on the same table without triggers.

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::pgbench::{Bench, Length, Script};
use crate::race::COMMITS;
use crate::report::{Section, row};
use crate::{Result, database, watchdog};

const CLIENTS: u32 = 16;
const STOCK: u32 = 1000;
const PLAIN: &str = "measure.uncounted";
const QUEUE: &str = "measure.counted";
const TABLES: &str = "
    SELECT xqueue.create('measure.counted');
    CREATE TABLE measure.uncounted (LIKE measure.counted INCLUDING ALL);";
const FILL: &str = "
    TRUNCATE {table};
    INSERT INTO {table} (payload) SELECT '{\"n\": 1}' FROM generate_series(1, {count});
    VACUUM ANALYZE {table};
    CHECKPOINT;";
const LIFECYCLE: &str = "
    INSERT INTO {table} (payload) VALUES ('{\"n\": 1}');
    UPDATE {table} SET status = 'T' WHERE id = (SELECT id FROM {table} WHERE status = 'R' ORDER BY id
        FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id \\gset
    DELETE FROM {table} WHERE id = :id;";

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut rows = Vec::new();
    for commit in COMMITS {
        let bench = Bench { clients: CLIENTS, commit, length: Length::Seconds(effort.seconds) };
        let mut rates = [PLAIN, QUEUE].map(|table| (table, Sample::default()));
        for _ in 0..effort.rounds {
            for (table, rates) in &mut rates {
                watchdog::enter(format!("plain SQL on {table}, synchronous_commit {commit}"));
                let of_table = |text: &str| text.replace("{table}", table);
                // One statement at a time, because VACUUM cannot run in a transaction block.
                for statement in of_table(FILL).replace("{count}", &STOCK.to_string()).split(';') {
                    db.batch_execute(statement)?;
                }
                rates.add(bench.run(&Script::new(&of_table(LIFECYCLE))?, &[])?.per_second);
            }
        }
        let [plain, queue] = rates.map(|(_, rates)| rates.median());
        let cells = [format!("{plain:.0}"), format!("{queue:.0}"), format!("{:.2}", queue / plain)];
        rows.push(row(commit, cells));
    }
    Ok(Section {
        title: "Counters: plain SQL by many clients",
        header: vec!["synchronous_commit", "without triggers", "a queue", "to without"],
        rows,
        notes: vec![format!(
            "Lifecycles per second: INSERT, UPDATE of the first ready row with SKIP LOCKED, DELETE, by {CLIENTS} clients; \
             key and indexes the same. Medians of {} rounds of {} s, in turn.",
            effort.rounds, effort.seconds
        )],
        plot: None,
    })
}
