//! Columns of times as tables have them: NOT NULL, of several types and precisions, under a time zone far from UTC.
//! Each passes through every verb and the worker, on the direct path and by statements.

#[path = "times/zones.rs"]
mod zones;

use xqueue_tests::{Queue, Value, json};

/// A type of the columns `runat` and `expires`, SQL that reads its values as timestamptz, and the least difference
/// between two values, in seconds.
type Kind = (&'static str, &'static str, f64);

const ZONED: &str = "{}";
const UTC: &str = "({} AT TIME ZONE 'UTC')";
/// The option `time_zone` of queues whose times are read like this.
const LOCAL: &str = "({} AT TIME ZONE 'Asia/Kathmandu')";
const SECONDS: &str = "to_timestamp({})";
const KINDS: [Kind; 10] = [
    ("timestamptz NOT NULL DEFAULT now()", ZONED, 0.0),
    ("timestamptz(3)", ZONED, 0.001),
    ("timestamptz(0) NOT NULL DEFAULT now()", ZONED, 1.0),
    ("timestamp", UTC, 0.0),
    ("timestamp(0) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')", UTC, 1.0),
    ("timestamp", LOCAL, 0.0),
    ("timestamp(0) NOT NULL DEFAULT (now() AT TIME ZONE 'Asia/Kathmandu')", LOCAL, 1.0),
    ("integer NOT NULL", SECONDS, 1.0),
    ("bigint NOT NULL DEFAULT extract(epoch FROM now())", SECONDS, 1.0),
    ("double precision", SECONDS, 0.0),
];

const FEATURES: &str = r#"{"delayed": true, "ttl": true, "ttr": true, "buried": true, "zombie": true,
    "retry": {"limit": 5, "backoff": 3600}, "priority": true}"#;

/// A queue with two columns of times. The statement path is used if `by_statements` is set.
struct Times {
    q: Queue,
    column: &'static str,
    read: &'static str,
    unit: f64,
}

fn times((column, read, unit): Kind, by_statements: bool) -> Times {
    let mut q = Queue::table("times", "SET TimeZone = 'America/St_Johns'");
    // An end of life has no default: a task of the default would have ended.
    let end = column.split(" DEFAULT").next().expect("a type");
    q.sql(&format!("CREATE TABLE {{q}} (id int PRIMARY KEY, run_at {column}, ends {end})"));
    if by_statements {
        q.sql("SET xqueue.direct_path = off");
        q.before_each("INSERT OR UPDATE", "RETURN NEW");
    }
    let features: Value = FEATURES.parse().expect("features");
    let mut options =
        json!({"fields": {"runat": "run_at", "expires": "ends"}, "features": features});
    if read == LOCAL {
        options["time_zone"] = "Asia/Kathmandu".into();
    }
    q.upgrade(&options);
    Times { q, column, read, unit }
}

impl Times {
    fn is_not_null(&self) -> bool {
        self.column.contains("NOT NULL")
    }

    /// Returns the seconds from now to the instant in a column; None for NULL, and for an end that does not come.
    fn left(&mut self, id: i32, column: &str) -> Option<f64> {
        let instant = self.read.replace("{}", column);
        let sql = format!(
            "SELECT coalesce(to_jsonb(extract(epoch FROM {instant} - clock_timestamp())::float8), 'null') \
             FROM {{q}} WHERE id = {id}"
        );
        // An integer holds no instant after 2038.
        self.q.ask_one(&sql).as_f64().filter(|left| *left < 10.0 * 365.0 * 86400.0)
    }

    /// Checks that an instant is as far from now as expected, in seconds; None is NULL or an end that does not come.
    #[track_caller]
    fn is_in(&mut self, id: i32, column: &str, expected: Option<f64>) {
        let (left, name) = (self.left(id, column), self.column);
        let is_near = |left: f64, far: f64| far - 20.0 < left && left <= far + self.unit;
        let is_right = match (left, expected) {
            (Some(left), Some(expected)) => is_near(left, expected),
            (left, expected) => left == expected,
        };
        assert!(is_right, "{column} of {id} as {name}: {left:?}, not {expected:?}");
    }

