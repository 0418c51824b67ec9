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

#[track_caller]
fn assert_flat(before: [i64; 2], after: [i64; 2]) {
    assert_grows_by(GROWTH, before, after);
}

#[track_caller]
fn assert_grows_by(growth: i64, before: [i64; 2], after: [i64; 2]) {
    for (before, after, what) in
        [(before[0], after[0], "memory contexts"), (before[1], after[1], "resident memory")]
    {
        println!("{what} {}", after - before);
        assert!(after - before < growth, "{what}: {before} bytes grew to {after}");
    }
}

/// Puts, takes and acks, by text and by row, with every other call that has a plan of its own.
fn use_queue(c: &mut Client, name: &str) {
    for form in [format!("'{name}'"), format!("NULL::{name}")] {
        c.batch_execute(&format!(
            "SELECT xqueue.put('{name}', '[{{}}, {{}}, {{}}]'); SELECT xqueue.take({form}); SELECT xqueue.take({form});
             SELECT xqueue.release({form}, id) FROM {name} WHERE status = 'T' ORDER BY id LIMIT 1;
             SELECT xqueue.ack({form}, id) FROM {name} WHERE status = 'T';
             SELECT xqueue.peek({form}, id) FROM {name}; SELECT xqueue.delete({form}, id) FROM {name}"
        ))
        .unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
}

fn create(c: &mut Client, theme: &str) -> String {
    let name = unique(theme);
    c.batch_execute(&format!(
        "SELECT xqueue.create('{name}', '{{\"features\": {{\"delayed\": true}}}}')"
    ))
    .unwrap();
    name
}

#[test]
fn a_backend_that_uses_queues_which_it_or_others_drop() {
    let (mut c, mut other) = (connect(), connect());
    let mut before = [0; 2];
    for round in 0..WARM_UP + QUEUES {
        if round == WARM_UP {
            before = memory(&mut c);
        }
        let name = create(if round % 2 == 0 { &mut c } else { &mut other }, "memory");
        use_queue(&mut c, &name);
        let (by, end) = match round % 4 {
            0 => (&mut c, format!("SELECT xqueue.drop('{name}')")),
            1 => (&mut c, format!("DROP TABLE {name}")),
            2 => (&mut c, format!("SELECT xqueue.downgrade('{name}'); DROP TABLE {name}")),
            _ => (&mut other, format!("DROP TABLE {name}")),
        };
        by.batch_execute(&end).unwrap();
    }
    assert_flat(before, memory(&mut c));
}

/// Bytes that a queue used once leaves in the server's caches: the table, its indexes and their rows, like any table.
const COLD: i64 = 75_000;
/// Enough for a few queues.
const LITTLE: &str = "256kB";

#[test]
fn a_backend_that_uses_many_queues() {
    let database = Database::new("memory");
    let (mut c, mut other) = (database.client(), database.client());
    c.batch_execute(&format!("SET xqueue.queue_memory = '{LITTLE}'")).unwrap();
    let names: Vec<String> = (0..QUEUES).map(|_| create(&mut other, "memory")).collect();
    let (first, rest) = names.split_at(WARM_UP);
    first.iter().for_each(|name| use_queue(&mut c, name));
    let before = memory(&mut c);
    rest.iter().for_each(|name| use_queue(&mut c, name));
    assert_grows_by(rest.len() as i64 * COLD, before, memory(&mut c));
    // A second round costs nothing more.
    let before = memory(&mut c);
    names.iter().for_each(|name| use_queue(&mut c, name));
    assert_flat(before, memory(&mut c));
    let plans = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlan'";
    assert!(scalar::<i64>(&mut c, plans, &[]) < 30);
}

#[test]
fn a_backend_that_uses_a_few_queues_keeps_their_plans() {
    let database = Database::new("memory");
    let (mut c, mut other) = (database.client(), database.client());
    let names: Vec<String> = (0..20).map(|_| create(&mut other, "memory")).collect();
    let plans = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlan'";
    names.iter().for_each(|name| use_queue(&mut c, name));
    let kept: i64 = scalar(&mut c, plans, &[]);
    assert!(kept >= names.len() as i64);
    names.iter().for_each(|name| use_queue(&mut c, name));
    assert_eq!(scalar::<i64>(&mut c, plans, &[]), kept);
    // A lower limit takes effect with the next queue.
    c.batch_execute(&format!("SET xqueue.queue_memory = '{LITTLE}'")).unwrap();
    let another = create(&mut other, "memory");
    use_queue(&mut c, &another);
    assert!(scalar::<i64>(&mut c, plans, &[]) < kept / 2);
}

#[test]
fn a_worker_of_many_queues() {
    let mut database = Database::empty("memory");
    let name = database.name.clone();
    database.sql(&format!("ALTER DATABASE {name} SET xqueue.queue_memory = '{LITTLE}'"));
    let mut c = database.client();
    c.batch_execute("CREATE EXTENSION xqueue").unwrap();
    // Every queue has a task that the worker promotes.
    let promote = |c: &mut Client, names: &[String]| {
        for name in names {
            c.batch_execute(&format!("SELECT xqueue.put('{name}', '{{}}', '1 millisecond')"))
                .unwrap();
        }
        for name in names {
            let waiting = format!("SELECT count(*) FROM {name} WHERE status <> 'R'");
            wait_until("the worker has promoted them", || scalar::<i64>(c, &waiting, &[]) == 0);
        }
    };
    let names: Vec<String> = (0..QUEUES).map(|_| create(&mut c, "memory")).collect();
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
    c.batch_execute(&format!("ALTER TABLE {name} DISABLE TRIGGER xqueue_insert")).unwrap();
    let error = "SELECT xqueue.stats($1::text)->>'error'";
    let error = |c: &mut Client| -> Option<String> { scalar(c, error, &[name]) };
    wait_until("the worker has seen that a trigger is disabled", || error(&mut c).is_some());
    c.batch_execute(&format!("ALTER TABLE {name} ENABLE ALWAYS TRIGGER xqueue_insert")).unwrap();
    wait_until("the worker has seen that it is enabled", || error(&mut c).is_none());
    create(&mut c, "memory");
    promote(&mut c, &names[..3]);
}
