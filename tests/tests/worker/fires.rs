//! The database worker serves a queue if none of its changes can fire something of a user's. Otherwise a job worker
//! does.

use xqueue_tests::*;

/// Features, additions to the table, and the tasks, which are due at once.
const SERVED: &[(&str, &str, &str)] = &[
    (
        r#"{"delayed": true, "ttl": true, "zombie": true, "ttr": true}"#,
        "ALTER TABLE {q} ADD customer int DEFAULT 1 REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE;
         CREATE TRIGGER own AFTER INSERT OR UPDATE OF customer ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat, expires, owner) VALUES ('W', now(), NULL, NULL), ('R', NULL, now(), NULL), ('Z', now(), NULL, NULL),
         ('T', now(), NULL, NULL), ('T', NULL, NULL, gen_random_uuid())",
    ),
    (
        r#"{"delayed": true, "ttr": true}"#,
        "CREATE TABLE {q}_parts (task bigint REFERENCES {q});
         CREATE TRIGGER own AFTER DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat, owner) VALUES ('W', now(), NULL), ('T', now(), NULL), ('T', NULL, gen_random_uuid())",
    ),
];

const NOT_SERVED: &[(&str, &str, &str)] = &[
    (
        r#"{"ttl": true}"#,
        "CREATE TABLE {q}_parts (task bigint REFERENCES {q})",
        "(expires) VALUES (now())",
    ),
    (
        r#"{"zombie": true}"#,
        "CREATE TRIGGER own AFTER DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat) VALUES ('Z', now())",
    ),
    (
        r#"{"delayed": true}"#,
        "CREATE TRIGGER own AFTER UPDATE OF status ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat) VALUES ('W', now())",
    ),
];

/// Returns whether a job worker is seen while tasks of a new queue are served.
fn is_served_by_job_worker((features, additions, tasks): (&str, &str, &str)) -> bool {
    let database = Database::new("fires");
    let mut c = database.client();
    c.batch_execute(
        "CREATE TABLE customers (id int PRIMARY KEY); INSERT INTO customers VALUES (1);
         CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    )
    .unwrap();
    let options = json!({"features": features.parse::<Value>().unwrap()});
    let mut q = Queue::make(&database.name, "jobs", COLUMNS, &options);
    q.sql(additions);
    let mut is_seen = false;
    for _ in 0..3 {
        q.sql(&format!("INSERT INTO {{q}} {tasks}"));
        wait_until("no task is due", || {
            is_seen |= !workers(&mut c, "xqueue job worker").is_empty();
            let due = "SELECT count(*) FROM jobs t WHERE status IN ('W', 'T', 'Z')
                OR (to_jsonb(t)->>'expires')::timestamptz <= now()";
            scalar::<i64>(&mut c, due, &[]) == 0
        });
    }
    q.sql("SET client_min_messages = warning; DROP TABLE IF EXISTS {q}_parts");
    is_seen
}

#[test]
fn the_database_worker_fires_nothing() {
    for case in SERVED {
        assert!(!is_served_by_job_worker(*case), "{case:?}");
    }
    for case in NOT_SERVED {
        assert!(is_served_by_job_worker(*case), "{case:?}");
    }
}
