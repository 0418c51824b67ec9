//! The WAL volume of a work, and the part of it in full page images after a checkpoint.

use postgres::Client;

use crate::{Result, database};

const FULL_PAGES: &str = "
    SELECT coalesce(sum(fpi_size), 0)::float8
    FROM measure.pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn())";
/// Flushes the WAL, because the WAL of asynchronous commits can still be unflushed.
const FLUSH: &str = "SELECT pg_logical_emit_message(true, 'measure', '')";
const INSTALL: &str = "CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA measure";

pub struct Wal {
    db: Client,
    /// True if the server has pg_walinspect, which counts full page images.
    tells_full_pages: bool,
}

/// In bytes.
pub struct Written {
    pub all: f64,
    pub full_pages: Option<f64>,
}

impl Wal {
    pub fn open() -> Result<Wal> {
        let mut db = database::connect("xqueue measure")?;
        let available = "SELECT FROM pg_available_extensions WHERE name = 'pg_walinspect'";
        let tells_full_pages = db.query_opt(available, &[])?.is_some();
        if tells_full_pages {
            db.batch_execute(INSTALL)?;
        }
        Ok(Wal { db, tells_full_pages })
    }

    /// Returns the WAL written by all processes while `what` runs.
    pub fn during<T>(&mut self, what: impl FnOnce() -> Result<T>) -> Result<(T, Written)> {
        let here = "SELECT pg_current_wal_insert_lsn()::text";
        let begin: String = self.db.query_one(here, &[])?.get(0);
        let outcome = what()?;
        let written =
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8";
        let all = self.db.query_one(written, &[&begin])?.get(0);
        let full_pages = if self.tells_full_pages {
            self.db.batch_execute(FLUSH)?;
            Some(self.db.query_one(FULL_PAGES, &[&begin])?.get(0))
        } else {
            None
        };
        Ok((outcome, Written { all, full_pages }))
    }
}
