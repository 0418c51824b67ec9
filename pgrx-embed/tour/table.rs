//! The table of files: created and filled as an ordinary table, then upgraded to a queue.

use std::thread::sleep;
use std::time::{Duration, SystemTime};

use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::Type;
use postgres::{Client, Statement};

use crate::Result;
use crate::files::Input;

/// The digests deliberately have no key: digesting a file twice must show up instead of failing.
const TABLES: &str = "
    DROP SCHEMA IF EXISTS tour CASCADE;
    CREATE SCHEMA tour;
    CREATE TABLE tour.files (
        path     text PRIMARY KEY,
        size     bigint NOT NULL,
        modified timestamptz NOT NULL,
        postpone boolean NOT NULL DEFAULT false,  -- its first consumer releases it with a delay
        due      timestamptz,                     -- when its delay ends,
        ready    timestamptz                      -- and when it really was ready
    );
    CREATE TABLE tour.digests (
        path    text NOT NULL,
        sha256  text,
        error   text,                             -- why there is no digest
        taken   timestamptz NOT NULL,
        due     timestamptz,
        ready   timestamptz,
        session uuid NOT NULL                     -- of the consumer
    );
    CREATE TABLE tour.returned (                  -- tasks of dead consumers, ready again
        path    text NOT NULL,
        session uuid NOT NULL
    );";

/// A queue is still a table, and can have user triggers. These record how late a delayed task is, and the return of
/// tasks. Consumers release tasks only with a delay, so a change from T to R always is such a return.
const TRIGGERS: &str = "
    CREATE FUNCTION tour.note_ready() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.due := OLD.runat;
        NEW.ready := clock_timestamp();
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_ready BEFORE UPDATE ON tour.files FOR EACH ROW
        WHEN (OLD.status = 'W' AND NEW.status = 'R') EXECUTE FUNCTION tour.note_ready();

    CREATE FUNCTION tour.note_return() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO tour.returned VALUES (OLD.path, OLD.owner);
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_return AFTER UPDATE ON tour.files FOR EACH ROW
        WHEN (OLD.status = 'T' AND NEW.status = 'R') EXECUTE FUNCTION tour.note_return();";

const PUT: &str = "
    SELECT count(*)
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::float8[])
             AS file (path, size, modified, delay),
         xqueue.put('tour.files',
                    jsonb_build_object('path', path, 'size', size, 'modified', modified),
                    make_interval(secs => delay))";

/// How the files are distributed.
pub struct Plan<'a> {
    pub files: &'a [Input],
    /// The number of files, from the start of the list, that are put later with a delay. Tasks are taken in the order
    /// of their keys, so these do not wait behind all others once they are ready.
    pub put_late: usize,
}

impl<'a> Plan<'a> {
    const POSTPONE_EACH: usize = 50;

    pub fn new(files: &'a [Input]) -> Plan<'a> {
        Plan { files, put_late: (files.len() / 10).min(200) }
    }

    pub fn late(&self) -> &'a [Input] {
        &self.files[..self.put_late]
    }

    fn existing(&self) -> &'a [Input] {
        &self.files[self.put_late..]
    }

    /// Returns the number of tasks that are released with a delay.
    pub fn postponed(&self) -> usize {
        self.existing().len().div_ceil(Self::POSTPONE_EACH)
    }
}

/// Creates the tables, fills the table of files, and upgrades it to a queue.
pub fn make(db: &mut Client, plan: &Plan) -> Result<()> {
    db.batch_execute(TABLES)?;
    let copy =
        db.copy_in("COPY tour.files (path, size, modified, postpone) FROM STDIN (FORMAT binary)")?;
    let mut rows =
        BinaryCopyInWriter::new(copy, &[Type::TEXT, Type::INT8, Type::TIMESTAMPTZ, Type::BOOL]);
    for (number, file) in plan.existing().iter().enumerate() {
        let postpone = number % Plan::POSTPONE_EACH == 0;
        rows.write(&[&file.path, &file.size, &file.modified, &postpone])?;
    }
    rows.finish()?;
    db.execute(r#"SELECT xqueue.upgrade('tour.files', '{"features": {"delayed": true}}')"#, &[])?;
    db.batch_execute(TRIGGERS)?;
    while db.query_one("SELECT xqueue.state()", &[])?.get::<_, &str>(0) != "RUNNING" {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Puts the delayed files, a few at a time.
pub struct Producer<'a> {
    put: Statement,
    rest: &'a [Input],
    total: usize,
}

impl<'a> Producer<'a> {
    const BATCH: usize = 10;

    pub fn new(db: &mut Client, plan: &Plan<'a>) -> Result<Producer<'a>> {
        Ok(Producer { put: db.prepare(PUT)?, rest: plan.late(), total: plan.put_late })
    }

    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Puts the next few files if they are due at `progress`, from 0 to 1. All files are put in the first half.
    pub fn advance(&mut self, db: &mut Client, progress: f64) -> Result<()> {
        let done = self.total - self.rest.len();
        if self.rest.is_empty() || done as f64 > 2.0 * progress * self.total as f64 {
            return Ok(());
        }
        let (batch, rest) = self.rest.split_at(Self::BATCH.min(self.rest.len()));
        let paths: Vec<&str> = batch.iter().map(|file| file.path.as_str()).collect();
        let sizes: Vec<i64> = batch.iter().map(|file| file.size).collect();
        let modified: Vec<SystemTime> = batch.iter().map(|file| file.modified).collect();
        let seconds: Vec<f64> = (done..).take(batch.len()).map(delay).collect();
        let put: i64 = db.query_one(&self.put, &[&paths, &sizes, &modified, &seconds])?.get(0);
        if put != batch.len() as i64 {
            return Err(format!("{put} of {} tasks were put", batch.len()).into());
        }
        self.rest = rest;
        Ok(())
    }
}

/// Returns 0.2 to 2 seconds, spread evenly by the golden ratio.
fn delay(number: usize) -> f64 {
    0.2 + 1.8 * (number as f64 * 0.618_034).fract()
}
