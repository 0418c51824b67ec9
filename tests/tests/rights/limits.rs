//! No role can exhaust shared resources: sessions and queue slots.

use xqueue_tests::*;

const DAY: i64 = 86_400;

/// Creates a role for which a superuser has changed a setting.
fn role_with(setting: &str) -> Role {
    let role = Role::create();
    connect().batch_execute(&format!("ALTER ROLE {} SET xqueue.{setting}", role.name)).unwrap();
    role
}

/// Opens a session that is not the connection's own.
fn open_another(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify(grace => '1 hour', local => true)::text", &[])
}

fn end(c: &mut Client, session: &str) {
    c.batch_execute(&format!("SELECT xqueue.identify('{session}', '0', local => true)")).unwrap();
}

#[test]
fn sessions_of_a_role_are_limited() {
    const FULL: &str = "no more than 5 identified sessions";
    let role = role_with("max_sessions_per_role = 5");
    let (mut c, mut admin) = (role.client(), connect());
    let mut sessions: Vec<String> = (0..5).map(|_| open_another(&mut c)).collect();
    for call in [
        "SELECT xqueue.identify(grace => '1 hour', local => true)",
        "SELECT xqueue.identify(grace => '0', local => true)",
        "SELECT xqueue.identify(grace => '1 hour')",
        "SET xqueue.session_grace = '1 h'; SELECT xqueue.identify()",
    ] {
        let error = expect_error(&mut c, call, "53400", FULL);
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("xqueue.max_sessions_per_role"), "{error:?}");
        c.batch_execute("RESET xqueue.session_grace").unwrap();
    }
    expect_error(&mut c, "SET xqueue.max_sessions_per_role = 9", "42501", "permission denied");
    let mine: String = scalar(&mut c, "SELECT xqueue.identify()::text", &[]);
    // Another connection of the role cannot keep that session either.
    let keep = format!("SELECT xqueue.identify('{mine}', grace => '1 hour')");
    expect_error(&mut role.client(), &keep, "53400", FULL);
    let rows = format!("SELECT count(*) FROM xqueue.session WHERE role::text = '{}'", role.name);
    assert_eq!(scalar::<i64>(&mut admin, &rows, &[]), 5);
    // Existing sessions stay usable, and other roles are not limited by this role.
    c.batch_execute(&format!("SELECT xqueue.identify('{}', local => true)", sessions[0])).unwrap();
    let other = Role::create();
    let of_another = open_another(&mut other.client());
    end(&mut other.client(), &of_another);
    // A session that ends makes room for another.
    end(&mut c, &sessions.remove(0));
    wait_until("the worker has removed it", || scalar::<i64>(&mut admin, &rows, &[]) == 4);
    sessions.push(open_another(&mut c));
    sessions.iter().for_each(|session| end(&mut c, session));
}

/// Uncommitted sessions count. The openers do not wait for each other, and the limit holds in any order of commits.
#[test]
fn sessions_that_are_being_opened_are_counted() {
    let role = role_with("max_sessions_per_role = 2");
    let (mut first, mut second) = (role.client(), role.client());
    second.batch_execute("SET statement_timeout = '10s'").unwrap();
    let kept = open_another(&mut first);
    first.batch_execute("BEGIN").unwrap();
    open_another(&mut first);
    let open = "SELECT xqueue.identify(grace => '1 hour', local => true)::text";
    expect_error(&mut second, open, "53400", "no more than 2");
    first.batch_execute("ROLLBACK").unwrap();
    let session = open_another(&mut second);
    // An uncommitted renewal does not count as another session.
    connect()
        .batch_execute(&format!(
            "UPDATE xqueue.session SET lease = clock_timestamp() + '10 min' WHERE uuid = '{kept}'"
        ))
        .unwrap();
    end(&mut second, &session);
    let rows = format!("SELECT count(*) FROM xqueue.session WHERE role::text = '{}'", role.name);
    let mut admin = connect();
    wait_until("the worker has removed it", || scalar::<i64>(&mut admin, &rows, &[]) == 1);
    first
        .batch_execute(&format!("BEGIN; SELECT xqueue.identify('{kept}', local => true)"))
        .unwrap();
    let session = open_another(&mut second);
    first.batch_execute("COMMIT").unwrap();
    [kept, session].iter().for_each(|session| end(&mut second, session));
}

