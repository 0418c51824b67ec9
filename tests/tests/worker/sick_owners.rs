//! Isolation of owners: how much one owner's queues delay those of others, through the database worker, job workers and
//! recounts.

use std::collections::{BTreeMap, BTreeSet};
use xqueue_tests::*;

const COLUMNS: &str = "id bigserial PRIMARY KEY, payload jsonb, n bigint";

/// Lets all triggers of a queue fire always again.
const ENABLE_ALWAYS: &str = "
    DO $$ DECLARE t name; BEGIN FOR t IN SELECT tgname FROM pg_trigger
        WHERE tgrelid = '{q}'::regclass AND NOT tgisinternal
    LOOP EXECUTE format('ALTER TABLE {q} ENABLE ALWAYS TRIGGER %I', t); END LOOP; END $$";

fn options() -> Value {
    json!({"features": {"delayed": true}})
}

fn give(q: &mut Queue, owner: &str) {
    q.sql(&format!("GRANT CREATE ON SCHEMA public TO {owner}; ALTER TABLE {{q}} OWNER TO {owner}"));
}

/// A role in the test's own database, dropped at the end with everything that it owns there.
struct Owner {
    name: String,
    database: String,
}

impl Owner {
    fn create(database: &Database, theme: &str) -> Owner {
        let name = unique(theme);
        database.client().batch_execute(&format!("CREATE ROLE {name}")).unwrap();
        Owner { name, database: database.name.clone() }
    }

    fn queue(&self, theme: &str) -> Queue {
        let mut q = Queue::make(&self.database, &unique(theme), COLUMNS, &options());
        give(&mut q, &self.name);
        q
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let sql = format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name);
        let dropped = connect_to(&self.database).batch_execute(&sql);
        if !std::thread::panicking() {
            dropped.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
    }
}

/// Creates a trigger that notes in each task the process that promoted it, and a random number from that process.
fn note_process(q: &mut Queue, also: &str) {
    let note =
        "NEW.payload := jsonb_build_object('pid', pg_backend_pid(), 'random', random()::text)";
    q.before_each("UPDATE", &format!("{note}; {also} RETURN NEW"));
}

