//! Does a lifecycle cost more in a queue with many tasks, ready or in other states? A small and a deep queue are
//! measured in pairs, so that changes of the machine's speed affect both.

use postgres::Client;

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::peer::{self, HAND, Load, Peer, Peers, ROWS, Work};
use crate::pgbench::Length;
use crate::report::{Section, row};
use crate::{Result, database, watchdog};

const CLIENTS: u32 = 4;
const COMMIT: &str = "off";
const FEW: u32 = 10_000;
const SMALL: &str = "measure.small";
const DEEP: &str = "measure.deep";
/// Autovacuum would vacuum the small queue a hundred times as often.
const BY_HAND: &str = "ALTER TABLE {table} SET (autovacuum_enabled = off)";
/// Removes the leftovers of the lifecycles before each pair.
const DELETE_DONE: &str = "DELETE FROM {table} WHERE status = 'D' AND id > {others}";
/// A deep table has few dead rows for its size, so VACUUM would skip its indexes without INDEX_CLEANUP.
const VACUUM: &str = "VACUUM (ANALYZE, INDEX_CLEANUP on) measure.small, measure.deep";
const DROP: &str = "DROP TABLE measure.small, measure.deep";

/// A contender, and its statements that create tasks of another state. These tasks are older than the ready ones.
struct Contender {
    name: &'static str,
    /// Adds the states that the hand-written table has too.
    upgrade: &'static str,
    insert: &'static str,
    /// Run by a session that stays connected.
    take: &'static str,
}

const CONTENDERS: [Contender; 2] = [
    Contender {
        name: HAND,
        upgrade: "",
        insert: "INSERT INTO {table} (payload, status)
                 SELECT '{\"n\": 1}', '{status}' FROM generate_series(1, {count})",
        take: "UPDATE {table} SET status = 'T', owner = pg_backend_pid()",
    },
    Contender {
        name: ROWS,
        upgrade: r#"SELECT xqueue.upgrade('{table}', '{"features": {"delayed": true, "buried": true, "keep": {keep}}}')"#,
        insert: "INSERT INTO {table} (payload, status, runat)
                 SELECT '{\"n\": 1}', '{status}', CASE WHEN '{status}' = 'W' THEN now() + interval '1 day' END
                 FROM generate_series(1, {count})",
        take: "SELECT count(*) FROM xqueue.take(NULL::{table}, count => {count})",
    },
];

/// The tasks in the queue besides a few ready ones.
struct Situation {
    name: String,
    status: char,
    count: u32,
    is_taken: bool,
}

impl Situation {
    fn new(count: u32, status: char, name: &str) -> Situation {
        let is_taken = status == 'T';
        // Taken tasks are inserted as ready.
        let status = if is_taken { 'R' } else { status };
        Situation { name: format!("{count} {name}"), status, count, is_taken }
    }

    fn all(effort: &Effort) -> Vec<Situation> {
        let count = effort.deep;
        let mut situations = vec![
            Situation::new(0, 'R', "others"),
            Situation::new(count, 'R', "ready"),
            Situation::new(count, 'D', "done"),
            Situation::new(count, 'W', "waiting"),
            Situation::new(count, 'B', "buried"),
            Situation::new(count / 10, 'T', "in flight"),
        ];
        if effort.ten_times {
            situations.push(Situation::new(10 * count, 'R', "ready"));
            situations.push(Situation::new(10 * count, 'D', "done"));
        }
        situations
    }
}

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut rows = Vec::new();
    for contender in &CONTENDERS {
        if peers.named(contender.name).is_none() {
            continue;
        }
        for situation in Situation::all(effort) {
            watchdog::enter(format!("{} beside {}", contender.name, situation.name));
            let [small, deep, ratios] = compare(contender, &situation, effort)?;
            let quartiles = [0.25, 0.75].map(|share| format!("{:.3}", ratios.quantile(share)));
            let cells = [
                situation.name,
                format!("{:.0}", small.median()),
                format!("{:.0}", deep.median()),
                format!("{:.3}", ratios.median()),
                quartiles.join(" … "),
            ];
            rows.push(row(contender.name, cells));
        }
    }
    Ok(Section {
        title: "Lifecycles in a queue of many tasks",
        header: vec![
            "by",
            "beside",
            "small: tasks per second",
            "deep",
            "deep to small",
            "quartiles",
        ],
        rows,
        notes: vec![format!(
            "A small table of {FEW} ready tasks and a deep one that has older ones besides; {CLIENTS} clients, \
             synchronous_commit {COMMIT}, no autovacuum. Medians of {} pairs of {} s each, in the order small, deep, \
             deep, small; before each pair both are vacuumed, and a checkpoint made. The ratio is that of a pair: the \
             pairs beside 0 others tell what chance does. Beside done tasks ours has feature keep: an ack updates the \
             task, where the hand-written one deletes it; what was kept is deleted before the next pair.",
            2 * effort.rounds,
            effort.seconds
        )],
        plot: None,
    })
}

/// Returns the rates of the small and the deep queue, and their ratios.
fn compare(contender: &Contender, situation: &Situation, effort: &Effort) -> Result<[Sample; 3]> {
    let mut db = database::connect("xqueue measure")?;
    let tables = [(SMALL, 0), (DEEP, situation.count)];
    let mut peers = Vec::new();
    for (table, others) in tables {
        peers.push(fill(&mut db, contender, situation, table, others)?);
    }
    let load = Load { clients: CLIENTS, commit: COMMIT, length: Length::Seconds(effort.seconds) };
    let [mut small, mut deep, mut ratios] = [(); 3].map(|()| Sample::default());
    for order in [[0, 1], [1, 0]].repeat(effort.rounds) {
        renew(&mut db, &tables)?;
        let mut rates = [0.0; 2];
        for which in order {
            rates[which] = peers[which].run(Work::Lifecycle, &load)?;
        }
        small.add(rates[0]);
        deep.add(rates[1]);
        ratios.add(rates[1] / rates[0]);
    }
    db.batch_execute(DROP)?;
    Ok([small, deep, ratios])
}

/// Fills the table with a few ready tasks and `others` tasks of another state.
fn fill(
    db: &mut Client,
    contender: &Contender,
    situation: &Situation,
    table: &str,
    others: u32,
) -> Result<Box<dyn Peer>> {
    let peer = peer::with_table(contender.name, table)?;
    let status = situation.status;
    let take = if situation.is_taken && others > 0 { contender.take } else { "" };
    for (sql, status, count) in [
        (BY_HAND, status, others),
        (contender.upgrade, status, others),
        (contender.insert, status, others),
        (take, status, others),
        (contender.insert, 'R', FEW),
    ] {
        let sql = sql
            .replace("{table}", table)
            .replace("{keep}", &(status == 'D').to_string())
            .replace("{status}", &status.to_string())
            .replace("{count}", &count.to_string());
        db.batch_execute(&sql)?;
    }
    Ok(peer)
}

fn renew(db: &mut Client, tables: &[(&str, u32)]) -> Result<()> {
    for (table, others) in tables {
        let delete = DELETE_DONE.replace("{table}", table);
        db.batch_execute(&delete.replace("{others}", &others.to_string()))?;
    }
    db.batch_execute(VACUUM)?;
    Ok(db.batch_execute("CHECKPOINT")?)
}
