//! Counts the index reads of a statement, and the pages that have been read of a queue.

use std::ops::Range;

use postgres::Client;

use crate::client::scalar;
use crate::queue::Queue;

/// Index scans, and the entries that they have read.
pub struct Reads {
    pub searches: i64,
    pub entries: i64,
}

impl Reads {
    /// Counts the reads of one statement in a transaction of its own, which ends with `end`. The numbers are of the
    /// session itself and leave out the worker's reads.
    #[track_caller]
    pub fn of(c: &mut Client, table: &str, statement: &str, end: &str) -> Reads {
        c.batch_execute("BEGIN").unwrap();
        let before = Reads::until_now(c, table);
        c.batch_execute(statement).unwrap_or_else(|e| panic!("{statement}: {e:?}"));
        let after = Reads::until_now(c, table);
        c.batch_execute(end).unwrap();
        Reads {
            searches: after.searches - before.searches,
            entries: after.entries - before.entries,
        }
    }

    fn until_now(c: &mut Client, table: &str) -> Reads {
        let sql = "SELECT sum(pg_stat_get_xact_numscans(indexrelid))::bigint, \
                   sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint \
                   FROM pg_index WHERE indrelid = $1::text::regclass";
        let row = c.query_one(sql, &[&table]).unwrap();
        Reads { searches: row.get(0), entries: row.get(1) }
    }
}

impl Queue {
    /// Asserts that lifecycles of tasks beside an old snapshot read no more pages than the first ones did. A lifecycle
    /// gets its number.
    #[track_caller]
    pub fn assert_steady(&mut self, lifecycle: impl Fn(&mut Queue, i64)) {
        let mut old = self.session();
        old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        let mut pages = |numbers: Range<i64>| {
            let before = self.pages_read();
            numbers.for_each(|n| lifecycle(self, n));
            self.pages_read() - before
        };
        pages(0..200);
        let few = pages(200..400);
        pages(400..1000);
        let many = pages(1000..1200);
        assert!(many < 2 * few, "200 lifecycles read {few} pages, then {many}");
    }

    /// Returns the number of pages of the table and its indexes that have been read so far.
    fn pages_read(&mut self) -> i64 {
        let sql = "SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
                   FROM pg_statio_user_tables WHERE relname = $1";
        self.sql("SELECT pg_stat_force_next_flush()");
        scalar(&mut self.admin, sql, &[&self.name])
    }
}
