//! A uuid that others can read is no credential, and only the connection's own code chooses its identity.

use xqueue_tests::*;

fn identity(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify()::text", &[])
}

/// Opens a session that outlives its connection.
fn open(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify(grace => '1 hour')::text", &[])
}

/// Creates a function that runs a statement and returns the SQLSTATE of its error, or the word "none".
fn trier(c: &mut Client, name: &str, properties: &str, statement: &str) {
    c.run(&format!(
        "CREATE FUNCTION {name}() RETURNS text LANGUAGE plpgsql {properties} AS $f$ BEGIN
           EXECUTE $x${statement}$x$; RETURN 'none';
         EXCEPTION WHEN OTHERS THEN RETURN sqlstate; END $f$"
    ));
}

/// Runs a statement in a worker, through a trigger of an ordinary role's queue that fires for a delayed task. Returns
/// its SQLSTATE, or "none".
fn run_by_the_worker(role: &Role, statement: &str) -> Value {
    let mut q = Queue::new("identity");
    let mut c = role.client();
    q.sql(&format!("ALTER TABLE {{q}} OWNER TO {}", role.name));
    q.run(&mut c, "CREATE TABLE {q}_log (error text)");
    trier(&mut c, &format!("{}_try", q.name), "", statement);
    q.run(
        &mut c,
        "CREATE FUNCTION {q}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF OLD.status = 'W' THEN INSERT INTO public.{q}_log SELECT public.{q}_try(); END IF;
           RETURN NEW; END $$;
         CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_f()",
    );
    q.is_served(1);
    let error = q.ask_one("SELECT to_jsonb(error) FROM {q}_log");
    q.mend();
    q.sql("DROP FUNCTION {q}_try(); DROP TABLE {q}_log");
    error
}

/// The worker would keep the session alive, and with it the tasks of the session. Tasks taken there would stay taken
/// until the worker ends.
#[test]
fn what_the_worker_runs_for_an_owner_joins_no_session() {
    let mut q = Queue::new("identity");
    let hostile = Role::create();
    q.sql(&format!("GRANT ALL ON {{q}} TO {}", hostile.name));
    let mut victim = q.client();
    let session = identity(&mut victim);
    put(&mut victim, &q.name, 1);
    take_all(&mut victim, &q.name);
    for call in [
        format!("SELECT xqueue.identify('{session}')"),
        format!("SELECT xqueue.identify('{session}', local => true)"),
        "SELECT xqueue.identify(grace => '1 hour')".into(),
        "SELECT xqueue.identify(grace => '1 hour', local => true)".into(),
        "SELECT xqueue.identify()".into(),
        format!("SELECT xqueue.take('public.{}')", q.name),
    ] {
        assert_eq!(run_by_the_worker(&hostile, &call), "0A000", "{call}");
    }
    drop(victim);
    q.wait_for("ready", 1);
}

/// A parallel worker is no client connection either.
#[test]
fn a_parallel_worker_joins_no_session() {
    let mut c = connect();
    let (name, session) = (unique("identity_parallel"), identity(&mut c));
    c.run(&format!(
        "CREATE FUNCTION {name}() RETURNS uuid LANGUAGE plpgsql PARALLEL SAFE AS
         'BEGIN RETURN xqueue.identify(''{session}''); END';
         SELECT set_config(name, 'on', false) FROM pg_settings
         WHERE name IN ('force_parallel_mode', 'debug_parallel_query')"
    ));
    expect_error(&mut c, &format!("SELECT {name}()"), "0A000", "connection of a client");
    c.run(&format!("DROP FUNCTION {name}()"));
}

