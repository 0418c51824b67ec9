//! A consumer: a process with its own connection that takes tasks while the tour lasts.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::time::SystemTime;

use postgres::{Client, Row, Statement};
use sha2::{Digest, Sha256};

use crate::{Result, database};

const TAKE: &str = "
    SELECT path, due, ready, postpone AND due IS NULL AS postpone, clock_timestamp() AS taken
    FROM xqueue.take(NULL::tour.files, '10s', 8)";
const RELEASE: &str = "SELECT xqueue.release(NULL::tour.files, $1::text[], delay => '0.5 s')";
const INSERT: &str = "
    INSERT INTO tour.digests (path, sha256, error, taken, due, ready, session)
    SELECT *, xqueue.identify()
    FROM unnest($1::text[], $2::text[], $3::text[],
                $4::timestamptz[], $5::timestamptz[], $6::timestamptz[])";
const ACK: &str = "SELECT xqueue.ack(NULL::tour.files, $1::text[])";

/// Prints its session's uuid in one line, then works until its input ends or it is killed.
pub fn work(number: &str) -> Result<Infallible> {
    std::thread::spawn(|| {
        // This process ends together with the tour, even during a wait for a task.
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        std::process::exit(0);
    });
    let mut db = database::connect(&format!("xqueue tour consumer {number}"))?;
    let [take, release, insert, ack] = [TAKE, RELEASE, INSERT, ACK].map(|sql| db.prepare(sql));
    let statements = Statements { release: release?, insert: insert?, ack: ack? };
    let take = take?;
    let session: String = db.query_one("SELECT xqueue.identify()::text", &[])?.get(0);
    println!("{session}");
    loop {
        let tasks = db.query(&take, &[])?;
        let (postponed, due): (Vec<Row>, Vec<Row>) =
            tasks.into_iter().partition(|task| task.get("postpone"));
        if !postponed.is_empty() {
            let paths: Vec<&str> = postponed.iter().map(|task| task.get("path")).collect();
            db.execute(&statements.release, &[&paths])?;
        }
        if !due.is_empty() {
            statements.finish(&mut db, &due)?;
        }
    }
}

struct Statements {
    release: Statement,
    insert: Statement,
    ack: Statement,
}

impl Statements {
    /// Stores the digests and acks the tasks in one transaction, so each file is digested exactly once even if
    /// consumers die.
    fn finish(&self, db: &mut Client, tasks: &[Row]) -> Result<()> {
        let paths: Vec<&str> = tasks.iter().map(|task| task.get("path")).collect();
        let taken: Vec<SystemTime> = tasks.iter().map(|task| task.get("taken")).collect();
        let due: Vec<Option<SystemTime>> = tasks.iter().map(|task| task.get("due")).collect();
        let ready: Vec<Option<SystemTime>> = tasks.iter().map(|task| task.get("ready")).collect();
        let (digests, errors): (Vec<Option<String>>, Vec<Option<String>>) = paths
            .iter()
            .map(|path| match digest(path) {
                Ok(digest) => (Some(digest), None),
                Err(error) => (None, Some(error.to_string())),
            })
            .unzip();
        let mut transaction = db.transaction()?;
        transaction.execute(&self.insert, &[&paths, &digests, &errors, &taken, &due, &ready])?;
        transaction.execute(&self.ack, &[&paths])?;
        Ok(transaction.commit()?)
    }
}

fn digest(path: &str) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut sha256, mut buffer) = (Sha256::new(), [0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => sha256.update(&buffer[..length]),
        }
    }
    Ok(sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
