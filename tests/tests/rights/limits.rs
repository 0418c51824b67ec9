//! No role can exhaust shared resources: sessions and queue slots.

use xqueue_tests::*;

const DAY: i64 = 86_400;

/// Creates a role for which a superuser has changed a setting.
fn role_with(setting: &str) -> Role {
    let role = Role::create();
    connect().run(&format!("ALTER ROLE {} SET xqueue.{setting}", role.name));
    role
}

/// Opens a session that is not the connection's own.
fn open_another(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify(grace => '1 hour', local => true)::text", &[])
}

fn end(c: &mut Client, session: &str) {
    c.run(&format!("SELECT xqueue.identify('{session}', '0', local => true)"));
}

/// Waits until the worker has left so many of the role's sessions.
#[track_caller]
fn wait_for_sessions(role: &Role, count: i64) {
    let rows = "SELECT count(*) FROM xqueue.session WHERE role::text = $1";
    let mut admin = connect();
    wait_until("the worker has removed the others", || {
        scalar::<i64>(&mut admin, rows, &[&role.name]) == count
    });
}

#[test]
fn sessions_of_a_role_are_limited() {
    const FULL: &str = "no more than 5 identified sessions";
    let role = role_with("max_sessions_per_role = 5");
    let mut c = role.client();
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
        c.run("RESET xqueue.session_grace");
    }
    expect_error(&mut c, "SET xqueue.max_sessions_per_role = 9", "42501", "permission denied");
    let mine: String = scalar(&mut c, "SELECT xqueue.identify()::text", &[]);
    // Another connection of the role cannot keep that session either.
    let keep = format!("SELECT xqueue.identify('{mine}', grace => '1 hour')");
    expect_error(&mut role.client(), &keep, "53400", FULL);
    wait_for_sessions(&role, 5);
    // Existing sessions stay usable, and other roles are not limited by this role.
    c.run(&format!("SELECT xqueue.identify('{}', local => true)", sessions[0]));
    let other = Role::create();
    let of_another = open_another(&mut other.client());
    end(&mut other.client(), &of_another);
    // A session that ends makes room for another.
    end(&mut c, &sessions.remove(0));
    wait_for_sessions(&role, 4);
    sessions.push(open_another(&mut c));
    sessions.iter().for_each(|session| end(&mut c, session));
}

/// Uncommitted sessions count. The openers do not wait for each other, and the limit holds in any order of commits.
#[test]
fn sessions_that_are_being_opened_are_counted() {
    let role = role_with("max_sessions_per_role = 2");
    let (mut first, mut second) = (role.client(), role.client());
    second.run("SET statement_timeout = '10s'");
    let kept = open_another(&mut first);
    first.run("BEGIN");
    open_another(&mut first);
    let open = "SELECT xqueue.identify(grace => '1 hour', local => true)::text";
    expect_error(&mut second, open, "53400", "no more than 2");
    first.run("ROLLBACK");
    let session = open_another(&mut second);
    // An uncommitted renewal does not count as another session.
    connect().run(&format!(
        "UPDATE xqueue.session SET lease = clock_timestamp() + '10 min' WHERE uuid = '{kept}'"
    ));
    end(&mut second, &session);
    wait_for_sessions(&role, 1);
    first.run(&format!("BEGIN; SELECT xqueue.identify('{kept}', local => true)"));
    let session = open_another(&mut second);
    first.run("COMMIT");
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
    c.run("SELECT xqueue.identify(grace => '30 days')");
    let longer = "SELECT xqueue.identify(grace => '31 days')";
    expect_error(&mut c, longer, "22023", "must not be longer");
    assert_eq!(scalar::<i64>(&mut c, shown, &[]), 30 * DAY);
    c.run("SELECT xqueue.identify(grace => '0')");
    // The setting that every role can change is bounded by the setting that only a superuser can change.
    let hasty = role_with("max_session_grace = '2 s'");
    let mut c = hasty.client();
    c.run("SET xqueue.session_grace = '10 d'; SELECT xqueue.identify()");
    assert_eq!(scalar::<i64>(&mut c, shown, &[]), 2);
    let mut superuser = connect();
    superuser.run("SELECT xqueue.identify(grace => '1 year')");
    superuser.run("SELECT xqueue.identify(grace => '0')");
}