#[test]
fn the_time_of_grace_is_limited() {
    let role = Role::create();
    let mut c = role.client();
    for grace in ["150 years", "30 days 1 second"] {
        for call in ["", ", local => true"] {
            let sql = format!("SELECT xqueue.identify(grace => '{grace}'{call})");
            let error = expect_error(&mut c, &sql, "22023", "must not be longer");
            assert!(error.hint().is_some_and(|hint| hint.contains("max_session_grace")));
        }
    }
    let shown = "SELECT extract(epoch FROM grace)::bigint FROM xqueue.sessions WHERE session = xqueue.identify()";
    c.batch_execute("SELECT xqueue.identify(grace => '30 days')").unwrap();
    assert_eq!(scalar::<i64>(&mut c, shown, &[]), 30 * DAY);
    expect_error(
        &mut c,
        "SELECT xqueue.identify(grace => '31 days')",
        "22023",
        "must not be longer",
    );
    assert_eq!(scalar::<i64>(&mut c, shown, &[]), 30 * DAY);
    c.batch_execute("SELECT xqueue.identify(grace => '0')").unwrap();
    // The setting that every role can change is bounded by the setting that only a superuser can change.
    let hasty = role_with("max_session_grace = '2 s'");
    let mut c = hasty.client();
    c.batch_execute("SET xqueue.session_grace = '10 d'; SELECT xqueue.identify()").unwrap();
    assert_eq!(scalar::<i64>(&mut c, shown, &[]), 2);
    let mut superuser = connect();
    superuser.batch_execute("SELECT xqueue.identify(grace => '1 year')").unwrap();
    superuser.batch_execute("SELECT xqueue.identify(grace => '0')").unwrap();
}

fn client_of(cluster: &Cluster, role: &str) -> Client {
    open(cluster.config().user(role))
}

/// Starts a server with the extension in two databases, and with the role greedy, a member of the role helper.
fn two_databases(settings: &str) -> Cluster {
    let cluster = Cluster::new(settings);
    let roles = "CREATE ROLE greedy LOGIN; CREATE ROLE helper LOGIN; GRANT helper TO greedy";
    cluster.client().batch_execute(roles).unwrap();
    cluster.client().batch_execute("CREATE DATABASE second").unwrap();
    open(cluster.config().dbname("second")).batch_execute("CREATE EXTENSION xqueue").unwrap();
    for database in ["postgres", "second"] {
        let grant = "GRANT CREATE ON SCHEMA public TO PUBLIC";
        open(cluster.config().dbname(database)).batch_execute(grant).unwrap();
    }
    cluster
}

/// The queues of two roles, one of which creates as many as it can.
#[test]
fn queues_of_a_role_are_limited() {
    let cluster = two_databases("xqueue.max_queues = 10\n");
    cluster.client().batch_execute("CREATE ROLE modest LOGIN").unwrap();
    let mut c = client_of(&cluster, "greedy");
    for n in 1..=5 {
        c.batch_execute(&format!("SELECT xqueue.create('greedy_{n}')")).unwrap();
    }
    let refused = |c: &mut Client| {
        let error =
            expect_error(c, "SELECT xqueue.create('more')", "53400", "no more than 5 queues");
        assert!(error.hint().is_some_and(|hint| hint.contains("xqueue.max_queues_per_role")));
        let raise = "SET xqueue.max_queues_per_role = 9";
        expect_error(c, raise, "42501", "permission denied");
    };
    refused(&mut c);
    refused(&mut open(cluster.config().dbname("second").user("greedy")));
    c.batch_execute("SELECT xqueue.upgrade('greedy_1', '{\"features\": {\"delayed\": true}}')")
        .unwrap();
    // Queues still count after a restart has cleared shared memory.
    cluster.stop("fast");
    cluster.start();
    refused(&mut client_of(&cluster, "greedy"));
    let mut c = client_of(&cluster, "greedy");
    c.batch_execute("SELECT xqueue.drop('greedy_1'); SELECT xqueue.create('greedy_1')").unwrap();
    c.batch_execute("BEGIN; DROP TABLE greedy_1; SELECT xqueue.create('greedy_6'); COMMIT")
        .unwrap();
    refused(&mut c);
    let mut modest = client_of(&cluster, "modest");
    for n in 1..=5 {
        modest.batch_execute(&format!("SELECT xqueue.create('modest_{n}')")).unwrap();
    }
    let mut superuser = cluster.client();
    expect_error(&mut superuser, "SELECT xqueue.create('more')", "53400", "more than 10 queues");
    modest.batch_execute("SELECT xqueue.downgrade('modest_1')").unwrap();
    superuser.batch_execute("ALTER ROLE greedy SET xqueue.max_queues_per_role = 6").unwrap();
    client_of(&cluster, "greedy").batch_execute("SELECT xqueue.create('more')").unwrap();
    cluster.assert_quiet();
}

