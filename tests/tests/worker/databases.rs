//! Several databases. Administrators create, rename and drop databases, tables and the extension while the workers run.
//! No command needs a restart of the server, and no command hangs.

use xqueue_tests::*;

#[test]
fn the_extension_comes_goes_and_comes_again() {
    let database = Database::empty("ext");
    for is_prepared in [false, true, false] {
        database.client().run("CREATE EXTENSION xqueue");
        let [mut q, mut idle] = ["ext", "idle"].map(|theme| Queue::new_in(&database.name, theme));
        q.is_served(1);
        take_all(&mut q.admin, &q.name);
        q.sql("SELECT xqueue.put('{q}', '{}', '1 hour')");
        let waiter = Waiter::take(&mut idle);
        q.sql("BEGIN; SET LOCAL lock_timeout = '15s'; DROP EXTENSION xqueue CASCADE");
        if is_prepared {
            q.sql("PREPARE TRANSACTION '{q}'");
            q.sql("COMMIT PREPARED '{q}'");
        } else {
            q.sql("COMMIT");
        }
        q.abandon();
        idle.abandon();
        let (mut c, error) = waiter.error();
        assert!(!error.code().code().starts_with("XX"), "{error:?}");
        assert_eq!(scalar::<i32>(&mut c, "SELECT 1", &[]), 1);
        // The table and its rows belong to the user, and it is an ordinary table again.
        assert_eq!(q.counted()["total"], json!(2));
        q.sql("INSERT INTO {q} (payload) VALUES ('1'); UPDATE {q} SET status = 'R'; DELETE FROM {q}; DROP TABLE {q}");
    }
}

#[test]
fn create_extension_rolled_back() {
    let database = Database::empty("ext");
    let mut c = database.client();
    c.run("BEGIN; CREATE EXTENSION xqueue; ROLLBACK; BEGIN; CREATE EXTENSION xqueue");
    // The worker that came to inspect the new database leaves first.
    wait_until("nobody has asked for a worker", || state(&mut c) == "INIT");
    c.run("COMMIT");
    wait_running(&mut c);
    c.run("BEGIN; SAVEPOINT s; DROP EXTENSION xqueue; ROLLBACK TO s; COMMIT");
    assert_eq!(state(&mut c), "RUNNING");
    c.run("BEGIN; DROP EXTENSION xqueue; ROLLBACK");
    Queue::new_in(&database.name, "ext").is_served(1);
}

/// To a session that drops another extension, this one is not installed yet.
#[test]
fn another_extension_goes_while_this_one_is_installed() {
    let database = Database::empty("ext");
    let (mut c, mut other) = (database.client(), database.client());
    c.run(
        "BEGIN; CREATE EXTENSION xqueue; CREATE TABLE jobs (id bigserial PRIMARY KEY);
         SELECT xqueue.upgrade('jobs', '{\"features\": {\"capacity\": 10}}')",
    );
    other.run("DROP EXTENSION plpgsql");
    c.run("SELECT xqueue.put('jobs', '{}'); COMMIT");
    wait_running(&mut c);
    let total = "SELECT (xqueue.stats('jobs')->'tasks'->>'total')::bigint";
    assert_eq!(scalar::<i64>(&mut c, total, &[]), 1);
}

#[test]
fn drop_database() {
    for options in ["", " WITH (FORCE)"] {
        let mut database = Database::new("dropped");
        let name = database.name.clone();
        let mut q = Queue::new_in(&name, "jobs");
        q.is_served(1);
        q.sql("SELECT xqueue.put('{q}', '{}', '1 hour')");
        // FORCE ends consumers that wait and hold tasks.
        let mut holder = q.client();
        assert_eq!(take_all(&mut holder, &q.name).len(), 1);
        let waiter = (!options.is_empty()).then(|| Waiter::take(&mut q));
        q.abandon();
        if waiter.is_none() {
            drop(holder);
            leave(&mut database, q);
        }
        database.sql(&format!("DROP DATABASE {name}{options}"));
        assert!(waiter.is_none_or(|waiter| waiter.join().result.is_err()));
        // A new database can reuse the name.
        database.sql(&format!("CREATE DATABASE {name}"));
        database.client().run("CREATE EXTENSION xqueue");
        Queue::new_in(&name, "jobs").is_served(1);
        // The workers of other databases go on.
        Queue::new("after").is_served(1);
    }
}

/// Closes the test's connections to a database, with its queue. Returns the queue's name.
fn leave(database: &mut Database, mut q: Queue) -> String {
    q.abandon();
    let name = q.name.clone();
    drop(q);
    database.wait_until_alone();
    name
}

#[test]
fn rename_database() {
    let mut database = Database::new("before");
    let mut q = Queue::new_in(&database.name, "jobs");
    q.is_served(1);
    let (new, queue) = (unique("after"), leave(&mut database, q));
    database.sql(&format!("ALTER DATABASE {} RENAME TO {new}", database.name));
    database.name = new;
    Queue::adopt(&database.name, &queue).is_served(1);
}