fn client_in(cluster: &Cluster, database: &str, role: &str) -> Client {
    open(cluster.config().dbname(database).user(role))
}

fn client_of(cluster: &Cluster, role: &str) -> Client {
    client_in(cluster, "postgres", role)
}

/// Starts a server with the extension in two databases, and with the role greedy, a member of the role helper.
fn two_databases(settings: &str) -> Cluster {
    let cluster = Cluster::new(settings);
    let mut admin = cluster.client();
    admin.run("CREATE ROLE greedy LOGIN; CREATE ROLE helper LOGIN; GRANT helper TO greedy");
    for mut c in [admin, cluster.new_database("second")] {
        c.run("GRANT CREATE ON SCHEMA public TO PUBLIC");
    }
    cluster
}

fn create_queues(c: &mut Client, names: &[&str]) {
    names.iter().for_each(|name| c.run(&format!("SELECT xqueue.create('{name}')")));
}

/// Asserts that a statement is refused because of the limit for each role.
#[track_caller]
fn exceeds(c: &mut Client, sql: &str, words: &str) {
    let error = expect_error(c, sql, "53400", words);
    let hint = error.hint().unwrap_or_default();
    assert!(hint.contains("xqueue.max_queues_per_role"), "{error:?}");
    c.run("ROLLBACK");
}

const MORE: &str = "SELECT xqueue.create('more')";

/// The queues of two roles, one of which creates as many as it can.
#[test]
fn queues_of_a_role_are_limited() {
    const FULL: &str = "no more than 5 queues";
    let cluster = two_databases("xqueue.max_queues = 10\n");
    cluster.client().run("CREATE ROLE modest LOGIN");
    let mut c = client_of(&cluster, "greedy");
    create_queues(&mut c, &["a", "b", "c", "d", "e"]);
    exceeds(&mut c, MORE, FULL);
    exceeds(&mut client_in(&cluster, "second", "greedy"), MORE, FULL);
    expect_error(&mut c, "SET xqueue.max_queues_per_role = 9", "42501", "permission denied");
    c.run("SELECT xqueue.upgrade('a', '{\"features\": {\"delayed\": true}}')");
    cluster.assert_quiet();
    // Queues still count after a restart has cleared shared memory, also those that the worker cannot describe.
    c.run("ALTER TABLE d DROP COLUMN status CASCADE; ALTER TABLE e DROP COLUMN status CASCADE");
    cluster.stop("fast");
    cluster.start();
    let mut superuser = cluster.client();
    let broken = "SELECT count(*) = 2 FROM xqueue.queues WHERE error IS NOT NULL";
    wait_until("the worker has seen them", || scalar(&mut superuser, broken, &[]));
    exceeds(&mut client_in(&cluster, "second", "greedy"), MORE, FULL);
    let mut c = client_of(&cluster, "greedy");
    exceeds(&mut c, MORE, FULL);
    c.run("SELECT xqueue.drop('a'); SELECT xqueue.create('a')");
    c.run("BEGIN; DROP TABLE a; SELECT xqueue.create('f'); COMMIT");
    exceeds(&mut c, MORE, FULL);
    let mut modest = client_of(&cluster, "modest");
    create_queues(&mut modest, &["m", "n", "o", "p", "q"]);
    expect_error(&mut superuser, MORE, "53400", "more than 10 queues");
    modest.run("SELECT xqueue.downgrade('m')");
    superuser.run("ALTER ROLE greedy SET xqueue.max_queues_per_role = 6");
    client_of(&cluster, "greedy").run(MORE);
}

/// Slots used by a prepared transaction come back, for each command and for each outcome.
fn slots_of_queues_that_prepared_transactions_made_come_back(c: &mut Client) {
    c.run("CREATE TABLE present (id bigint PRIMARY KEY)");
    for (make, end) in [
        ("SELECT xqueue.create('made')", "ROLLBACK"),
        ("SELECT xqueue.upgrade('present')", "ROLLBACK"),
        ("SELECT xqueue.upgrade('present')", "COMMIT"),
        ("SELECT xqueue.downgrade('present')", "COMMIT"),
        ("SELECT xqueue.create('made')", "COMMIT"),
        ("DROP TABLE made", "COMMIT"),
    ] {
        c.run(&format!("BEGIN; {make}; PREPARE TRANSACTION 'made'"));
        c.run(&format!("{end} PREPARED 'made'"));
        let others = 2 - scalar::<i64>(c, "SELECT count(*) FROM xqueue.queue", &[]);
        let create = (1..=others).map(|n| format!("SELECT xqueue.create('other_{n}');"));
        let create = create.collect::<String>();
        wait_until(&format!("there is room after {make}, {end}"), || {
            c.batch_execute(&create).is_ok()
        });
        for n in 1..=others {
            c.run(&format!("SELECT xqueue.drop('other_{n}')"));
        }
    }
}