/// An owner's function runs as the owner, in another role's connection, when that role maintains the owner's objects.
/// It takes no tasks for the connection, does not settle or release its tasks, and does not change its identity. This
/// holds for each command, on the direct path and with a rule on the table, which makes all calls use statements.
#[test]
fn a_security_restricted_operation_uses_no_session() {
    let hostile = Role::create();
    let mut c = hostile.client();
    let mut superuser = connect();
    let (trap, mine) = (open(&mut c), identity(&mut superuser));
    for rule in ["", "; CREATE RULE own AS ON DELETE TO {q} DO ALSO NOTHING"] {
        let features = json!({"features": {"buried": true, "ttr": "1 hour"}});
        let mut q = Queue::with("identity_restricted", COLUMNS, &features);
        q.sql(&format!("ALTER TABLE {{q}} OWNER TO {}{rule}", hostile.name));
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
        assert_eq!(take(&mut superuser, &q.name, "0", 1).len(), 1);
        // The errors are recorded, because an index expression and ANALYZE do not show them.
        q.run(
            &mut c,
            "CREATE TABLE {q}_call (call text); CREATE TABLE {q}_log (error text);
             CREATE TABLE {q}_t (id bigint); INSERT INTO {q}_t VALUES (1);
             CREATE FUNCTION {q}_note() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
               EXECUTE (SELECT 'SELECT xqueue.' || call FROM public.{q}_call);
               INSERT INTO public.{q}_log VALUES ('none');
             EXCEPTION WHEN OTHERS THEN INSERT INTO public.{q}_log VALUES (sqlstate); END $$;
             CREATE FUNCTION {q}_i(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
               IF session_user <> current_user THEN PERFORM public.{q}_note(); END IF; RETURN $1; END $$;
             CREATE INDEX {q}_x ON {q}_t (public.{q}_i(id));
             CREATE MATERIALIZED VIEW {q}_v AS SELECT public.{q}_i(1) WITH NO DATA",
        );
        for call in [
            "take('public.{q}')",
            "take(NULL::public.{q})",
            "take('public.{q}', id => 2)",
            "take('public.{q}', '1 hour')",
            "ack('public.{q}', 1)",
            "ack(NULL::public.{q}, 1)",
            "release('public.{q}', 1)",
            "bury('public.{q}', 1)",
            "touch('public.{q}', 1, '1 hour')",
            "give_back('public.{q}')",
            "give_back()",
            "identify()",
            "identify(grace => '1 hour')",
            "identify('{trap}')",
            "identify('{trap}', local => true)",
        ] {
            let call = call.replace("{trap}", &trap);
            q.run(
                &mut c,
                &format!("DELETE FROM {{q}}_call; INSERT INTO {{q}}_call VALUES ($x${call}$x$)"),
            );
            for command in
                ["REFRESH MATERIALIZED VIEW {q}_v", "ANALYZE {q}_t", "REINDEX INDEX {q}_x"]
            {
                q.run(&mut superuser, command);
                let errors = "WITH log AS (DELETE FROM {q}_log RETURNING error)
                              SELECT DISTINCT to_jsonb(error) FROM log";
                assert_eq!(q.ask(errors), ["42501"], "{call} by {command}");
            }
        }
        q.assert_tasks(&[("ready", 1), ("taken", 1), ("total", 2)]);
        assert_eq!(identity(&mut superuser), mine);
        let kept = format!("SELECT count(*) FROM xqueue.sessions WHERE session = '{mine}'");
        assert_eq!(scalar::<i64>(&mut superuser, &kept, &[]), 0);
        ack(&mut superuser, &q.name, 1);
        q.abandon();
    }
    c.run("SELECT xqueue.identify(grace => '0')");
}

/// The owner of a function cannot change the identity of the caller's connection, even if the caller is a superuser.
/// The function cannot use the caller's rights to join the caller's sessions either.
#[test]
fn a_security_definer_function_reads_the_identity_and_changes_nothing() {
    let (hostile, victim) = (Role::create(), Role::create());
    let mut c = hostile.client();
    let (name, trap) = (unique("identity_definer"), open(&mut c));
    let other = open(&mut victim.client());
    c.run(&format!(
        "CREATE FUNCTION {name}() RETURNS uuid LANGUAGE sql SECURITY DEFINER AS 'SELECT xqueue.identify()'"
    ));
    for mut caller in [victim.client(), connect()] {
        let mine = identity(&mut caller);
        let read: String = scalar(&mut caller, &format!("SELECT {name}()::text"), &[]);
        assert_eq!(read, mine, "to look does no harm");
        for (n, call) in [
            format!("SELECT xqueue.identify('{trap}')"),
            format!("SELECT xqueue.identify('{trap}', local => true)"),
            format!("SELECT xqueue.identify('{other}')"),
            format!("SELECT xqueue.identify('{mine}')"),
            format!("SELECT xqueue.identify('{mine}', grace => '1 hour')"),
            "SELECT xqueue.identify(grace => '1 hour')".into(),
            "SELECT xqueue.identify(grace => '1 hour', local => true)".into(),
            "SET LOCAL xqueue.session_grace = '1 h'; SELECT xqueue.identify()".into(),
        ]
        .iter()
        .enumerate()
        {
            let function = format!("{name}_{}_{n}", pid(&mut caller));
            trier(&mut c, &function, "SECURITY DEFINER", call);
            let error: String = scalar(&mut caller, &format!("SELECT {function}()"), &[]);
            assert_eq!(error, "42501", "{call}");
            assert_eq!(identity(&mut caller), mine, "{call}");
        }
        let kept = "SELECT count(*) FROM xqueue.sessions WHERE session = $1::text::uuid";
        assert_eq!(scalar::<i64>(&mut caller, kept, &[&mine]), 0);
    }
    c.run("SELECT xqueue.identify(grace => '0')");
}

/// A role that can read the table knows the uuids of all sessions that hold tasks.
#[test]
fn the_uuid_of_the_owner_column_opens_nothing() {
    let mut q = Queue::new("identity");
    let (name, stranger) = (q.name.clone(), Role::create());
    let (mut lasting, mut passing) = (q.client(), q.client());
    let sessions = [open(&mut lasting), identity(&mut passing)];
    for victim in [&mut lasting, &mut passing] {
        put(victim, &name, 1);
        take(victim, &name, "0", 1);
    }
    q.sql(&format!("GRANT SELECT, UPDATE, DELETE ON {{q}} TO {}", stranger.name));
    let row = "SELECT to_jsonb(s) || jsonb_build_object('version', s.xmin::text) FROM xqueue.session s \
               WHERE uuid = $1::text::uuid";
    wait_until("the worker knows", || {
        values(&mut q.admin, row, &[&sessions[0]])[0]["lease"] == "infinity"
    });
    let before = values(&mut q.admin, row, &[&sessions[0]]);
    let mut c = stranger.client();
    let owners = format!("SELECT to_jsonb(owner) FROM {name} ORDER BY id");
    assert_eq!(values(&mut c, &owners, &[]), [json!(sessions[0]), json!(sessions[1])]);
    for session in &sessions {
        for call in ["'{s}'", "'{s}', local => true", "'{s}', grace => '1 day'"] {
            let sql = format!("SELECT xqueue.identify({})", call.replace("{s}", session));
            let error = expect_error(&mut c, &sql, "42501", "permission denied for session");
            assert!(error.hint().is_some_and(|hint| hint.contains("members")), "{error:?}");
        }
    }
    assert_eq!(values(&mut q.admin, row, &[&sessions[0]]), before, "nor is it renewed");
    assert_eq!(values(&mut q.admin, row, &[&sessions[1]]), Vec::<Value>::new(), "nor kept");
    for list in ["xqueue.sessions", "xqueue_internal.session_connections()"] {
        let others = format!("SELECT to_jsonb(s) FROM {list} s WHERE s::text ~ $1");
        for session in &sessions {
            assert_eq!(values(&mut c, &others, &[session]).len(), 0, "{list}");
        }
    }
    expect_error(&mut c, "SELECT * FROM xqueue.session", "42501", "permission denied");
    let mine = identity(&mut c);
    for id in [1, 2] {
        let sql = format!("SELECT xqueue.ack('{name}', {id})");
        let error = expect_error(&mut c, &sql, "55006", "is taken by");
        // Connections of different roles never share a pool.
        assert!(error.hint().is_some_and(|hint| !hint.contains("pooler")), "{error:?}");
        assert!(!sessions.iter().any(|session| error.message().contains(session)), "{error:?}");
    }
    assert_eq!(identity(&mut c), mine);
    lasting.run("SELECT xqueue.identify(grace => '0')");
}

/// A connection that several roles use in turn, like a pool's, belongs to no single role.
#[test]
fn roles_that_share_a_connection() {
    let mut q = Queue::new("identity");
    let name = q.name.clone();
    let [pool, a, b] = [(); 3].map(|()| Role::create());
    q.sql(&format!(
        "GRANT {0}, {1} TO {2}; GRANT ALL ON {{q}} TO {0}, {1}, {2}",
        a.name, b.name, pool.name
    ));
    let set_role = |c: &mut Client, role: &Role| c.run(&format!("SET ROLE {}", role.name));
    let join = |session: &str| format!("SELECT xqueue.identify('{session}')");
    // The connection's own session belongs to the first role until another role takes with it.
    let mut shared = pool.client();
    set_role(&mut shared, &a);
    let session = identity(&mut shared);
    a.client().run(&format!("{}; SELECT xqueue.identify(grace => '0')", join(&session)));
    let mut shared = pool.client();
    set_role(&mut shared, &a);
    let session = identity(&mut shared);
    set_role(&mut shared, &b);
    let id = put(&mut shared, &name, 1);
    assert_eq!(take_all(&mut shared, &name), [id]);
    for role in [&a, &b] {
        let denied = "permission denied for session";
        expect_error(&mut role.client(), &join(&session), "42501", denied);
    }
    let mut member = pool.client();
    member.run(&join(&session));
    assert_eq!(ack(&mut member, &name, id).len(), 1);
    // A session joined as one role does not serve another role, even if the connection stays in it.
    let of_a = open(&mut a.client());
    shared.run(&format!("RESET ROLE; {}", join(&of_a)));
    let id = put(&mut shared, &name, 2);
    set_role(&mut shared, &b);
    for call in [
        format!("SELECT xqueue.take('{name}')"),
        "SELECT xqueue.identify()".into(),
        "SELECT xqueue.identify(grace => '2 hours')".into(),
    ] {
        let error = expect_error(&mut shared, &call, "42501", "permission denied for session");
        assert!(error.hint().is_some_and(|hint| hint.contains("RESET ROLE")), "{error:?}");
    }
    shared.run("RESET ROLE");
    assert_eq!(take_all(&mut shared, &name), [id]);
    let mut c = a.client();
    c.run(&join(&of_a));
    assert_eq!(ack(&mut c, &name, id).len(), 1);
    shared.run("SELECT xqueue.identify(grace => '0')");
}

/// Since 16 a member can lack both the privileges of the role and the right to SET ROLE.
#[test]
fn a_member_that_cannot_act_as_the_role() {
    let [app, member] = [(); 2].map(|()| Role::create());
    let mut admin = connect();
    if scalar::<i32>(&mut admin, "SELECT current_setting('server_version_num')::int", &[]) < 160000
    {
        return;
    }
    let session = open(&mut app.client());
    let mut c = member.client();
    let seen = "SELECT count(*) FROM xqueue.sessions";
    for (options, may) in [
        ("INHERIT FALSE, SET FALSE", false),
        ("INHERIT TRUE, SET FALSE", true),
        ("INHERIT FALSE, SET TRUE", true),
    ] {
        admin.run(&format!("GRANT {} TO {} WITH {options}", app.name, member.name));
        assert_eq!(scalar::<i64>(&mut c, seen, &[]), i64::from(may), "{options}");
        let join = format!("SELECT xqueue.identify('{session}')");
        match may {
            true => c.run(&join),
            false => {
                expect_error(&mut c, &join, "42501", "permission denied for session");
            }
        }
    }
    app.client().run(&format!("SELECT xqueue.identify('{session}', grace => '0')"));
}

/// A connection that joins and keeps a session does not become its owner.
#[test]
fn a_session_stays_its_openers() {
    let mut admin = connect();
    let [opener, member] = [(); 2].map(|()| Role::create());
    admin.run(&format!("GRANT {} TO {}", opener.name, member.name));
    let mut first = opener.client();
    let session = identity(&mut first);
    let mut second = member.client();
    second.run(&format!("BEGIN; SELECT xqueue.identify('{session}'); ROLLBACK"));
    second.run("SELECT xqueue.identify(grace => '1 hour')");
    let role = "SELECT role::text FROM xqueue.session WHERE uuid = $1::text::uuid";
    assert_eq!(scalar::<String>(&mut admin, role, &[&session]), opener.name);
    second.run("SELECT xqueue.identify(grace => '0')");
}
