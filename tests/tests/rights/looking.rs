//! Monitoring runs no code of a table's owner: no function that claims to be immutable, no policy, no cast. Changes
//! that a superuser makes to an owner's queue run as the owner.

mod trap;

use trap::Trap;
use xqueue_tests::*;

/// The queries of a monitoring role, besides those of the views.
const LOOKS: &[&str] = &[
    "SELECT xqueue.stats()",
    "SELECT xqueue.stats('{q}')",
    "SELECT xqueue.metrics()",
    "SELECT xqueue.state()",
    "SELECT xqueue.stats('{q}', '1')",
    "SELECT xqueue.stats('{q}', 5)",
    "SELECT xqueue.stats('{q}', '[1, 7]'::jsonb)",
    "SELECT xqueue.stats(NULL::{q}, ARRAY[1, 7])",
    "SELECT xqueue_internal.buried('{q}', 50)",
    "SELECT xqueue.check('{q}')",
    "SELECT xqueue.check(NULL::{q})",
];

const DRY_RUNS: &[&str] = &[
    "SELECT xqueue.upgrade('{q}', '{}', true)",
    r#"SELECT xqueue.upgrade('{q}', '{"features": {"buried": false}, "convert": {"B": "R"}}', true)"#,
    r#"SELECT xqueue.upgrade('{q}', '{"features": {"buried": false}}', true)"#,
    r#"SELECT xqueue.upgrade('{q}', '{"features": {"id": "auto_increment", "tube": true}}', true)"#,
    r#"SELECT xqueue.upgrade('{q}', '{"features": {"utube": true}}', true)"#,
];

fn kinds() -> [Value; 2] {
    [
        json!({"features": {"delayed": true, "buried": true, "ttr": 60, "ttl": true, "priority": true}}),
        json!({"features": {"delayed": true, "buried": true, "utube": true}}),
    ]
}

