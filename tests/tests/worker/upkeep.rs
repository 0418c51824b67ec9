//! Changes of tasks by the workers themselves. The database worker makes them without statements. For a table with an
//! owner's trigger, a job worker makes them by statements. The result is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use xqueue_tests::*;

/// Features, additional columns, and the columns and values of the tasks.
const CASES: &[(&str, &str, &str)] = &[
    (
        r#"{"delayed": true, "tube": true, "priority": true}"#,
        "",
        "(status, runat, tube, priority) VALUES ('W', now(), 'a', 3), ('W', now(), NULL, 1)",
    ),
    (
        r#"{"delayed": true, "utube": true}"#,
        "",
        "(status, runat, tube) SELECT 'W', now(), 'tube' || n % 3 FROM generate_series(1, 9) n",
    ),
    (
        r#"{"utube": true, "ttr": 5}"#,
        "",
        "(status, runat, tube, owner) VALUES ('T', now(), 'a', OWNER), ('R', NULL, 'a', NULL)",
    ),
    (
        r#"{"utube": {"strict": true}, "ttr": 5, "delayed": true}"#,
        "",
        "(status, runat, tube, owner) VALUES ('T', now(), 'a', OWNER), ('W', now(), 'a', NULL)",
    ),
    (
        r#"{"ttr": 5, "retry": {"limit": 3}}"#,
        ", attempts int",
        "(status, runat, owner, attempts) SELECT 'T', now(), OWNER, n \
         FROM unnest(ARRAY[NULL, -3, -1, 0, 1, 2, 3, 4, 6, 2147483646]) n",
    ),
    (
        r#"{"ttr": 5, "retry": {"limit": 2}}"#,
        ", attempts smallint, reason varchar(12)",
        "(status, runat, owner, attempts) SELECT 'T', now(), OWNER, n FROM generate_series(0, 4) n",
    ),
    (
        r#"{"ttr": 5, "retry": {"limit": 5, "backoff": 10000, "factor": 3, "max": 500000}, "ttl": 900000}"#,
        ", attempts int",
        "(status, runat, owner, attempts, expires) SELECT 'T', now(), OWNER, n, now() \
         FROM unnest(ARRAY[NULL, -1, 0, 1, 2, 3, 4, 5, 6, 9, 2147483647]) n",
    ),
    (
        r#"{"zombie": true, "delayed": true}"#,
        "",
        "(status, runat) VALUES ('Z', now()), ('Z', now() + '1 day'), ('W', now())",
    ),
    (
        r#"{"ttl": true, "delayed": true, "buried": true, "ttr": 50}"#,
        "",
        "(status, expires, owner, runat) VALUES ('R', now(), NULL, NULL), ('W', now(), NULL, '2100-01-01'), ('B', now(), NULL, NULL), \
         ('T', now(), OWNER, '2100-01-01'), ('R', now() + '1 day', NULL, NULL), ('R', NULL, NULL, NULL)",
    ),
    (r#"{}"#, "", "(status, owner) SELECT 'T', OWNER FROM generate_series(1, 5)"),
    (
        r#"{"retry": {"limit": 1}, "keep": true}"#,
        "",
        "(status, owner, attempts) SELECT 'T', OWNER, n FROM generate_series(0, 2) n",
    ),
];

/// Returns the tasks as JSON, with instants in units of ten thousand seconds from now.
const TASKS: &str = "SELECT coalesce(jsonb_agg(to_jsonb(t) || jsonb_build_object(
        'runat', round(extract(epoch FROM (to_jsonb(t)->>'runat')::timestamptz - now()) / 10000),
        'expires', round(extract(epoch FROM (to_jsonb(t)->>'expires')::timestamptz - now()) / 10000)
    ) ORDER BY id), '[]') FROM {q} t";

