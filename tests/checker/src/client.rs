//! A client: a process that puts, takes and settles at random until its standard input ends or it is killed.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::connection::{Connection, Lost};
use crate::event::{Event, Item, Kind, Token, now};
use crate::queues::{QUEUES, Spec};
use crate::work::Work;

/// The client in this slot keeps its connection for as long as it can; the only faults that hit it are cancels.
pub const LASTING: usize = 1;
pub const LASTING_NAME: &str = "lasting client";

/// The pause of a single consumer after it has connected: a transaction of the previous process can still hold row
/// locks.
const SETTLING: Duration = Duration::from_secs(3);

pub struct Log(File);

impl Log {
    pub fn open(path: &Path) -> Log {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Log(file.unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    }

    /// Writes an event in one call, so that it outlives the process.
    pub fn write(&mut self, kind: Kind, queue: usize, begin: u64, items: &[Item]) {
        let event = Event { kind, queue, begin, end: now(), items: items.to_vec() };
        self.0.write_all(event.line().as_bytes()).expect("the log can be written");
    }
}

/// Tokens of one client, each used once.
pub struct Tokens(Token);

impl Tokens {
    pub fn of(client: u32) -> Tokens {
        Tokens(u64::from(client) << 32)
    }

    pub fn next(&mut self) -> Token {
        self.0 += 1;
        self.0
    }
}

/// Runs a client. The file `address` names the folder of the server's socket. Slot 0 is the consumer of the queues with a
/// single consumer.
pub fn run(address: &str, log: &str, id: u32, slot: usize, seed: u64) {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        // Only the end of the input matters.
        drop(std::io::stdin().read_to_end(&mut rest));
        over.store(true, Ordering::Relaxed);
    });
    let mut random = StdRng::seed_from_u64(seed);
    let mut log = Log::open(log.as_ref());
    let mut tokens = Tokens::of(id);
    let name = if slot == LASTING { LASTING_NAME.into() } else { format!("client {id}") };
    while !is_over.load(Ordering::Relaxed) {
        let folder = std::fs::read_to_string(address).unwrap_or_default();
        let Ok(connection) = Connection::open(folder.trim(), &name) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        log.write(Kind::Connected, 0, now(), &[]);
        let (log, tokens, random) = (&mut log, &mut tokens, &mut random);
        let mut work = Work { connection, log, tokens, random };
        // The connection is lost or has ended, and its leases with it.
        drop(session(&mut work, slot, &is_over));
    }
}

fn session(work: &mut Work, slot: usize, is_over: &AtomicBool) -> Result<(), Lost> {
    let start = Instant::now();
    let length = match slot {
        0 => work.random.random_range(20_000..30_000),
        LASTING => u64::MAX,
        _ => work.random.random_range(100..10_000),
    };
    let length = Duration::from_millis(length);
    while start.elapsed() < length && !is_over.load(Ordering::Relaxed) {
        let queue = work.random.random_range(0..QUEUES.len());
        let spec = &QUEUES[queue];
        let consumes = !spec.has_single_consumer() || (slot == 0 && start.elapsed() > SETTLING);
        turn(work, queue, spec, consumes)?;
    }
    Ok(())
}

/// Runs a random call. Takes outnumber puts, so that queues stay short; a queue whose only consumer is another client
/// gets fewer tasks.
fn turn(work: &mut Work, queue: usize, spec: &Spec, consumes: bool) -> Result<(), Lost> {
    match work.random.random_range(0..100) {
        0..35 if consumes || !spec.has_single_consumer() => work.put(queue),
        0..6 => work.put(queue),
        35..38 => work.insert(queue),
        38..41 => work.put_partly(queue),
        _ if !consumes => Ok(()),
        41..75 => work.take_and_settle(queue),
        75..85 => work.take_and_ack_in_transaction(queue),
        85..92 => work.take_done(queue),
        92..97 => work.next(queue),
        _ if spec.has("buried") => work.kick(queue),
        _ => work.take_and_settle(queue),
    }
}
