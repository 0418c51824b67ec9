//! The worker runs an owner's triggers, and each role sets its own search_path. Neither gives a role more privileges.

use xqueue_tests::*;

/// The code of an owner's trigger runs in a worker, and must not become superuser there.
#[test]
fn an_owner_that_wants_more_than_he_has() {
    const ESCAPES: [&str; 9] = [
        "SET ROLE postgres",
        "RESET ROLE",
        "RESET SESSION AUTHORIZATION",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET LOCAL session_authorization = postgres",
        "ALTER ROLE {r} SUPERUSER",
        "CREATE ROLE {r}_more SUPERUSER",
        "INSERT INTO xqueue.queue SELECT * FROM xqueue.queue",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ];
    let role = Role::create();
    let mut q = Queue::new("priv");
    let escapes = ESCAPES.join("', '").replace("'true'", "''true''").replace("{r}", &role.name);
    q.sql(&format!("ALTER TABLE {{q}} OWNER TO {}", role.name));
    let mut c = role.client();
    q.run(
        &mut c,
        &format!(
            "CREATE TABLE {{q}}_log (escape text, got text);
             CREATE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE escape text; BEGIN
               IF OLD.status <> 'W' THEN RETURN NEW; END IF;
               FOREACH escape IN ARRAY ARRAY['{escapes}'] LOOP
                 BEGIN EXECUTE escape; EXCEPTION WHEN OTHERS THEN NULL; END;
                 INSERT INTO public.{{q}}_log VALUES (escape, current_user);
               END LOOP; RETURN NEW; END $$;
             CREATE TRIGGER own BEFORE UPDATE ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_f();
             SELECT xqueue.put('{{q}}', '{{}}', '10 milliseconds')"
        ),
    );
    q.wait_for("ready", 1);
    let log = q.ask("SELECT to_jsonb(got) FROM {q}_log");
    assert_eq!(log, vec![json!(role.name); ESCAPES.len()], "who runs after each attempt");
    let sql =
        "SELECT count(*) FROM pg_roles WHERE rolname = $1 AND rolsuper OR rolname = $1 || '_more'";
    assert_eq!(scalar::<i64>(&mut q.admin, sql, &[&role.name]), 0);
    q.mend();
}

/// A function with the rights of a superuser raises an error in a check. A take passes over the task, and leaves none
/// of these rights.
#[test]
fn a_check_that_fails_with_the_rights_of_another_role() {
    let role = Role::create();
    let mut q = Queue::new("priv");
    q.sql(&format!(
        "CREATE TABLE {{q}}_log (id bigint);
         CREATE FUNCTION {{q}}_vip(bigint) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
             INSERT INTO {{q}}_log VALUES ($1);
             IF $1 = 1 THEN RAISE 'not this one'; END IF;
             RETURN 1; END $$;
         ALTER TABLE {{q}} OWNER TO {};
         SELECT xqueue.put('{{q}}', '[{{\"id\": 1}}, {{\"id\": 2}}]')",
        role.name
    ));
    let mut c = role.client();
    q.run(
        &mut c,
        "ALTER TABLE {q} ADD CONSTRAINT odd CHECK (ts_rewrite('a'::tsquery,
             'SELECT ''a''::tsquery, ''b''::tsquery FROM {q}_vip(' || id || ')') IS NOT NULL) NOT VALID",
    );
    for take in
        ["SELECT id FROM xqueue.take(NULL::{q})", "SELECT (xqueue.take('{q}')->>'id')::int8"]
    {
        let taken: i64 = scalar(&mut c, &take.replace("{q}", &q.name), &[]);
        assert_eq!(taken, 2);
        assert_eq!(scalar::<String>(&mut c, "SELECT current_user::text", &[]), role.name);
        q.run(&mut c, "SELECT xqueue.release('{q}', 2)");
    }
    let logged = q.ask_one("SELECT to_jsonb(count(*)) FROM {q}_log WHERE id = 1");
    assert_eq!(logged, 0, "the work of a check that fails is undone");
    q.run(&mut c, "ALTER TABLE {q} DROP CONSTRAINT odd");
}

