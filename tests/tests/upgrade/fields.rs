//! Any column can have any role. A table with odd names, other types, other status values and a key of two columns
//! passes through every state and verb.

use xqueue_tests::{LETTERS, Queue, Value, Watcher, ask, json};

const FEATURES: &str = r#"{
    "delayed": true, "buried": true, "ttl": true, "ttr": "1 hour", "priority": true, "tube": true,
    "retry": {"limit": 2, "backoff": 0.001}
}"#;

/// Types of the status column, with its values for the letters.
const STATES: [(&str, [&str; 6]); 5] = [
    ("\"char\"", LETTERS),
    ("char(1)", ["r", "t", "w", "b", "z", "d"]),
    ("varchar(20)", ["pending", "it's run", "later", "failed", "old", "done"]),
    ("text", ["0", "1", "2", "3", "4", "5"]),
    ("enum", ["to do", "doing", "Waiting", "dead", "gone", "fin"]),
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn queue(kind: &str, labels: [&str; 6], last: &Value) -> Queue {
    let listed = labels.map(quoted).join(", ");
    let mut q = Queue::table("fields", &format!("CREATE TYPE {{q}}_state AS ENUM ({listed})"));
    let kind = if kind == "enum" { "{q}_state" } else { kind };
    q.sql(&format!(
        "CREATE TABLE {{q}} (\"Tenant\" text, \"no.\" int, what text, \"The State\" {kind} NOT NULL \
         DEFAULT {}, \"By\" uuid, \"run at\" timestamptz, \"select\" smallint NOT NULL DEFAULT 5, \
         \"from\" varchar(10), tries bigint NOT NULL DEFAULT 0, \"ExpiresAt\" timestamptz, \
         \"time to run\" interval, why varchar(100), PRIMARY KEY (\"Tenant\", \"no.\"))",
        quoted(labels[0])
    ));
    let mut features: Value = FEATURES.parse().expect("features");
    for (name, value) in last.as_object().expect("features") {
        features[name] = value.clone();
    }
    let pairs = LETTERS.into_iter().zip(labels);
    let named: Value = pairs.map(|(letter, label)| (letter, json!(label))).collect();
    q.upgrade(&json!({
        "fields": {
            "status": "The State", "owner": "By", "runat": "run at", "priority": "select",
            "tube": "from", "attempts": "tries", "expires": "ExpiresAt", "ttr": "time to run",
            "reason": "why",
        },
        "states": named,
        "features": features,
        "tube_stats": ["x"],
    }));
    q.status_is("\"The State\"", labels);
    q
}

/// Calls a function on the task with key (a, 1) and checks the resulting state.
#[track_caller]
fn step(q: &mut Queue, call: &str, expected: &str) -> Value {
    let task = q.ask_one(&format!("SELECT xqueue.{call}"));
    assert_eq!(task["The State"], json!(expected), "{call}: {task}");
    task
}

#[test]
fn an_existing_table_goes_through_everything() {
    for (kind, labels) in STATES {
        let mut q = queue(kind, labels, &json!({"keep": true}));
        let [ready, taken, waiting, buried, _, done] = labels;
        let put = r#"put('{q}', '{"Tenant": "a", "no.": 1}', delay => '1 hour', ttl => '1 day', ttr => '2 hours',
            priority => -7, tube => 'x')"#;
        step(&mut q, put, waiting);
        step(&mut q, "restart('{q}', ROW('a', 1))", ready);
        q.sql(r#"SELECT xqueue.put('{q}', '[{"Tenant": "a", "no.": 2, "select": 3}, {"Tenant": "b", "no.": 1, "from": "x"}]')"#);
        let task = step(&mut q, "take('{q}', tube => 'x')", taken);
        assert_eq!(json!([task["Tenant"], task["no."], task["tries"]]), json!(["a", 1, 1]));
        assert!(task["run at"].is_string() && task["ExpiresAt"].is_string(), "{task}");
        step(&mut q, "touch('{q}', ROW('a', 1), '1 hour')", taken);
        let release = r#"release('{q}', '{"Tenant": "a", "no.": 1}'::jsonb, '{"what": "again"}', delay => '1 hour')"#;
        step(&mut q, release, waiting);
        step(&mut q, "switch('{q}', ROW('a', 1), 'ready')", ready);
        step(&mut q, "take('{q}')", taken);
        let task = step(&mut q, "release('{q}', ROW('a', 1))", buried);
        assert_eq!(task["why"], json!("released after attempt 2, the limit is 2"));
        assert_eq!(task["what"], json!("again"));
        step(&mut q, "dig('{q}', ROW('a', 1))", ready);
        step(&mut q, "take('{q}')", taken);
        step(&mut q, "bury('{q}', ROW('a', 1), ttl => '1 hour')", buried);
        assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 5))"), json!(1));
        step(&mut q, "take('{q}')", taken);
        let watcher =
            Watcher::asleep(&mut q, "SELECT xqueue.wait('{q}', ROW('a', 1), '30 seconds')");
        step(&mut q, "ack('{q}', ROW('a', 1), '{\"what\": \"ok\"}', attempt => 4)", done);
        watcher.assert_told("acked");
        step(&mut q, "restart('{q}', ROW('a', 1))", ready);
        step(&mut q, &format!("switch('{{q}}', ROW('a', 1), '{done}')"), done);
        step(&mut q, "peek('{q}', ROW('a', 1))", done);
        step(&mut q, "delete('{q}', ROW('a', 1))", done);
        // Ordered by priority, then by key: 3 before 5.
        let task = step(&mut q, "take('{q}')", taken);
        assert_eq!((&task["Tenant"], &task["no."]), (&json!("a"), &json!(2)));
        step(&mut q, "snatch('{q}', ROW('a', 2))", ready);
        // The worker serves it, too. The attempt of a snatched task does not count.
        step(&mut q, "take('{q}', ttr => '1 millisecond')", taken);
        q.wait_for("ready", 2);
        step(&mut q, "take('{q}', ttr => '1 millisecond')", taken);
        q.wait_for("buried", 1);
        let why = q.ask_one("SELECT to_jsonb(why) FROM {q} WHERE \"no.\" = 2");
        assert_eq!(why, "time to run ended after attempt 2, the limit is 2");
        q.sql(r#"SELECT xqueue.put('{q}', '{"Tenant": "c", "no.": 3}', delay => '1 millisecond')"#);
        q.wait_for("ready", 2);
        let mut consumer = q.client();
        ask(&mut consumer, &q.name, "SELECT xqueue.take('{q}', count => 2)");
        drop(consumer);
        q.wait_for("ready", 2);
    }
}
