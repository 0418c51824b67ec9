//! A queue in PostgreSQL, driven by pgbench.

use std::fs;
use std::path::Path;

use postgres::Client;

use super::sections::Sections;
use super::{Load, MANY, Peer, Work, name_of, version_in};
use crate::pgbench::{Bench, Outcome, Script};
use crate::{Result, database};

pub struct SqlPeer {
    name: String,
    version: String,
    sections: Sections,
    db: Client,
}

/// A peer that was fetched: its own schema first, then what this program needs of it.
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

    /// What pgbench runs.
    fn script(&self, work: Work) -> Option<String> {
        Some(self.statements(work)?.replace("{many}", &MANY.to_string()))
    }

    /// A work that is a section of its own is done in a way of the peer's own.
    fn statements(&self, work: Work) -> Option<String> {
        let section = |name| self.sections.get(name);
        let own = match work {
            Work::Lifecycle => section("lifecycle"),
            Work::TakeAndAck => section("take and ack"),
            Work::TakeAndAckMany => section("take and ack many"),
            _ => None,
        };
        if let Some(script) = own {
            return Some(format!("{script}\n"));
        }
        Some(match work {
            Work::Put => format!("{};\n", section("put")?),
            Work::TakeAndAck => format!("{} \\gset\n{};\n", section("take")?, section("ack")?),
            Work::Lifecycle => {
                format!("{};\n{} \\gset\n{};\n", section("put")?, section("take")?, section("ack")?)
            }
            Work::PutMany => format!("{};\n", section("put many")?),
            Work::TakeAndAckMany => {
                format!("{} \\gset\n{};\n", section("take many")?, section("ack many")?)
            }
        })
    }

    fn bench(&self, work: Work, load: &Load) -> Result<Outcome> {
        let script = self.script(work).ok_or("it does not do that")?;
        let bench = Bench { clients: load.clients, commit: load.commit, length: load.length };
        let clients = load.clients.to_string();
        let variables = [("started", "0"), ("clients", &clients), ("tasks", &self.batch())];
        bench.run(&Script::new(&script)?, &variables)
    }

    /// A batch as a client sends it: an array in JSON.
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

    fn calls(&mut self, load: &Load) -> Result<Option<[f64; 3]>> {
        if self.sections.get("take").is_none() {
            return Ok(None);
        }
        Ok(Some(self.bench(Work::Lifecycle, load)?.first_statements()?))
    }

    fn run(&mut self, work: Work, load: &Load) -> Result<f64> {
        let tasks = match work {
            Work::PutMany | Work::TakeAndAckMany => MANY,
            _ => 1,
        };
        Ok(self.bench(work, load)?.per_second * f64::from(tasks))
    }
}
