//! Tasks per second, beside SQL written by hand, in turn.

use postgres::Client;

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::pgbench::{Bench, Script};
use crate::report::Section;
use crate::scripts::{ACK_MARK, Contender, TABLES, Work};
use crate::{Result, database, watchdog};

const LIFECYCLE: [Contender; 4] =
    [Contender::Hand, Contender::Rows, Contender::Json, Contender::Next];
const ALONE: [Contender; 2] = [Contender::Hand, Contender::Rows];
const WORKS: [(&str, Work, &[Contender]); 4] = [
    ("put + take + ack", Work::Lifecycle, &LIFECYCLE),
    ("put alone", Work::Put, &ALONE),
    ("take alone", Work::Take, &ALONE),
    ("ack alone", Work::Ack, &ALONE),
];
/// Ready tasks beside those of a lifecycle, so that no take finds all of them locked.
const BACKLOG: u32 = 1000;
/// More than are taken or acked in a second.
const STOCK_PER_SECOND: u32 = 60_000;

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut rows = Vec::new();
    for (name, work, contenders) in WORKS {
        for commit in ["on", "off"] {
            for clients in [1, 4] {
                let bench = Bench { clients, commit, seconds: effort.seconds };
                watchdog::enter(format!("{name}, {clients} clients, synchronous_commit {commit}"));
                let rates = race(&mut db, effort, &bench, work, contenders)?;
                let hand = rates[0].median();
                for (contender, rate) in contenders.iter().zip(&rates) {
                    let median = rate.median();
                    let range = [0.0, 1.0].map(|share| format!("{:.0}", rate.percentile(share)));
                    rows.push(vec![
                        name.into(),
                        clients.to_string(),
                        commit.into(),
                        contender.name().into(),
                        format!("{median:.0}"),
                        range.join(" … "),
                        format!("{:.2}", median / hand),
                    ]);
                }
            }
        }
    }
    let (rounds, seconds) = (effort.rounds, effort.seconds);
    Ok(Section {
        title: "Tasks per second",
        header: vec![
            "work",
            "clients",
            "synchronous_commit",
            "by",
            "median",
            "range",
            "to hand-written",
        ],
        rows,
        notes: vec![format!(
            "Median of {rounds} rounds of {seconds} s each, the contenders in turn, by pgbench -M \
             prepared; one task and one transaction per statement, where \"next\" acks a task and takes \
             the next one in one statement. Before each round the table is emptied, filled and \
             vacuumed. \"ack alone\" is reckoned from the mean latency of that statement, as its \
             sessions are given tasks to ack in between."
        )],
    })
}

fn race(
    db: &mut Client,
    effort: &Effort,
    bench: &Bench,
    work: Work,
    contenders: &[Contender],
) -> Result<Vec<Sample>> {
    let mut scripts = Vec::new();
    for contender in contenders {
        scripts.push(Script::new(&contender.script(work))?);
    }
    let stock = match work {
        Work::Lifecycle | Work::Put => BACKLOG,
        Work::Take | Work::Ack => STOCK_PER_SECOND * effort.seconds,
    };
    let variables = [("next", 0), ("span", stock / bench.clients)];
    let mut rates: Vec<Sample> = contenders.iter().map(|_| Sample::default()).collect();
    for _ in 0..effort.rounds {
        for ((contender, script), rate) in contenders.iter().zip(&scripts).zip(&mut rates) {
            fill(db, contender.table(), stock)?;
            let outcome = bench.run(script, &variables)?;
            rate.add(match work {
                Work::Ack => f64::from(bench.clients) * 1e6 / outcome.latency_of(ACK_MARK)?,
                _ => outcome.per_second,
            });
        }
    }
    Ok(rates)
}

fn fill(db: &mut Client, table: &str, tasks: u32) -> Result<()> {
    db.batch_execute(&format!(
        "TRUNCATE {table} RESTART IDENTITY;
         INSERT INTO {table} (payload) SELECT '{{\"n\": 1}}' FROM generate_series(1, {tasks});"
    ))?;
    db.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    Ok(db.batch_execute("CHECKPOINT")?)
}
