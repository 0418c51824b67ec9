//! Monitoring runs no code of a table's owner: no function that claims to be immutable, no policy, no cast. Changes
//! that a superuser makes to an owner's queue run as the owner.

mod trap;

use trap::Trap;
use xqueue_tests::*;

/// The queries of a monitoring role.
const LOOKS: &[&str] = &[
    "SELECT * FROM xqueue.queues",
    "SELECT * FROM xqueue.latency",
    "SELECT * FROM xqueue.metric",
    "SELECT * FROM xqueue.taken",
    "SELECT * FROM xqueue.consumers",
    "SELECT * FROM xqueue.producers",
    "SELECT * FROM xqueue.sessions",
    "SELECT xqueue.stats()",
    "SELECT xqueue.stats('{t}')",
    "SELECT xqueue.metrics()",
    "SELECT xqueue.state()",
    "SELECT xqueue.stats('{t}', '1')",
    "SELECT xqueue.stats('{t}', 5)",
    "SELECT xqueue.stats('{t}', '[1, 7]'::jsonb)",
    "SELECT xqueue.stats(NULL::{t}, ARRAY[1, 7])",
    "SELECT xqueue_internal.buried('{t}', 50)",
    "SELECT xqueue.check('{t}')",
    "SELECT xqueue.check(NULL::{t})",
];

const DRY_RUNS: &[&str] = &[
    "SELECT xqueue.upgrade('{t}', '{}', true)",
    r#"SELECT xqueue.upgrade('{t}', '{"features": {"buried": false}, "convert": {"B": "R"}}', true)"#,
    r#"SELECT xqueue.upgrade('{t}', '{"features": {"buried": false}}', true)"#,
    r#"SELECT xqueue.upgrade('{t}', '{"features": {"id": "auto_increment", "tube": true}}', true)"#,
    r#"SELECT xqueue.upgrade('{t}', '{"features": {"utube": true}}', true)"#,
];

fn kinds() -> [Value; 2] {
    [
        json!({"features": {"delayed": true, "buried": true, "ttr": 60, "ttl": true, "priority": true}}),
        json!({"features": {"delayed": true, "buried": true, "utube": true}}),
    ]
}

/// Runs all queries. A refusal is as good as a result.
fn look(trap: &mut Trap, looker: &mut Client, role: &str, looks: &[&str]) {
    for sql in looks {
        let sql = trap.named(sql);
        if let Err(error) = looker.query(&sql, &[]) {
            let refused = ["42501", "55006", "22023"].contains(&code(&error));
            assert!(refused, "{sql}: {error:?}");
        }
        trap.assert_harmless(role, &sql);
    }
}

#[test]
fn a_look_runs_nothing_of_the_owner() {
    for options in kinds() {
        let mut trap = Trap::set(&options);
        let (monitor, careless) = (trap.looker(), trap.looker());
        let (mut c, name) = (monitor.client(), monitor.name.clone());
        let sql = trap.named("SELECT count(*) FROM {t} WHERE id = 1");
        careless.client().query(&sql, &[]).unwrap();
        assert!(trap.has_caught(&careless.name), "the trap is set");
        let sql = trap.named("SELECT to_jsonb(t), kind::text FROM {t} AS t WHERE status = 'B'");
        careless.client().query(&sql, &[]).unwrap();
        assert!(trap.has_caught(&careless.name), "the trap of the casts is set");
        look(&mut trap, &mut c, &name, LOOKS);
        let check: Value = scalar(&mut c, &trap.named("SELECT xqueue.check('{t}')"), &[]);
        assert_eq!(check["ok"], json!(true), "{check}");
        let mut superuser = connect();
        look(&mut trap, &mut superuser, "postgres", LOOKS);
        look(&mut trap, &mut superuser, "postgres", DRY_RUNS);
        // Monitoring does not run a hook, a pick function or a policy either.
        trap.run_as_owner(
            r#"SELECT xqueue.upgrade('{t}', '{"features": {"on_task_change": "{t}_hook"}}');
               ALTER TABLE {t} ENABLE ROW LEVEL SECURITY; CREATE POLICY noting ON {t} USING ({t}_note(id))"#,
        );
        if options["features"]["utube"].is_null() {
            trap.run_as_owner(
                r#"SELECT xqueue.upgrade('{t}', '{"features": {"pick": "{t}_pick"}}')"#,
            );
        }
        trap.has_caught("postgres");
        look(&mut trap, &mut c, &name, LOOKS);
        look(&mut trap, &mut superuser, "postgres", LOOKS);
        look(&mut trap, &mut superuser, "postgres", DRY_RUNS);
    }
}

