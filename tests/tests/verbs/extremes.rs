//! Values in a row are not trusted: each verb works on any value that a producer has written into a queue's columns.
//! Arithmetic on them saturates, on the direct path and in statements.

use xqueue_tests::{Queue, Value, json, wait_until};

const FEATURES: [&str; 2] = [
    r#"{"delayed": true, "buried": true, "zombie": 60, "ttl": true, "ttr": 60, "priority": true, "tube": true,
        "retry": {"limit": 3, "backoff": 2}}"#,
    r#"{"delayed": true, "buried": true, "keep": true, "ttl": 3600, "ttr": true, "priority": true, "utube": true,
        "retry": {"backoff": 2}}"#,
];

/// Columns and extreme values of their types.
const VALUES: [(&str, &[&str]); 4] = [
    ("attempts", &["-1", "NULL", "{max}", "-{max} - 1"]),
    (
        "runat",
        &["'infinity'", "'-infinity'", "'294276-12-31 23:59:59.999999Z'", "'4714-11-24 00:00Z BC'"],
    ),
    (
        "expires",
        &["'infinity'", "'294276-12-31 23:59:59.999999Z'", "'294276-01-01Z'", "'200000-01-01Z'"],
    ),
    (
        "ttr",
        &[
            "'178000000 years'",
            "'-178000000 years'",
            "'71582788 months -2147483640 days'",
            "'-71582788 months 2147483640 days'",
            "'2147483647 days -2500000000 hours'",
            "'-2147483648 days 2500000000 hours'",
            "'101 years -36000 days'",
        ],
    ),
];

/// The state of task 1, and a call.
const CALLS: &str = "
    R take('{q}')
    R take(NULL::{q})
    R take('{q}', count => 3)
    R take('{q}', tube => 'a')
    R take('{q}', ttr => '1 hour')
    R take('{q}', id => 1)
    W take('{q}', id => 1)
    B take('{q}', id => 1)
    R put('{q}', '{\"id\": 1}', on_conflict => 'update', delay => '1 hour')
    R switch('{q}', 1, 'W', delay => '1 hour')
    R switch('{q}', 1, 'B')
    R peek('{q}', 1)
    R stats('{q}', 1)
    R delete('{q}', 1)
    T ack('{q}', 1)
    T ack('{q}', 1, attempt => attempts::int) FROM {q} WHERE attempts BETWEEN 1 AND 2147483647
    T release('{q}', 1)
    T release('{q}', 1, failed => false)
    T release('{q}', 1, delay => '1 hour')
    T release('{q}', 1, ttl => '1 hour', error => 'none')
    T release('{q}', 1, delay => '1 hour', ttl => '1 hour')
    T release_all('{q}')
    T give_back('{q}')
    T bury('{q}', 1)
    T bury('{q}', 1, ttl => '1 hour')
    T touch('{q}', 1, '1 hour')
    T touch('{q}', 1, '1 month')
    T snatch('{q}', 1)
    T snatch('{q}', 1, delay => '1 hour')
    W restart('{q}', 1)
    W restart('{q}', 1, delay => '1 hour')
    B dig('{q}', 1)
    B dig('{q}', 1, delay => '1 hour')
    B plow('{q}', 1, delay => '1 hour')
    B kick('{q}', 1)
    D restart('{q}', 1)
    D restart('{q}', 1, delay => '1 hour')
    D switch('{q}', 1, 'R')";

fn queue(features: &str, attempts: &str, has_trigger: bool) -> Queue {
    let columns =
        format!("id bigint PRIMARY KEY CHECK (id > 0), attempts {attempts}, payload jsonb");
    let features: Value = features.parse().expect("features");
    let fields = json!({ "attempts": "attempts" });
    let mut q = Queue::with("extremes", &columns, &json!({"features": features, "fields": fields}));
    if has_trigger {
        q.before_each("UPDATE", "RETURN new");
    }
    q
}

/// Returns the greatest number of an integer type.
fn greatest(attempts: &str) -> &'static str {
    match attempts {
        "smallint" => "32767",
        "int" => "2147483647",
        _ => "9223372036854775807",
    }
}

