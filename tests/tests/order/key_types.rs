//! Keys of type numeric, bytea and text COLLATE "C" have low-water marks, which know only their first bytes or digits.

use xqueue_tests::*;

/// A type of keys, an expression of its nth key, and some of its extremes.
struct Kind {
    key: &'static str,
    nth: &'static str,
    extremes: &'static [&'static str],
}

const NUMERICS: &[&str] = &[
    "'NaN'",
    "'Infinity'",
    "'-Infinity'",
    "0.00",
    "1.0",
    "-1",
    "10000",
    "9999.9999",
    "-9999.9999",
    "1e131071",
    "-1e131071",
    "-9999999999999999999999999999999999999999999999999999999999999999.5",
    "9999999999999999999999999999999999999999999999999999999999999999.5",
    "123456789012345678901234567890123456789",
    "123456789012345678901234567890123456788.5",
    "-123456789012345678901234567890123456789",
    "-123456789012345678901234567890123456788.5",
    "1e-16383",
    "-1e-16383",
    "1e-8000",
    "-1e-8000",
    "-1e-8020",
];

const BYTES: &[&str] = &[
    r"'\x'",
    r"'\x00'",
    r"'\x0000'",
    r"'\x01'",
    r"'\xff'",
    r"decode(repeat('ff', 15), 'hex')",
    r"decode(repeat('ff', 16), 'hex')",
    r"decode(repeat('ff', 17), 'hex')",
    r"decode(repeat('ff', 17) || '00', 'hex')",
    r"decode(repeat('00', 17), 'hex')",
];

const TEXTS: &[&str] = &[
    "''",
    "E'\\x01'",
    "'a'",
    "'ab'",
    "repeat('a', 2000)",
    "repeat(U&'\\00e9', 8)",
    "repeat(U&'\\00e9', 9)",
    "'a' || repeat(U&'\\00e9', 9)",
    "'ab' || repeat(U&'\\+01f600', 9)",
    "U&'\\+10ffff'",
    "repeat(U&'\\+10ffff', 9)",
    "'abc  d                  x'",
];

const KINDS: [Kind; 5] = [
    Kind { key: "numeric", nth: "1e9 + {n}", extremes: NUMERICS },
    Kind { key: "numeric(20, 3)", nth: "1e9 + {n} / 1000.0", extremes: &["0", "-1.125"] },
    Kind { key: "bytea", nth: "'k'::bytea || int8send({n})", extremes: BYTES },
    Kind { key: "text COLLATE \"C\"", nth: "'k' || to_char({n}, 'FM0000000')", extremes: TEXTS },
    Kind {
        key: "char(40) COLLATE \"C\"",
        nth: "'k ' || to_char({n}, 'FM0000000')",
        extremes: &["''", "'a'", "'a  b'", "E'a\\x01'"],
    },
];

impl Kind {
    fn queue(&self, direct: &str) -> Queue {
        let columns = format!("id {} PRIMARY KEY, n bigserial", self.key);
        let mut q = Queue::with("key_types", &columns, &json!({}));
        q.sql(&format!("SET xqueue.direct_path = {direct}"));
        q
    }

    /// Puts the tasks with these numbers.
    fn put(&self, q: &mut Queue, from: i64, to: i64) {
        let nth = self.nth.replace("{n}", "g");
        q.sql(&format!("INSERT INTO {{q}} (id) SELECT {nth} FROM generate_series({from}, {to}) g"));
    }

    fn put_extremes(&self, q: &mut Queue) {
        for key in self.extremes {
            q.sql(&format!("INSERT INTO {{q}} (id) VALUES ({key})"));
        }
    }
}

fn each(test: impl Fn(&Kind, &mut Queue)) {
    for kind in &KINDS {
        for direct in ["on", "off"] {
            test(kind, &mut kind.queue(direct));
        }
    }
}

fn numbers(values: &[Value]) -> Vec<i64> {
    values.iter().map(|value| value.as_i64().expect("a number")).collect()
}

#[track_caller]
fn take_one(q: &mut Queue) -> Vec<i64> {
    numbers(&q.ask("SELECT to_jsonb(n) FROM xqueue.take(NULL::{q})"))
}

/// Returns the numbers of the ready tasks in the server's order.
fn ready(q: &mut Queue) -> Vec<i64> {
    numbers(&q.ask("SELECT to_jsonb(n) FROM {q} WHERE status = 'R' ORDER BY id"))
}

fn mark(q: &mut Queue) -> Value {
    q.ask_one("SELECT xqueue.check('{q}')")["mark"].clone()
}

/// Takes and acks tasks until the mark is raised, while later tasks are put.
fn raise(kind: &Kind, q: &mut Queue) {
    let mut put = 1000;
    repeat_until("the mark is raised", || {
        kind.put(q, put + 1, put + 300);
        put += 300;
        for _ in 0..enough_takes() {
            q.sql("SELECT xqueue.ack('{q}', t) FROM xqueue.take('{q}') t");
        }
        !mark(q).is_null()
    });
}

#[test]
fn extremes_are_taken_in_order() {
    each(|kind, q| {
        kind.put(q, 1, 10);
        kind.put_extremes(q);
        for n in ready(q) {
            assert_eq!(take_one(q), [n], "{}", kind.key);
        }
        q.verify();
    });
}