/// Slots used by a prepared transaction come back, for each command and for each outcome.
#[test]
fn slots_of_queues_that_prepared_transactions_made_come_back() {
    let cluster = Cluster::new("xqueue.max_queues = 2\n");
    let mut c = cluster.client();
    c.batch_execute("CREATE TABLE present (id bigint PRIMARY KEY)").unwrap();
    for (make, end) in [
        ("SELECT xqueue.create('made')", "ROLLBACK"),
        ("SELECT xqueue.upgrade('present')", "ROLLBACK"),
        ("SELECT xqueue.upgrade('present')", "COMMIT"),
        ("SELECT xqueue.downgrade('present')", "COMMIT"),
        ("SELECT xqueue.create('made')", "COMMIT"),
        ("DROP TABLE made", "COMMIT"),
    ] {
        c.batch_execute(&format!("BEGIN; {make}; PREPARE TRANSACTION 'made'")).unwrap();
        c.batch_execute(&format!("{end} PREPARED 'made'")).unwrap();
        let others = 2 - scalar::<i64>(&mut c, "SELECT count(*) FROM xqueue.queue", &[]);
        let create = (1..=others).map(|n| format!("SELECT xqueue.create('other_{n}');"));
        let create = create.collect::<String>();
        wait_until(&format!("there is room after {make}, {end}"), || {
            c.batch_execute(&create).is_ok()
        });
        for n in 1..=others {
            c.batch_execute(&format!("SELECT xqueue.drop('other_{n}')")).unwrap();
        }
    }
    cluster.assert_quiet();
}

/// A member of another role can give it queues by each command, up to that role's limit.
#[test]
fn queues_that_are_given_to_another_role_are_counted_for_that() {
    const FULL: &str = "role \"helper\" may have no more than 3 queues";
    let cluster = two_databases("xqueue.max_queues = 20\nxqueue.max_queues_per_role = 3\n");
    let mut superuser = cluster.client();
    let second = cluster.config().dbname("second").user("greedy").to_owned();
    let mut c = client_of(&cluster, "greedy");
    let create = |c: &mut Client, names: [&str; 3]| {
        names.iter().for_each(|q| c.batch_execute(&format!("SELECT xqueue.create('{q}')")).unwrap())
    };
    create(&mut c, ["a", "b", "c"]);
    c.batch_execute("ALTER TABLE a OWNER TO helper; ALTER TABLE b OWNER TO helper").unwrap();
    c.batch_execute("BEGIN; ALTER TABLE c OWNER TO helper").unwrap();
    // A queue that the transaction gives away no longer counts for the giver.
    c.batch_execute("SELECT xqueue.create('d'); SELECT xqueue.create('e'); COMMIT").unwrap();
    c.batch_execute("SELECT xqueue.create('f')").unwrap();
    let refused = |c: &mut Client, sql: &str| {
        let error = expect_error(c, sql, "53400", FULL);
        assert!(error.hint().is_some_and(|hint| hint.contains("xqueue.max_queues_per_role")));
        c.batch_execute("ROLLBACK").unwrap();
    };
    refused(&mut c, "ALTER TABLE d OWNER TO helper");
    refused(&mut c, "REASSIGN OWNED BY greedy TO helper");
    refused(&mut c, "DO $$ BEGIN ALTER TABLE d OWNER TO helper; END $$");
    refused(&mut c, "BEGIN; ALTER TABLE d OWNER TO helper; SELECT xqueue.stats('d'); COMMIT");
    refused(&mut c, "BEGIN; ALTER TABLE d OWNER TO helper; PREPARE TRANSACTION 'given'");
    let owners = "SELECT string_agg(relname || ' ' || relowner::regrole, ', ' ORDER BY relname) \
                  FROM pg_class JOIN xqueue.queue ON relation = oid";
    let all: String = scalar(&mut superuser, owners, &[]);
    assert_eq!(all, "a helper, b helper, c helper, d greedy, e greedy, f greedy");
    // A transfer that is rolled back frees no slot for the giver, in no database.
    c.batch_execute("BEGIN; SAVEPOINT s; ALTER TABLE d OWNER TO helper; SELECT xqueue.stats('d'); ROLLBACK TO s")
        .unwrap();
    let more = "SELECT xqueue.create('more')";
    let own = "role \"greedy\" may have no more than 3 queues";
    expect_error(&mut open(&second), more, "53400", own);
    c.batch_execute("COMMIT").unwrap();
    expect_error(&mut open(&second), more, "53400", own);
    expect_error(&mut c, more, "53400", own);
    // The roles can swap queues, and an ordinary table does not count.
    c.batch_execute(
        "BEGIN; ALTER TABLE a OWNER TO greedy; ALTER TABLE d OWNER TO helper; COMMIT;
         CREATE TABLE plain (id int); ALTER TABLE plain OWNER TO helper",
    )
    .unwrap();
    c.batch_execute("ALTER TABLE d ALTER COLUMN payload SET STATISTICS 10").unwrap();
    c.batch_execute("SELECT xqueue.drop('d'); ALTER TABLE e OWNER TO helper").unwrap();
    refused(&mut c, "ALTER TABLE f OWNER TO helper");
    // A superuser is only limited by max_queues. A role with too many queues can go on using them.
    superuser.batch_execute("ALTER TABLE f OWNER TO helper").unwrap();
    c.batch_execute(
        "ALTER TABLE f ALTER COLUMN payload SET STATISTICS 10; SELECT xqueue.put('f', '{}')",
    )
    .unwrap();
    cluster.assert_quiet();
}

