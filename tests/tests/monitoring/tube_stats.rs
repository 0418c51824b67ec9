//! Option tube_stats: the counters of each listed tube.

use xqueue_tests::{
    COLUMNS, Client, Queue, Value, ask, connect, database, expect_error, json, refused, unique,
};

fn queue(options: &str) -> Queue {
    let options: Value = options.parse().expect("options");
    Queue::with("tube", COLUMNS, &options)
}

/// Returns a tube's task counters by state, without the zeros.
fn counted(q: &mut Queue, tube: &str) -> Value {
    let stats = q.stats();
    let tasks = stats["tubes"][tube]["tasks"].as_object().unwrap_or_else(|| panic!("{stats}"));
    tasks
        .iter()
        .filter(|(_, count)| **count != json!(0))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Asserts that the counters of each listed tube equal the table's contents.
fn assert_tubes_exact(q: &mut Queue, tubes: &[&str]) {
    q.assert_exact();
    for tube in tubes {
        let sql = format!(
            "SELECT coalesce(jsonb_object_agg(state, count), '{{}}') FROM (SELECT CASE status \
             WHEN 'R' THEN 'ready' WHEN 'T' THEN 'taken' WHEN 'W' THEN 'waiting' WHEN 'B' THEN 'buried' \
             ELSE 'total' END AS state, count(*) FROM {{q}} WHERE tube = '{tube}' GROUP BY ROLLUP (status) \
             HAVING count(*) > 0) c"
        );
        assert_eq!(counted(q, tube), q.ask_one(&sql), "tube {tube} of {}", q.name);
    }
}

const COUNTED: &str =
    r#"{"features": {"delayed": true, "buried": true}, "tube_stats": ["a", "b"]}"#;

#[test]
fn tasks_and_transitions_are_counted_of_the_tubes_asked_for_with_moves_between_them() {
    let mut q = queue(COUNTED);
    q.sql(r#"SELECT xqueue.put('{q}', '[{}, {}, {}]', tube => 'a')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '{}', tube => 'b', delay => '1 hour')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"tube": "c"}, {}]')"#);
    q.sql("SELECT xqueue.take('{q}', tube => 'a')");
    q.sql("SELECT xqueue.bury('{q}', 1)");
    assert_tubes_exact(&mut q, &["a", "b"]);
    let transitions = |q: &mut Queue, tube: &str| q.stats()["tubes"][tube]["transitions"].clone();
    assert_eq!(transitions(&mut q, "a"), json!({"X-R": 3, "R-T": 1, "T-B": 1}));
    assert_eq!(transitions(&mut q, "b"), json!({"X-W": 1}));
    let tubes = q.stats()["tubes"].as_object().map(|tubes| tubes.len());
    assert_eq!(tubes, Some(2), "only those asked for");
    // Moves from a to b, from an unlisted tube to a, and from a tube to NULL.
    q.sql("UPDATE {q} SET tube = 'b' WHERE id = 2");
    q.sql("UPDATE {q} SET tube = 'a' WHERE tube = 'c'");
    q.sql("UPDATE {q} SET tube = NULL WHERE id = 4");
    assert_tubes_exact(&mut q, &["a", "b"]);
    assert_eq!(transitions(&mut q, "a"), json!({"X-R": 3, "R-T": 1, "T-B": 1, "R-S": 1, "S-R": 1}));
    assert_eq!(transitions(&mut q, "b"), json!({"X-W": 1, "S-R": 1, "W-S": 1}));
}

#[test]
fn counters_of_tubes_are_exact_after_rollback_truncate_recount_and_prepared_transactions() {
    let mut q = queue(COUNTED);
    let both = ["a", "b"];
    q.sql("INSERT INTO {q} (tube) SELECT (ARRAY['a', 'b', 'c', NULL])[n % 4 + 1] FROM generate_series(1, 100) n");
    assert_tubes_exact(&mut q, &both);
    q.sql("BEGIN; UPDATE {q} SET tube = 'b'; DELETE FROM {q} WHERE id < 50; ROLLBACK");
    assert_tubes_exact(&mut q, &both);
    q.sql("BEGIN; SAVEPOINT s; UPDATE {q} SET tube = 'a'; ROLLBACK TO s; DELETE FROM {q} WHERE id = 4; COMMIT");
    assert_tubes_exact(&mut q, &both);
    q.sql("BEGIN; TRUNCATE {q}; INSERT INTO {q} (tube) VALUES ('a'), ('a'), ('b'); ROLLBACK");
    assert_tubes_exact(&mut q, &both);
    q.sql("BEGIN; TRUNCATE {q}; INSERT INTO {q} (tube) VALUES ('a'), ('a'), ('b'); COMMIT");
    assert_tubes_exact(&mut q, &both);
    assert_eq!(counted(&mut q, "a"), json!({"ready": 2, "total": 2}));
    q.sql("BEGIN; INSERT INTO {q} (tube) VALUES ('a'); UPDATE {q} SET tube = 'b' WHERE tube = 'a'; PREPARE TRANSACTION '{q}'");
    q.sql("COMMIT PREPARED '{q}'");
    assert_tubes_exact(&mut q, &both);
    q.sql("TRUNCATE {q}");
    assert_tubes_exact(&mut q, &both);
    assert_eq!(counted(&mut q, "a"), json!({}));
}

#[test]
fn the_list_of_counted_tubes_is_changed_on_a_queue_in_use() {
    let mut q = queue(r#"{"features": {"delayed": true, "buried": true, "tube": true}}"#);
    q.sql("INSERT INTO {q} (tube) SELECT (ARRAY['a', 'b', 'c'])[n % 3 + 1] FROM generate_series(1, 90) n");
    let mut consumer = q.client();
    assert_eq!(ask(&mut consumer, &q.name, "SELECT xqueue.take('{q}', tube => 'b')").len(), 1);
    for list in [vec!["b"], vec!["c", "b"], vec!["a"], vec!["a", "b", "c"]] {
        q.upgrade(&json!({"tube_stats": list}));
        assert_tubes_exact(&mut q, &list);
        q.sql("INSERT INTO {q} (tube) VALUES ('a'), ('b'), ('c')");
        assert_tubes_exact(&mut q, &list);
    }
    q.upgrade(&json!({"tube_stats": []}));
    assert_eq!(q.stats()["tubes"], json!(null));
    q.upgrade(&json!({"features": {"tube": false}}));
    let counting = r#"SELECT xqueue.upgrade('{q}', '{"tube_stats": ["a"]}')"#;
    refused(&mut q, &[(counting, "22023", "tube")]);
}

#[test]
fn counters_of_tubes_are_exact_under_load() {
    let mut q = queue(COUNTED);
    let workers: Vec<_> = (0..4)
        .map(|number| {
            let (mut client, name) = (q.client(), q.name.clone());
            std::thread::spawn(move || {
                for round in 0..150 {
                    let statement = match (number + round) % 5 {
                        0 => r#"SELECT xqueue.put('{q}', '[{"tube": "a"}, {"tube": "b"}, {"tube": "c"}]')"#,
                        1 => "SELECT xqueue.take('{q}', count => 2)",
                        2 => "SELECT xqueue.release(t) FROM xqueue.take(NULL::{q}, tube => 'a') t",
                        3 => "SELECT xqueue.put('{q}', '{}', tube => 'b', delay => '5 milliseconds')",
                        _ => "SELECT xqueue.bury(t) FROM xqueue.take(NULL::{q}, tube => 'b') t",
                    };
                    ask_any(&mut client, &name, statement);
                }
            })
        })
        .collect();
    q.upgrade(&json!({"tube_stats": ["b", "c", "a"]}));
    q.upgrade(&json!({"tube_stats": ["a", "b"]}));
    for worker in workers {
        worker.join().expect("no statement failed");
    }
    q.wait_for("waiting", 0);
    q.wait_for("taken", 0);
    assert_tubes_exact(&mut q, &["a", "b"]);
}

fn ask_any(c: &mut Client, q: &str, sql: &str) {
    let sql = sql.replace("{q}", q);
    c.batch_execute(&sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// A label is a value of the column's type: settings for input and output of a session do not affect it.
#[test]
fn a_label_is_the_value_that_it_stands_for() {
    const SETTINGS: &str =
        "SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Tokyo'; SET IntervalStyle = iso_8601;
        SET bytea_output = escape; SET extra_float_digits = -10; SET search_path = pg_catalog";
    let cases = [
        ("text", "a", "a", "b"),
        ("char(5)", "a", "a   ", "b"),
        ("integer", "01", "1", "2"),
        ("date", "2024-02-01", "Feb 1, 2024", "2024-01-02"),
        ("timestamptz", "2024-02-01 10:00+00", "2024-02-01 19:00+09", "2024-02-01 10:00+09"),
        ("timestamp", "2024-02-01 10:00", "2024-02-01T10:00", "2024-01-02 10:00"),
        ("interval", "1 day", "24 hours", "25 hours"),
        ("bytea", r"\x61ff", r"a\377", r"a\376"),
        ("numeric", "1", "1.0", "1.01"),
        ("float8", "0.1", "1e-1", "0.1000000000001"),
        ("inet", "10.0.0.1", "10.0.0.1/32", "10.0.0.1/31"),
        (
            "uuid",
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
        ),
        ("{q}_enum", "one", "one", "two"),
        ("{q}_domain", "2024-02-01", "Feb 1, 2024", "2024-01-02"),
    ];
    for (number, (kind, label, same, other)) in cases.into_iter().enumerate() {
        for by_statements in [false, true] {
            let name = unique("tube");
            let mut q = Queue::adopt(&database(), &name);
            let kind = kind.replace("{q}", &name);
            let feature = if (number % 2 == 0) == by_statements { "tube" } else { "utube" };
            q.sql(&format!(
                "CREATE TYPE {{q}}_enum AS ENUM ('one', 'two'); CREATE DOMAIN {{q}}_domain AS date;
                 CREATE TABLE {{q}} (id bigserial PRIMARY KEY, tube {kind})"
            ));
            q.upgrade(
                &json!({"fields": {"tube": "tube"}, "features": {feature: true, "buried": true},
                              "tube_stats": [label]}),
            );
            if by_statements {
                q.sql("ALTER TABLE {q} ADD CHECK (id > 0), ADD FOREIGN KEY (id) REFERENCES {q}");
            }
            let mut strange = connect();
            strange.batch_execute(SETTINGS).unwrap();
            let q_name = format!("public.{name}");
            for (n, tube) in [same, other, same].into_iter().enumerate() {
                let put = format!("SELECT xqueue.put('{q_name}', '{{}}', tube => '{tube}')");
                let id = 100 + n;
                let insert = format!("INSERT INTO {q_name} (id, tube) VALUES ({id}, '{tube}')");
                ask_any(&mut strange, &name, &put);
                q.sql(&put);
                ask_any(&mut strange, &name, &insert);
            }
            let case = format!("{kind} {feature} {by_statements}");
            q.assert_exact();
            assert_eq!(counted(&mut q, label), json!({"ready": 6, "total": 6}), "{case}");
            let change = format!(
                "DELETE FROM {q_name} WHERE id = 100; UPDATE {q_name} SET tube = '{other}' WHERE id = 1"
            );
            ask_any(&mut strange, &name, &change);
            q.sql("UPDATE {q} SET status = 'B' WHERE id = 102");
            let left = json!({"buried": 1, "ready": 3, "total": 4});
            assert_eq!(counted(&mut q, label), left, "{case}");
            q.verify();
            q.sql("DROP TABLE {q}; DROP TYPE {q}_enum; DROP DOMAIN {q}_domain");
            q.abandon();
        }
    }
}

#[test]
fn a_label_has_to_be_a_value_that_can_be_told_from_others() {
    for (kind, labels, sqlstate, words) in [
        ("regclass", vec!["pg_class"], "42804", "cannot be counted"),
        ("jsonb", vec!["1"], "42804", "cannot be counted"),
        ("date[]", vec!["{}"], "42804", "cannot be counted"),
        ("tsvector", vec!["a"], "42804", "cannot be counted"),
        ("date", vec!["never"], "22007", "never"),
        ("date", vec!["Today"], "22023", "not always"),
        ("numeric", vec!["1", "1.0"], "22023", "twice"),
        ("integer", vec!["a"], "22P02", "\"a\""),
        ("{q}_enum", vec!["three"], "22P02", "three"),
    ] {
        let name = unique("tube");
        let mut q = Queue::adopt(&database(), &name);
        let kind = kind.replace("{q}", &name);
        q.sql(&format!(
            "CREATE TYPE {{q}}_enum AS ENUM ('one', 'two');
             CREATE TABLE {{q}} (id bigserial PRIMARY KEY, tube {kind})"
        ));
        let options =
            json!({"fields": {"tube": "tube"}, "features": {"tube": true}, "tube_stats": labels});
        let sql = format!("SELECT xqueue.upgrade('{name}', '{options}')");
        let refused = expect_error(&mut q.admin, &sql, sqlstate, words);
        assert!(refused.hint().is_some_and(|hint| hint.contains("tube_stats")), "{refused:?}");
        q.sql("DROP TABLE {q}; DROP TYPE {q}_enum");
        q.abandon();
    }
}
