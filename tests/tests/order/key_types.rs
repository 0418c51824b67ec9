//! Keys of type numeric, bytea and text COLLATE "C" have low-water marks, which know only their first bytes or digits.

use xqueue_tests::*;

/// A type of keys, an expression of its nth key, and some of its extremes.
struct Kind {
    key: &'static str,
    nth: &'static str,
    extremes: &'static str,
}

const NUMERICS: &str = "'NaN', 'Infinity', '-Infinity', 0.00, 1.0, -1, 10000, 9999.9999, -9999.9999, \
    1e131071, -1e131071, 1e-16383, -1e-16383, 1e-8000, -1e-8000, -1e-8020, \
    9999999999999999999999999999999999999999999999999999999999999999.5, \
    -9999999999999999999999999999999999999999999999999999999999999999.5, \
    123456789012345678901234567890123456789, 123456789012345678901234567890123456788.5, \
    -123456789012345678901234567890123456789, -123456789012345678901234567890123456788.5";

const BYTES: &str = r"'\x', '\x00', '\x0000', '\x01', '\xff', decode(repeat('ff', 15), 'hex'),
    decode(repeat('ff', 16), 'hex'), decode(repeat('ff', 17), 'hex'), decode(repeat('ff', 17) || '00', 'hex'),
    decode(repeat('00', 17), 'hex')";

const TEXTS: &str = r"'', E'\x01', 'a', 'ab', repeat('a', 2000), repeat(U&'\00e9', 8), repeat(U&'\00e9', 9),
    'a' || repeat(U&'\00e9', 9), 'ab' || repeat(U&'\+01f600', 9), U&'\+10ffff', repeat(U&'\+10ffff', 9),
    'abc  d                  x'";

const KINDS: [Kind; 5] = [
    Kind { key: "numeric", nth: "1e9 + {n}", extremes: NUMERICS },
    Kind { key: "numeric(20, 3)", nth: "1e9 + {n} / 1000.0", extremes: "0, -1.125" },
    Kind { key: "bytea", nth: "'k'::bytea || int8send({n})", extremes: BYTES },
    Kind { key: "text COLLATE \"C\"", nth: "'k' || to_char({n}, 'FM0000000')", extremes: TEXTS },
    Kind {
        key: "char(40) COLLATE \"C\"",
        nth: "'k ' || to_char({n}, 'FM0000000')",
        extremes: r"'', 'a', 'a  b', E'a\x01'",
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
        q.sql(&format!("INSERT INTO {{q}} (id) SELECT unnest(ARRAY[{}])", self.extremes));
    }
}

fn each(test: impl Fn(&Kind, &mut Queue)) {
    for kind in &KINDS {
        for direct in ["on", "off"] {
            println!("{}, direct path {direct}", kind.key);
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

/// Extremes that are put before the mark and behind it are found, and so is each one that comes back.
#[test]
fn marks_hide_no_extreme() {
    each(|kind, q| {
        raise(kind, q);
        kind.put_extremes(q);
        for n in ready(q) {
            assert_eq!(take_one(q), [n]);
            q.sql(&format!(
                "SELECT xqueue.release('{{q}}', to_jsonb(t)) FROM {{q}} t WHERE n = {n}"
            ));
            assert_eq!(take_one(q), [n]);
        }
    });
}

#[test]
fn under_an_old_snapshot_takes_read_no_more_pages() {
    each(|kind, q| {
        kind.put(q, 1, 10);
        q.assert_steady(|q, n| {
            kind.put(q, 1000 + n, 1000 + n);
            q.sql("SELECT xqueue.ack('{q}', t) FROM xqueue.take('{q}') t");
        });
    });
}

/// `check` and `upgrade` say which takes are slow during long transactions.
#[test]
fn keys_without_marks_are_reported() {
    for (columns, order, is_slow) in [
        ("id bigserial PRIMARY KEY", "", false),
        ("id timestamptz PRIMARY KEY", "", false),
        ("id text COLLATE \"C\" PRIMARY KEY", "", false),
        ("id text COLLATE \"C\" PRIMARY KEY DEFAULT md5(random()::text)", "", true),
        ("id uuid PRIMARY KEY", "", false),
        ("id uuid PRIMARY KEY DEFAULT gen_random_uuid()", "", true),
        ("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz NOT NULL", "at", false),
        ("id text PRIMARY KEY", "", true),
        ("id date PRIMARY KEY", "", true),
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
