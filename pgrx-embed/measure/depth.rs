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
const CONTENDERS: [(&str, &str); 2] = [
    (
        "hand-written",
        "INSERT INTO measure.hand (payload, status)
         SELECT '{\"n\": 1}', '{status}' FROM generate_series(1, {count})",
    ),
    (
        "xqueue-rows",
        "INSERT INTO measure.queue (payload, status, runat)
         SELECT '{\"n\": 1}', '{status}', CASE WHEN '{status}' = 'W' THEN now() + interval '1 day' END
         FROM generate_series(1, {count})",
    ),
];

/// What is there besides a few ready tasks.
struct Situation {
    name: String,
    status: char,
    count: u32,
}

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(UPGRADE)?;
    let mut situations = vec![Situation { name: "nothing".into(), status: 'R', count: 0 }];
    for (status, name) in [('R', "ready"), ('D', "done"), ('W', "waiting"), ('B', "buried")] {
        let name = format!("{} {name}", effort.deep);
        situations.push(Situation { name, status, count: effort.deep });
    }
    if effort.ten_times {
        let count = 10 * effort.deep;
        situations.push(Situation { name: format!("{count} ready"), status: 'R', count });
    }
    let load = Load { clients: CLIENTS, commit: COMMIT, length: Length::Seconds(effort.seconds) };
    let mut rows = Vec::new();
    for (contender, insert) in CONTENDERS {
        let Some(peer) = peers.iter_mut().find(|peer| peer.name() == contender) else { continue };
        let mut first = None;
        for Situation { name, status, count } in &situations {
            watchdog::enter(format!("{contender} beside {name}"));
            peer.fill(0, COMMIT)?;
            for (status, count) in [(*status, *count), ('R', FEW)] {
                let insert = insert.replace("{count}", &count.to_string());
                db.batch_execute(&insert.replace("{status}", &status.to_string()))?;
            }
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
        header: vec!["by", "beside", "tasks per second", "to nothing"],
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
