//! Does a put cost more while many consumers wait? And how much does a NOTIFY in it cost?

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::pgbench::{Bench, Length, Script};
use crate::race::COMMITS;
use crate::report::Section;
use crate::{Result, database, watchdog};

const TABLES: &str = "SELECT xqueue.create('measure.elsewhere');";
const CLIENTS: u32 = 16;
const HAND: &str = "INSERT INTO measure.hand (payload) VALUES ('{\"n\": 1}')";
const NOTIFY: &str = "WITH new AS (INSERT INTO measure.hand (payload) VALUES ('{\"n\": 1}'))
    SELECT pg_notify('measure', '')";
const XQUEUE: &str = "SELECT id FROM xqueue.put(NULL::measure.queue, '{\"payload\": {\"n\": 1}}')";
/// Contenders: name, statement of the put, and number of waiting consumers.
const CONTENDERS: [(&str, &str, usize); 4] = [
    ("hand-written", HAND, 0),
    ("hand-written with NOTIFY", NOTIFY, 0),
    ("xqueue, nobody waits", XQUEUE, 0),
    ("xqueue, 100 wait in another queue", XQUEUE, 100),
];

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut rows = Vec::new();
    for commit in COMMITS {
        let mut rates = CONTENDERS.map(|_| Sample::default());
        for _ in 0..effort.rounds {
            for ((name, put, waiters), rates) in CONTENDERS.iter().zip(&mut rates) {
                watchdog::enter(format!("puts, {name}, synchronous_commit {commit}"));
                db.batch_execute("TRUNCATE measure.hand, measure.queue; CHECKPOINT")?;
                let length = Length::Seconds(effort.seconds);
                let bench = Bench { clients: CLIENTS, commit, length };
                let script = Script::new(&format!("{put};\n"))?;
                let outcome = beside(*waiters, || bench.run(&script, &[]))?;
                rates.add(outcome.per_second);
            }
        }
        let hand = rates[0].median();
        for ((name, _, _), rates) in CONTENDERS.iter().zip(&rates) {
            let (median, ratio) = (rates.median(), rates.median() / hand);
            let cells = [format!("{median:.0}"), format!("{ratio:.2}")];
            rows.push([name.to_string(), commit.into()].into_iter().chain(cells).collect());
        }
    }
    Ok(Section {
        title: "Puts while consumers wait",
        header: vec!["by", "synchronous_commit", "per second", "to hand-written"],
        rows,
        notes: vec![format!(
            "{CLIENTS} clients, medians of {} rounds of {} s, in turn.",
            effort.rounds, effort.seconds
        )],
        plot: None,
    })
}

/// Runs `what` while this number of consumers waits in a queue that gets no task.
fn beside<T>(waiters: usize, what: impl FnOnce() -> Result<T>) -> Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..waiters)
            .map(|_| scope.spawn(|| wait(&over).map_err(|error| error.to_string())))
            .collect();
        let outcome = what();
        over.store(true, Ordering::Relaxed);
        for waiter in waiters {
            waiter.join().map_err(|_| "a consumer panicked")??;
        }
        outcome
    })
}

fn wait(over: &AtomicBool) -> Result<()> {
    let mut db = database::connect("xqueue measure consumer")?;
    while !over.load(Ordering::Relaxed) {
        db.execute("SELECT xqueue.take('measure.elsewhere', '2s')", &[])?;
    }
    Ok(())
}
