//! Statements that must be refused and change nothing.

use serde_json::Value;

use crate::client::{pid, values};
use crate::errors::expect_error;
use crate::queue::Queue;

/// Asserts that each statement fails with this SQLSTATE and message and a hint, and leaves the table unchanged.
#[track_caller]
pub fn refused(q: &mut Queue, cases: &[(&str, &str, &str)]) {
    let before = (pid(&mut q.admin), image(q));
    for (sql, states, words) in cases {
        let sql = sql.replace("{q}", &q.name);
        let e = expect_error(&mut q.admin, &sql, states, words);
        // PostgreSQL's own errors need no hint.
        let own = [
            "22P02", "22007", "22008", "42P01", "42501", "22003", "42703", "42883", "42725",
            "42804", "23502", "3F000", "42601", "23514",
        ];
        assert!(e.hint().is_some() || own.contains(&e.code().code()), "no hint: {sql}\n{e:?}");
        assert!(!e.code().code().starts_with("XX"), "{sql}\n{e:?}");
        assert_eq!((pid(&mut q.admin), image(q)), before, "{sql} changed something");
    }
}

fn image(q: &mut Queue) -> Vec<Value> {
    let mut all =
        values(&mut q.admin, &format!("SELECT to_jsonb(t) FROM {} t ORDER BY t", q.name), &[]);
    let columns = "SELECT jsonb_agg(attname ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0";
    all.extend(values(&mut q.admin, columns, &[&q.name]));
    all.extend(values(&mut q.admin, "SELECT xqueue.stats($1::text)->'tasks'", &[&q.name]));
    all
}
