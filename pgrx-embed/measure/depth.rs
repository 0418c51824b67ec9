//! Does a lifecycle cost more in a queue with many tasks, ready ones or others?

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::peer::{Load, Peers, Work};
use crate::pgbench::Length;
use crate::report::Section;
use crate::{Result, database, watchdog};

const CLIENTS: u32 = 4;
const COMMIT: &str = "off";
const FEW: u32 = 10_000;
/// Ours with the states that the hand-written table has as well.
const UPGRADE: &str = r#"SELECT xqueue.upgrade('measure.queue', '{"features": {"delayed": true, "buried": true, "keep": true}}')"#;
const DOWNGRADE: &str = "TRUNCATE measure.queue;
    SELECT xqueue.upgrade('measure.queue', '{\"features\": {\"delayed\": false, \"buried\": false, \"keep\": false}}')";

/// Who, and how tasks of another state come to be. They are older than the ready ones.
struct Contender {
    name: &'static str,
    insert: &'static str,
    /// By a session that stays.
    take: &'static str,
}

const CONTENDERS: [Contender; 2] = [
    Contender {
        name: "hand-written",
        insert: "INSERT INTO measure.hand (payload, status)
                 SELECT '{\"n\": 1}', '{status}' FROM generate_series(1, {count})",
        take: "UPDATE measure.hand SET status = 'T', owner = pg_backend_pid()",
    },
    Contender {
        name: "xqueue-rows",
        insert: "INSERT INTO measure.queue (payload, status, runat)
                 SELECT '{\"n\": 1}', '{status}', CASE WHEN '{status}' = 'W' THEN now() + interval '1 day' END
                 FROM generate_series(1, {count})",
        take: "SELECT count(*) FROM xqueue.take(NULL::measure.queue, count => {count})",
    },
];

/// What is there besides a few ready tasks.
struct Situation {
    name: String,
    status: char,
    count: u32,
    is_taken: bool,
}

impl Situation {
    fn new(count: u32, status: char, name: &str) -> Situation {
        let is_taken = status == 'T';
        // What is taken was ready.
        let status = if is_taken { 'R' } else { status };
        Situation { name: format!("{count} {name}"), status, count, is_taken }
    }
}

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(UPGRADE)?;
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
    let load = Load { clients: CLIENTS, commit: COMMIT, length: Length::Seconds(effort.seconds) };
    let mut rows = Vec::new();
    for Contender { name: contender, insert, take } in CONTENDERS {
        let Some(peer) = peers.named(contender) else { continue };
        let inserted = |status: char, count: u32| {
            insert.replace("{count}", &count.to_string()).replace("{status}", &status.to_string())
        };
        let mut first = None;
        for Situation { name, status, count, is_taken } in &situations {
            watchdog::enter(format!("{contender} beside {name}"));
            peer.fill(0, COMMIT)?;
            db.batch_execute(&inserted(*status, *count))?;
            if *is_taken {
                db.batch_execute(&take.replace("{count}", &count.to_string()))?;
            }
            db.batch_execute(&inserted('R', FEW))?;
            db.batch_execute("VACUUM ANALYZE measure.hand, measure.queue")?;
            let mut rates = Sample::default();
            for _ in 0..effort.rounds {
                rates.add(peer.run(Work::Lifecycle, &load)?);
            }
            let median = rates.median();
            let ratio = median / *first.get_or_insert(median);
            let cells = [contender.into(), name.clone(), format!("{median:.0}")];
            rows.push(cells.into_iter().chain([format!("{ratio:.2}")]).collect());
        }
    }
    db.batch_execute(DOWNGRADE)?;
    Ok(Section {
        title: "Lifecycles in a queue of many tasks",
        header: vec!["by", "beside", "tasks per second", "to none"],
        rows,
        notes: vec![format!(
            "{FEW} ready tasks, and older ones beside them; {CLIENTS} clients, synchronous_commit {COMMIT}. \
             Ours has features delayed, buried and keep: an ack updates the task, where the hand-written one \
             deletes it. Median of {} rounds of {} s.",
            effort.rounds, effort.seconds
        )],
        plot: None,
    })
}
