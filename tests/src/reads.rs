//! What a statement reads of a table's indexes.

use postgres::Client;

/// Searches of indexes, and entries that these have read.
pub struct Reads {
    pub searches: i64,
    pub entries: i64,
}

impl Reads {
    /// Of one statement in a transaction of its own, which ends as `end` says. The numbers are those of the session itself:
    /// what the worker reads meanwhile is not among them.
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
