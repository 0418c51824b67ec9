//! The option `order`: tasks are taken in the order of columns of the user's own, and only then of their keys. Random
//! calls on queues with priorities and tubes or without, in three sessions that take turns. Each take gets the first
//! tasks, regardless of marks and of candidates that other takes have read ahead.

use rand::prelude::*;
use rand::rngs::StdRng;
use xqueue_tests::*;

/// Columns besides `id`, the order, and expressions of random values for its columns.
type Kind = (&'static str, &'static [&'static str], &'static [&'static str]);

const INSTANT: &str = "CASE {n} WHEN 0 THEN '-infinity' WHEN 19 THEN 'infinity' \
    ELSE timestamptz 'epoch' + {n} * interval '1 s' END";

/// Half of the uuids is equal for many tasks.
const UUID: &str = "uuid NOT NULL DEFAULT \
    overlay(gen_random_uuid()::text placing '00000000-0000-000' from 1 for 17)::uuid";

const KINDS: [Kind; 7] = [
    ("{AT}, PRIMARY KEY (id)", &["at", "id"], &[INSTANT]),
    ("s smallint, no int, PRIMARY KEY (s, no, id)", &["no", "s", "id"], &["{n}", "{n} % 3"]),
    ("no int, PRIMARY KEY (no, id)", &["no", "id"], &["({n} - 10) * 99999999"]),
    ("{AT}, u uuid PRIMARY KEY DEFAULT gen_random_uuid()", &["at", "u"], &[INSTANT]),
    ("{AT}, PRIMARY KEY (u), u {UUID}", &["at", "u"], &[INSTANT]),
    ("{AT}, word text PRIMARY KEY DEFAULT md5(random()::text)", &["at", "word"], &[INSTANT]),
    (
        "s int NOT NULL, no smallint NOT NULL, u uuid DEFAULT gen_random_uuid(), PRIMARY KEY (u, id)",
        &["s", "no", "u", "id"],
        &["{n}", "{n} % 3"],
    ),
];

/// Keys that share the beginnings of which their positions are made.
const SHARING: [Kind; 6] = [
    ("k numeric PRIMARY KEY", &["k"], &["({n} - 10) * 1e30 + random()::numeric"]),
    (
        "k bytea PRIMARY KEY",
        &["k"],
        &["decode(repeat('ff', {n}), 'hex') || uuid_send(gen_random_uuid())"],
    ),
    (
        "k text COLLATE \"C\" PRIMARY KEY",
        &["k"],
        &["repeat(U&'x\\00e9', {n} % 12) || gen_random_uuid()"],
    ),
    (
        "k char(60) COLLATE \"C\" PRIMARY KEY",
        &["k"],
        &["repeat('b ', {n} % 12) || gen_random_uuid()"],
    ),
    (
        "s int NOT NULL, k varchar COLLATE \"POSIX\" PRIMARY KEY",
        &["s", "k"],
        &["{n} % 3", "repeat('b', {n}) || gen_random_uuid()"],
    ),
    (
        "{AT}, k numeric PRIMARY KEY",
        &["at", "k"],
        &[INSTANT, "({n} - 10) * 1e11 + random()::numeric"],
    ),
];

/// Statements that hide tasks from the rest of their transaction. A kick within a statement does not see what the
/// statement has deleted, and the triggers fire at its end.
const HIDING: [&str; 8] = [
    "TRUNCATE {q}",
    "DELETE FROM {q}",
    "UPDATE {q} SET tube = 'b', priority = 1",
    "UPDATE {q} SET id = id + 1000000 WHERE status <> 'T'",
    "UPDATE {q} SET status = 'B' WHERE status = 'R'",
    "SELECT xqueue.take('{q}', count => 1000)",
    "SELECT xqueue.kick('{q}', 1000)",
    "WITH gone AS (DELETE FROM {q} WHERE status = 'B' RETURNING id) \
     SELECT xqueue.kick('{q}', 1000 + count(*)::int) FROM gone",
];

const STEPS: usize = 300;

const TUBES: [&str; 4] = ["'a'", "'a'", "'b'", "NULL"];

struct Run<'q> {
    q: &'q mut Queue,
    order: &'static [&'static str],
    values: &'static [&'static str],
    priorities: i32,
    sessions: [Client; 3],
    random: StdRng,
}

