//! The memory of a backend and of a worker does not grow with the queues that existed, and grows little with the queues
//! that it has used.

use xqueue_tests::*;

/// A backend that has used this many queues has allocated everything that it keeps permanently.
const WARM_UP: usize = 30;
const QUEUES: usize = 160;
/// Far less than a tenth of the memory for the plans of `QUEUES` queues.
const GROWTH: i64 = 2 << 20;

/// Returns a backend's bytes in all memory contexts, and its resident bytes.
fn memory(c: &mut Client) -> [i64; 2] {
    let contexts =
        scalar(c, "SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts", &[]);
    [contexts, resident(pid(c))]
}

fn resident(pid: i32) -> i64 {
    // Shared memory, such as buffers, does not belong to the process.
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("its memory");
    let pages: Vec<i64> = pages.split(' ').map_while(|number| number.parse().ok()).collect();
    (pages[1] - pages[2]) * 4096
}

/// Runs `work` and asserts that the backend's memory grows by less than `limit`.
#[track_caller]
fn grows_by_less(limit: i64, c: &mut Client, work: impl FnOnce(&mut Client)) {
    let before = memory(c);
    work(c);
    let after = memory(c);
    println!("{before:?} bytes in memory contexts and resident grew to {after:?}");
    assert!((0..2).all(|kind| after[kind] - before[kind] < limit), "{before:?} to {after:?}");
}

/// Puts, takes and acks, by text and by row, with every other call that has a plan of its own.
fn use_queue(c: &mut Client, name: &str) {
    for form in [format!("'{name}'"), format!("NULL::{name}")] {
        c.run(&format!(
            "SELECT xqueue.put('{name}', '[{{}}, {{}}, {{}}]'); SELECT xqueue.take({form}); SELECT xqueue.take({form});
             SELECT xqueue.release({form}, id) FROM {name} WHERE status = 'T' ORDER BY id LIMIT 1;
             SELECT xqueue.ack({form}, id) FROM {name} WHERE status = 'T';
             SELECT xqueue.peek({form}, id) FROM {name}; SELECT xqueue.delete({form}, id) FROM {name}"
        ));
    }
}

fn create(c: &mut Client) -> String {
    let name = unique("memory");
    c.run(&format!(r#"SELECT xqueue.create('{name}', '{{"features": {{"delayed": true}}}}')"#));
    name
}

#[test]
fn a_backend_that_uses_queues_which_it_or_others_drop() {
    let (mut c, mut other) = (connect(), connect());
    let mut use_and_drop = |c: &mut Client, round: usize| {
        let name = create(if round.is_multiple_of(2) { &mut *c } else { &mut other });
        use_queue(c, &name);
        match round % 4 {
            0 => c.run(&format!("SELECT xqueue.drop('{name}')")),
            1 => c.run(&format!("DROP TABLE {name}")),
            2 => c.run(&format!("SELECT xqueue.downgrade('{name}'); DROP TABLE {name}")),
            _ => other.run(&format!("DROP TABLE {name}")),
        }
    };
    (0..WARM_UP).for_each(|round| use_and_drop(&mut c, round));
    grows_by_less(GROWTH, &mut c, |c| (0..QUEUES).for_each(|round| use_and_drop(c, round)));
}

/// Bytes that a queue used once leaves in the server's caches: the table, its indexes and their rows, like any table.
const COLD: i64 = 75_000;
/// Enough for a few queues.
const LITTLE: &str = "256kB";

fn use_all(c: &mut Client, names: &[String]) {
    names.iter().for_each(|name| use_queue(c, name));
}

fn plans(c: &mut Client) -> i64 {
    let plans = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlan'";
    scalar(c, plans, &[])
}

#[test]
fn a_backend_that_uses_many_queues() {
    let database = Database::new("memory");
    let (mut c, mut other) = (database.client(), database.client());
    c.run(&format!("SET xqueue.queue_memory = '{LITTLE}'"));
    let names: Vec<String> = (0..QUEUES).map(|_| create(&mut other)).collect();
    let (first, rest) = names.split_at(WARM_UP);
    use_all(&mut c, first);
    grows_by_less(rest.len() as i64 * COLD, &mut c, |c| use_all(c, rest));
    // A second round costs nothing more.
    grows_by_less(GROWTH, &mut c, |c| use_all(c, &names));
    assert!(plans(&mut c) < 30);
}

#[test]
fn a_backend_that_uses_a_few_queues_keeps_their_plans() {
    let database = Database::new("memory");
    let (mut c, mut other) = (database.client(), database.client());
    let names: Vec<String> = (0..20).map(|_| create(&mut other)).collect();
    use_all(&mut c, &names);
    let kept = plans(&mut c);
    assert!(kept >= names.len() as i64);
    use_all(&mut c, &names);
    assert_eq!(plans(&mut c), kept);
    // A lower limit takes effect with the next queue.
    c.run(&format!("SET xqueue.queue_memory = '{LITTLE}'"));
    use_queue(&mut c, &create(&mut other));
    assert!(plans(&mut c) < kept / 2);
}

#[test]
fn a_worker_of_many_queues() {
    let mut database = Database::empty("memory");
    let name = database.name.clone();
    database.sql(&format!("ALTER DATABASE {name} SET xqueue.queue_memory = '{LITTLE}'"));
    let mut c = database.client();
    c.run("CREATE EXTENSION xqueue");
    // Every queue has a task that the worker promotes.
    let promote = |c: &mut Client, names: &[String]| {
        for name in names {
            c.run(&format!("SELECT xqueue.put('{name}', '{{}}', '1 millisecond')"));
        }
        for name in names {
            let waiting = format!("SELECT count(*) FROM {name} WHERE status <> 'R'");
            wait_until("the worker has promoted them", || scalar::<i64>(c, &waiting, &[]) == 0);
        }
    };
    let names: Vec<String> = (0..QUEUES).map(|_| create(&mut c)).collect();
    let (first, rest) = names.split_at(WARM_UP);
    promote(&mut c, first);
    let worker = workers(&mut c, "xqueue worker")[0];
    let before = resident(worker);
    promote(&mut c, rest);
    let growth = resident(worker) - before;
    println!("worker {growth} of {QUEUES}");
    assert!(growth < QUEUES as i64 * COLD, "{growth}");
    promote(&mut c, &names);
    assert!(resident(worker) - before < QUEUES as i64 * COLD);
    // The worker describes an evicted queue again only after the queue has changed.
    let name = &names[0];
    c.run(&format!("ALTER TABLE {name} DISABLE TRIGGER xqueue_insert"));
    let error = "SELECT xqueue.stats($1::text)->>'error'";
    let error = |c: &mut Client| -> Option<String> { scalar(c, error, &[name]) };
    wait_until("the worker has seen that a trigger is disabled", || error(&mut c).is_some());
    c.run(&format!("ALTER TABLE {name} ENABLE ALWAYS TRIGGER xqueue_insert"));
    wait_until("the worker has seen that it is enabled", || error(&mut c).is_none());
    create(&mut c);
    promote(&mut c, &names[..3]);
}