#[test]
fn without_statements_the_worker_does_the_same() {
    // Tasks that the worker has to act on: due tasks, and taken tasks whose owner does not exist.
    const DUE: &str = "SELECT to_jsonb(count(*)) FROM {q} t WHERE to_jsonb(t)->>'status' IN ('W', 'T', 'Z') AND (to_jsonb(t)->>'runat')::timestamptz <= now()
        OR to_jsonb(t)->>'status' IN ('R', 'W', 'B') AND (to_jsonb(t)->>'expires')::timestamptz <= now()
        OR status = 'T' AND NOT owner IS NOT DISTINCT FROM LIVE";
    let database = Database::new("upkeep");
    let mut consumer = database.client();
    let live: String = scalar(&mut consumer, "SELECT xqueue.identify()::text", &[]);
    let live = format!("'{live}'::uuid");
    for (number, (features, columns, values)) in CASES.iter().enumerate() {
        let features: Value = features.parse().unwrap();
        let mut results = vec![];
        for has_trigger in [false, true] {
            let own = columns.split(", ").filter_map(|column| column.split(' ').next());
            let own: BTreeMap<&str, &str> =
                own.filter(|name| !name.is_empty()).map(|name| (name, name)).collect();
            let options = json!({"features": features, "fields": own});
            let columns = format!("{COLUMNS}{columns}");
            let mut q = Queue::make(&database.name, &unique("upkeep"), &columns, &options);
            if has_trigger {
                q.before_each("INSERT OR UPDATE OR DELETE", "RETURN coalesce(NEW, OLD)");
            }
            // With a time to run the owner is a live session. Otherwise it is a session that does not exist, or NULL.
            let lost = ["NULL::uuid", "'00000000-0000-4000-8000-000000000001'::uuid"][number % 2];
            let owner = if features["ttr"].is_null() { lost } else { &live };
            q.sql(&format!("INSERT INTO {{q}} {}", values.replace("OWNER", owner)));
            if owner == "NULL::uuid" && values.contains("OWNER") {
                // Only a worker that begins looks for tasks without an owner.
                end_worker(&mut q.admin);
            }
            let due = DUE.replace("LIVE", &live);
            wait_until(&format!("what is due in case {number} is done"), || q.ask_one(&due) == 0);
            q.verify();
            let stats = q.stats();
            let counted = ["calls", "transitions", "tasks"].map(|what| stats[what].clone());
            results.push((q.ask_one(TASKS), counted));
            if has_trigger {
                q.sql("DROP FUNCTION {q}_f CASCADE");
            }
        }
        assert_eq!(results[0], results[1], "case {number}: {features}");
    }
}

/// If another command invalidates the table's description in the middle of a job, an empty result proves nothing.
#[test]
fn tasks_of_a_connection_that_ends_come_back_while_rights_are_given() {
    let mut q = Queue::new("granted");
    let role = Role::create();
    std::thread::scope(|scope| {
        // Dropped at the end of the test, also if it fails.
        let lasts = Arc::new(());
        for right in ["SELECT", "INSERT"] {
            let (mut c, test) = (q.client(), Arc::downgrade(&lasts));
            let grant = format!(
                "GRANT {right} ON {0} TO {1}; REVOKE {right} ON {0} FROM {1}",
                q.name, role.name
            );
            scope.spawn(move || {
                // Two threads update the same row of pg_class.
                while test.strong_count() > 0 {
                    let _ = try_sql(&mut c, &grant);
                }
            });
        }
        for _ in 0..40 {
            q.sql("INSERT INTO {q} (payload) SELECT NULL FROM generate_series(1, 5)");
            q.run(&mut q.client(), "SELECT xqueue.take('{q}', count => 5)");
            q.wait_for("taken", 0);
            q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() FROM generate_series(1, 3)");
            q.wait_for("waiting", 0);
            q.sql("DELETE FROM {q}");
        }
    });
}

