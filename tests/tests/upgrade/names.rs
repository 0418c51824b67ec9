//! Oddly named schemas, tables and columns, and the resolution of names.

use xqueue_tests::*;

#[test]
fn odd_names() {
    let long = "ü".repeat(31) + "x";
    let mut admin = connect();
    for (schema, table, id, status) in [
        ("My Schema", "my table", "my id", "my status"),
        ("quo\"ted", "it's \"a\" queue", "k\"e'y", "st\"at'us"),
        ("schéma.dotted", "queue.with.dots", "clé", "état ✓"),
        ("%s {} $1", "\\x $$ %I", "{id}", "$2"),
        (&long, &long, &long, "status"),
    ] {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        admin.run(&format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema)));
        let name = format!("{}.{}", quoted(schema), quoted(table));
        let options = json!({
            "fields": {"status": status, "owner": "By", "runat": "run at", "priority": "select", "tube": "from",
                       "attempts": "tries", "expires": "ExpiresAt", "ttr": "time to run", "reason": "why"},
            "features": {"delayed": true, "ttl": true, "ttr": true, "priority": true, "tube": true, "retry": true},
        });
        let (key, state) = (quoted(id), quoted(status));
        let columns = format!("{key} bigserial PRIMARY KEY, {state} \"char\" NOT NULL DEFAULT 'R'");
        let mut q = Queue::make(&database(), &name, &columns, &options);
        q.status_is(&state, LETTERS);
        let literal = format!("'{}'", name.replace('\'', "''"));
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        let given = "delay => '20 ms', ttl => '1 day', ttr => '1 hour', priority => 1, tube => 'x'";
        q.sql(&format!("SELECT xqueue.put({literal}, '{{}}', {given})"));
        q.wait_for("ready", 2);
        let tasks = take(&mut q.admin, &name, "0", 2);
        assert_eq!(tasks[0][id], json!(1), "{name}");
        assert_eq!(ack(&mut q.admin, &name, 1).len(), 1);
        assert_eq!(release(&mut q.admin, &name, 2)[0][status], json!("R"));
        let mut c = q.client();
        assert_eq!(take(&mut c, &name, "0", 1).len(), 1);
        drop(c);
        q.wait_for("ready", 1);
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
