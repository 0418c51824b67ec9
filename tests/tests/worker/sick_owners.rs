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

/// Creates a queue of a role in the test's own database.
fn owned(database: &Database, role: &Role) -> Queue {
    let mut q = Queue::make(&database.name, &unique("owned"), COLUMNS, &options());
    give(&mut q, &role.name);
    q
}

/// Creates a trigger that notes in each task the process that promoted it, and a random number from that process.
fn note_process(q: &mut Queue, also: &str) {
    let note =
        "NEW.payload := jsonb_build_object('pid', pg_backend_pid(), 'random', random()::text)";
    q.before_each("UPDATE", &format!("{note}; {also} RETURN NEW"));
}

/// Returns the noted values of one key in the ready tasks.
fn noted(q: &mut Queue, key: &str) -> BTreeSet<String> {
    let sql = format!("SELECT to_jsonb(payload->>'{key}') FROM {{q}} WHERE payload ? '{key}'");
    q.ask(&sql).iter().filter_map(Value::as_str).map(str::to_owned).collect()
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
    let (owner, database) = (Role::create(), Database::new("owners"));
    let mut healthy = Queue::new_in(&database.name, "healthy");
    healthy.is_served(1);
    // Functions of the server itself that run far longer than a job is allowed to.
    let factorials = ["factorial(n)"; 40].join(" + ");
    let check = format!("CHECK (status <> 'R' OR n IS NULL OR {factorials} > 0)");
    let mut slow = [(); QUEUES].map(|()| owned(&database, &owner));
    for q in &mut slow {
        q.sql(&format!("ALTER TABLE {{q}} ADD CONSTRAINT own {check}"));
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
    slow.iter_mut().for_each(|q| q.sql("UPDATE {q} SET n = NULL WHERE n IS NOT NULL"));
    slow.iter_mut().for_each(|q| q.wait_for("waiting", 0));
}

#[test]
fn a_job_worker_serves_no_second_owner() {
    let owners = [(); 3].map(|()| Role::create());
    let database = Database::new("bound");
    let mut queues = owners.each_ref().map(|owner| owned(&database, owner));
    // The first owner's code changes the state of each session that it runs in.
    for (index, q) in queues.iter_mut().enumerate() {
        note_process(q, if index == 0 { "PERFORM setseed(0.25);" } else { "" });
    }
    let mut c = database.client();
    let seeded = "SELECT array_agg(random()::text) FROM setseed(0.25), generate_series(1, 50)";
    let seeded: Vec<String> = scalar(&mut c, seeded, &[]);
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
            let numbers = noted(q, "random");
            assert!(seeded.iter().all(|known| !numbers.contains(known)), "{numbers:?}, {seeded:?}");
        }
    }
    // A new owner of the table also gets another process.
    let before = noted(&mut queues[0], "pid");
    queues[0].sql(&format!("ALTER TABLE {{q}} OWNER TO {}; DELETE FROM {{q}}", owners[1].name));
    queues[0].is_served(1);
    let after = noted(&mut queues[0], "pid");
    assert!(before.is_disjoint(&after), "{before:?}, {after:?}");
    queues.iter_mut().for_each(Queue::mend);
    // A queue is gone with what its owner owns.
    queues[2].sql(&format!("DROP OWNED BY {}", owners[2].name));
    queues[2].abandon();
    let left = "SELECT to_jsonb(count(*)) FROM xqueue.queues";
    assert_eq!(queues[0].ask_one(left), 2);
}

#[test]
fn a_busy_owner_keeps_its_job_worker() {
    let (owner, database) = (Role::create(), Database::new("kept"));
    let mut queues = [(); 2].map(|()| owned(&database, &owner));
    queues.iter_mut().for_each(|q| note_process(q, ""));
    for _ in 0..20 {
        queues.iter_mut().for_each(|q| q.is_served(1));
    }
    let pids: BTreeSet<String> = queues.iter_mut().flat_map(|q| noted(q, "pid")).collect();
    // One process for each piece of work would make 40. On a busy machine an idle process can end earlier.
    assert!(pids.len() <= 10, "processes for one owner: {pids:?}");
    queues.iter_mut().for_each(Queue::mend);
}

/// Creates a queue of a role on a server for one test.
fn queue_of(server: &Cluster, owner: &str) -> Queue {
    let features = json!({"features": {"delayed": true, "ttl": true}});
    let mut q = Queue::make_at(server.config(), &unique(owner), COLUMNS, &features);
    give(&mut q, owner);
    q
}