/// Runs all queries, and those of the views. A refusal is as good as a result.
fn look(trap: &mut Trap, looker: &mut Client, role: &str, looks: &[&str]) {
    let looks = looks.iter().map(|sql| sql.replace("{q}", &trap.q.name));
    let looks: Vec<String> = looks.chain(every_function::views(looker)).collect();
    for sql in looks {
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
        for sql in [
            "SELECT count(*) FROM {q} WHERE id = 1",
            "SELECT to_jsonb(t), kind::text FROM {q} AS t WHERE status = 'B'",
        ] {
            trap.q.run(&mut careless.client(), sql);
            assert!(trap.has_caught(&careless.name), "the trap is set");
        }
        look(&mut trap, &mut c, &name, LOOKS);
        let check = ask_one(&mut c, &trap.q.name, "SELECT xqueue.check('{q}')");
        assert_eq!(check["ok"], json!(true), "{check}");
        let mut superuser = connect();
        look(&mut trap, &mut superuser, "postgres", LOOKS);
        look(&mut trap, &mut superuser, "postgres", DRY_RUNS);
        // Monitoring does not run a hook, a pick function or a policy either.
        trap.run_as_owner(
            r#"SELECT xqueue.upgrade('{q}', '{"features": {"on_task_change": "{q}_hook"}}');
               ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY noting ON {q} USING ({q}_note(id))"#,
        );
        if options["features"]["utube"].is_null() {
            trap.run_as_owner(
                r#"SELECT xqueue.upgrade('{q}', '{"features": {"pick": "{q}_pick"}}')"#,
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
    let mut trap = Trap::set(&kinds()[0]);
    let wanted = json!({"id": {"id": 5}, "key": "5", "attempts": null, "reason": null,
        "columns": {"made": "t", "kind": "a", "kinds": "{a,b}", "named": "b", "pair": "(a,7)", "span": "[a,b]"}});
    assert_eq!(trap.q.ask("SELECT xqueue_internal.buried('{q}', 1)"), [wanted]);
    for (count, tasks) in [(-1, 0), (0, 0), (1, 1), (50, 2)] {
        let buried = trap.q.ask(&format!("SELECT xqueue_internal.buried('{{q}}', {count})"));
        assert_eq!(buried.len(), tasks, "{count}");
    }
}

/// Missing indexes and a missing key do not make monitoring use statements.
#[test]
fn a_look_runs_nothing_of_an_owner_that_has_dropped_the_indexes() {
    let mut trap = Trap::set(&kinds()[0]);
    let monitor = trap.looker();
    trap.run_as_owner(
        "ALTER TABLE {q} DROP CONSTRAINT {q}_pkey;
         DO $$ DECLARE name regclass; BEGIN
           FOR name IN SELECT indexrelid FROM pg_index WHERE indrelid = '{q}'::regclass LOOP
             EXECUTE format('DROP INDEX %s CASCADE', name); END LOOP; END $$;
         CREATE INDEX ON {q} (owner) WHERE status = 'T' AND {q}_note(3)",
    );
    let (mut c, name) = (monitor.client(), monitor.name.clone());
    look(&mut trap, &mut c, &name, LOOKS);
    let taken = "SELECT to_jsonb(tasks) FROM xqueue.taken WHERE queue = '{q}'::regclass";
    assert_eq!(ask_one(&mut c, &trap.q.name, taken), 1);
    let state = "SELECT xqueue.stats('{q}', '7')->'state'";
    assert_eq!(ask_one(&mut c, &trap.q.name, state), "waiting");
    look(&mut trap, &mut connect(), "postgres", LOOKS);
}

/// The conversion to jsonb would call a type's cast to json, so it is not used.
#[test]
fn a_look_runs_no_cast_of_the_key() {
    let role = Role::create();
    let mut q = Queue::adopt(&database(), &unique("trap"));
    q.run(
        &mut role.client(),
        "CREATE TYPE {q}_kind AS ENUM ('a', 'b');
         CREATE FUNCTION {q}_cast({q}_kind) RETURNS json LANGUAGE sql AS 'SELECT json_build_object(1, 2)';
         CREATE CAST ({q}_kind AS json) WITH FUNCTION {q}_cast({q}_kind);
         CREATE TABLE {q} (id {q}_kind, no int, PRIMARY KEY (id, no));
         SELECT xqueue.upgrade('{q}'); INSERT INTO {q} VALUES ('a', 7)",
    );
    let stats = q.ask_one("SELECT xqueue.stats('{q}', ROW('a'::text, 7))");
    assert_eq!(stats["key"], json!({"id": "a", "no": 7}), "{stats}");
    q.abandon();
}

/// A role with only the TRUNCATE privilege triggers the same effects as TRUNCATE.
#[test]
fn a_grant_of_truncate_does_not_make_anybody_the_owner() {
    let (mut q, role) = (Queue::new("looking"), Role::create());
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF current_user = '{0}' THEN RAISE 'not by a guest'; END IF; RETURN NULL; END $$;
         CREATE TRIGGER own BEFORE TRUNCATE ON {{q}} EXECUTE FUNCTION {{q}}_f();
         GRANT SELECT, TRUNCATE ON {{q}} TO {0}; INSERT INTO {{q}} DEFAULT VALUES",
        role.name
    ));
    let truncate = format!("SELECT xqueue.truncate('{}')", q.name);
    expect_error(&mut role.client(), &truncate, "P0001", "not by a guest");
    q.sql(&truncate);
    q.assert_tasks(&[("total", 0)]);
    q.mend();
}

#[test]
fn what_a_superuser_changes_runs_as_the_owner() {
    for options in kinds() {
        let mut trap = Trap::set(&options);
        let owner = trap.owner.name.clone();
        trap.run_as_owner(
            r#"SELECT xqueue.upgrade('{q}', '{"features": {"on_task_change": "{q}_hook"}}')"#,
        );
        for (sql, changes_rows) in [
            (r#"upgrade('{q}', '{"features": {"buried": false}, "convert": {"B": "R"}}')"#, true),
            (r#"upgrade('{q}', '{"features": {"delayed": false}, "convert": {"W": "R"}}')"#, true),
            (
                r#"upgrade('{q}', '{"features": {"buried": true, "delayed": true, "keep": true}}')"#,
                false,
            ),
            (r#"upgrade('{q}', '{"features": {"id": "required", "ttl": false}}')"#, false),
            ("truncate('{q}')", true),
            ("downgrade('{q}', true)", false),
        ] {
            trap.has_caught(&owner);
            // In a transaction, with deferred triggers.
            trap.q.sql(&format!("BEGIN; SELECT xqueue.{sql}; COMMIT"));
            trap.assert_harmless("postgres", sql);
            assert!(trap.has_caught(&owner) || !changes_rows, "{sql} has not run as the owner");
        }
        // A table that already has a status column.
        trap.run_as_owner(
            "ALTER TABLE {q} DISABLE TRIGGER fired; ALTER TABLE {q} DISABLE TRIGGER put_off;
             ALTER TABLE {q} ADD COLUMN status \"char\"; INSERT INTO {q} VALUES (1, '{}');
             ALTER TABLE {q} ENABLE TRIGGER fired; ALTER TABLE {q} ENABLE TRIGGER put_off",
        );
        trap.has_caught(&owner);
        let upgrade =
            r#"SELECT xqueue.upgrade('{q}', '{"fields": {"status": "status"}, "existing": "D"}')"#;
        trap.q.sql(upgrade);
        trap.assert_harmless("postgres", upgrade);
        assert!(trap.has_caught(&owner), "it has given a row a status as the owner");
        assert_eq!(trap.q.ask_one("SELECT to_jsonb(status::text) FROM {q}"), "D");
        // Resets the trap: the SELECT above ran as the superuser.
        trap.has_caught("postgres");
        trap.q.sql("SELECT xqueue.drop('{q}')");
        trap.assert_harmless("postgres", "drop");
    }
}

/// Changes run as the owner, who does not see all rows of a table with forced row security.
#[test]
fn rows_that_are_hidden_from_the_owner_are_not_passed_over() {
    let mut trap = Trap::set(&kinds()[0]);
    trap.run_as_owner(
        "ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; ALTER TABLE {q} FORCE ROW LEVEL SECURITY",
    );
    let convert =
        r#"SELECT xqueue.upgrade('{q}', '{"features": {"buried": false}, "convert": {"B": "R"}}')"#;
    let error = trap.q.fails(convert, "55000", "row security hides tasks");
    assert!(error.hint().is_some_and(|hint| hint.contains("NO FORCE")), "{error:?}");
    trap.run_as_owner("ALTER TABLE {q} NO FORCE ROW LEVEL SECURITY");
    trap.q.sql(convert);
    assert_eq!(trap.q.ask_one("SELECT xqueue.stats('{q}')->'tasks'->'buried'"), 0);
}

/// Counters cover all rows, so a role that sees only some rows does not see the counters.
#[test]
fn counts_are_hidden_where_row_security_hides_rows() {
    let mut q = Queue::new("looking");
    let role = Role::create();
    let mut c = role.client();
    q.sql(&format!("INSERT INTO {{q}} VALUES (1), (2); GRANT SELECT ON {{q}} TO {}", role.name));
    assert_eq!(q.takes(2), [1, 2]);
    let lists = [
        "SELECT count(*) FROM xqueue.stats() AS s WHERE s->>'queue' = 'public.{q}'",
        "SELECT count(*) FROM xqueue.queues WHERE queue = '{q}'::regclass",
        "SELECT count(DISTINCT queue) FROM xqueue.taken WHERE queue = '{q}'::regclass",
        "SELECT count(*) FROM xqueue.metrics() AS m WHERE strpos(m, '{q}') > 0",
    ]
    .map(|sql| sql.replace("{q}", &q.name));
    let named = ["stats('{q}')", "stats('{q}', 1)", "check('{q}')"]
        .map(|call| format!("SELECT xqueue.{}", call.replace("{q}", &q.name)));
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
    assert_eq!(ask(&mut c, &q.name, "SELECT xqueue.peek('{q}', 1)").len(), 1);
    // Waiting consumers are hidden too.
    let waiter = Waiter::take(&mut q);
    let shown = "SELECT to_jsonb(pid) FROM xqueue.consumers WHERE queue = '{q}'::regclass";
    assert!(ask(&mut c, &q.name, shown).is_empty());
    q.sql("INSERT INTO {q} VALUES (3)");
    waiter.task();
    q.sql(&format!("ALTER ROLE {} BYPASSRLS", role.name));
    assert_eq!(sees(&mut c), [1; 4]);
    for call in &named {
        assert_eq!(values(&mut c, call, &[]).len(), 1);
    }
}
