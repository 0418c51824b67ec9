//! The worker runs an owner's triggers, and each role sets its own search_path: neither gives a role more than it
//! had.

use xqueue_tests::*;

const DELAYED: &str = r#"{"features": {"delayed": true}}"#;

#[test]
fn an_owner_that_is_no_superuser() {
    let role = Role::create();
    let mut c = role.client();
    let name = unique("priv_own");
    c.batch_execute(&format!("CREATE TABLE {name} (id bigserial PRIMARY KEY, payload jsonb); CREATE TABLE {name}_log (who text, path text)")).unwrap();
    c.batch_execute(&format!("SELECT xqueue.upgrade('{name}', '{DELAYED}')")).unwrap();
    c.batch_execute(&format!(
        "CREATE FUNCTION {name}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO public.{name}_log VALUES (current_user, current_setting('search_path'));
           RETURN NEW; END $$;
         CREATE TRIGGER own BEFORE UPDATE ON {name} FOR EACH ROW WHEN (OLD.status = 'W') EXECUTE FUNCTION {name}_f()"
    )).unwrap();
    let mut q = Queue::adopt(&database(), &name);
    c.batch_execute(&format!("SELECT xqueue.put('{name}', '{{}}', '20 milliseconds')")).unwrap();
    q.wait_for("ready", 1);
    let row = c.query_one(&format!("SELECT who, path FROM {name}_log"), &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), role.name, "the worker is the owner");
    assert!(!row.get::<_, &str>(1).contains("public"), "with a search_path nobody can step into");
    // Its own session's tasks, taken by a role that has the table's privileges only.
    take_all(&mut c, &name);
    drop(c);
    q.wait_for("ready", 1);
    q.sql("DROP TABLE {q}_log CASCADE; DROP TRIGGER own ON {q}; DROP FUNCTION {q}_f()");
    drop(q);
}

/// What an owner writes into his trigger runs in the worker: it must not become a superuser there.
#[test]
fn an_owner_that_wants_more_than_he_has() {
    for escape in [
        "SET ROLE postgres",
        "RESET ROLE",
        "RESET SESSION AUTHORIZATION",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET LOCAL session_authorization = postgres",
        "ALTER ROLE {r} SUPERUSER",
        "CREATE ROLE {r}_more SUPERUSER",
        "INSERT INTO xqueue.queue SELECT * FROM xqueue.queue",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ] {
        let role = Role::create();
        let (mut c, r) = (role.client(), &role.name);
        let name = unique("priv_esc");
        let escape = escape.replace("{r}", r);
        c.batch_execute(&format!(
            "CREATE TABLE {name} (id bigserial PRIMARY KEY, payload jsonb); SELECT xqueue.upgrade('{name}', '{DELAYED}');
             CREATE TABLE {name}_log (got text);
             CREATE FUNCTION {name}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF OLD.status = 'W' THEN BEGIN EXECUTE $x${escape}$x$; EXCEPTION WHEN OTHERS THEN NULL; END;
               INSERT INTO public.{name}_log VALUES (current_user); END IF;
               RETURN NEW; END $$;
             CREATE TRIGGER own BEFORE UPDATE ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_f();
             SELECT xqueue.put('{name}', '{{}}', '10 milliseconds')"
        )).unwrap();
        let mut q = Queue::adopt(&database(), &name);
        q.wait_for("ready", 1);
        let got: String = scalar(&mut c, &format!("SELECT got FROM {name}_log"), &[]);
        assert_eq!(&got, r, "{escape}");
        assert!(!scalar::<bool>(
            &mut q.admin,
            "SELECT rolsuper FROM pg_roles WHERE rolname = $1",
            &[r]
        ));
        assert!(!scalar::<bool>(
            &mut q.admin,
            "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1 || '_more')",
            &[r]
        ));
        q.sql("DROP TRIGGER own ON {q}; DROP FUNCTION {q}_f(); DROP TABLE {q}_log");
    }
}

/// Functions and operators of one's own in a schema that is searched first must not be run by others.
#[test]
fn a_search_path_with_traps() {
    let mut q = Queue::new("priv");
    let name = q.name.clone();
    let schema = unique("priv_trap");
    q.sql(&format!(
        "CREATE SCHEMA {schema};
         CREATE FUNCTION {schema}.trap(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
         CREATE FUNCTION {schema}.trap(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
         CREATE FUNCTION {schema}.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
         CREATE FUNCTION {schema}.to_jsonb(anyelement) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
         CREATE OPERATOR {schema}.= (LEFTARG = text, RIGHTARG = text, FUNCTION = {schema}.trap);
         CREATE OPERATOR {schema}.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = {schema}.trap);
         SET search_path = {schema}, public, pg_catalog"
    ));
    let id = put(&mut q.admin, &name, 1);
    take_all(&mut q.admin, &name);
    release(&mut q.admin, &name, id);
    q.sql(&format!("SELECT xqueue.upgrade('{name}'); SELECT xqueue.check('{name}'); SELECT xqueue.stats('{name}')"));
    q.sql("SELECT xqueue.put('{q}', '{}', '10 milliseconds')");
    q.sql(&format!("RESET search_path; DROP SCHEMA {schema} CASCADE"));
    q.wait_for("ready", 2);
}

#[test]
fn the_registry_is_written_by_our_code_only() {
    let mut q = Queue::new("priv");
    let role = Role::create();
    let (mut c, name) = (role.client(), q.name.clone());
    assert!(
        scalar::<i64>(&mut c, "SELECT count(*) FROM xqueue.queue", &[]) >= 1,
        "readable by all"
    );
    for sql in [
        "DELETE FROM xqueue.queue",
        "UPDATE xqueue.queue SET queue = queue",
        "INSERT INTO xqueue.queue SELECT * FROM xqueue.queue",
        "TRUNCATE xqueue.queue",
        "DROP TABLE xqueue.queue",
        "CREATE TABLE xqueue.mine ()",
        "CREATE FUNCTION xqueue.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ] {
        let error = try_sql(&mut c, sql).expect_err(sql);
        assert!(["42501", "42703"].contains(&code(&error)), "{sql}: {error:?}");
    }
    // The trigger functions are of no use on a table that is no queue.
    let functions: Vec<String> = c
        .query("SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'xqueue'::regnamespace AND prorettype = 'trigger'::regtype", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    for (n, function) in functions.iter().enumerate() {
        let table = format!("{name}_{n}");
        c.batch_execute(&format!("CREATE TABLE {table} (id int)")).unwrap();
        let sql = format!(
            "CREATE TRIGGER t AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {function}; INSERT INTO {table} VALUES (1)"
        );
        if let Err(e) = try_sql(&mut c, &sql) {
            assert!(!code(&e).starts_with("XX"), "{function}: {e:?}");
        }
        assert_eq!(scalar::<i32>(&mut c, "SELECT 1", &[]), 1);
    }
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn no_security_definer_and_no_function_left_open() {
    let mut c = connect();
    let sql =
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'xqueue'::regnamespace AND prosecdef";
    assert_eq!(scalar::<i64>(&mut c, sql, &[]), 0);
}