#[test]
fn owners_take_turns_at_a_single_job_worker() {
    let server = Cluster::new(
        "xqueue.max_job_workers = 1\nxqueue.batch_size = 20\nmax_worker_processes = 5\n",
    );
    server.client().run("CREATE ROLE a; CREATE ROLE b; CREATE ROLE c");
    let mut queues = ["a", "b", "c"].map(|owner| queue_of(&server, owner));
    queues.iter_mut().for_each(|q| note_process(q, "PERFORM pg_sleep(0.002);"));
    let [crowd @ .., last] = &mut queues;
    for q in &mut *crowd {
        q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() FROM generate_series(1, 1000)");
    }
    last.is_served(3);
    for q in &mut *crowd {
        assert_ne!(q.counted()["ready"], json!(0), "it has had turns");
        assert_ne!(q.counted()["waiting"], json!(0), "it is not through");
    }
    crowd.iter_mut().for_each(|q| q.wait_for("waiting", 0));
    queues.iter_mut().for_each(Queue::mend);
}

#[test]
fn a_job_worker_is_kept_for_no_longer_than_a_time_limit_allows() {
    let server = Cluster::new("xqueue.max_job_workers = 1\nxqueue.worker_timeout = 200\n");
    server.client().run("CREATE ROLE a; CREATE ROLE b");
    let [mut slow, mut other] = ["a", "b"].map(|owner| queue_of(&server, owner));
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
    let turns = "SELECT to_jsonb(count(DISTINCT job) FILTER (WHERE operation = 'UPDATE') > 2
        AND count(DISTINCT job) FILTER (WHERE operation = 'DELETE') > 2) FROM {q}_log";
    wait_until("both kinds have had turns", || slow.ask_one(turns) == json!(true));
    other.is_served(1);
    let most = "SELECT jsonb_build_object('tasks', max(n), 'kinds', max(kinds)) FROM
        (SELECT count(*) n, count(DISTINCT operation) kinds FROM {q}_log GROUP BY job) j";
    let most = slow.ask_one(most);
    assert!(most["tasks"].as_i64() <= Some(3) && most["kinds"] == 1, "{most} in a job");
    slow.mend();
    slow.wait_for("waiting", 0);
}

/// A stopped process reacts to no signal, like a loop in C that never checks for interrupts.
#[test]
fn an_owner_whose_code_hears_no_signal_has_no_second_job_worker() {
    let server = Cluster::new("xqueue.max_job_workers = 1\nxqueue.worker_timeout = '200ms'\n");
    server.client().run("CREATE ROLE deaf; CREATE ROLE other");
    let mut queues = ["deaf", "deaf", "other"].map(|owner| queue_of(&server, owner));
    let endless =
        "LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP";
    for (q, body) in queues.iter_mut().zip([endless, "RETURN NEW", "RETURN NEW"]) {
        q.before_each("UPDATE", body);
    }
    let [deaf, second, other] = &mut queues;
    deaf.sql("INSERT INTO {q} (status, runat) VALUES ('W', now())");
    let asleep = "SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'xqueue job worker' \
                  AND wait_event = 'PgSleep'";
    let mut pid = None;
    wait_until("its code runs", || {
        pid = scalar(&mut deaf.admin, asleep, &[]);
        pid.is_some()
    });
    let stopped = Stopped::backend(pid.expect("a process"));
    second.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
    let wait_until_left_alone = |q: &mut Queue| {
        let words = "did not end when its worker was told to";
        wait_until("it is left alone", || q.error().contains(words));
    };
    wait_until_left_alone(deaf);
    other.is_served(3);
    assert_eq!(second.counted()["waiting"], json!(1), "its owner has a job worker");
    drop(stopped);
    second.wait_for("ready", 1);
    wait_until_left_alone(deaf);
    // The queue stays excluded after a crash.
    server.stop("immediate");
    server.start();
    queues.iter_mut().for_each(Queue::reconnect);
    let [deaf, second, other] = &mut queues;
    wait_until_left_alone(deaf);
    // Tasks that were ready before the crash can be waiting again.
    for q in [second, other] {
        q.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
        q.wait_for("waiting", 0);
    }
    assert_eq!(deaf.counted()["waiting"], json!(1));
    deaf.sql("DROP TRIGGER own ON {q}; SELECT xqueue.upgrade('{q}')");
    deaf.wait_for("ready", 1);
    assert_eq!(deaf.stats()["error"], Value::Null);
}