/// Returns the noted values of one key in the ready tasks.
fn noted(q: &mut Queue, key: &str) -> BTreeSet<String> {
    let sql = format!("SELECT payload->>'{key}' FROM {} WHERE payload ? '{key}'", q.name);
    q.admin.query(&sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// Creates a queue whose recount takes long: each of its tubes takes long to decompress, and so does its invalid status.
fn slow_to_count(database: &Database, tubes: i32) -> Queue {
    let features = json!({"features": {"delayed": true, "tube": true}});
    let mut slow = Queue::make(&database.name, &unique("slow"), COLUMNS, &features);
    slow.assert_exact();
    slow.sql(&format!(
        "ALTER TABLE {{q}} DISABLE TRIGGER USER;
         INSERT INTO {{q}} (status, runat, tube) VALUES ('W', 'infinity', repeat('x', 50000000));
         INSERT INTO {{q}} (status, runat, tube) SELECT status, runat, tube FROM {{q}}, generate_series(1, {tubes});
         INSERT INTO {{q}} (status) VALUES (repeat('x', 50000000));
         ALTER TABLE {{q}} ENABLE TRIGGER USER; {ENABLE_ALWAYS}"
    ));
    slow
}

#[test]
fn a_recount_that_takes_long_makes_no_other_queue_wait() {
    let database = Database::new("recount");
    let mut healthy = Queue::new_in(&database.name, "healthy");
    healthy.is_served(1);
    let mut slow = slow_to_count(&database, 15);
    healthy.is_served(3);
    assert_eq!(slow.stats()["exact"], json!(false), "it is counted meanwhile");
    // The recount finishes.
    wait_until("it is counted", || slow.stats()["exact"] == json!(true));
    slow.sql("TRUNCATE {q}");
}

/// A recount gives way to a session that locks the list of queues, or an index. Otherwise this session, and all others
/// behind it, would wait until everything is counted.
#[test]
fn a_recount_gives_way_to_a_session_that_needs_the_list_of_queues_or_an_index() {
    let database = Database::new("registry");
    let mut c = database.client();
    let mut slow = slow_to_count(&database, 100);
    let counting = "SELECT EXISTS (SELECT FROM pg_stat_activity JOIN pg_locks USING (pid) \
                    WHERE backend_type = 'xqueue recount' AND datname = current_database() \
                    AND relation = $1::text::regclass)";
    let ask = format!("SELECT xqueue.stats('{}')->'exact' = 'true'", slow.name);
    let toast = "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON indrelid = reltoastrelid \
                 WHERE pg_class.oid = $1::text::regclass";
    let toast: String = scalar(&mut c, toast, &[&slow.name]);
    for lock in [
        "LOCK TABLE xqueue.queue".to_owned(),
        format!("REINDEX INDEX {}_pkey", slow.name),
        format!("REINDEX INDEX {toast}"),
    ] {
        wait_until("it is counted", || scalar::<bool>(&mut c, counting, &[&slow.name]));
        c.run(&format!("BEGIN; {lock}"));
        assert!(!scalar::<bool>(&mut c, &ask, &[]), "{lock}: it was counted to the end");
        c.run("ROLLBACK");
    }
    slow.sql("TRUNCATE {q}");
}

#[test]
fn the_slow_queues_of_an_owner_do_not_keep_the_worker_from_those_of_others() {
    const QUEUES: usize = 12;
    let database = Database::new("owners");
    let owner = Owner::create(&database, "slow");
    let mut slow: Vec<Queue> = (0..QUEUES)
        .map(|_| {
            let mut q = owner.queue("slow");
            // Functions of the server itself that run far longer than a job is allowed to.
            let factorials = vec!["factorial(n)"; 40].join(" + ");
            q.sql(&format!(
                "ALTER TABLE {{q}} ADD CONSTRAINT own CHECK (status <> 'R' OR n IS NULL OR {factorials} > 0)"
            ));
            q
        })
        .collect();
    let mut healthy = Queue::new_in(&database.name, "healthy");
    healthy.is_served(1);
    for q in &mut slow {
        q.is_served(1);
    }
    for q in &mut slow {
        q.sql("INSERT INTO {q} (status, runat, n) VALUES ('W', now(), 30000)");
    }
    let mut c = database.client();
    let tried = "SELECT count(*) FROM xqueue.queues WHERE error IS NOT NULL";
    let mut count = || scalar::<i64>(&mut c, tried, &[]);
    wait_until("one of them is tried", || count() > 0);
    healthy.is_served(3);
    let tried = count();
    assert!(tried < QUEUES as i64 / 2, "{tried} of {QUEUES} before another's is served");
    for q in &mut slow {
        q.sql("UPDATE {q} SET n = NULL WHERE n IS NOT NULL");
    }
    for q in &mut slow {
        q.wait_for("waiting", 0);
    }
    drop(slow);
}

#[test]
fn a_job_worker_serves_no_second_owner() {
    let database = Database::new("bound");
    let owners: Vec<Owner> = (0..3).map(|_| Owner::create(&database, "bound")).collect();
    let mut queues: Vec<Queue> = owners.iter().map(|owner| owner.queue("bound")).collect();
    // The first owner's code changes the state of each session that it runs in.
    for (index, q) in queues.iter_mut().enumerate() {
        note_process(q, if index == 0 { "PERFORM setseed(0.25);" } else { "" });
    }
    let mut c = database.client();
    let seeded = "SELECT random()::text FROM setseed(0.25), generate_series(1, 50)";
    let seeded: BTreeSet<String> =
        c.query(seeded, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    for round in 0..6 {
        for q in &mut queues {
            q.is_served(1);
            let running = workers(&mut c, "xqueue job worker");
            assert!(running.len() <= 2, "round {round}: {running:?}");
        }
    }
    let mut owner_of: BTreeMap<String, usize> = BTreeMap::new();
    for (index, q) in queues.iter_mut().enumerate() {
        for pid in noted(q, "pid") {
            let other = owner_of.insert(pid.clone(), index);
            assert!(other.is_none(), "process {pid} served {other:?} and {index}");
        }
        if index > 0 {
            let known: Vec<_> = noted(q, "random").intersection(&seeded).cloned().collect();
            assert!(known.is_empty(), "another's random numbers: {known:?}");
        }
    }
    // A new owner of the table also gets another process.
    let before = noted(&mut queues[0], "pid");
    queues[0].sql(&format!("ALTER TABLE {{q}} OWNER TO {}; DELETE FROM {{q}}", owners[1].name));
    queues[0].is_served(1);
    let after = noted(&mut queues[0], "pid");
    assert!(before.is_disjoint(&after), "{before:?}, {after:?}");
    queues.iter_mut().for_each(Queue::mend);
    drop(queues);
}

#[test]
fn a_busy_owner_keeps_its_job_worker() {
    let database = Database::new("kept");
    let owner = Owner::create(&database, "kept");
    let (mut first, mut second) = (owner.queue("kept"), owner.queue("kept"));
    note_process(&mut first, "");
    note_process(&mut second, "");
    for _ in 0..20 {
        first.is_served(1);
        second.is_served(1);
    }
    let (mut pids, others) = (noted(&mut first, "pid"), noted(&mut second, "pid"));
    pids.extend(others);
    // One process for each piece of work would make 40. On a busy machine an idle process can end earlier.
    assert!(pids.len() <= 10, "processes for one owner: {pids:?}");
    first.mend();
    second.mend();
    drop((first, second));
}

#[test]
fn owners_take_turns_at_a_single_job_worker() {
    let server = Cluster::new(
        "xqueue.max_job_workers = 1\nxqueue.batch_size = 20\nmax_worker_processes = 5\n",
    );
    server.client().batch_execute("CREATE ROLE a; CREATE ROLE b; CREATE ROLE c").unwrap();
    let make = |owner| {
        let mut q = Queue::make_at(server.config(), &unique(owner), COLUMNS, &options());
        give(&mut q, owner);
        note_process(&mut q, "PERFORM pg_sleep(0.002);");
        q
    };
    let mut queues = ["a", "b", "c"].map(make);
    let [a, b, c] = &mut queues;
    for q in [&mut *a, &mut *b] {
        q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() FROM generate_series(1, 1000)");
    }
    c.is_served(3);
    for q in [&mut *a, &mut *b] {
        assert_ne!(q.counted()["ready"], json!(0), "it has had turns");
        assert_ne!(q.counted()["waiting"], json!(0), "it is not through");
    }
    for q in [&mut *a, &mut *b] {
        q.wait_for("waiting", 0);
    }
    queues.iter_mut().for_each(Queue::mend);
}

#[test]
fn a_job_worker_is_kept_for_no_longer_than_a_time_limit_allows() {
    let server = Cluster::new("xqueue.max_job_workers = 1\nxqueue.worker_timeout = 200\n");
    server.client().batch_execute("CREATE ROLE a; CREATE ROLE b").unwrap();
    let features = json!({"features": {"delayed": true, "ttl": true}});
    let [mut slow, mut other] = ["a", "b"].map(|owner| {
        let mut q = Queue::make_at(server.config(), &unique(owner), COLUMNS, &features);
        give(&mut q, owner);
        q
    });
    // Two kinds of work, and each task takes nearly as long as the limit allows.
    slow.before_each(
        "UPDATE OR DELETE",
        "PERFORM pg_sleep(0.15); INSERT INTO public.{q}_log VALUES (pg_current_xact_id(), TG_OP); RETURN coalesce(NEW, OLD)",
    );
    slow.sql(
        "CREATE TABLE {q}_log (job xid8, operation text); GRANT ALL ON {q}_log TO a;
         INSERT INTO {q} (status, runat, expires) SELECT 'W', now(), 'infinity' FROM generate_series(1, 50);
         INSERT INTO {q} (status, expires) SELECT 'R', now() FROM generate_series(1, 50)",
    );
    note_process(&mut other, "");
    let log = format!("{}_log", slow.name);
    let mut both_have_turns = || {
        let sql = format!("SELECT count(DISTINCT job) FROM {log} WHERE operation = $1");
        ["UPDATE", "DELETE"]
            .into_iter()
            .all(|kind| scalar::<i64>(&mut slow.admin, &sql, &[&kind]) > 2)
    };
    wait_until("both kinds have had turns", &mut both_have_turns);
    other.is_served(1);
    let jobs = format!(
        "SELECT max(n), max(kinds) FROM (SELECT count(*) n, count(DISTINCT operation) kinds FROM {log} GROUP BY job) j"
    );
    let row = slow.admin.query_one(&jobs, &[]).unwrap();
    let (tasks, kinds): (i64, i64) = (row.get(0), row.get(1));
    assert!(tasks <= 3 && kinds == 1, "{tasks} tasks of {kinds} kinds in a job");
    slow.mend();
    slow.wait_for("waiting", 0);
}

fn signal(name: &str, process: i32) {
    let sent = std::process::Command::new("kill").args([name, &process.to_string()]).status();
    assert!(sent.expect("kill").success());
}

/// A stopped process reacts to no signal, like a loop in C that never checks for interrupts.
#[test]
fn an_owner_whose_code_hears_no_signal_has_no_second_job_worker() {
    let server = Cluster::new("xqueue.max_job_workers = 1\nxqueue.worker_timeout = '200ms'\n");
    let mut c = server.client();
    c.batch_execute(
        "CREATE ROLE deaf; CREATE ROLE other; GRANT CREATE ON SCHEMA public TO deaf, other",
    )
    .unwrap();
    let queue = |name: &str, owner: &str, body: &str| {
        let mut q = Queue::make_at(server.config(), name, COLUMNS, &options());
        q.before_each("UPDATE", &format!("{body}; RETURN NEW"));
        q.sql(&format!("ALTER TABLE {{q}} OWNER TO {owner}"));
        q
    };
    let mut deaf = queue(
        "first",
        "deaf",
        "LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP",
    );
    let mut second = queue("second", "deaf", "NULL");
    let mut other = queue("third", "other", "NULL");
    deaf.sql("INSERT INTO {q} (status, runat) VALUES ('W', now())");
    let asleep = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'xqueue job worker' \
                  AND wait_event = 'PgSleep'";
    wait_until("its code runs", || !c.query(asleep, &[]).unwrap().is_empty());
    let stopped: i32 = c.query(asleep, &[]).unwrap()[0].get(0);
    signal("-STOP", stopped);
    second.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
    let left_alone = |q: &mut Queue| {
        let error = |q: &mut Queue| q.stats()["error"].as_str().unwrap_or_default().to_string();
        wait_until("it is left alone", || {
            error(q).contains("did not end when its worker was told to")
        });
    };
    left_alone(&mut deaf);
    other.is_served(3);
    assert_eq!(second.counted()["waiting"], json!(1), "its owner has a job worker");
    signal("-CONT", stopped);
    second.wait_for("ready", 1);
    left_alone(&mut deaf);
    // The queue stays excluded after a crash.
    for q in [&mut deaf, &mut second, &mut other] {
        q.abandon();
    }
    server.stop("immediate");
    server.start();
    let again = |name: &str| Queue::adopt_at(server.config(), name);
    let (mut deaf, mut second, mut other) = (again("first"), again("second"), again("third"));
    left_alone(&mut deaf);
    // Tasks that were ready before the crash can be waiting again.
    for q in [&mut second, &mut other] {
        q.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
        q.wait_for("waiting", 0);
    }
    assert_eq!(deaf.counted()["waiting"], json!(1));
    deaf.sql("DROP TRIGGER own ON {q}; SELECT xqueue.upgrade('{q}')");
    deaf.wait_for("ready", 1);
    assert_eq!(deaf.stats()["error"], Value::Null);
}