    /// Checks that the start of a task without one is NULL, or the time of the call.
    #[track_caller]
    fn has_no_start(&mut self, id: i32) {
        let now = self.is_not_null().then_some(0.0);
        self.is_in(id, "run_at", now);
    }

    #[track_caller]
    fn is_status(&mut self, id: i32, status: &str) {
        let found = self.q.ask_one(&format!("SELECT to_jsonb(status) FROM {{q}} WHERE id = {id}"));
        assert_eq!(found, json!(status), "{id} with {}", self.column);
    }

    /// Inserts a row by hand that starts at an instant given as timestamptz.
    fn insert(&mut self, id: i32, start: &str) {
        let read = self.read;
        // The instant in the column's type.
        let value = match read {
            UTC | LOCAL => read.replace("{}", &format!("({start})")),
            SECONDS => format!("extract(epoch FROM {start})"),
            _ => start.to_string(),
        };
        let end = match self.is_not_null() {
            true => value.replace(start, "now() + interval '9 years'"),
            false => "NULL".into(),
        };
        self.q.sql(&format!("INSERT INTO {{q}} (id, run_at, ends) VALUES ({id}, {value}, {end})"));
    }

    fn call(&mut self, call: &str) -> Value {
        self.q.ask_one(&format!("SELECT xqueue.{call}"))
    }
}

/// Runs a test for every type on both paths, side by side: most of the time they wait.
fn each(test: impl Fn(Times) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for kind in KINDS {
            for by_statements in [false, true] {
                scope.spawn(move || test(times(kind, by_statements)));
            }
        }
    });
}

const HOUR: f64 = 3600.0;

#[test]
fn verbs_read_and_write_times() {
    each(|mut t| {
        t.call("put('{q}', '{\"id\": 1}')");
        t.is_status(1, "R");
        t.has_no_start(1);
        t.is_in(1, "ends", None);
        t.call("put('{q}', '{\"id\": 2}', delay => '1 hour', ttl => '2 hours')");
        t.is_status(2, "W");
        t.is_in(2, "run_at", Some(HOUR));
        t.is_in(2, "ends", Some(3.0 * HOUR));
        t.call("put('{q}', '{\"id\": 2}', delay => '2 hours', ttl => '1 hour', on_conflict => 'update')");
        t.is_in(2, "run_at", Some(2.0 * HOUR));
        t.call("put('{q}', '{\"id\": 2}', delay => '0', on_conflict => 'update')");
        t.is_status(2, "R");
        t.call("put('{q}', '{\"id\": 2}', delay => '2 hours', ttl => '1 hour', on_conflict => 'update')");
        t.call("take('{q}')");
        t.is_in(1, "ends", None);
        // Without a time to run there is no deadline.
        t.is_in(1, "run_at", None);
        t.call("release('{q}', 1, delay => '0')");
        t.has_no_start(1);
        t.call("take('{q}', ttr => '1 hour')");
        t.is_in(1, "run_at", Some(HOUR));
        let left = t.call("stats('{q}', 1)")["time_left"].as_f64().expect("a deadline");
        assert!((HOUR - 20.0..=HOUR + 1.0).contains(&left), "{left}");
        t.call("touch('{q}', 1, '1 hour')");
        t.is_in(1, "run_at", Some(2.0 * HOUR));
        t.call("release('{q}', 1)");
        t.is_status(1, "W");
        t.is_in(1, "run_at", Some(HOUR));
        t.call("restart('{q}', 1)");
        t.is_status(1, "R");
        t.has_no_start(1);
        t.call("take('{q}')");
        t.call("bury('{q}', 1, ttl => '1 hour')");
        t.has_no_start(1);
        t.is_in(1, "ends", Some(HOUR));
        t.call("dig('{q}', 1, delay => '1 hour')");
        t.is_in(1, "run_at", Some(HOUR));
        t.is_in(1, "ends", Some(2.0 * HOUR));
        t.call("take('{q}', id => 1)");
        t.call("ack('{q}', 1, delay => '1 hour')");
        t.is_status(1, "Z");
        t.is_in(1, "run_at", Some(HOUR));
        t.call("restart('{q}', 1)");
        t.is_in(1, "ends", None);
        t.call("switch('{q}', 2, 'R')");
        t.has_no_start(2);
        let listed = t.q.ask("SELECT to_jsonb(t.id) FROM xqueue.tasks_by_state(NULL::{q}, 'R') t");
        assert_eq!(listed.len(), 2, "{listed:?}");
    });
}

