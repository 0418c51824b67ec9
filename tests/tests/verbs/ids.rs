//! Feature id: the source of new tasks' keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xqueue_tests::{
    Client, Queue, Role, ask, connect, database, ids, json, pid, refused, scalar, take_all,
    try_sql, unique, wait_until,
};

const PLAIN: &str = "id bigint PRIMARY KEY, payload jsonb";

fn queue(columns: &str, id: &str) -> Queue {
    Queue::with("ids", columns, &json!({"features": {"id": id}}))
}

fn copy(c: &mut Client, q: &str, lines: &str) {
    use std::io::Write;
    let mut writer = c.copy_in(&format!("COPY {q} (payload) FROM stdin")).expect("COPY begins");
    writer.write_all(lines.as_bytes()).expect("COPY takes lines");
    writer.finish().expect("COPY ends");
}

/// Returns the keys in the order in which their tasks were put (payload.n).
fn keys(q: &mut Queue) -> Vec<i64> {
    let all = q.ask("SELECT to_jsonb(id) FROM {q} ORDER BY (payload->>'n')::bigint");
    all.iter().map(|key| key.as_i64().expect("a number")).collect()
}

fn assert_rising(keys: &[i64]) {
    let falls = keys.windows(2).find(|pair| pair[0] >= pair[1]);
    assert!(falls.is_none(), "{falls:?} in that order");
}

#[test]
fn an_identity_added_to_a_table_with_rows_goes_on_after_the_greatest_key() {
    let mut q = Queue::adopt(&database(), &unique("ids"));
    q.sql("CREATE TABLE {q} (id bigint PRIMARY KEY, payload jsonb)");
    q.sql("INSERT INTO {q} VALUES (3), (41), (7)");
    q.upgrade(&json!({"features": {"id": "auto_increment"}}));
    assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '[{}, {}]')")), [42, 43]);
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    assert_eq!(take_all(&mut q.admin, &q.name), [3, 7, 41, 42, 43, 44]);
}

#[test]
fn an_identity_begins_with_one_where_there_are_no_rows_or_only_negative_keys() {
    for rows in ["", "INSERT INTO {q} VALUES (-5)"] {
        let mut q = Queue::adopt(&database(), &unique("ids"));
        q.sql("CREATE TABLE {q} (id int PRIMARY KEY, payload jsonb)");
        q.sql(rows);
        q.upgrade(&json!({"features": {"id": "auto_increment"}}));
        assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '{}')")), [1]);
    }
}

#[test]
fn a_table_with_keys_of_its_own_keeps_them_also_after_the_feature() {
    let serial = "id serial PRIMARY KEY, payload jsonb";
    let identity = "id bigint GENERATED ALWAYS AS IDENTITY (START 100) PRIMARY KEY, payload jsonb";
    for (columns, first) in [(serial, 1), (identity, 100)] {
        let mut q = queue(columns, "auto_increment");
        let default = "SELECT jsonb_build_array(pg_get_expr(adbin, adrelid), attidentity) \
                       FROM pg_attribute a LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum \
                       WHERE attrelid = '{q}'::regclass AND attname = 'id'";
        let before = q.ask_one(default);
        assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '{}')")), [first]);
        q.upgrade(&json!({"features": {"id": false}}));
        assert_eq!(q.ask_one(default), before, "not ours to take away");
        assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '{}')")), [first + 1]);
    }
}

#[test]
fn keys_of_time64_never_come_twice_and_rise_in_each_of_many_connections() {
    const CONNECTIONS: i64 = 8;
    const PUTS: i64 = 1500;
    let q = queue(PLAIN, "time64");
    let producers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (mut client, name) = (q.client(), q.name.clone());
            std::thread::spawn(move || {
                let put =
                    client.prepare("SELECT (xqueue.put($1::text, '{}')->>'id')::bigint").unwrap();
                (0..PUTS)
                    .map(|_| client.query_one(&put, &[&name]).unwrap().get(0))
                    .collect::<Vec<i64>>()
            })
        })
        .collect();
    let mut all = Vec::new();
    for producer in producers {
        let keys = producer.join().expect("the producer did not panic");
        assert_rising(&keys);
        all.extend(keys);
    }
    all.sort_unstable();
    assert_rising(&all);
    assert_eq!(all.len() as i64, CONNECTIONS * PUTS);
}