/// A role that can add code to a superuser's queue does not become superuser by that. Such roles have the right to
/// create triggers or foreign keys, or own objects that the superuser's definition uses. A foreign key to the queue
/// counts only if the worker deletes tasks.
#[test]
fn code_of_others_does_not_run_as_a_superuser() {
    for (by_attacker, by_superuser) in [
        ("CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_t()", ""),
        (
            "CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW
              EXECUTE FUNCTION suppress_redundant_updates_trigger('theirs')",
            "",
        ),
        (
            "CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW
              WHEN (ts_rewrite('a', 'SELECT tsquery ''a'', tsquery ''b'' WHERE public.{q}_v()') IS NOT NULL)
              EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "",
        ),
        (
            "CREATE TABLE {q}_c (id bigint REFERENCES {q} ON DELETE CASCADE);
          CREATE TRIGGER own AFTER DELETE ON {q}_c FOR EACH ROW EXECUTE FUNCTION {q}_t()",
            "SELECT xqueue.upgrade('{q}', '{\"features\": {\"delayed\": true, \"ttl\": true}}')",
        ),
        (
            "CREATE TRIGGER own AFTER UPDATE ON {q}_own FOR EACH ROW EXECUTE FUNCTION {q}_t()",
            "ALTER TABLE {q}_own ADD FOREIGN KEY (id) REFERENCES {q} ON UPDATE CASCADE;
             SELECT xqueue.upgrade('{q}', '{\"features\": {\"delayed\": true, \"ttl\": true}}')",
        ),
        ("CREATE DOMAIN {q}_d AS int CHECK ({q}_i(VALUE))", "ALTER TABLE {q} ADD COLUMN d {q}_d"),
        (
            "CREATE OPERATOR public.%%% (FUNCTION = {q}_i, RIGHTARG = int)",
            "ALTER TABLE {q} ADD CHECK (%%% id::int)",
        ),
        ("", "ALTER TABLE {q} ADD CHECK ({q}_i(id::int))"),
        ("", "CREATE INDEX ON {q} ({q}_i(id::int))"),
        ("", "CREATE INDEX ON {q} (id) WHERE {q}_i(id::int)"),
        ("", "ALTER TABLE {q} ADD COLUMN g boolean GENERATED ALWAYS AS ({q}_i(id::int)) STORED"),
        // The CHECK makes the worker use a statement, because only planning one evaluates the statistics expression.
        (
            "",
            "ALTER TABLE {q} ADD CHECK (id + 0 > 0); CREATE STATISTICS {q}_s ON {q}_i(id::int) FROM {q}",
        ),
        ("", "CREATE RULE own AS ON UPDATE TO {q} DO ALSO SELECT {q}_v()"),
        (
            "",
            "SELECT xqueue.upgrade('{q}', '{\"features\": {\"delayed\": true, \"on_task_change\": \"{q}_h\"}}')",
        ),
    ] {
        let (role, mut q) = (Role::create(), Queue::new("priv"));
        let mut c = role.client();
        let functions = "CREATE FUNCTION {q}_v() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                 IF current_user <> '{r}' AND current_setting('application_name') LIKE 'xqueue %' THEN
                     INSERT INTO public.{q}_log VALUES (current_user); END IF;
                 RETURN true; END $$;
             CREATE FUNCTION {q}_i(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
                 RETURN (SELECT public.{q}_v()); END $$;
             CREATE FUNCTION {q}_t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM public.{q}_v(); RETURN NEW; END $$;
             CREATE FUNCTION {q}_h(jsonb, text) RETURNS void LANGUAGE sql AS 'SELECT public.{q}_v()'";
        q.run(&mut c, &functions.replace("{r}", &role.name));
        q.sql(&format!(
            "CREATE TABLE {{q}}_log (who text); CREATE TABLE {{q}}_own (id bigint);
             GRANT ALL ON {{q}}, {{q}}_own TO {0}",
            role.name
        ));
        q.run(&mut c, by_attacker);
        q.sql(by_superuser);
        q.sql("INSERT INTO {q} (status, runat) VALUES ('W', now())");
        let what = [by_attacker, by_superuser].concat();
        wait_until(&format!("it is refused: {what}"), || q.error().contains("OWNER TO"));
        assert!(q.ask("SELECT to_jsonb(who) FROM {q}_log").is_empty(), "{what}");
        q.sql(&format!("ALTER TABLE {{q}} OWNER TO {}", role.name));
        q.wait_for("ready", 1);
        q.sql("DROP TABLE {q}_log, {q}_own CASCADE; DROP TABLE IF EXISTS {q}_c");
    }
}

/// A foreign key of a superuser's queue runs no code of the referenced table.
#[test]
fn a_superusers_queue_may_refer_to_a_table_of_others() {
    let (role, mut q) = (Role::create(), Queue::new("priv"));
    q.run(&mut role.client(), "CREATE TABLE {q}_c (id bigint PRIMARY KEY)");
    q.sql("ALTER TABLE {q} ADD customer bigint REFERENCES {q}_c");
    q.is_served(1);
    q.sql("DROP TABLE {q}_c CASCADE");
}

/// session_user is the owner in a job worker. This holds even if the owner cannot log in, has no connection left, and
/// lacks the CONNECT privilege.
#[test]
fn the_session_of_a_job_worker_is_the_owners() {
    let database = Database::new("session");
    let owner = unique("priv");
    let mut q = Queue::new_in(&database.name, "jobs");
    q.sql(&format!(
        "ALTER TABLE {{q}} ADD seen text, ADD path text;
         CREATE ROLE {owner} NOLOGIN CONNECTION LIMIT 0; GRANT CREATE ON SCHEMA public TO {owner};
         REVOKE CONNECT ON DATABASE {} FROM PUBLIC;
         CREATE FUNCTION tried(command text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
             EXECUTE command; RETURN session_user; EXCEPTION WHEN OTHERS THEN RETURN session_user; END $$;
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             NEW.seen := concat_ws(' ', session_user, current_user, current_setting('session_authorization'),
                 public.tried('RESET SESSION AUTHORIZATION'), public.tried('SET SESSION AUTHORIZATION DEFAULT'),
                 public.tried('SET SESSION AUTHORIZATION postgres'), public.tried('RESET ALL'));
             NEW.path := current_setting('search_path'); RETURN NEW; END $$;
         CREATE TRIGGER own BEFORE UPDATE ON {{q}} FOR EACH ROW EXECUTE FUNCTION note();
         ALTER TABLE {{q}} OWNER TO {owner}",
        database.name
    ));
    q.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
    q.wait_for("ready", 1);
    assert_eq!(q.ask_one("SELECT to_jsonb(seen) FROM {q}"), [&owner[..]; 7].join(" "));
    assert!(q.holds(1, "path !~ 'public'"), "nobody can add objects to a schema that is searched");
    q.sql(&format!("DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}"));
    q.abandon();
}

/// Functions and operators in a schema that is searched first must not be run by our code.
#[test]
fn a_search_path_with_traps() {
    const TRAP: &str = "LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END'";
    let mut q = Queue::new("priv");
    let schema = unique("priv_trap");
    q.sql(&format!(
        "CREATE SCHEMA {schema}; CREATE DOMAIN {schema}.uuid AS pg_catalog.uuid CHECK (false);
         CREATE DOMAIN {schema}.\"char\" AS pg_catalog.\"char\" CHECK (false)"
    ));
    for function in [
        "now() RETURNS timestamptz",
        "to_jsonb(anyelement) RETURNS jsonb",
        "record_image_ne(record, record) RETURNS boolean",
        "subqueue(anyelement) RETURNS bigint IMMUTABLE",
    ] {
        q.sql(&format!("CREATE FUNCTION {schema}.{function} {TRAP}"));
    }
    let same = ["text", "\"char\"", "int4", "int8", "uuid", "timestamptz", "interval"];
    for (left, right) in same.iter().map(|oid| (oid, oid)).chain([(&"regclass", &"oid")]) {
        let (left, right) = (format!("pg_catalog.{left}"), format!("pg_catalog.{right}"));
        q.sql(&format!(
            "CREATE FUNCTION {schema}.trap({left}, {right}) RETURNS boolean IMMUTABLE {TRAP};
             CREATE OPERATOR {schema}.= (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {schema}.trap);
             CREATE OPERATOR {schema}.<> (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {schema}.trap)"
        ));
    }
    q.sql(&format!("SET search_path = {schema}, public, pg_catalog"));
    let name = q.name.clone();
    let id = put(&mut q.admin, &name, 1);
    take_all(&mut q.admin, &name);
    release(&mut q.admin, &name, id);
    for sql in [
        "SELECT xqueue.upgrade('{q}'); SELECT xqueue.check('{q}'); SELECT xqueue.stats('{q}')",
        "SELECT xqueue.put('{q}', '{}', '10 milliseconds')",
        "SELECT xqueue.upgrade('{q}', '{\"features\": {\"buried\": true}}')",
        "SELECT xqueue.create('public.{q}_made'); SELECT xqueue.downgrade('public.{q}_made'); DROP TABLE public.{q}_made",
    ] {
        q.sql(sql);
    }
    q.sql(&format!("CREATE DOMAIN {schema}.jsonb AS pg_catalog.jsonb CHECK (false)"));
    // Objects created under this path also work without it, and on the statement path.
    let made = [("auto_increment", "priority"), ("uuid", "tube"), ("time64", "utube")];
    for (id, feature) in made {
        let features = json!({"delayed": true, "ttl": true, "ttr": true, "priority": true,
                              "retry": {"limit": 3}, "id": id, feature: true});
        q.sql(&format!(
            "SELECT xqueue.create('public.{{q}}_{id}', '{{\"features\": {features}}}');
             ALTER TABLE public.{{q}}_{id} ADD CHECK (attempts OPERATOR(pg_catalog.>=) 0)"
        ));
    }
    q.sql("RESET search_path");
    for (id, _) in made {
        let sql = "SELECT xqueue.put('{made}', '[{}, {}]');
            SELECT xqueue.release(t) FROM xqueue.take(NULL::{made}) t; UPDATE {made} SET priority = 2;
            UPDATE {made} SET status = 'W', runat = 'infinity'; DROP TABLE {made}";
        q.sql(&sql.replace("{made}", &format!("public.{{q}}_{id}")));
    }
    q.sql(&format!("DROP SCHEMA {schema} CASCADE"));
    q.wait_for("ready", 2);
}