/// A member of another role can give it queues by each command, up to that role's limit.
#[test]
fn queues_that_are_given_to_another_role_are_counted_for_that() {
    const FULL: &str = "role \"helper\" may have no more than 3 queues";
    let cluster = two_databases("xqueue.max_queues = 20\nxqueue.max_queues_per_role = 3\n");
    let mut superuser = cluster.client();
    let mut second = client_in(&cluster, "second", "greedy");
    let mut c = client_of(&cluster, "greedy");
    create_queues(&mut c, &["a", "b", "c"]);
    c.run("ALTER TABLE a OWNER TO helper; ALTER TABLE b OWNER TO helper");
    c.run("BEGIN; ALTER TABLE c OWNER TO helper");
    // A queue that the transaction gives away no longer counts for the giver.
    create_queues(&mut c, &["d", "e"]);
    c.run("COMMIT; SELECT xqueue.create('f')");
    for sql in [
        "ALTER TABLE d OWNER TO helper",
        "REASSIGN OWNED BY greedy TO helper",
        "DO $$ BEGIN ALTER TABLE d OWNER TO helper; END $$",
        "BEGIN; ALTER TABLE d OWNER TO helper; SELECT xqueue.stats('d'); COMMIT",
        "BEGIN; ALTER TABLE d OWNER TO helper; PREPARE TRANSACTION 'given'",
    ] {
        exceeds(&mut c, sql, FULL);
    }
    let owners = "SELECT string_agg(relname || ' ' || relowner::regrole, ', ' ORDER BY relname) \
                  FROM pg_class JOIN xqueue.queue ON relation = oid";
    let all: String = scalar(&mut superuser, owners, &[]);
    assert_eq!(all, "a helper, b helper, c helper, d greedy, e greedy, f greedy");
    // A transfer that is rolled back frees no slot for the giver, in no database.
    c.run(
        "BEGIN; SAVEPOINT s; ALTER TABLE d OWNER TO helper; SELECT xqueue.stats('d'); ROLLBACK TO s",
    );
    let own = "role \"greedy\" may have no more than 3 queues";
    exceeds(&mut second, MORE, own);
    c.run("COMMIT");
    exceeds(&mut second, MORE, own);
    exceeds(&mut c, MORE, own);
    // The roles can swap queues, and an ordinary table does not count.
    c.run(
        "BEGIN; ALTER TABLE a OWNER TO greedy; ALTER TABLE d OWNER TO helper; COMMIT;
         CREATE TABLE plain (id int); ALTER TABLE plain OWNER TO helper",
    );
    c.run("ALTER TABLE d ALTER COLUMN payload SET STATISTICS 10");
    c.run("SELECT xqueue.drop('d'); ALTER TABLE e OWNER TO helper");
    exceeds(&mut c, "ALTER TABLE f OWNER TO helper", FULL);
    // The limit applies to the role that gives the queue away, not to the role that is active at commit.
    let given = "BEGIN; SET LOCAL ROLE greedy; ALTER TABLE f OWNER TO helper; RESET ROLE; COMMIT";
    exceeds(&mut superuser, given, FULL);
    // A superuser is only limited by max_queues. A role with too many queues can go on using them.
    superuser.run("BEGIN; ALTER TABLE f OWNER TO helper; SET LOCAL ROLE greedy; COMMIT");
    c.run("ALTER TABLE f ALTER COLUMN payload SET STATISTICS 10; SELECT xqueue.put('f', '{}')");
    cluster.assert_quiet();
}

