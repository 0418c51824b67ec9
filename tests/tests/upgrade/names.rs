//! Oddly named schemas, tables and columns, and the resolution of names.

use xqueue_tests::*;

#[test]
fn odd_names() {
    let long = "ü".repeat(31) + "x";
    let mut admin = connect();
    for (schema, table, id, status) in [
        ("public", "Jobs", "ID", "Status"),
        ("My Schema", "my table", "my id", "my status"),
        ("quo\"ted", "it's \"a\" queue", "k\"e'y", "st\"at'us"),
        ("schéma.dotted", "queue.with.dots", "clé", "état ✓"),
        ("select", "table", "order", "group"),
        ("%s {} $1", "\\x $$ %I", "{id}", "$2"),
        (&long, &long, &long, &(long.clone() + "")),
        ("xqueue_not", "queue", "task", "count"),
    ] {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let status = if status == id { "status" } else { status };
        admin.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema))).unwrap();
        let name = format!("{}.{}", quoted(schema), quoted(table));
        let options = json!({"fields": {"status": status}, "features": {"delayed": true}});
        let columns = format!(
            "{} bigserial PRIMARY KEY, {} \"char\" NOT NULL DEFAULT 'R'",
            quoted(id),
            quoted(status)
        );
        let mut q = Queue::make(&database(), &name, &columns, &options);
        q.status_is(&quoted(status), ["R", "T", "W", "B", "Z", "D"]);
        let literal = format!("'{}'", name.replace('\'', "''"));
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        q.sql(&format!("SELECT xqueue.put({literal}, '{{}}', '20 milliseconds')"));
        q.wait_for("ready", 2);
        let tasks = take(&mut q.admin, &name, "0", 2);
        assert_eq!(tasks[0][id], json!(1), "{name}");
        assert_eq!(ack(&mut q.admin, &name, 1).len(), 1);
        assert_eq!(release(&mut q.admin, &name, 2)[0][status], json!("R"));
        let mut c = q.client();
        assert_eq!(take(&mut c, &name, "0", 1).len(), 1);
        drop(c);
        q.wait_for("ready", 1);
        drop(q);
        if schema != "public" {
            admin.batch_execute(&format!("DROP SCHEMA {}", quoted(schema))).unwrap();
        }
    }
}

#[test]
fn a_name_is_found_like_a_regclass() {
    let mut q = Queue::new("found");
    let name = q.name.clone();
    put(&mut q.admin, &name, 1);
    for spelling in
        [name.to_uppercase(), format!("public.{name}"), format!("\"public\".\"{name}\"")]
    {
        assert_eq!(take_all(&mut q.admin, &spelling).len(), 1);
        q.sql("UPDATE {q} SET status = 'R'");
    }
    let schema = unique("found_first");
    q.sql(&format!(
        "CREATE SCHEMA {schema}; SET search_path = {schema}, public; CREATE TEMP TABLE unrelated ()"
    ));
    assert_eq!(take_all(&mut q.admin, &name).len(), 1);
    q.sql(&format!("DROP SCHEMA {schema}; RESET search_path"));
}

/// The worker writes a new name into the registry later, so the registry still has the old one.
#[test]
fn a_renamed_column_keeps_its_role_beside_a_new_column_of_its_old_name() {
    let columns = "id bigint PRIMARY KEY, n int NOT NULL, prio int NOT NULL DEFAULT 0";
    let options = json!({
        "fields": {"order": ["n"], "priority": "prio"},
        "features": {"ttl": true, "priority": true}
    });
    let mut q = Queue::with("renamed", columns, &options);
    q.sql("INSERT INTO {q} (id, n, prio) SELECT i, i, i / 4 FROM generate_series(1, 6) i");
    assert_eq!(take(&mut q.admin, &q.name, "0", 1)[0]["id"], json!(1));
    q.sql(
        "BEGIN; ALTER TABLE {q} RENAME expires TO task_ends;
         ALTER TABLE {q} ADD expires timestamptz DEFAULT '2001-01-01'; COMMIT;
         BEGIN; ALTER TABLE {q} RENAME status TO state;
         ALTER TABLE {q} ADD status text NOT NULL DEFAULT 'R'; COMMIT;
         BEGIN; ALTER TABLE {q} RENAME n TO place;
         ALTER TABLE {q} ADD n int NOT NULL DEFAULT 0; UPDATE {q} SET n = -id; COMMIT;
         BEGIN; ALTER TABLE {q} RENAME prio TO rank;
         ALTER TABLE {q} ADD prio int NOT NULL DEFAULT 0; UPDATE {q} SET prio = -id; COMMIT",
    );
    q.status_is("state", ["R", "T", "W", "B", "Z", "D"]);
    let task = &take(&mut q.admin, &q.name, "0", 1)[0];
    assert_eq!((&task["id"], &task["state"]), (&json!(2), &json!("T")), "{task}");
    let fields = |q: &mut Queue| {
        q.ask_one("SELECT xqueue.upgrade('{q}', '{}', true)->'definition'->'fields'")
    };
    let wanted = json!({
        "status": "state", "owner": "owner", "expires": "task_ends", "priority": "rank", "order": ["place"]
    });
    assert_eq!(fields(&mut q), wanted);
    let registered = "SELECT jsonb_build_array(definition->'fields'->'expires'->'name', definition->'order'->0->'name')
                      FROM xqueue.queue WHERE relation = '{q}'::regclass";
    wait_until("the registry has the new names", || {
        q.ask_one(registered) == json!(["task_ends", "place"])
    });
    // The worker deletes a task by the renamed column, and no other.
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 7, \"place\": 7}', ttl => '1 millisecond')");
    q.wait_for("total", 6);
    q.assert_tasks(&[("taken", 2), ("ready", 4)]);
    assert_eq!(fields(&mut q), wanted);
    let report = q.ask_one("SELECT xqueue.check('{q}')");
    assert_eq!(report["problems"], json!([]));
    assert_eq!(take(&mut q.admin, &q.name, "0", 1)[0]["id"], json!(3));
}