/// Extremes that are put before the mark and behind it are found, and so is each one that comes back.
#[test]
fn marks_hide_no_extreme() {
    each(|kind, q| {
        raise(kind, q);
        kind.put_extremes(q);
        for n in ready(q) {
            assert_eq!(take_one(q), [n], "{}", kind.key);
            let back =
                format!("SELECT xqueue.release('{{q}}', to_jsonb(t)) FROM {{q}} t WHERE n = {n}");
            q.sql(&back);
            assert_eq!(take_one(q), [n], "{}", kind.key);
        }
        q.verify();
    });
}

#[test]
fn tasks_come_back_and_become_ready_at_their_place() {
    for kind in &KINDS {
        let columns = format!("id {} PRIMARY KEY, n bigserial", kind.key);
        let mut q = Queue::with("key_types", &columns, &json!({"features": {"delayed": true}}));
        raise(kind, &mut q);
        let first = take_one(&mut q)[0];
        let second = take_one(&mut q)[0];
        let third = take_one(&mut q)[0];
        let back = |n, more| {
            format!("SELECT xqueue.release('{{q}}', to_jsonb(t){more}) FROM {{q}} t WHERE n = {n}")
        };
        q.sql(&back(third, ""));
        q.sql(&back(first, ", delay => '1 ms'"));
        q.wait_for("waiting", 0);
        assert_eq!([take_one(&mut q), take_one(&mut q)], [[first], [third]], "{}", kind.key);
        q.sql(&back(second, ""));
        assert_eq!(take_one(&mut q), [second], "{}", kind.key);
        q.verify();
    }
}

/// Returns the number of pages of the table and its indexes that have been read so far.
fn pages(q: &mut Queue) -> i64 {
    let sql = "SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
               FROM pg_statio_user_tables WHERE relname = $1";
    q.sql("SELECT pg_stat_force_next_flush()");
    scalar(&mut q.admin, sql, &[&q.name])
}

/// Returns the number of pages read by 100 lifecycles of the tasks from this number on.
fn pages_of_lifecycles(kind: &Kind, q: &mut Queue, from: i64) -> i64 {
    let before = pages(q);
    for n in from..from + 100 {
        kind.put(q, n, n);
        q.sql("SELECT xqueue.ack('{q}', t) FROM xqueue.take('{q}') t");
    }
    pages(q) - before
}

#[test]
fn under_an_old_snapshot_takes_read_no_more_pages() {
    each(|kind, q| {
        kind.put(q, 1, 10);
        let mut old = q.client();
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
        for from in [1000, 1100] {
            pages_of_lifecycles(kind, q, from);
        }
        let few = pages_of_lifecycles(kind, q, 1200);
        for from in (1300..2300).step_by(100) {
            pages_of_lifecycles(kind, q, from);
        }
        let many = pages_of_lifecycles(kind, q, 2300);
        assert!(many < 2 * few, "{}: {few} pages, then {many}", kind.key);
        q.verify();
        drop(old);
    });
}

/// The oldest task comes first, also after a restart, which forgets the marks.
#[test]
fn the_order_outlasts_a_restart() {
    let server = Server::alone();
    let columns = "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigserial,
                   at timestamptz NOT NULL DEFAULT clock_timestamp()";
    let mut q = Queue::with("key_types", columns, &json!({"fields": {"order": ["at", "n"]}}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 400)");
    for n in 1..=200 {
        assert_eq!(take_one(&mut q), [n]);
    }
    q.sql("SELECT xqueue.ack('{q}', to_jsonb(t)) FROM {q} t WHERE n <= 200 AND n <> 100");
    server.restart("fast");
    q.reconnect();
    // The task that was taken is ready again, at its place.
    q.wait_for("taken", 0);
    assert_eq!(take_one(&mut q), [100]);
    for n in 201..=400 {
        assert_eq!(take_one(&mut q), [n]);
    }
}

/// `check` and `upgrade` say which takes are slow during long transactions.
#[test]
fn keys_without_marks_are_reported() {
    for (columns, order, is_slow) in [
        ("id bigserial PRIMARY KEY", "", false),
        ("id numeric PRIMARY KEY", "", false),
        ("id bytea PRIMARY KEY", "", false),
        ("id text COLLATE \"C\" PRIMARY KEY", "", false),
        ("id text COLLATE \"C\" PRIMARY KEY DEFAULT md5(random()::text)", "", true),
        ("id uuid PRIMARY KEY", "", false),
        ("id uuid PRIMARY KEY DEFAULT gen_random_uuid()", "", true),
        ("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz NOT NULL", "at", false),
        ("id text PRIMARY KEY", "", true),
        ("id date PRIMARY KEY", "", true),
        ("id float8 PRIMARY KEY", "", true),
        ("id bigserial PRIMARY KEY, day date NOT NULL", "day", true),
    ] {
        let order = if order.is_empty() { json!([]) } else { json!(order) };
        let mut q = Queue::with("key_types", columns, &json!({"fields": {"order": order}}));
        let check = q.ask_one("SELECT xqueue.check('{q}')");
        assert_eq!(check["ok"], true, "{check}");
        assert_eq!(check["advice"].is_string(), is_slow, "{columns}: {check}");
        assert_eq!(check["hint"].is_string(), is_slow, "{columns}: {check}");
    }
    let mut q = Queue::with("key_types", "id bigserial PRIMARY KEY", &json!({}));
    q.sql("ALTER TABLE {q} ENABLE ROW LEVEL SECURITY");
    let check = q.ask_one("SELECT xqueue.check('{q}')");
    assert_eq!(check["ok"], true, "{check}");
    assert!(check["advice"].as_str().unwrap().ends_with("it has row security"), "{check}");
}