/// Values are shown through the output functions of their types, because a cast can be the owner's code.
#[test]
fn buried_tasks_are_shown_without_casts() {
    let trap = Trap::set(&kinds()[0]);
    let mut superuser = connect();
    let sql = trap.named("SELECT xqueue_internal.buried('{t}', 1)");
    let wanted = json!({"id": {"id": 5}, "key": "5", "attempts": null, "reason": null,
        "columns": {"made": "t", "kind": "a", "kinds": "{a,b}", "named": "b", "pair": "(a,7)", "span": "[a,b]"}});
    assert_eq!(values(&mut superuser, &sql, &[]), [wanted]);
    for (count, tasks) in [(-1, 0), (0, 0), (1, 1), (50, 2)] {
        let sql = trap.named(&format!("SELECT xqueue_internal.buried('{{t}}', {count})"));
        assert_eq!(values(&mut superuser, &sql, &[]).len(), tasks, "{count}");
    }
}

/// Missing indexes and a missing key do not make monitoring use statements.
#[test]
fn a_look_runs_nothing_of_an_owner_that_has_dropped_the_indexes() {
    let mut trap = Trap::set(&kinds()[0]);
    let monitor = trap.looker();
    trap.run_as_owner(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey;
         DO $$ DECLARE name regclass; BEGIN
           FOR name IN SELECT indexrelid FROM pg_index WHERE indrelid = '{t}'::regclass LOOP
             EXECUTE format('DROP INDEX %s CASCADE', name); END LOOP; END $$;
         CREATE INDEX ON {t} (owner) WHERE status = 'T' AND {t}_note(3)",
    );
    let (mut c, name) = (monitor.client(), monitor.name.clone());
    look(&mut trap, &mut c, &name, LOOKS);
    let sql = trap.named("SELECT tasks FROM xqueue.taken WHERE queue = '{t}'::regclass");
    assert_eq!(scalar::<i64>(&mut c, &sql, &[]), 1);
    let sql = trap.named("SELECT xqueue.stats('{t}', '7')->'state'");
    assert_eq!(scalar::<Value>(&mut c, &sql, &[]), json!("waiting"));
    look(&mut trap, &mut connect(), "postgres", LOOKS);
}

/// The conversion to jsonb would call a type's cast to json, so it is not used.
#[test]
fn a_look_runs_no_cast_of_the_key() {
    let role = Role::create();
    let (mut hostile, mut admin, t) = (role.client(), connect(), unique("trap"));
    hostile.run(&format!(
        "CREATE TYPE {t}_kind AS ENUM ('a', 'b');
         CREATE FUNCTION {t}_cast({t}_kind) RETURNS json LANGUAGE plpgsql AS $$ BEGIN
           RETURN json_build_object('as', current_user); END $$;
         CREATE CAST ({t}_kind AS json) WITH FUNCTION {t}_cast({t}_kind);
         CREATE TABLE {t} (id {t}_kind, no int, PRIMARY KEY (id, no));
         SELECT xqueue.upgrade('{t}'); INSERT INTO {t} VALUES ('a', 7)"
    ));
    let sql = format!("SELECT xqueue.stats('{t}', ROW('a'::text, 7))");
    let stats: Value = scalar(&mut admin, &sql, &[]);
    assert_eq!(stats["key"], json!({"id": "a", "no": 7}), "{stats}");
}

