//! Tasks that a take skips because jsonb cannot hold them or no UPDATE can write them. The take gets the tasks behind
//! them, and the queue's error names the skipped ones. Verbs that end or move a task do not need it as jsonb.

mod by_server;
mod many;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use xqueue_tests::{Queue, Value, ids, json, seed, wait_until};

/// Shapes of queues: key columns and features. With sub-queues, each task has one of its own.
const SHAPES: [(&str, &str); 5] = [
    ("id bigint PRIMARY KEY", r#"{}"#),
    ("id bigint PRIMARY KEY", r#"{"priority": true, "tube": true}"#),
    ("id bigint, part int DEFAULT 1, PRIMARY KEY (id, part)", r#"{"delayed": true}"#),
    ("id bigint PRIMARY KEY", r#"{"ttr": 60, "retry": true, "buried": true, "keep": true}"#),
    ("id bigint PRIMARY KEY", r#"{"utube": true}"#),
];

/// Other code on the table: none, a foreign key, a trigger.
const COMPANY: [&str; 3] = [
    "",
    "ALTER TABLE {q} ADD other int REFERENCES {q}_other (id)",
    "CREATE TRIGGER a_as_it_is BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_as_it_is()",
];

const FUNCTIONS: &str = "
    CREATE TABLE {q}_other (id int PRIMARY KEY);
    CREATE FUNCTION {q}_as_it_is() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE FUNCTION {q}_raises() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF new.payload = 'bad' THEN RAISE 'not this one' USING ERRCODE = 'P0001'; END IF;
        RETURN new; END $$;
    CREATE FUNCTION {q}_keeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF new.payload = 'bad' THEN new.status := old.status; END IF;
        RETURN new; END $$;
    CREATE FUNCTION {q}_drops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF new.payload = 'bad' THEN RETURN NULL; END IF;
        RETURN new; END $$;";

/// Objects that refuse an UPDATE of tasks with payload "bad", and the SQLSTATE of a take that finds only such tasks.
const REFUSALS: [(&str, &str); 9] = [
    ("ALTER TABLE {q} ADD CHECK (payload <> 'bad') NOT VALID", "23514"),
    ("CREATE TRIGGER b BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_raises()", "P0001"),
    ("CREATE TRIGGER b AFTER UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_raises()", "P0001"),
    ("CREATE TRIGGER b BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_keeps()", "55000"),
    ("CREATE TRIGGER b BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_drops()", "55000"),
    ("CREATE INDEX ON {q} ((1 / (payload <> 'bad')::int)) WHERE status = 'T'", "22012"),
    (
        "CREATE INDEX ON {q} (repeat(payload, CASE payload WHEN 'bad' THEN 1000000 ELSE 1 END))
         WHERE status = 'T'",
        "54000",
    ),
    // Task 12 holds the unique value of all bad ones from the beginning.
    (
        "CREATE UNIQUE INDEX ON {q} ((CASE WHEN payload = 'bad' OR id = 12 THEN 0 ELSE id END))
         WHERE status = 'T' OR id = 12",
        "23505",
    ),
    (
        "ALTER TABLE {q} ADD made int GENERATED ALWAYS AS
         (CASE WHEN status = 'T' THEN 1 / (payload <> 'bad')::int END) STORED",
        "22012",
    ),
];

fn queue((key, features): (&str, &str), company: &str) -> Queue {
    let columns = format!("{key}, payload text, doc json");
    let features: Value = features.parse().expect("features");
    let theme = if key.contains("part") { "passed_composite" } else { "passed" };
    let mut q = Queue::with(theme, &columns, &json!({ "features": features }));
    q.sql(FUNCTIONS);
    q.sql(company);
    q
}

/// A shape, other code on the table, and a refusal with its SQLSTATE.
type Case<'a> = ((&'a str, &'a str), &'a str, (&'a str, &'a str));

/// Returns the first shape with each refusal and the others with half of them, each with other code chosen at random.
fn cases<'a>(shapes: &[(&'a str, &'a str)]) -> Vec<Case<'a>> {
    let mut random = StdRng::seed_from_u64(seed());
    let mut cases = Vec::new();
    for (at, shape) in shapes.iter().enumerate() {
        for refusal in REFUSALS.iter().skip(at % 2).step_by(if at == 0 { 1 } else { 2 }) {
            cases.push((*shape, *COMPANY.choose(&mut random).expect("a case"), *refusal));
        }
    }
    cases
}

/// Puts tasks 1 to 20, some of them bad, each in a tube of its own or all in one.
fn fill(q: &mut Queue, bad: &[i64], payload: &str, doc: &str, features: &str) {
    let tube = if features.contains("utube") { "'t' || n" } else { "'a'" };
    let (column, tube) = match features.contains("tube") {
        true => (", tube", format!(", {tube}")),
        false => ("", String::new()),
    };
    q.sql(&format!(
        "INSERT INTO {{q}} (id, payload, doc{column})
         SELECT n, CASE WHEN n = ANY(ARRAY{bad:?}::bigint[]) THEN '{payload}' ELSE 'good' END,
             CASE WHEN n = ANY(ARRAY{bad:?}::bigint[]) THEN '{doc}' ELSE '{{}}' END::json{tube}
         FROM generate_series(1, 20) AS n"
    ));
}

/// Takes tasks by a call with these arguments and returns their ids, sorted.
#[track_caller]
fn taken(q: &mut Queue, arguments: &str) -> Vec<i64> {
    let mut ids = ids(&q.ask(&format!("SELECT xqueue.take('{{q}}'{arguments})")));
    ids.sort_unstable();
    ids
}

/// Returns the key of a task in SQL.
fn key(q: &Queue, id: i64) -> String {
    if q.name.contains("composite") { format!("ROW({id}, 1)") } else { id.to_string() }
}

/// Takes every available task with each variant of take, in jsonb or in row form. Tasks 1, 2 and 5 are bad.
fn take_all_but_bad(q: &Queue, features: &str, as_rows: bool) -> Queue {
    let mut c = q.session();
    assert_eq!(taken(&mut c, "").len(), 1, "{features}");
    assert_eq!(taken(&mut c, ", '1 min'").len(), 1);
    if as_rows {
        for arguments in ["", ", '1 min'"] {
            let sql = format!("SELECT to_jsonb(id) FROM xqueue.take(NULL::{{q}}{arguments})");
            assert_eq!(c.ask(&sql).len(), 1, "{features}");
        }
        let next = format!("CALL xqueue.next(NULL::{}, '1 min')", q.name);
        assert!(c.admin.simple_query(&next).is_ok_and(|rows| !rows.is_empty()), "{features}");
    }
    if features.contains("utube") {
        assert!(taken(&mut c, ", tube => 't6'").len() <= 1);
    } else {
        if features.contains("tube") {
            assert_eq!(taken(&mut c, ", tube => 'a'").len(), 1);
        }
        assert_eq!(taken(&mut c, &format!(", id => {}", key(q, 19))).len(), 1);
    }
    for count in ["", ", count => 2"] {
        let next = c.ask_one(&format!("CALL xqueue.next('{{q}}', '1 min', task => NULL{count})"));
        assert!(!next.is_null(), "{features}");
    }
    let done = "SELECT to_jsonb(max(id)) FROM {q} WHERE status = 'T' AND id <> 12";
    let done = key(q, c.ask_one(done).as_i64().expect("a task"));
    let last = format!(", count => 100, done => {done}");
    assert!(!taken(&mut c, &last).is_empty(), "{features}");
    let left = "SELECT to_jsonb(id) FROM {q} WHERE status = 'R' ORDER BY id";
    assert_eq!(c.ask(left), [json!(1), json!(2), json!(5)], "{features}");
    c
}

#[test]
fn a_take_passes_over_what_jsonb_cannot_hold() {
    const DOCS: [&str; 3] = [r#"{"a": "\u0000"}"#, "[1e400000]", r#""\ud83d""#];
    let mut random = StdRng::seed_from_u64(seed());
    // The first shape has each document, and the others one.
    let shapes = [0, 0, 0, 1, 2, 3, 4].map(|at| SHAPES[at]);
    for (shape, doc) in shapes.into_iter().zip(DOCS.into_iter().cycle()) {
        let company = COMPANY.choose(&mut random).expect("a case");
        let mut q = queue(shape, company);
        fill(&mut q, &[1, 2, 5], "good", doc, shape.1);
        let mut c = take_all_but_bad(&q, shape.1, false);
        let error = q.error();
        assert!(error.contains("cannot be delivered as jsonb"), "{shape:?} {company}: {error}");
        // No other task is left: the take returns like from an empty queue.
        assert!(taken(&mut c, ", '20 ms', count => 5").is_empty());
        // The row form gets them, in order.
        let rows = "SELECT to_jsonb(id) FROM xqueue.take(NULL::{q}, count => 9)";
        assert_eq!(c.ask(rows).len(), 3, "{shape:?} {company}");
        verbs_do_not_need_jsonb(&mut c, shape.1);
    }
}

/// Asserts that each verb works on tasks that jsonb cannot hold, and returns the columns that it can convert.
fn verbs_do_not_need_jsonb(c: &mut Queue, features: &str) {
    let others: &[_] = match features.contains("buried") {
        true => &[("bury", 5), ("dig", 5), ("switch", 5), ("plow", 5), ("restart", 1)],
        false => &[("snatch", 5)],
    };
    let first = [("peek", 1), ("tasks_by_state", 1), ("ack", 1), ("release", 2)];
    for (verb, id) in first.iter().chain(others).chain(&[("delete", 5)]) {
        let key = key(c, *id);
        let arguments = match *verb {
            "tasks_by_state" => "'T'".into(),
            "plow" => "1".into(),
            "switch" => format!("{key}, 'B'"),
            _ => key,
        };
        let sql = format!("SELECT xqueue.{verb}('{{q}}', {arguments})");
        let tasks = c.ask(&sql);
        let task = tasks.iter().find(|task| task["id"] == *id).expect(&sql);
        assert_eq!((&task["doc"], &task["payload"]), (&Value::Null, &json!("good")), "{sql}");
    }
}

#[test]
fn a_take_passes_over_what_no_update_can_write() {
    for (shape, company, (refusal, state)) in cases(&SHAPES) {
        let mut q = queue(shape, company);
        fill(&mut q, &[1, 2, 5], "bad", "{}", shape.1);
        q.sql(refusal);
        let mut c = take_all_but_bad(&q, shape.1, true);
        let error = q.error();
        assert!(error.contains("cannot be taken"), "{shape:?} {company} {refusal}: {error}");
        for take in ["take('{q}')", "take('{q}', '1 min')", "take(NULL::{q}, count => 5)"] {
            c.fails(&format!("SELECT xqueue.{take}"), state, "");
        }
        q.sql("DELETE FROM {q} WHERE payload = 'bad'");
    }
}

/// A session that has skipped a task takes several in one subtransaction again some time after the task was deleted.
#[test]
fn a_session_forgets_a_task_that_is_gone() {
    let mut q = queue(SHAPES[0], "");
    fill(&mut q, &[1], "bad", "{}", SHAPES[0].1);
    q.sql(REFUSALS[1].0);
    let mut c = q.session();
    assert_eq!(taken(&mut c, ", count => 3"), [2, 3, 4]);
    q.sql("DELETE FROM {q} WHERE payload = 'bad'");
    wait_until("one subtransaction takes them", || {
        c.sql("SELECT xqueue.release('{q}', id) FROM generate_series(2, 4) AS id");
        assert_eq!(taken(&mut c, ", count => 3"), [2, 3, 4]);
        let writers = "SELECT to_jsonb(count(DISTINCT xmin::text)) FROM {q} WHERE status = 'T'";
        q.ask_one(writers) == json!(1)
    });
}

/// A trigger keeps the state: no verb reports a change that did not happen.
#[test]
fn a_task_whose_state_a_trigger_keeps_is_left_unchanged() {
    const FEATURES: &str =
        r#"{"delayed": true, "buried": true, "retry": {"backoff": 1}, "keep": true, "ttr": 60}"#;
    let verbs = [
        ("R", "take('{q}')"),
        ("R", "take('{q}', count => 5)"),
        ("W", "take('{q}', id => 1)"),
        ("R", "switch('{q}', 1, 'B')"),
        ("T", "ack('{q}', 1)"),
        ("T", "ack(NULL::{q}, 1)"),
        ("T", "release('{q}', ARRAY[1, 1])"),
        ("T", "bury('{q}', 1)"),
        ("T", "snatch('{q}', 1)"),
        ("B", "dig('{q}', 1)"),
        ("B", "kick('{q}', 1)"),
        ("B", "plow('{q}', 1)"),
        ("W", "restart('{q}', 1)"),
        ("D", "restart('{q}', 1, delay => '1 h')"),
    ];
    let mut q = queue(("id bigint PRIMARY KEY", FEATURES), "");
    for (state, verb) in verbs {
        q.sql(&format!(
            "INSERT INTO {{q}} (id, status, owner, payload)
             VALUES (1, '{state}', CASE '{state}' WHEN 'T' THEN xqueue.identify() END, 'bad')"
        ));
        q.sql(REFUSALS[3].0);
        q.fails(&format!("SELECT xqueue.{verb}"), "55000", "task 1 was left unchanged");
        q.sql("DROP TRIGGER b ON {q}; DELETE FROM {q}");
    }
    // `next` reports it, too.
    q.sql("INSERT INTO {q} (id, payload) VALUES (1, 'bad')");
    q.sql(REFUSALS[3].0);
    let next = "CALL xqueue.next('{q}', '1 min', task => NULL)";
    q.fails(next, "55000", "task 1 was left unchanged");
    q.sql("DELETE FROM {q}");
}

/// A take skips a task only for errors about the task. Other errors concern the caller and are raised unchanged.
#[test]
fn what_is_not_about_the_task_goes_to_the_caller() {
    let mut q = queue(SHAPES[0], "");
    q.sql(
        "CREATE OR REPLACE FUNCTION {q}_raises() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF new.payload <> 'good' THEN RAISE 'no' USING ERRCODE = new.payload; END IF;
             RETURN new;
         END $$",
    );
    q.sql(REFUSALS[1].0);
    q.sql("INSERT INTO {q} (id, payload) VALUES (1, ''), (2, 'good')");
    for (state, is_passed) in [
        ("22012", true),
        // The depth limit, exceeded by a call that the task itself makes.
        ("54001", true),
        ("P0001", true),
        ("PT402", true),
        ("40001", false),
        ("42501", false),
        ("53100", false),
        ("55P03", false),
        ("57014", false),
        ("25006", false),
    ] {
        q.sql(&format!(
            "ALTER TABLE {{q}} DISABLE TRIGGER b;
             UPDATE {{q}} SET payload = '{state}' WHERE id = 1;
             ALTER TABLE {{q}} ENABLE TRIGGER b"
        ));
        let mut c = q.client();
        let take = format!("SELECT xqueue.take('{}')->>'id' AS id", q.name);
        let outcome = c.query_one(&take, &[]).map(|row| row.get::<_, Option<String>>(0));
        match outcome {
            Ok(id) => assert!(is_passed && id.as_deref() == Some("2"), "{state}: {id:?}"),
            Err(error) => assert!(!is_passed, "{state}: {error:?}"),
        }
        c.batch_execute(&format!("SELECT xqueue.give_back('{}')", q.name)).expect("give_back");
    }
    q.sql("DELETE FROM {q}");
}

/// A waiting take does not wake itself when it undoes the take of a task that jsonb cannot hold.
#[test]
fn a_waiting_take_fires_few_triggers() {
    let mut q = Queue::with("by_trigger", "id bigint PRIMARY KEY, doc json", &json!({}));
    q.sql(r#"CREATE SEQUENCE {q}_fired; INSERT INTO {q} VALUES (1, '"\u0000"')"#);
    q.before_each("UPDATE", "PERFORM nextval('{q}_fired'); RETURN new");
    assert!(q.ask("SELECT xqueue.take('{q}', '1 s')").is_empty());
    let fired = q.ask_one("SELECT to_jsonb(last_value) FROM {q}_fired").as_i64().expect("a number");
    assert!(fired < 20, "{fired} calls of the trigger");
}