/// Giving a queue away and taking it back frees no slot, nor does downgrading a queue for a moment.
#[test]
fn what_is_given_away_or_downgraded_and_comes_back_leaves_no_room() {
    let cluster = two_databases("xqueue.max_queues = 20\nxqueue.max_queues_per_role = 2\n");
    let mut elsewhere = open(cluster.config().dbname("second").user("greedy"));
    elsewhere.batch_execute("SELECT xqueue.create('there')").unwrap();
    let mut c = client_of(&cluster, "greedy");
    c.batch_execute("CREATE TABLE a (id int PRIMARY KEY); SELECT xqueue.upgrade('a')").unwrap();
    for sql in [
        "BEGIN; ALTER TABLE a OWNER TO helper; SELECT xqueue.create('b'); ALTER TABLE a OWNER TO greedy; COMMIT",
        "BEGIN; SELECT xqueue.downgrade('a', true); SELECT xqueue.create('b'); SELECT xqueue.upgrade('a'); COMMIT",
    ] {
        expect_error(&mut c, sql, "53400", "role \"greedy\" may have no more than 2 queues");
        c.batch_execute("ROLLBACK").unwrap();
    }
    c.batch_execute("BEGIN; SELECT xqueue.downgrade('a', true); SELECT xqueue.create('b'); COMMIT")
        .unwrap();
    expect_error(&mut c, "SELECT xqueue.upgrade('a')", "53400", "no more than 2 queues");
    cluster.assert_quiet();
}

/// Whether the prepared transaction commits or rolls back, neither role exceeds its limit.
#[test]
fn a_queue_that_a_prepared_transaction_gives_away_is_counted_for_both() {
    let cluster = two_databases("xqueue.max_queues = 20\nxqueue.max_queues_per_role = 2\n");
    let mut c = client_of(&cluster, "greedy");
    c.batch_execute("SELECT xqueue.create('a'); SELECT xqueue.create('b')").unwrap();
    client_of(&cluster, "helper").batch_execute("SELECT xqueue.create('h')").unwrap();
    let [mut greedy, mut helper] =
        ["greedy", "helper"].map(|role| open(cluster.config().dbname("second").user(role)));
    const MORE: &str = "SELECT xqueue.create('more')";
    let is_full = |c: &mut Client| c.batch_execute(MORE).is_err();
    for end in ["ROLLBACK", "COMMIT"] {
        c.batch_execute("BEGIN; ALTER TABLE a OWNER TO helper; PREPARE TRANSACTION 'given'")
            .unwrap();
        expect_error(&mut greedy, MORE, "53400", "\"greedy\" may have no more than 2 queues");
        expect_error(&mut helper, MORE, "53400", "\"helper\" may have no more than 2 queues");
        c.batch_execute(&format!("{end} PREPARED 'given'")).unwrap();
        let (full, other) = match end {
            "ROLLBACK" => (&mut greedy, &mut helper),
            _ => (&mut helper, &mut greedy),
        };
        wait_until("the other has room again", || !is_full(other));
        other.batch_execute("SELECT xqueue.drop('more')").unwrap();
        expect_error(full, MORE, "53400", "may have no more than 2 queues");
    }
    cluster.assert_quiet();
}

