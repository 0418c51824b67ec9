//! Contenders: xqueue, SQL written by hand, and the requested other queues.

mod beanstalkd;
mod crew;
mod peers;
mod pgq;
mod sections;
mod sql;
mod steps;
mod tarantool;

use std::fs;
use std::path::Path;

use crate::Result;
use crate::numbers::Sample;
use crate::pgbench::Length;
pub use peers::Peers;
use sections::Sections;
use sql::SqlPeer;

pub const HAND: &str = "hand-written";
pub const ROWS: &str = "xqueue-rows";
pub const DONE: &str = "xqueue-done";
pub const NEXT: &str = "xqueue-next";
/// Tasks in a batch.
pub const MANY: u32 = 100;

/// The work that each client repeats.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    Put,
    /// put, take, ack
    Lifecycle,
    /// Takes and acks existing tasks.
    TakeAndAck,
    /// `MANY` tasks in one call.
    PutMany,
    TakeAndAckMany,
}

impl Work {
    /// Returns the number of tasks in one repetition.
    pub fn tasks(self) -> u32 {
        match self {
            Work::PutMany | Work::TakeAndAckMany => MANY,
            _ => 1,
        }
    }
}

/// The conditions of a work.
pub struct Load {
    pub clients: u32,
    /// synchronous_commit, or the peer's equivalent.
    pub commit: &'static str,
    pub length: Length,
}

/// Statements of producers, consumers and observers that run concurrently.
pub struct Apart {
    /// Scripts for pgbench.
    pub put: String,
    pub consume: String,
    /// A statement that counts the tasks that are not done.
    pub count: String,
}

pub struct Timed {
    /// In tasks.
    pub per_second: f64,
    /// The latency of each take, including its commit.
    pub takes: Sample,
    /// Tasks, including the warm-up.
    pub tasks: f64,
}

pub trait Peer {
    fn name(&self) -> &str;

    fn version(&self) -> &str;

    /// Returns true if the peer supports this work.
    fn does(&self, work: Work) -> bool;

    /// Fills its queue with `tasks` ready tasks.
    fn fill(&mut self, tasks: u32, commit: &'static str) -> Result<()>;

    /// Does the work and returns its rate in tasks per second.
    fn run(&mut self, work: Work, load: &Load) -> Result<f64> {
        Ok(self.run_timed(work, load)?.ok_or("it has no such takes")?.per_second)
    }

    /// Does the work and also returns the latency of each take, or None if its takes are not separate statements.
    fn run_timed(&mut self, _work: Work, _load: &Load) -> Result<Option<Timed>> {
        Ok(None)
    }

    /// Returns None if the peer has no statements for this.
    fn apart(&self) -> Option<Apart> {
        None
    }

    /// Returns true if takes only read the tasks. Yardsticks can do this.
    fn only_reads(&self) -> bool {
        false
    }

    /// Returns the mean latencies of put, take and ack in microseconds, if each is a separate statement.
    fn calls(&mut self, _load: &Load) -> Result<Option<[f64; 3]>> {
        Ok(None)
    }
}

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../../peers/", $name, ".sql"))
    };
}

/// Built-in contenders: SQL written by hand, the ways to call xqueue, and yardsticks. The text of each way follows the
/// common text.
static BUILT_IN: [(&str, &[&str]); 8] = [
    (HAND, &[text!("hand-written")]),
    (ROWS, &[text!("xqueue"), text!("xqueue-rows")]),
    ("xqueue-jsonb", &[text!("xqueue"), text!("xqueue-jsonb")]),
    ("xqueue-insert", &[text!("xqueue"), text!("xqueue-insert")]),
    (NEXT, &[text!("xqueue"), text!("xqueue-next")]),
    (DONE, &[text!("xqueue"), text!("xqueue-done")]),
    ("limit", &[text!("limit")]),
    ("read", &[text!("read")]),
];

pub fn built_in() -> Result<Peers> {
    let mut peers = Peers::default();
    for (name, texts) in BUILT_IN {
        peers.push(Box::new(SqlPeer::new(name, "", texts)?));
    }
    Ok(peers)
}

/// Returns a built-in contender.
pub fn named(name: &str) -> Result<Box<dyn Peer>> {
    let (known, texts) = known(name)?;
    Ok(Box::new(SqlPeer::new(known, "", texts)?))
}

