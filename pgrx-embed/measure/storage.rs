//! Would other settings of the table, its indexes and autovacuum make a queue faster, or keep it smaller?

use postgres::Client;

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::peer::{Load, Peers, ROWS, Work};
use crate::pgbench::Length;
use crate::report::{Section, row};
use crate::{Result, database, watchdog};

const TITLE: &str = "Settings of the table and its indexes";
const CLIENTS: u32 = 4;
const COMMIT: &str = "off";
const STOCK: u32 = 1000;
const CONTENDER: &str = ROWS;
/// Settings of the table, and of its indexes.
const SETTINGS: [(&str, &str); 7] = [
    ("", ""),
    ("fillfactor = 80", ""),
    ("fillfactor = 50", ""),
    ("vacuum_truncate = off", ""),
    ("autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000", ""),
    ("", "deduplicate_items = off"),
    ("", "fillfactor = 70"),
];

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    let seconds = effort.flat.1;
    let notes = vec![format!(
        "put, take, ack by {CLIENTS} clients ({CONTENDER}), synchronous_commit {COMMIT}, {STOCK} ready tasks at the \
         start. Medians of {} rounds of {seconds} s, in turn.",
        effort.rounds
    )];
    let header = vec!["", "tasks per second", "to as it is", "size at the end"];
    let mut section = Section { title: TITLE, header, rows: vec![], notes, plot: None };
    let Some(peer) = peers.named(CONTENDER) else {
        section.notes.push(format!("{CONTENDER} does not take part."));
        return Ok(section);
    };
    let load = Load { clients: CLIENTS, commit: COMMIT, length: Length::Seconds(seconds) };
    let mut results = SETTINGS.map(|_| (Sample::default(), Sample::default()));
    for _ in 0..effort.rounds {
        for ((table, indexes), (rates, sizes)) in SETTINGS.iter().zip(&mut results) {
            watchdog::enter(format!("storage, {}", name_of(table, indexes)));
            set(&mut db, "SET", table, indexes)?;
            peer.fill(STOCK, COMMIT)?;
            rates.add(peer.run(Work::Lifecycle, &load)?);
            sizes.add(size(&mut db)?);
            set(&mut db, "RESET", &without_values(table), &without_values(indexes))?;
        }
    }
    let base = results[0].0.median();
    let rows = SETTINGS.iter().zip(&results).map(|((table, indexes), (rates, sizes))| {
        let rate = rates.median();
        let megabytes = format!("{:.1} MB", sizes.median() / 1e6);
        row(
            name_of(table, indexes),
            [format!("{rate:.0}"), format!("{:.2}", rate / base), megabytes],
        )
    });
    section.rows = rows.collect();
    Ok(section)
}

fn name_of(table: &str, indexes: &str) -> String {
    match (table, indexes) {
        ("", "") => "as upgrade leaves it".into(),
        (table, "") => table.into(),
        (_, indexes) => format!("indexes with {indexes}"),
    }
}

fn set(db: &mut Client, verb: &str, table: &str, indexes: &str) -> Result<()> {
    if !table.is_empty() {
        db.batch_execute(&format!("ALTER TABLE measure.queue {verb} ({table})"))?;
    }
    if !indexes.is_empty() {
        let all = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'measure.queue'::regclass";
        for index in db.query(all, &[])? {
            let name: &str = index.get(0);
            db.batch_execute(&format!("ALTER INDEX {name} {verb} ({indexes})"))?;
        }
    }
    Ok(())
}

/// Returns the names of the settings.
fn without_values(settings: &str) -> String {
    let names = settings.split(',').filter_map(|setting| setting.split('=').next());
    names.map(str::trim).collect::<Vec<_>>().join(", ")
}

/// Returns the size of the table and its indexes, in bytes.
fn size(db: &mut Client) -> Result<f64> {
    let row = db.query_one("SELECT pg_total_relation_size('measure.queue')::float8", &[])?;
    Ok(row.get(0))
}