/// The limit applies to the role that gives the queue away, not to the role that is active at commit.
#[test]
fn the_limit_holds_for_the_role_that_gives_a_queue_away() {
    let cluster = Cluster::new("xqueue.max_queues = 20\nxqueue.max_queues_per_role = 1\n");
    let mut c = cluster.client();
    c.batch_execute(
        "CREATE ROLE greedy; CREATE ROLE helper; GRANT helper TO greedy; GRANT CREATE ON SCHEMA public TO PUBLIC;
         SET ROLE helper; SELECT xqueue.create('h'); SET ROLE greedy; SELECT xqueue.create('g'); RESET ROLE",
    )
    .unwrap();
    let sql = "BEGIN; SET LOCAL ROLE greedy; ALTER TABLE g OWNER TO helper; RESET ROLE; COMMIT";
    expect_error(&mut c, sql, "53400", "role \"helper\" may have no more than 1 queues");
    c.batch_execute("ROLLBACK").unwrap();
    c.batch_execute("BEGIN; ALTER TABLE g OWNER TO helper; SET LOCAL ROLE greedy; COMMIT").unwrap();
    let owner = "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'g'";
    assert_eq!(scalar::<String>(&mut c, owner, &[]), "helper");
    cluster.assert_quiet();
}

/// With only two slots for queues, a leaked slot is noticed soon.
#[test]
fn slots_of_queues_that_came_to_nothing_or_are_gone_are_given_back() {
    let cluster = Cluster::new("xqueue.max_queues = 2\n");
    let mut c = cluster.client();
    c.batch_execute("SELECT xqueue.create('lasting')").unwrap();
    for round in 0..4 {
        c.batch_execute("BEGIN; SELECT xqueue.create('q'); ROLLBACK").unwrap();
        c.batch_execute("SELECT xqueue.create('q'); DROP TABLE q").unwrap();
        c.batch_execute(
            "SELECT xqueue.create('q'); SELECT xqueue.downgrade('q', true); DROP TABLE q",
        )
        .unwrap();
        c.batch_execute("BEGIN; SELECT xqueue.create('q'); SAVEPOINT s; DROP TABLE q; COMMIT")
            .unwrap();
        // An error after the queue has been described.
        c.batch_execute(
            "CREATE TABLE q (id bigint PRIMARY KEY); INSERT INTO q VALUES (1);
             CREATE POLICY p ON q USING (1 / (id - 1) > 0);
             ALTER TABLE q ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        )
        .unwrap();
        c.batch_execute(
            "CREATE ROLE owner; GRANT ALL ON SCHEMA public TO owner; ALTER TABLE q OWNER TO owner",
        )
        .unwrap();
        let upgrade = "SELECT xqueue.upgrade('q', '{\"features\": {\"id\": \"time64\"}}')";
        expect_error(&mut c, upgrade, "22012", "division by zero");
        c.batch_execute("DROP TABLE q; DROP OWNED BY owner; DROP ROLE owner").unwrap();
        // Dropping a database frees the slots of its queues.
        c.batch_execute("CREATE DATABASE passing").unwrap();
        let mut passing = open(cluster.config().dbname("passing"));
        passing.batch_execute("CREATE EXTENSION xqueue; SELECT xqueue.create('q')").unwrap();
        expect_error(&mut c, "SELECT xqueue.create('q')", "53400", "more than 2 queues");
        drop(passing);
        c.batch_execute("DROP DATABASE passing WITH (FORCE)").unwrap();
        c.batch_execute(
            "SELECT xqueue.create('q'); DROP SCHEMA public CASCADE; CREATE SCHEMA public",
        )
        .unwrap();
        c.batch_execute("SELECT xqueue.create('lasting')")
            .unwrap_or_else(|e| panic!("{round}: {e:?}"));
    }
}