#[test]
fn no_verb_fails_for_a_value_in_the_row() {
    let calls = CALLS.lines().filter_map(|line| line.trim().split_once(' '));
    for (features, attempts, has_trigger, columns) in [
        (0, "int", false, &VALUES[..]),
        (1, "int", true, &VALUES[..]),
        (0, "bigint", true, &VALUES[..1]),
        (1, "bigint", false, &VALUES[..1]),
        (0, "smallint", false, &VALUES[..1]),
    ] {
        let mut q = queue(FEATURES[features], attempts, has_trigger);
        let max = greatest(attempts);
        let mut failures = Vec::new();
        for (column, values) in columns {
            for value in *values {
                let value = value.replace("{max}", max);
                for (state, call) in calls.clone() {
                    if state == "D" && features == 0 {
                        continue;
                    }
                    let owner = if state == "T" { "xqueue.identify()" } else { "NULL" };
                    let sql = format!(
                        "INSERT INTO {{q}} (id, status, owner, tube) VALUES (1, '{state}', {owner}, 'a');
                         UPDATE {{q}} SET {column} = {value};
                         SELECT xqueue.{call}",
                    );
                    let label = format!("{state} {column} = {value}: {call}");
                    failures.extend(failure(&mut q, &sql, &label));
                }
            }
        }
        assert!(failures.is_empty(), "{attempts}, {has_trigger}:\n{}", failures.join("\n"));
    }
}

/// Runs statements and rolls them back; returns the error with a label if they fail.
fn failure(q: &mut Queue, sql: &str, label: &str) -> Option<String> {
    let sql = format!("BEGIN; {sql}").replace("{q}", &q.name);
    let outcome = q.admin.batch_execute(&sql);
    q.admin.batch_execute("ROLLBACK").expect("ROLLBACK");
    let error = outcome.err()?;
    let error = xqueue_tests::db_error(&error);
    Some(format!("{label}: {} {}", error.code().code(), error.message()))
}

/// The worker's own changes: promotions, expired times to run, orphans, and expired lives.
#[test]
fn the_worker_does_not_fail_for_a_value_in_the_row() {
    for (attempts, has_trigger) in [("int", false), ("bigint", true), ("smallint", false)] {
        let mut q = queue(FEATURES[0], attempts, has_trigger);
        let max = greatest(attempts);
        for (column, values) in VALUES {
            for value in values {
                let value = value.replace("{max}", max);
                for (state, owner, runat) in [
                    ("W", "NULL", "'-infinity'"),
                    ("T", "gen_random_uuid()", "'-infinity'"),
                    ("T", "gen_random_uuid()", "NULL"),
                    ("Z", "NULL", "'-infinity'"),
                ] {
                    let runat = if column == "runat" { &value } else { runat };
                    let (name, other) = match column {
                        "runat" => (String::new(), String::new()),
                        _ => (format!(", {column}"), format!(", {value}")),
                    };
                    q.sql(&format!(
                        "INSERT INTO {{q}} (id, status, owner, runat{name})
                         SELECT coalesce(max(id), 0) + 1, '{state}', {owner}, {runat}{other} FROM {{q}}"
                    ));
                }
            }
        }
        let far = "runat > now() + interval '100 years'";
        q.sql(&format!("DELETE FROM {{q}} WHERE status IN ('W', 'Z') AND {far}"));
        let left = "SELECT to_jsonb(count(*)) FROM {q} WHERE status = 'T' OR runat < now()";
        wait_until("the worker has done with all", || q.ask_one(left) == json!(0));
        assert_eq!(q.error(), "");
        q.sql("DELETE FROM {q}");
    }
}

/// A count at the limit of its type stays there on both paths.
#[test]
fn attempts_saturate() {
    for (attempts, has_trigger) in
        [("smallint", false), ("int", true), ("int", false), ("bigint", true), ("bigint", false)]
    {
        let mut q = queue(r#"{"retry": true}"#, attempts, has_trigger);
        let max = greatest(attempts);
        q.sql(&format!("INSERT INTO {{q}} (id, attempts) VALUES (1, {max}), (2, -{max} - 1)"));
        q.sql("SELECT xqueue.take('{q}', count => 2)");
        assert!(q.holds(1, &format!("status = 'T' AND attempts = {max}")));
        assert!(q.holds(2, &format!("status = 'T' AND attempts = -{max}")));
        q.sql("SELECT xqueue.give_back('{q}')");
        assert!(q.holds(1, &format!("status = 'R' AND attempts = {max} - 1")));
        assert!(q.holds(2, "status = 'R' AND attempts = 0"));
    }
}