/// A role with only the TRUNCATE privilege triggers the same effects as TRUNCATE.
#[test]
fn a_grant_of_truncate_does_not_make_anybody_the_owner() {
    let (mut q, role) = (Queue::new("looking"), Role::create());
    let (mut c, name) = (role.client(), q.name.clone());
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF current_user = '{0}' THEN RAISE 'not by a guest'; END IF; RETURN NULL; END $$;
         CREATE TRIGGER guard BEFORE TRUNCATE ON {{q}} EXECUTE FUNCTION {{q}}_f();
         GRANT SELECT, TRUNCATE ON {{q}} TO {0}",
        role.name
    ));
    put(&mut q.admin, &name, 1);
    let truncate = format!("SELECT xqueue.truncate('{name}')");
    expect_error(&mut c, &truncate, "P0001", "not by a guest");
    q.sql(&truncate);
    q.assert_tasks(&[("total", 0)]);
    q.sql("DROP TRIGGER guard ON {q}; DROP FUNCTION {q}_f()");
}

#[test]
fn what_a_superuser_changes_runs_as_the_owner() {
    for options in kinds() {
        let mut trap = Trap::set(&options);
        let owner = trap.owner.name.clone();
        trap.run_as_owner(
            r#"SELECT xqueue.upgrade('{t}', '{"features": {"on_task_change": "{t}_hook"}}')"#,
        );
        for (sql, changes_rows) in [
            (r#"upgrade('{t}', '{"features": {"buried": false}, "convert": {"B": "R"}}')"#, true),
            (r#"upgrade('{t}', '{"features": {"delayed": false}, "convert": {"W": "R"}}')"#, true),
            (
                r#"upgrade('{t}', '{"features": {"buried": true, "delayed": true, "keep": true}}')"#,
                false,
            ),
            (r#"upgrade('{t}', '{"features": {"id": "required", "ttl": false}}')"#, false),
            ("truncate('{t}')", true),
            ("downgrade('{t}', true)", false),
        ] {
            trap.has_caught(&owner);
            // In a transaction, with deferred triggers.
            trap.run_as_superuser(&format!("BEGIN; SELECT xqueue.{sql}; COMMIT"));
            trap.assert_harmless("postgres", sql);
            assert!(trap.has_caught(&owner) || !changes_rows, "{sql} has not run as the owner");
        }
        // A table that already has a status column.
        trap.run_as_owner(
            "ALTER TABLE {t} DISABLE TRIGGER fired; ALTER TABLE {t} DISABLE TRIGGER put_off;
             ALTER TABLE {t} ADD COLUMN status \"char\"; INSERT INTO {t} VALUES (1, '{}');
             ALTER TABLE {t} ENABLE TRIGGER fired; ALTER TABLE {t} ENABLE TRIGGER put_off",
        );
        trap.has_caught(&owner);
        let upgrade =
            r#"SELECT xqueue.upgrade('{t}', '{"fields": {"status": "status"}, "existing": "D"}')"#;
        trap.run_as_superuser(upgrade);
        trap.assert_harmless("postgres", upgrade);
        assert!(trap.has_caught(&owner), "it has given a row a status as the owner");
        let sql = trap.named("SELECT status::text FROM {t}");
        assert_eq!(scalar::<String>(&mut trap.admin, &sql, &[]), "D");
        // Resets the trap: the SELECT above ran as the superuser.
        trap.has_caught("postgres");
        trap.run_as_superuser("SELECT xqueue.drop('{t}')");
        trap.assert_harmless("postgres", "drop");
    }
}

/// Changes run as the owner, who does not see all rows of a table with forced row security.
#[test]
fn rows_that_are_hidden_from_the_owner_are_not_passed_over() {
    let mut trap = Trap::set(&kinds()[0]);
    trap.run_as_owner(
        "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY; ALTER TABLE {t} FORCE ROW LEVEL SECURITY",
    );
    let convert = trap.named(
        r#"SELECT xqueue.upgrade('{t}', '{"features": {"buried": false}, "convert": {"B": "R"}}')"#,
    );
    let mut superuser = connect();
    let error = expect_error(&mut superuser, &convert, "55000", "row security hides tasks");
    assert!(error.hint().is_some_and(|hint| hint.contains("NO FORCE")), "{error:?}");
    trap.run_as_owner("ALTER TABLE {t} NO FORCE ROW LEVEL SECURITY");
    trap.run_as_superuser(&convert);
    let sql = trap.named("SELECT xqueue.stats('{t}')->'tasks'->'buried'");
    assert_eq!(scalar::<Value>(&mut superuser, &sql, &[]), json!(0));
}

/// Counters cover all rows, so a role that sees only some rows does not see the counters.
#[test]
fn counts_are_hidden_where_row_security_hides_rows() {
    let mut q = Queue::new("looking");
    let (role, name) = (Role::create(), q.name.clone());
    let mut c = role.client();
    put(&mut q.admin, &name, 1);
    put(&mut q.admin, &name, 2);
    take_all(&mut q.admin, &name);
    q.sql(&format!("GRANT SELECT ON {{q}} TO {}", role.name));
    let lists = [
        "SELECT count(*) FROM xqueue.stats() AS s WHERE s->>'queue' = 'public.{q}'",
        "SELECT count(*) FROM xqueue.queues WHERE queue = '{q}'::regclass",
        "SELECT count(DISTINCT queue) FROM xqueue.taken WHERE queue = '{q}'::regclass",
        "SELECT count(*) FROM xqueue.metrics() AS m WHERE strpos(m, '{q}') > 0",
    ]
    .map(|sql| sql.replace("{q}", &name));
    let named = ["stats('{q}')", "stats('{q}', 1)", "check('{q}')"]
        .map(|call| format!("SELECT xqueue.{}", call.replace("{q}", &name)));
    let sees = |c: &mut Client| lists.clone().map(|sql| scalar::<i64>(c, &sql, &[]));
    assert_eq!(sees(&mut c), [1; 4]);
    q.sql("ALTER TABLE {q} ENABLE ROW LEVEL SECURITY");
    assert_eq!(sees(&mut c), [0; 4]);
    for call in &named {
        let error = expect_error(&mut c, call, "42501", "permission denied");
        assert!(error.hint().is_some_and(|hint| hint.contains("BYPASSRLS")), "{error:?}");
        assert!(error.detail().is_some_and(|detail| detail.contains("Row security")), "{error:?}");
    }
    q.sql(&format!("CREATE POLICY all_rows ON {{q}} TO {} USING (true)", role.name));
    assert_eq!(sees(&mut c), [0; 4], "what a policy says is not looked at");
    assert_eq!(values(&mut c, &format!("SELECT xqueue.peek('{name}', 1)"), &[]).len(), 1);
    // Waiting consumers are hidden too.
    let waiter = Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s')"));
    q.wait_for_consumers(1);
    let sql = format!("SELECT count(*) FROM xqueue.consumers WHERE queue = '{name}'::regclass");
    assert_eq!(scalar::<i64>(&mut c, &sql, &[]), 0);
    put(&mut q.admin, &name, 3);
    waiter.task();
    q.sql(&format!("ALTER ROLE {} BYPASSRLS", role.name));
    assert_eq!(sees(&mut c), [1; 4]);
    for call in &named {
        assert_eq!(values(&mut c, call, &[]).len(), 1);
    }
}

/// `check` returns the problem instead of raising an error.
#[test]
fn check_reports_a_key_and_a_column_that_are_gone() {
    for (damage, problem) in [
        ("ALTER TABLE {q} DROP CONSTRAINT {q}_pkey", "has no key"),
        ("ALTER TABLE {q} DROP COLUMN owner CASCADE", "has lost its column \\\"owner"),
        ("ALTER TABLE {q} DROP COLUMN id CASCADE", "has lost its column \\\"id"),
    ] {
        let mut q = Queue::new("looking");
        let name = q.name.clone();
        put(&mut q.admin, &name, 1);
        q.sql(damage);
        let check: Value = scalar(&mut q.admin, "SELECT xqueue.check($1::text)", &[&name]);
        assert_eq!(check["queue"], json!(format!("public.{name}")));
        assert!(check["problems"].to_string().contains(problem), "{damage}: {check}");
        // Other queues are still shown.
        scalar::<i64>(&mut q.admin, "SELECT count(*) FROM xqueue.taken", &[]);
        q.sql("DROP TABLE {q}");
        q.abandon();
    }
}
