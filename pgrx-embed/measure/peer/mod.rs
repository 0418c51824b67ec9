//! Contenders: ours, SQL written by hand, and the queues that were asked for.

mod beanstalkd;
mod crew;
mod peers;
mod pgq;
mod sections;
mod sql;
mod tarantool;

use std::fs;
use std::path::Path;

use crate::Result;
use crate::pgbench::Length;
pub use peers::Peers;
use sections::Sections;
use sql::SqlPeer;

pub const HAND: &str = "hand-written";
pub const ROWS: &str = "xqueue-rows";
/// How many tasks a batch has.
pub const MANY: u32 = 100;

/// What is done, again and again, by each client.
#[derive(Clone, Copy, PartialEq)]
pub enum Work {
    Put,
    /// put, take, ack
    Lifecycle,
    /// Of tasks that are there.
    TakeAndAck,
    /// `MANY` tasks at once.
    PutMany,
    TakeAndAckMany,
}

/// How a work is done.
pub struct Load {
    pub clients: u32,
    /// synchronous_commit, or what the peer has in its place.
    pub commit: &'static str,
    pub length: Length,
}

pub trait Peer {
    fn name(&self) -> &str;

    fn version(&self) -> &str;

    /// Whether it has this work at all.
    fn does(&self, work: Work) -> bool;

    /// Fills its queue with `tasks` ready tasks.
    fn fill(&mut self, tasks: u32, commit: &'static str) -> Result<()>;

    /// Does the work and returns how many tasks it came to per second.
    fn run(&mut self, work: Work, load: &Load) -> Result<f64>;

    /// The mean latencies of put, take and ack in microseconds, where each is a statement of its own.
    fn calls(&mut self, _load: &Load) -> Result<Option<[f64; 3]>> {
        Ok(None)
    }
}

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../../peers/", $name, ".sql"))
    };
}

/// Contenders whose statements are part of the program: SQL written by hand, the ways to call xqueue, each after what
/// they have in common, and a yardstick.
static BUILT_IN: [(&str, &[&str]); 7] = [
    (HAND, &[text!("hand-written")]),
    (ROWS, &[text!("xqueue"), text!("xqueue-rows")]),
    ("xqueue-jsonb", &[text!("xqueue"), text!("xqueue-jsonb")]),
    ("xqueue-insert", &[text!("xqueue"), text!("xqueue-insert")]),
    ("xqueue-next", &[text!("xqueue"), text!("xqueue-next")]),
    ("xqueue-done", &[text!("xqueue"), text!("xqueue-done")]),
    ("limit", &[text!("limit")]),
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

/// Returns a built-in contender with this table in place of the one that all its cases share.
pub fn with_table(name: &str, table: &str) -> Result<Box<dyn Peer>> {
    let (_, texts) = known(name)?;
    let sections = Sections::parse(texts);
    let shared = sections.need("tables")?;
    let texts: Vec<_> = texts.iter().map(|text| text.replace(shared, table)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    Ok(Box::new(SqlPeer::new(name, "", &texts)?))
}

/// By hand and ours, of a queue that has sub-queues.
pub fn with_sub_queues() -> Result<[Box<dyn Peer>; 2]> {
    Ok([
        Box::new(SqlPeer::new(HAND, "", &[text!("hand-written-utube")])?),
        Box::new(SqlPeer::new(ROWS, "", &[text!("xqueue-utube")])?),
    ])
}

/// Installs the peer that was fetched into a folder, which has its name.
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