#[test]
fn a_key_of_time64_is_the_clock_in_microseconds() {
    let mut q = queue(PLAIN, "time64");
    let quoted = format!("'{}'", q.name);
    let off: f64 = scalar(
        &mut q.admin,
        &format!(
            "SELECT abs(xqueue.time64({}) / 1e6 - extract(epoch FROM clock_timestamp()))::float8",
            quoted
        ),
        &[],
    );
    assert!(off < 60.0, "{off} s from the clock");
}

#[test]
fn plain_insert_and_copy_and_arrays_get_keys_of_time64_too() {
    let mut q = queue(PLAIN, "time64");
    q.sql(r#"INSERT INTO {q} (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 50) n"#);
    let lines: String = (51..=100).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    copy(&mut q.admin, &q.name, &lines);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"payload": {"n": 101}}, {"payload": {"n": 102}}]')"#);
    q.sql(r#"SELECT xqueue.put(jsonb_populate_record(NULL::{q}, '{"payload": {"n": 103}}'))"#);
    let keys = keys(&mut q);
    assert_eq!(keys.len(), 103);
    assert_rising(&keys);
    assert_eq!(take_all(&mut q.admin, &q.name), keys, "taken in the order of arrival");
}

#[test]
fn time64_goes_on_after_the_greatest_key_that_the_table_had() {
    let mut q = Queue::adopt(&database(), &unique("ids"));
    q.sql("CREATE TABLE {q} (id bigint PRIMARY KEY, payload jsonb)");
    // A key one minute ahead of the clock.
    q.sql("INSERT INTO {q} SELECT (extract(epoch FROM now()) * 1e6)::bigint + 60000000");
    let greatest = keys(&mut q)[0];
    q.upgrade(&json!({"features": {"id": "time64"}}));
    let new = ids(&q.ask("SELECT xqueue.put('{q}', '{}')"));
    assert!(new[0] > greatest, "{new:?} after {greatest}");
}

#[test]
fn uuids_are_made_for_columns_of_type_uuid_and_text() {
    for column in ["uuid", "text", "varchar(36)"] {
        let mut q = queue(&format!("id {column} PRIMARY KEY, payload jsonb"), "uuid");
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        copy(&mut q.admin, &q.name, "{}\n");
        let valid = q.ask_one("SELECT to_jsonb(count(DISTINCT id::text::uuid)) FROM {q}");
        assert_eq!(valid, json!(4), "{column}");
    }
}