#[test]
fn inserted_rows_start_at_their_time() {
    each(|mut t| {
        t.insert(1, "now()");
        t.insert(2, "now() - interval '1 year'");
        t.insert(3, "now() + interval '1 hour'");
        if t.column.contains("DEFAULT") {
            t.q.sql("INSERT INTO {q} (id, ends) SELECT 4, ends FROM {q} WHERE id = 1");
            t.is_status(4, "R");
        }
        t.is_status(1, "R");
        t.is_status(2, "R");
        t.is_status(3, "W");
        t.insert(5, "now() + interval '5 seconds'");
        t.is_status(5, "W");
        t.q.wait_for("waiting", 1);
        t.is_status(5, "R");
        t.is_status(3, "W");
    });
}

#[test]
fn the_worker_acts_on_times() {
    each(|mut t| {
        let start = std::time::Instant::now();
        t.call("put('{q}', '{\"id\": 1}', delay => '2 seconds')");
        t.q.wait_for("ready", 1);
        let rounding = t.unit / 2.0;
        assert!(start.elapsed().as_secs_f64() >= 2.0 - rounding, "{}", t.column);
        t.has_no_start(1);
        t.call("take('{q}', ttr => '2 seconds')");
        t.q.wait_for("waiting", 1);
        t.call("restart('{q}', 1)");
        t.call("take('{q}')");
        t.call("put('{q}', '{\"id\": 2}', ttl => '2 seconds')");
        t.q.wait_for("total", 1);
        t.is_status(1, "T");
        t.call("ack('{q}', 1, delay => '2 seconds')");
        t.q.wait_for("total", 0);
        let calls = t.q.stats()["calls"].clone();
        for kind in ["delay", "ttr", "ttl", "zombie"] {
            assert_eq!(calls[kind], json!(1), "{kind} with {}", t.column);
        }
    });
}

#[test]
fn features_are_switched_off_and_on() {
    each(|mut t| {
        t.insert(1, "now() + interval '1 hour'");
        t.call("put('{q}', '{\"id\": 2}', delay => '0')");
        t.call("put('{q}', '{\"id\": 3}')");
        t.call("take('{q}', id => 3, ttr => '5 seconds')");
        let off =
            json!({"delayed": false, "ttr": false, "ttl": false, "zombie": false, "retry": false});
        t.q.upgrade(&json!({"features": off, "convert": {"W": "R"}}));
        t.q.assert_tasks(&[("ready", 2), ("taken", 1)]);
        for id in 4..8 {
            t.insert(id, "now()");
        }
        let features: Value = FEATURES.parse().expect("features");
        t.q.upgrade(&json!({ "features": features }));
        assert_eq!(t.q.stats()["transitions"]["R-W"], json!(null), "{}", t.column);
        t.is_in(3, "run_at", None);
        t.call("ack('{q}', 3)");
    });
}

/// Feature `ttr` begins to use a column that holds other times.
#[test]
fn a_task_in_flight_has_no_deadline_when_its_column_becomes_a_field() {
    for column in ["timestamptz", "timestamptz NOT NULL"] {
        let columns = format!("id int PRIMARY KEY, run_at {column} DEFAULT '2020-01-01'");
        let mut q = Queue::with("adopted", &columns, &json!({}));
        q.sql("INSERT INTO {q} (id) VALUES (1)");
        assert_eq!(q.takes(1), [1]);
        q.upgrade(&json!({"fields": {"runat": "run_at"}, "features": {"ttr": true}}));
        let deadline =
            "SELECT to_jsonb(coalesce(run_at, 'infinity') < now() + interval '1 year') FROM {q}";
        assert_eq!(q.ask_one(deadline), json!(false), "{column}");
        q.assert_tasks(&[("taken", 1)]);
        q.sql("SELECT xqueue.ack('{q}', 1)");
    }
}

