//! Owners as text, like the column `locked_by` of many job tables.

use xqueue_tests::{Queue, ask, json};

const KINDS: [&str; 3] = ["text", "varchar(36)", "varchar"];

/// Makes a queue whose table has tasks that another program took. A trigger rules the direct path out.
fn queue(kind: &str, by_statements: bool) -> Queue {
    let create = format!(
        "CREATE TABLE {{q}} (id int PRIMARY KEY, status text NOT NULL DEFAULT 'R', locked_by {kind});
         INSERT INTO {{q}} VALUES (1, 'T', 'host:app1 pid:4711'), (2, 'T', ''), (3, 'T', NULL), (4, 'R', NULL)"
    );
    let mut q = Queue::table("owners", &create);
    if by_statements {
        q.before_each("INSERT OR UPDATE", "RETURN NEW");
    }
    let features = json!({"ttr": "1 hour", "retry": true, "buried": true});
    let fields = json!({"owner": "locked_by", "status": "status"});
    q.upgrade(&json!({ "fields": fields, "features": features }));
    q
}

/// Tasks with a text that is no session come back, and nobody acks them. A consumer's text is its session.
#[test]
fn an_owner_is_a_session_or_another_program() {
    for (kind, by_statements) in KINDS.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut q = queue(kind, by_statements);
        q.wait_for("ready", 4);
        assert_eq!(q.takes(9), [1, 2, 3, 4]);
        q.sql("SELECT xqueue.give_back('{q}')");
        for owner in ["'host:app2'", "upper(gen_random_uuid()::text)", "gen_random_uuid()", "''"] {
            q.sql(&format!("UPDATE {{q}} SET status = 'T', locked_by = {owner} WHERE id < 3"));
            q.wait_for("ready", 4);
        }
        assert_eq!(q.ask_one("SELECT to_jsonb(count(locked_by)) FROM {q}"), json!(0));
        q.sql("INSERT INTO {q} VALUES (5, 'T', 'host:app3')");
        q.wait_for("ready", 5);
        q.sql("BEGIN; UPDATE {q} SET status = 'T', locked_by = 'host:app2' WHERE id = 1");
        q.fails("SELECT xqueue.ack('{q}', 1)", "55000", "task 1 is taken, but by no session");
        q.sql("ROLLBACK; DELETE FROM {q} WHERE id > 3");

        let mut consumer = q.client();
        let task = ask(&mut consumer, &q.name, "SELECT xqueue.take('{q}')").remove(0);
        assert_eq!(q.ask_one("SELECT xqueue.stats('{q}', 1)")["session"], task["locked_by"]);
        q.fails("SELECT xqueue.ack('{q}', 1)", "55006", "task 1 is taken by");
        q.fails("UPDATE {q} SET status = 'R' WHERE id = 1", "55006", "is taken by");
        drop(consumer);
        q.wait_for("ready", 3);
    }
}