/// A template has a worker, too, which leaves for each copy.
#[test]
fn a_database_made_from_one_that_has_the_extension() {
    let mut template = Database::new("template");
    let name = template.name.clone();
    let queue = Queue::new_in(&name, "jobs");
    let queue = leave(&mut template, queue);
    for is_template in [false, true] {
        let mut q = Queue::adopt(&name, &queue);
        q.is_served(1);
        template.sql(&format!("ALTER DATABASE {name} IS_TEMPLATE {is_template}"));
        let before = workers(&mut q.admin, "xqueue worker");
        end_worker(&mut q.admin);
        wait_until("it has another worker", || {
            let now = workers(&mut q.admin, "xqueue worker");
            !now.is_empty() && now != before
        });
        q.is_served(1);
        q.sql("SELECT xqueue.put('{q}', '{}', '300 milliseconds')");
        take_all(&mut q.admin, &queue);
        leave(&mut template, q);
        let runs = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'xqueue worker' AND datname = $1)";
        wait_until("its worker runs", || scalar(&mut template.admin, runs, &[&name]));
        let copy = Database { name: unique("copy"), admin: connect() };
        template.sql(&format!("CREATE DATABASE {} TEMPLATE {name}", copy.name));
        for db in [&name, &copy.name] {
            let mut q = Queue::adopt(db, &queue);
            q.wait_for("waiting", 0);
            q.wait_for("taken", 0);
            q.is_served(1);
            q.verify();
            q.abandon();
        }
    }
    // The server drops no template.
    template.sql(&format!("ALTER DATABASE {name} IS_TEMPLATE false"));
}

#[test]
fn drop_table_under_load() {
    let mut healthy = Queue::new("healthy");
    for _ in 0..5 {
        let mut q = Queue::new("dropped");
        let load = [
            "SELECT xqueue.put('{q}', '[{}, {}]', '1 millisecond')",
            "SELECT xqueue.ack('{q}', (t->>'id')::bigint) FROM xqueue.take('{q}', '5ms') t",
        ]
        .map(|sql| sql.replace("{q}", &q.name));
        let threads = [(); 3].map(|()| {
            let (mut c, load) = (q.client(), load.clone());
            std::thread::spawn(move || {
                let mut errors = load.iter().cycle().filter_map(|sql| try_sql(&mut c, sql).err());
                let last = errors.find(|error| code(error) != "40P01");
                assert!(last.iter().all(|error| code(error) == "42P01"), "{last:?}");
            })
        });
        wait_until("the load runs", || q.stats()["calls"]["delay"].as_i64() > Some(20));
        let end = format!("DROP TABLE {}", q.name);
        // PostgreSQL can end the DROP because of a deadlock with a writer that upgrades its lock, so it is retried.
        wait_until("the table is dropped", || try_sql(&mut q.admin, &end).is_ok());
        q.abandon();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        healthy.is_served(1);
    }
}

#[test]
fn renames_on_a_live_queue() {
    let mut q = Queue::new("renamed");
    let mut admin = q.client();
    let (table, schema) = (format!("{}_b", q.name), unique("renamed_to"));
    for (rename, name) in [
        (format!("ALTER TABLE {{q}} RENAME TO {table}"), table.clone()),
        (
            format!("CREATE SCHEMA {schema}; ALTER TABLE {{q}} SET SCHEMA {schema}"),
            format!("{schema}.{table}"),
        ),
        (format!("ALTER SCHEMA {schema} RENAME TO {schema}_b"), format!("{schema}_b.{table}")),
    ] {
        q.is_served(1);
        q.sql(&rename);
        q.name = name;
    }
    for (column, name) in
        [("runat", "when It's due"), ("status", "Zu\"\"stand"), ("owner", "select"), ("id", "Nr.")]
    {
        q.is_served(1);
        q.sql(&format!("ALTER TABLE {{q}} RENAME COLUMN {column} TO \"{name}\""));
        if column == "status" {
            q.status_is("\"Zu\"\"stand\"", LETTERS);
        }
    }
    let task = take(&mut q.client(), &q.name, "0", 1).remove(0);
    assert_eq!((&task["Nr."], &task["Zu\"stand"]), (&json!(1), &json!("T")), "{task}");
    q.wait_for("ready", 7);
    let task = q.ask_one("SELECT xqueue.take('{q}')");
    assert_eq!(ack(&mut q.admin, &q.name, task["Nr."].as_i64().unwrap()).len(), 1);
    q.is_served(1);
    let fields = "SELECT to_jsonb(fields) FROM xqueue.definitions WHERE queue = '{q}'::regclass";
    assert_eq!(q.ask_one(fields)["status"], json!("Zu\"stand"));
    drop(q);
    admin.run(&format!("DROP SCHEMA {schema}_b"));
}

#[test]
fn a_refused_command_on_the_database_leaves_its_worker_alone() {
    let mut database = Database::new("victim");
    let mut q = Queue::new_in(&database.name, "jobs");
    q.is_served(1);
    let before = workers(&mut q.admin, "xqueue worker");
    let role = Role::create();
    let (mut hostile, name) = (role.client(), database.name.clone());
    for may in ["NOCREATEDB", "CREATEDB"] {
        database.sql(&format!("ALTER ROLE {} {may}", role.name));
        for sql in [
            format!("CREATE DATABASE {name}_x TEMPLATE {name}"),
            format!("DROP DATABASE {name}"),
            format!("ALTER DATABASE {name} RENAME TO {name}_x"),
            format!("ALTER DATABASE {name} SET TABLESPACE pg_default"),
            format!("ALTER DATABASE {name} CONNECTION LIMIT 5"),
        ] {
            expect_error(&mut hostile, &sql, "42501", "");
        }
    }
    database.sql(&format!("ALTER DATABASE {name} CONNECTION LIMIT 50"));
    q.is_served(1);
    assert_eq!(workers(&mut q.admin, "xqueue worker"), before, "the same worker");
}