impl Run<'_> {
    /// Returns random values of the columns of the order, and of tube and priority.
    fn values(&mut self) -> Vec<(String, String)> {
        let n = self.random.random_range(0..20).to_string();
        let values = self.values.iter().map(|value| value.replace("{n}", &n));
        let ordered = self.order.iter().map(|name| name.to_string()).zip(values);
        let priority = self.random.random_range(0..self.priorities).to_string();
        let others = [("tube".into(), self.tube().into()), ("priority".into(), priority)];
        ordered.chain(others).collect()
    }

    /// Returns a random tube; NULL stands for any tube in a take.
    fn tube(&mut self) -> &'static str {
        let is_any = self.priorities == 1 || self.random.random_bool(0.5);
        if is_any { "NULL" } else { TUBES.choose(&mut self.random).expect("a tube") }
    }

    fn session(&mut self) -> &mut Client {
        let at = self.random.random_range(0..self.sessions.len());
        &mut self.sessions[at]
    }

    #[track_caller]
    fn run(&mut self, sql: &str) {
        let sql = sql.replace("{q}", &self.q.name);
        let session = self.session();
        session.batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Returns the condition of a random task in a state.
    fn one(&self, state: &str) -> String {
        let q = &self.q.name;
        format!("id = (SELECT id FROM {q} WHERE status = '{state}' ORDER BY random() LIMIT 1)")
    }

    fn first(&mut self, state: &str, tube: &str, limit: i32) -> Vec<i64> {
        let order = self.order.join(", ");
        let sql = format!(
            "SELECT to_jsonb(id) FROM {{q}} WHERE status = '{state}' AND coalesce(tube = {tube}, {tube} IS NULL) \
             ORDER BY priority, {order} LIMIT {limit}"
        );
        self.q.ask(&sql).iter().filter_map(Value::as_i64).collect()
    }

    fn put(&mut self, state: &str) {
        let (names, values): (Vec<_>, Vec<_>) = self.values().into_iter().unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        let count = self.random.random_range(1..20);
        self.run(&format!(
            "INSERT INTO {{q}} (status, {names}) SELECT '{state}', {values} FROM generate_series(1, {count})"
        ));
    }

    #[track_caller]
    fn take(&mut self) {
        let count = *[1, 1, 1, 2, 5].choose(&mut self.random).expect("a number");
        let (tube, name) = (self.tube(), self.q.name.clone());
        let take = format!("SELECT xqueue.take('{{q}}', tube => {tube}, count => {count})");
        let expected = self.first("R", tube, count);
        assert_eq!(ids(&ask(self.session(), &name, &take)), expected, "{take}");
    }

    #[track_caller]
    fn step(&mut self) {
        match self.random.random_range(0..30) {
            0..3 => self.put("R"),
            3 => self.put("B"),
            4 => {
                let set =
                    self.values().into_iter().map(|(name, value)| format!("{name} = {value}"));
                let set = set.collect::<Vec<_>>().join(", ");
                let state = *["R", "R", "B", "T"].choose(&mut self.random).expect("a state");
                let one = self.one(state);
                self.run(&format!("UPDATE {{q}} SET {set} WHERE {one}"));
            }
            5 => {
                let one = self.one("R");
                self.run(&format!("DELETE FROM {{q}} WHERE {one}"));
            }
            6 => {
                let one = self.one("R");
                self.run(&format!(
                    "BEGIN; SELECT xqueue.take('{{q}}'); DELETE FROM {{q}} WHERE {one}; ROLLBACK"
                ));
            }
            // Calls that raise marks, and calls that must not: what they do not see comes back.
            7 => {
                let (tube, many) = (self.tube(), enough_takes());
                self.run(&format!(
                    "BEGIN; SELECT xqueue.take('{{q}}', tube => {tube}, count => {many}); ROLLBACK; \
                     BEGIN; SELECT xqueue.kick('{{q}}', {many}); ROLLBACK"
                ));
            }
            8 => {
                let hiding = HIDING.choose(&mut self.random).expect("a statement");
                let is_partial = self.random.random_bool(0.5);
                let undo = if is_partial { "ROLLBACK TO s; COMMIT" } else { "ROLLBACK" };
                let (tube, many) = (self.tube(), enough_takes());
                self.run(&format!(
                    "BEGIN; SAVEPOINT s; {hiding}; SELECT xqueue.take('{{q}}', tube => {tube}, count => {many}); \
                     SELECT xqueue.kick('{{q}}', {many}); {undo}"
                ));
            }
            9 => {
                let one = self.one("T");
                self.run(&format!(
                    "SELECT xqueue.snatch('{{q}}', to_jsonb(t)) FROM {{q}} t WHERE {one}"
                ));
            }
            10 => {
                let name = self.q.name.clone();
                for (verb, state) in [
                    ("tasks_by_state('{q}', 'ready', 3)", "R"),
                    ("tasks_by_state('{q}', 'buried', 3)", "B"),
                    ("plow('{q}', 3)", "B"),
                ] {
                    let expected = self.first(state, "NULL", 3);
                    let tasks = ask(self.session(), &name, &format!("SELECT xqueue.{verb}"));
                    assert_eq!(ids(&tasks), expected, "{verb}");
                }
            }
            // A release also moves the task if the column is not part of the key.
            11 => {
                let (name, value) = self.values().remove(0);
                let update = format!(", update => jsonb_build_object('at', {value})");
                let update = if name == "at" { update } else { String::new() };
                self.run(&format!(
                    "SELECT xqueue.release('{{q}}', to_jsonb(t){update}) FROM {{q}} t \
                     WHERE owner = xqueue.identify() AND random() < 0.3"
                ));
            }
            _ => self.take(),
        }
    }
}