/// Giving a queue away and taking it back frees no slot, nor does downgrading a queue for a moment.
#[test]
fn what_is_given_away_or_downgraded_and_comes_back_leaves_no_room() {
    let cluster = two_databases("xqueue.max_queues = 20\nxqueue.max_queues_per_role = 2\n");
    let [mut greedy, mut helper] =
        ["greedy", "helper"].map(|role| client_in(&cluster, "second", role));
    let full =
        ["greedy", "helper"].map(|role| format!("\"{role}\" may have no more than 2 queues"));
    greedy.run("SELECT xqueue.create('there')");
    let mut c = client_of(&cluster, "greedy");
    c.run("CREATE TABLE a (id int PRIMARY KEY); SELECT xqueue.upgrade('a')");
    for sql in [
        "BEGIN; ALTER TABLE a OWNER TO helper; SELECT xqueue.create('b'); ALTER TABLE a OWNER TO greedy; COMMIT",
        "BEGIN; SELECT xqueue.downgrade('a', true); SELECT xqueue.create('b'); SELECT xqueue.upgrade('a'); COMMIT",
    ] {
        exceeds(&mut c, sql, &full[0]);
    }
    c.run("BEGIN; SELECT xqueue.downgrade('a', true); SELECT xqueue.create('b'); COMMIT");
    exceeds(&mut c, "SELECT xqueue.upgrade('a')", &full[0]);
    // Whether a prepared transaction commits or rolls back, neither role exceeds its limit.
    client_of(&cluster, "helper").run("SELECT xqueue.create('h')");
    for end in ["ROLLBACK", "COMMIT"] {
        c.run("BEGIN; ALTER TABLE b OWNER TO helper; PREPARE TRANSACTION 'given'");
        exceeds(&mut greedy, MORE, &full[0]);
        exceeds(&mut helper, MORE, &full[1]);
        c.run(&format!("{end} PREPARED 'given'"));
        let (full, other) = match end {
            "ROLLBACK" => (&mut greedy, &mut helper),
            _ => (&mut helper, &mut greedy),
        };
        wait_until("the other has room again", || other.batch_execute(MORE).is_ok());
        other.run("SELECT xqueue.drop('more')");
        exceeds(full, MORE, "may have no more than 2 queues");
    }
    cluster.assert_quiet();
}

/// With only two slots for queues, a leaked slot is noticed soon.
#[test]
fn slots_of_queues_that_came_to_nothing_or_are_gone_are_given_back() {
    let cluster = Cluster::new("xqueue.max_queues = 2\n");
    let mut c = cluster.client();
    slots_of_queues_that_prepared_transactions_made_come_back(&mut c);
    cluster.assert_quiet();
    c.run("SELECT xqueue.create('lasting')");
    for round in 0..4 {
        c.run("BEGIN; SELECT xqueue.create('q'); ROLLBACK");
        c.run("SELECT xqueue.create('q'); DROP TABLE q");
        c.run("SELECT xqueue.create('q'); SELECT xqueue.downgrade('q', true); DROP TABLE q");
        c.run("BEGIN; SELECT xqueue.create('q'); SAVEPOINT s; DROP TABLE q; COMMIT");
        // An error after the queue has been described.
        c.run(
            "CREATE TABLE q (id bigint PRIMARY KEY); INSERT INTO q VALUES (1);
             CREATE POLICY p ON q USING (1 / (id - 1) > 0);
             ALTER TABLE q ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        );
        c.run(
            "CREATE ROLE owner; GRANT ALL ON SCHEMA public TO owner; ALTER TABLE q OWNER TO owner",
        );
        let upgrade = "SELECT xqueue.upgrade('q', '{\"features\": {\"id\": \"time64\"}}')";
        expect_error(&mut c, upgrade, "22012", "division by zero");
        c.run("DROP TABLE q; DROP OWNED BY owner; DROP ROLE owner");
        // Dropping a database frees the slots of its queues.
        c.run("CREATE DATABASE passing");
        let mut passing = open(cluster.config().dbname("passing"));
        passing.run("CREATE EXTENSION xqueue; SELECT xqueue.create('q')");
        expect_error(&mut c, "SELECT xqueue.create('q')", "53400", "more than 2 queues");
        drop(passing);
        c.run("DROP DATABASE passing WITH (FORCE)");
        c.run("SELECT xqueue.create('q'); DROP SCHEMA public CASCADE; CREATE SCHEMA public");
        println!("round {round}");
        c.run("SELECT xqueue.create('lasting')");
    }
}