/// A function that claims to be immutable and notes the kind of process it runs in.
const SPY: &str = "CREATE TABLE ran (kind text); GRANT ALL ON ran TO public;
    CREATE FUNCTION note() RETURNS void LANGUAGE sql AS
        $$ INSERT INTO public.ran SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid() $$;
    CREATE FUNCTION spy(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN PERFORM public.note(); RETURN n; END $$";

/// An owner can lock an index after the worker has checked the table, and meanwhile add an expression that a planner
/// would evaluate.
#[test]
fn the_worker_of_a_database_evaluates_nothing_that_an_owner_adds_and_waits_for_no_index() {
    let database = Database::new("spied");
    let options = json!({"features": {"delayed": true, "ttl": true, "zombie": true, "ttr": true}});
    let due = "INSERT INTO {q} (status, runat, expires, owner) VALUES ('W', SOON, NULL, NULL), ('R', NULL, SOON, NULL),
        ('Z', SOON, NULL, NULL), ('T', SOON, NULL, NULL), ('T', now() + '1 day', NULL, gen_random_uuid())";
    let mut q = Queue::make(&database.name, "spied", COLUMNS, &options);
    q.sql(SPY);
    let mut other = Queue::make(&database.name, "other", COLUMNS, &options);
    for index in ["due", "expiry", "taken", "ready"] {
        let mut owner = q.client();
        let lock = format!("BEGIN; ALTER INDEX {} SET TABLESPACE pg_default", q.index(index));
        q.sql(&due.replace("SOON", "now() + '300 milliseconds'"));
        owner.run(&lock);
        other.sql(&due.replace("SOON", "now() + '400 milliseconds'"));
        wait_until("another queue is served", || other.counted()["ready"] == json!(3));
        q.sql("CREATE STATISTICS {q}_own ON (spy(1) + id), status FROM {q}");
        owner.run("COMMIT");
        wait_until("what is due is done", || q.counted()["ready"] == json!(3));
        let ran = q.ask("SELECT DISTINCT to_jsonb(kind) FROM ran");
        assert!(!ran.contains(&json!("xqueue worker")), "{ran:?}");
        q.sql("DROP STATISTICS {q}_own; TRUNCATE {q}; TRUNCATE other");
    }
}

/// When a check refuses promotions, each task is tried once, and after that one task after each pause.
#[test]
fn tasks_whose_change_fails_rest_and_hold_up_no_other() {
    let database = Database::new("refused");
    let mut q = Queue::new_in(&database.name, "refused");
    q.sql("ALTER TABLE {q} ADD CONSTRAINT own CHECK (status <> 'R' OR id > 100)");
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() FROM generate_series(1, 120)");
    q.wait_for("ready", 20);
    for n in 1..=20 {
        q.sql("INSERT INTO {q} (status, runat) VALUES ('W', now())");
        q.wait_for("ready", 20 + n);
        let shown = q.error();
        assert!(shown.contains("task ") && shown.contains("\"own\""), "{shown}");
    }
    // Only rows that were written and rolled back are dead.
    q.sql("SELECT pg_stat_clear_snapshot()");
    let attempts = "SELECT to_jsonb(n_dead_tup + n_tup_upd) FROM pg_stat_user_tables WHERE relid = '{q}'::regclass";
    let attempts = q.ask_one(attempts);
    assert!(attempts.as_i64() < Some(400), "{attempts} attempts");
    q.sql("ALTER TABLE {q} DROP CONSTRAINT own");
    q.wait_for("waiting", 0);
    wait_until("the error is gone", || q.error().is_empty());
}

/// The place of a failed task's row can become that of another task's row, which has not failed.
#[test]
fn a_task_in_the_place_of_a_resting_one_is_tried() {
    // Transactions of other tests would keep the server from removing dead rows.
    alone();
    let database = Database::new("replaced");
    let mut q = Queue::new_in(&database.name, "replaced");
    // The server removes dead versions of rows from the page after the last version is written, not before.
    let payload = |n: i32| format!("jsonb_build_object('n', {n}, 'x', repeat('x', 1100))");
    q.sql("ALTER TABLE {q} SET (fillfactor = 50), ADD CONSTRAINT own CHECK (status <> 'R' OR payload->'n' > '0')");
    q.sql(&format!(
        "INSERT INTO {{q}} (id, status, runat, payload)
         SELECT n, 'W', now() + n * '1 ms'::interval + '1 s', '{{\"n\": 0}}' FROM generate_series(1, 16) n;
         UPDATE {{q}} SET payload = {} WHERE id = 16",
        payload(0)
    ));
    wait_until("the last task has failed", || q.error().contains("task 16:"));
    let place = q.ask_one("SELECT to_jsonb(ctid::text) FROM {q} WHERE id = 16");
    q.sql(&format!("UPDATE {{q}} SET payload = {} WHERE id = 16", payload(1)));
    q.wait_for("ready", 1);
    let put = |id: i32| {
        let task = format!("{id}, 'W', now() + '1 s', '{{\"n\": 1}}'");
        format!(
            "INSERT INTO {{q}} (id, status, runat, payload) VALUES ({task}) RETURNING to_jsonb(ctid::text)"
        )
    };
    wait_until("another task has its place", || {
        q.sql("DELETE FROM {q} WHERE id = 17");
        q.ask("SELECT to_jsonb(id) FROM {q}");
        q.ask_one(&put(17)) == place
    });
    q.ask_one(&put(18));
    wait_until("a later task is ready", || q.holds(18, "status = 'R'"));
    assert!(q.holds(17, "status = 'R'"), "it was due before");
    q.sql("ALTER TABLE {q} DROP CONSTRAINT own");
    q.wait_for("waiting", 0);
}