#[test]
fn each_take_gets_the_first_tasks() {
    run(&KINDS, &[("on", 1), ("off", 1), ("on", 2), ("off", 3), ("on", 30)]);
}

#[test]
fn each_take_gets_the_first_tasks_of_a_position() {
    run(&SHARING, &[("on", 1), ("off", 2)]);
}

/// Runs each kind with these settings of the direct path and numbers of priorities. With several there are tubes, too.
fn run(kinds: &[Kind], variants: &[(&str, i32)]) {
    let seed = seed();
    for (number, &(columns, order, values)) in kinds.iter().enumerate() {
        for &(direct, priorities) in variants {
            let columns =
                columns.replace("{UUID}", UUID).replace("{AT}", "at timestamptz NOT NULL");
            let columns = format!(
                "id bigserial UNIQUE, tube text, priority int NOT NULL DEFAULT 0, {columns}"
            );
            let given = &order[..values.len()];
            let options = match priorities > 1 {
                true => json!({"fields": {"order": given, "priority": "priority", "tube": "tube"},
                               "features": {"buried": true, "priority": true, "tube": true}}),
                false => json!({"fields": {"order": given}, "features": {"buried": true}}),
            };
            let mut q = Queue::with("by_column_random", &columns, &options);
            let sessions = [(); 3].map(|()| {
                let mut session = q.client();
                session.batch_execute(&format!("SET xqueue.direct_path = {direct}")).unwrap();
                session
            });
            let random = StdRng::seed_from_u64(seed + number as u64);
            let mut run = Run { q: &mut q, order, values, priorities, sessions, random };
            for _ in 0..STEPS {
                run.step();
            }
        }
    }
}

/// Makes a queue in the order of an instant, and only then of a key of this type.
fn by_instant(key: &str) -> Queue {
    let at = "at timestamptz NOT NULL DEFAULT clock_timestamp()";
    let columns = format!("id {key} PRIMARY KEY, n bigserial, {at}");
    Queue::with("by_column", &columns, &json!({"fields": {"order": "at"}}))
}

#[test]
fn an_instant_before_a_key_has_marks() {
    for key in [
        "bigint GENERATED BY DEFAULT AS IDENTITY (INCREMENT -1 START -1)",
        "uuid DEFAULT gen_random_uuid()",
        "text COLLATE \"C\" DEFAULT md5(random()::text)",
        "numeric DEFAULT random()::numeric",
    ] {
        println!("{key}");
        by_instant(key).assert_steady(|q, _| {
            q.sql("SELECT xqueue.put('{q}', '{}')");
            q.sql("SELECT xqueue.ack('{q}', t) FROM xqueue.take('{q}') t");
        });
    }
}

/// The instants are equal for many tasks, and so are halves of their keys: a take reads a part of them ahead. The rest
/// of the keys decides, and no task is late.
#[test]
fn equal_values() {
    let half = "overlay(gen_random_uuid()::text placing '00000000-0000-0000' from 1 for 18)::uuid";
    for key in [
        "text COLLATE \"C\" DEFAULT 'https://example.org/' || gen_random_uuid()",
        &format!("uuid DEFAULT {half}"),
        "numeric DEFAULT 1e40 - random()::numeric",
    ] {
        let mut q = by_instant(key);
        q.sql("ALTER TABLE {q} ALTER at SET DEFAULT now()");
        (0..2).for_each(|_| q.fill(400));
        let all = q.ask("SELECT to_jsonb(n) FROM {q} ORDER BY at, id");
        let next = |q: &mut Queue| q.ask("SELECT xqueue.take('{q}')->'n'").pop();
        let taken: Vec<Value> = std::iter::from_fn(|| next(&mut q)).collect();
        assert_eq!(taken, all, "{key}");
    }
}