fn known(name: &str) -> Result<&'static (&'static str, &'static [&'static str])> {
    let known = BUILT_IN.iter().find(|(known, _)| *known == name);
    Ok(known.ok_or(format!("{name} is not built in"))?)
}

/// Returns a contender with these sections.
pub fn of_text(name: &str, text: &str) -> Result<Box<dyn Peer>> {
    Ok(Box::new(SqlPeer::new(name, "", &[text])?))
}

/// Returns a built-in contender with this table instead of the table that all its cases share.
pub fn with_table(name: &str, table: &str) -> Result<Box<dyn Peer>> {
    let (_, texts) = known(name)?;
    let sections = Sections::parse(texts);
    let shared = sections.need("tables")?;
    let texts: Vec<_> = texts.iter().map(|text| text.replace(shared, table)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    Ok(Box::new(SqlPeer::new(name, "", &texts)?))
}

/// A feature of the queue, whose sections replace those of a plain queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Variant {
    Plain,
    /// This number of sub-queues.
    SubQueues(u32),
    /// Takes from one of this number of tubes.
    Tubes(u32),
    /// Tasks of this number of priorities.
    Priorities(u32),
}

impl Variant {
    /// Returns the sections for SQL written by hand, and for xqueue.
    fn texts(self) -> [&'static str; 2] {
        match self {
            Variant::Plain => ["", ""],
            Variant::SubQueues(_) => [text!("hand-written-utube"), text!("xqueue-utube")],
            Variant::Tubes(_) => [text!("hand-written-tube"), text!("xqueue-tube")],
            Variant::Priorities(_) => [text!("hand-written-priority"), text!("xqueue-priority")],
        }
    }

    /// Returns the number of parts of the queue. `Peer::fill` gets the number of tasks in each part.
    pub fn parts(self) -> u32 {
        match self {
            Variant::SubQueues(parts) | Variant::Tubes(parts) => parts,
            Variant::Plain | Variant::Priorities(_) => 1,
        }
    }

    fn fill_in(self, text: &str) -> String {
        match self {
            Variant::Plain => text.into(),
            Variant::SubQueues(count) | Variant::Tubes(count) => {
                text.replace("{tubes}", &count.to_string())
            }
            Variant::Priorities(count) => text.replace("{priorities}", &count.to_string()),
        }
    }
}

/// Returns a built-in contender (by hand, or a way to call xqueue) for a variant of a queue.
pub fn of_variant(name: &str, variant: Variant) -> Result<Box<dyn Peer>> {
    if variant == Variant::Plain {
        return named(name);
    }
    let [by_hand, ours] = variant.texts().map(|text| variant.fill_in(text));
    if name == HAND {
        return Ok(Box::new(SqlPeer::new(name, "", &[&by_hand])?));
    }
    let (known, texts) = known(name)?;
    let (plain, own) = (Sections::parse(texts), Sections::parse(&[&ours]));
    let (shared, table) = (plain.need("tables")?, own.need("tables")?);
    let mut texts: Vec<_> = texts.iter().map(|text| text.replace(shared, table)).collect();
    texts.push(ours);
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    Ok(Box::new(SqlPeer::new(known, "", &texts)?))
}

/// Returns the hand-written and our contender, for a queue with ten sub-queues.
pub fn with_sub_queues() -> Result<[Box<dyn Peer>; 2]> {
    let variant = Variant::SubQueues(10);
    Ok([of_variant(HAND, variant)?, of_variant(ROWS, variant)?])
}

/// Installs the peer that was fetched into a folder. The folder's name is the peer's.
pub fn open(folder: &Path) -> Result<Box<dyn Peer>> {
    if let Ok(reason) = fs::read_to_string(folder.join("missing")) {
        return Err(reason.trim().into());
    }
    match name_of(folder) {
        "tarantool" => Ok(Box::new(tarantool::Tarantool::new(folder)?)),
        "beanstalkd" => Ok(Box::new(beanstalkd::Beanstalkd::new(folder)?)),
        "pgq" => Ok(Box::new(pgq::Pgq::new(sql::from_folder(folder)?))),
        _ => Ok(Box::new(sql::from_folder(folder)?)),
    }
}

pub fn name_of(folder: &Path) -> &str {
    folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn version_in(folder: &Path) -> Result<String> {
    Ok(fs::read_to_string(folder.join("version"))?.trim().to_owned())
}