#[test]
fn uuids_are_in_the_order_of_arrival() {
    for column in ["uuid", "text"] {
        let mut q = queue(&format!("id {column} PRIMARY KEY, payload jsonb"), "uuid");
        // Keys of separate calls, and keys of one statement that are made within one tick of the clock.
        for n in 0..200 {
            q.sql(&format!(r#"SELECT xqueue.put('{{q}}', '{{"payload": {{"n": {n}}}}}')"#));
        }
        q.sql(
            "INSERT INTO {q} (payload) SELECT jsonb_build_object('n', n) FROM generate_series(200, 999) AS n",
        );
        let taken = q.ask("SELECT t->'payload'->'n' FROM xqueue.take('{q}', count => 1000) AS t");
        let numbers: Vec<i64> = taken.iter().map(|n| n.as_i64().expect("a number")).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{column}");
    }
}

#[test]
fn a_uuid_of_version_7_is_the_clock_and_random() {
    let mut q = queue("id uuid PRIMARY KEY, payload jsonb", "uuid");
    let milliseconds = "('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint";
    let sql = format!(
        "SELECT jsonb_build_array(substr(id::text, 15, 1), left(substr(id::text, 20), 1), \
         abs({milliseconds} - extract(epoch FROM clock_timestamp()) * 1000) < 60000) \
         FROM (SELECT xqueue.uuidv7() AS id) made"
    );
    let made = q.ask_one(&sql);
    assert_eq!((&made[0], &made[2]), (&json!("7"), &json!(true)));
    assert!(["8", "9", "a", "b"].contains(&made[1].as_str().expect("a digit")), "{made}");
    let random = "SELECT to_jsonb(count(DISTINCT right(xqueue.uuidv7()::text, 12))) FROM generate_series(1, 1000)";
    assert_eq!(q.ask_one(random), json!(1000));
}

#[test]
fn where_a_key_is_required_a_put_without_one_is_refused_in_every_form() {
    let mut q = queue(PLAIN, "required");
    let missing = "22004";
    refused(
        &mut q,
        &[
            ("SELECT xqueue.put('{q}', '{}')", missing, "id"),
            (r#"SELECT xqueue.put('{q}', '{"id": null}')"#, missing, "id"),
            (r#"SELECT xqueue.put('{q}', '[{"id": 1}, {"payload": 2}]')"#, missing, "id"),
            (r#"SELECT xqueue.put('{q}', '[{"id": 1}, {"id": null}]')"#, missing, "id"),
            ("SELECT xqueue.put(NULL::{q}, '{}')", missing, "id"),
            (
                r#"SELECT xqueue.put(jsonb_populate_record(NULL::{q}, '{"payload": 1}'))"#,
                missing,
                "id",
            ),
            ("INSERT INTO {q} (payload) VALUES ('{}')", "23502", "id"),
        ],
    );
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 5}')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 6}, {"id": 7, "payload": {}}]')"#);
    q.sql(r#"SELECT xqueue.put(jsonb_populate_record(NULL::{q}, '{"id": 8}'))"#);
    assert_eq!(take_all(&mut q.admin, &q.name), [5, 6, 7, 8]);
}

#[test]
fn every_part_of_a_composite_key_can_be_required() {
    let columns = "a int DEFAULT 1, b text DEFAULT 'x', payload jsonb, PRIMARY KEY (a, b)";
    let mut q = queue(columns, "required");
    refused(
        &mut q,
        &[
            (r#"SELECT xqueue.put('{q}', '{"a": 1}')"#, "22004", "b"),
            (r#"SELECT xqueue.put('{q}', '{"b": "y"}')"#, "22004", "a"),
        ],
    );
    q.sql(r#"SELECT xqueue.put('{q}', '{"a": 1, "b": "y"}')"#);
    for id in ["auto_increment", "time64", "uuid"] {
        q.fails(
            &format!(r#"SELECT xqueue.upgrade('{{q}}', '{{"features": {{"id": "{id}"}}}}')"#),
            "22023",
            "one column",
        );
    }
}

#[test]
fn a_function_of_the_user_makes_the_keys_whatever_it_is_called() {
    let schema = unique("Odd \"Schema");
    let quoted = format!("\"{}\"", schema.replace('"', "\"\""));
    let function = format!("{quoted}.\"next; DROP TABLE x\"");
    let mut admin = connect();
    try_sql(
        &mut admin,
        &format!(
            "CREATE SCHEMA {quoted}; CREATE SEQUENCE {quoted}.s START 1000; \
             CREATE FUNCTION {function}() RETURNS bigint LANGUAGE sql \
             AS $$ SELECT nextval('{quoted}.s') $$"
        ),
    )
    .expect("schema and function");
    {
        let mut q = queue(PLAIN, &function);
        assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '[{}, {}]')")), [1000, 1001]);
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        let name = q.name.clone();
        copy(&mut q.admin, &name, "{}\n");
        // The function is stored with its schema and found with any search path.
        let mut other = q.client();
        try_sql(&mut other, "SET search_path TO pg_catalog").unwrap();
        let put = ask(&mut other, &format!("public.{name}"), "SELECT xqueue.put('{q}', '{}')");
        assert_eq!(ids(&put), [1004]);
        let definition = q.upgrade(&json!({}));
        assert_eq!(definition["features"]["id"], json!(function));
    }
    try_sql(&mut admin, &format!("DROP SCHEMA {quoted} CASCADE")).expect("nothing depends on it");
}

#[test]
fn a_function_that_is_not_there_or_unfit_is_refused() {
    let mut q = Queue::with("ids", PLAIN, &json!({}));
    let upgrade =
        |id: &str| format!(r#"SELECT xqueue.upgrade('{{q}}', '{{"features": {{"id": "{id}"}}}}')"#);
    refused(
        &mut q,
        &[
            (&upgrade("no_such_function"), "42883", "no_such_function"),
            // A function with parameters.
            (&upgrade("pg_catalog.abs"), "42883", "abs"),
            (&upgrade("a.b.c.d"), "42602 0A000 22023 42601", ""),
            (&upgrade("now(); DROP TABLE x"), "42602 22023 42883", ""),
            // A function whose type is not bigint.
            (&upgrade("pg_catalog.gen_random_uuid"), "42804", ""),
            (&upgrade("uuid"), "42804", "id"),
        ],
    );
}

#[test]
fn the_kind_of_keys_can_be_switched_while_the_queue_is_in_use() {
    let mut q = Queue::with("ids", PLAIN, &json!({"features": {"id": "required"}}));
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 10}')"#);
    let mut consumer = q.client();
    assert_eq!(take_all(&mut consumer, &q.name), [10]);

    q.upgrade(&json!({"features": {"id": "auto_increment"}}));
    assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '{}')")), [11]);

    q.upgrade(&json!({"features": {"id": "time64"}}));
    let by_clock = ids(&q.ask("SELECT xqueue.put('{q}', '{}')"))[0];
    assert!(by_clock > 1_600_000_000_000_000, "{by_clock} is no time");

    // After the switch back, keys continue behind the greatest one, not where the sequence stopped.
    q.upgrade(&json!({"features": {"id": "auto_increment"}}));
    assert_eq!(ids(&q.ask("SELECT xqueue.put('{q}', '{}')")), [by_clock + 1]);

    q.upgrade(&json!({"features": {"id": "required"}}));
    q.fails("SELECT xqueue.put('{q}', '{}')", "22004", "id");
    q.fails("INSERT INTO {q} DEFAULT VALUES", "23502", "id");

    // A session still holds the task that it took before.
    assert_eq!(ids(&ask(&mut consumer, &q.name, "SELECT xqueue.ack('{q}', 10)")), [10]);
}

#[test]
fn a_switch_of_keys_under_load_loses_no_task() {
    let mut q = queue(PLAIN, "time64");
    let (done, count) = (Arc::new(AtomicBool::new(false)), 3);
    let producers: Vec<_> = (0..count)
        .map(|_| {
            let (mut client, name, done) = (q.client(), q.name.clone(), done.clone());
            std::thread::spawn(move || {
                let mut put = 0_i64;
                while !done.load(Ordering::Relaxed) {
                    put += ask(&mut client, &name, "SELECT xqueue.put('{q}', '{}')").len() as i64;
                }
                put
            })
        })
        .collect();
    for id in ["auto_increment", "time64", "auto_increment", "time64"] {
        let before = q.calls("put");
        wait_until("some were put", || q.calls("put") > before + 50);
        q.upgrade(&json!({"features": {"id": id}}));
    }
    done.store(true, Ordering::Relaxed);
    let put: i64 = producers.into_iter().map(|p| p.join().expect("no put failed")).sum();
    q.assert_tasks(&[("ready", put)]);
}

#[test]
fn a_downgrade_takes_the_default_away_that_the_feature_gave() {
    for (columns, id) in [
        (PLAIN, "auto_increment"),
        (PLAIN, "time64"),
        ("id uuid PRIMARY KEY, payload jsonb", "uuid"),
    ] {
        let mut q = queue(columns, id);
        q.sql("SELECT xqueue.downgrade('{q}')");
        let left = q.ask_one(
            "SELECT to_jsonb(atthasdef OR attidentity <> '') FROM pg_attribute \
             WHERE attrelid = '{q}'::regclass AND attname = 'id'",
        );
        assert_eq!(left, json!(false), "{id}");
        q.sql("DROP TABLE {q}");
        q.abandon();
    }
}

#[test]
fn a_role_without_other_rights_puts_into_a_queue_with_keys_of_time64() {
    let mut q = queue(PLAIN, "time64");
    let role = Role::create();
    q.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {{q}} TO {}", role.name));
    let mut client = role.client();
    assert!(pid(&mut client) > 0);
    assert_eq!(ask(&mut client, &q.name, "SELECT xqueue.put('{q}', '{}')").len(), 1);
}
