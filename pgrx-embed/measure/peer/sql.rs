//! A queue in PostgreSQL, driven by pgbench.

use std::fs;
use std::path::Path;

use postgres::Client;

use super::sections::Sections;
use super::steps::{self, Steps};
use super::{Apart, Load, MANY, Peer, Timed, Work, name_of, version_in};
use crate::pgbench::{Bench, Length, Outcome, Script};
use crate::pgbench_log::Transaction;
use crate::{Result, database};

pub struct SqlPeer {
    name: String,
    version: String,
    sections: Sections,
    db: Client,
}

/// Loads a fetched peer: first its own schema, then the statements that this program adds.
pub fn from_folder(folder: &Path) -> Result<SqlPeer> {
    let schema = folder.join("schema.sql");
    if schema.exists() {
        database::connect("xqueue measure")?.batch_execute(&fs::read_to_string(schema)?)?;
    }
    let sections = fs::read_to_string(folder.join("statements.sql"))?;
    SqlPeer::new(name_of(folder), &version_in(folder)?, &[&sections])
}

impl SqlPeer {
    pub fn new(name: &str, version: &str, texts: &[&str]) -> Result<SqlPeer> {
        let sections = Sections::parse(texts);
        let mut db = database::connect("xqueue measure")?;
        db.batch_execute(sections.get("install").unwrap_or_default())?;
        Ok(SqlPeer { name: name.into(), version: version.into(), sections, db })
    }

    /// Returns the script for pgbench. A section "lifecycle" replaces the usual steps by the peer's own.
    fn script(&self, work: Work) -> Option<String> {
        match (work, self.sections.get("lifecycle")) {
            (Work::Lifecycle, Some(own)) => Some(format!("{own}\n")),
            _ => Some(Steps::of(&self.sections, work)?.script()),
        }
    }

    fn bench(&self, work: Work, load: &Load) -> Result<Outcome> {
        let script = self.script(work).ok_or("it does not do that")?;
        let bench = Bench { clients: load.clients, commit: load.commit, length: load.length };
        bench.run(&Script::new(&script)?, &self.variables(load))
    }

    fn variables(&self, load: &Load) -> [(&'static str, String); 4] {
        let clients = load.clients.to_string();
        let [started, step] = ["started", "step"].map(|name| (name, "0".into()));
        [started, step, ("clients", clients), ("tasks", self.batch())]
    }

    /// Returns a batch as a client sends it: a JSON array.
    fn batch(&self) -> String {
        let task = self.sections.get("task").unwrap_or("{}");
        format!("[{}]", vec![task; MANY as usize].join(", "))
    }
}

impl Peer for SqlPeer {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn does(&self, work: Work) -> bool {
        self.script(work).is_some()
    }

    fn fill(&mut self, tasks: u32, _commit: &'static str) -> Result<()> {
        if let Some(empty) = self.sections.get("empty") {
            self.db.batch_execute(empty)?;
        }
        if let Some(fill) = self.sections.get("fill") {
            self.db.batch_execute(&fill.replace("{count}", &tasks.to_string()))?;
        }
        self.db.batch_execute(&format!("VACUUM ANALYZE {}", self.sections.need("tables")?))?;
        Ok(self.db.batch_execute("CHECKPOINT")?)
    }

    fn only_reads(&self) -> bool {
        self.sections.get("only reads").is_some()
    }

    fn apart(&self) -> Option<Apart> {
        let count = match (self.sections.get("count"), self.sections.get("tables")) {
            (Some(count), _) => count.into(),
            (None, table) => format!("SELECT count(*) FROM {}", table?),
        };
        let put = Steps::of(&self.sections, Work::Put)?.script();
        Some(Apart { put, consume: steps::take_and_ack_if_any(&self.sections)?, count })
    }

    fn calls(&mut self, load: &Load) -> Result<Option<[f64; 3]>> {
        if self.sections.get("take").is_none() || !self.does(Work::Lifecycle) {
            return Ok(None);
        }
        Ok(Some(self.bench(Work::Lifecycle, load)?.first_statements()?))
    }

    fn run(&mut self, work: Work, load: &Load) -> Result<f64> {
        Ok(self.bench(work, load)?.per_second * f64::from(work.tasks()))
    }

    fn run_timed(&mut self, work: Work, load: &Load) -> Result<Option<Timed>> {
        let Some(steps) = Steps::of(&self.sections, work) else { return Ok(None) };
        let length = match load.length {
            Length::Calls(calls) => Length::Calls(calls * steps.count() as u32),
            seconds => seconds,
        };
        let bench = Bench { clients: load.clients, commit: load.commit, length };
        let script = Script::new(&steps.one_at_a_time())?;
        let (outcome, transactions) = bench.run_logged(&script, &self.variables(load))?;
        let tasks =
            |transactions: f64| transactions * f64::from(work.tasks()) / steps.count() as f64;
        let all = transactions.len();
        let (timed, per_second) = match load.length {
            Length::Seconds(seconds) => {
                let timed = of_the_last(f64::from(seconds), transactions);
                let per_second = timed.len() as f64 / f64::from(seconds);
                (timed, per_second)
            }
            Length::Calls(_) => (transactions, outcome.per_second),
        };
        let takes = timed.iter().filter(|transaction| steps.is_take(transaction.place));
        Ok(Some(Timed {
            per_second: tasks(per_second),
            takes: takes.map(|transaction| transaction.latency).collect(),
            tasks: tasks(all as f64),
        }))
    }
}

/// Keeps the transactions that ended in the last `seconds`.
fn of_the_last(seconds: f64, mut transactions: Vec<Transaction>) -> Vec<Transaction> {
    let end = transactions.iter().map(|transaction| transaction.end).fold(0.0, f64::max);
    transactions.retain(|transaction| transaction.end > end - seconds);
    transactions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_the_end_of_a_run() {
        let ends = [3.0, 7.5, 5.0, 10.0];
        let transactions = ends.map(|end| Transaction { place: 0, latency: 1.0, end });
        let timed = of_the_last(5.0, transactions.into());
        assert_eq!(timed.iter().map(|timed| timed.end).collect::<Vec<_>>(), [7.5, 10.0]);
    }
}