/// With feature `ttl` the worker would delete the rows.
#[test]
fn rows_whose_time_is_past_are_not_deleted_by_an_upgrade() {
    for (column, past, future) in [
        ("timestamptz", "'2020-01-01'", "NULL"),
        ("integer NOT NULL DEFAULT 0", "0", "2000000000"),
        ("timestamp", "'2020-01-01'", "'2100-01-01'"),
    ] {
        let create = format!("CREATE TABLE {{q}} (id int PRIMARY KEY, ends {column})");
        let mut q = Queue::table("past", &create);
        q.sql(&format!("INSERT INTO {{q}} VALUES (1, {past}), (2, {future})"));
        let options = r#"{"fields": {"expires": "ends"}, "features": {"ttl": true}}"#;
        for dry_run in [false, true] {
            let upgrade = format!("SELECT xqueue.upgrade('{{q}}', '{options}', {dry_run})");
            let error = q.fails(&upgrade, "55000", "1 rows of");
            assert!(error.hint().is_some_and(|hint| hint.contains("DELETE")), "{error:?}");
        }
        q.sql("DELETE FROM {q} WHERE id = 1");
        q.upgrade(&options.parse().expect("options"));
        assert_eq!(q.takes(9), [2], "{column}");
    }
}

/// A double can be below the instant that it stands for.
#[test]
fn a_double_below_its_instant_is_noticed() {
    for by_statements in [false, true] {
        let columns = "id int PRIMARY KEY, run_at double precision";
        let mut q = Queue::table("double", &format!("CREATE TABLE {{q}} ({columns})"));
        q.upgrade(&json!({"fields": {"runat": "run_at"}, "features": {"delayed": true}}));
        if by_statements {
            q.before_each("UPDATE", "RETURN NEW");
        }
        let now = q.ask_one("SELECT to_jsonb(extract(epoch FROM clock_timestamp())::float8)");
        let soon = now.as_f64().expect("seconds") + 0.5;
        let mut values = (1..100).map(|step| soon + f64::from(step) * 3e-7);
        let below = values.find(|value| (value * 1e6).round() / 1e6 > *value).expect("a value");
        q.sql(&format!("INSERT INTO {{q}} VALUES (1, {below:?})"));
        q.wait_for("ready", 1);
    }
}

#[test]
fn numbers_outside_the_calendar_stop_nothing() {
    for by_statements in [false, true] {
        let columns = "id int PRIMARY KEY, run_at bigint, ends double precision";
        let mut q = Queue::table("absurd", &format!("CREATE TABLE {{q}} ({columns})"));
        let features = json!({"delayed": true, "ttl": true, "ttr": true});
        q.upgrade(&json!({"fields": {"runat": "run_at", "expires": "ends"}, "features": features}));
        if by_statements {
            q.before_each("UPDATE", "RETURN NEW");
        }
        q.sql(
            "INSERT INTO {q} VALUES (1, 9223372036854775807, 'NaN'), (2, -9223372036854775808, 'Infinity'), \
             (3, 1700000000000, NULL), (4, 0, '-Infinity'), (5, NULL, 9e30)",
        );
        // Milliseconds are seconds far away.
        q.wait_for("waiting", 2);
        q.wait_for("ready", 2);
        assert_eq!(q.takes(9), [2, 5]);
        q.sql("SELECT xqueue.touch('{q}', ARRAY[2, 5], '1 hour')");
        q.sql("SELECT xqueue.release('{q}', ARRAY[2, 5], delay => '1 second')");
        q.wait_for("ready", 2);
        q.sql(
            "INSERT INTO {q} (id, status, owner, ends) VALUES (6, 'T', xqueue.identify(), '-1e300'), \
             (7, 'T', xqueue.identify(), '-Infinity')",
        );
        q.sql("SELECT xqueue.touch('{q}', ARRAY[6, 7], '1 second')");
        q.sql("SELECT xqueue.release('{q}', ARRAY[6, 7], delay => '1 second')");
        let left = q.ask_one("SELECT xqueue.stats('{q}', 3)")["time_left"].as_f64();
        assert!(left.is_some_and(|left| left > 1e12), "{left:?}");
        assert_eq!(q.ask_one("SELECT xqueue.stats('{q}', 1)")["time_left"], Value::Null);
    }
}
