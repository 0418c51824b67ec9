//! The memory of a backend does not grow with the queues that there were.

use xqueue_tests::*;

/// A backend that has seen a few queues has all that it keeps for ever.
const WARM_UP: usize = 30;
const QUEUES: usize = 160;
/// Far less than a tenth of what the plans of this number of queues take.
const GROWTH: i64 = 2 << 20;

/// Bytes of all memory contexts of a backend, and those of its resident memory.
fn memory(c: &mut Client) -> [i64; 2] {
    let contexts =
        scalar(c, "SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts", &[]);
    // What is shared, such as buffers, is not the backend's.
    let pages = std::fs::read_to_string(format!("/proc/{}/statm", pid(c))).expect("its memory");
    let pages: Vec<i64> = pages.split(' ').map_while(|number| number.parse().ok()).collect();
    [contexts, (pages[1] - pages[2]) * 4096]
}

#[track_caller]
fn assert_flat(before: [i64; 2], after: [i64; 2]) {
    for (before, after, what) in
        [(before[0], after[0], "memory contexts"), (before[1], after[1], "resident memory")]
    {
        assert!(after - before < GROWTH, "{what}: {before} bytes grew to {after}");
    }
}

/// Puts, takes and acks, by text and by row, and whatever else has a plan of its own.
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
fn a_backend_that_makes_uses_and_drops_queues() {
    let mut c = connect();
    let mut before = [0; 2];
    for round in 0..WARM_UP + QUEUES {
        if round == WARM_UP {
            before = memory(&mut c);
        }
        let name = create(&mut c, "memory");
        use_queue(&mut c, &name);
        let end = match round % 3 {
            0 => format!("SELECT xqueue.drop('{name}')"),
            1 => format!("DROP TABLE {name}"),
            _ => format!("SELECT xqueue.downgrade('{name}'); DROP TABLE {name}"),
        };
        c.batch_execute(&end).unwrap();
    }
    assert_flat(before, memory(&mut c));
}

#[test]
fn a_backend_that_uses_queues_which_others_drop() {
    let (mut c, mut other) = (connect(), connect());
    let lasting = create(&mut other, "memory");
    let mut before = [0; 2];
    const AT_A_TIME: usize = 20;
    for round in 0..(WARM_UP + QUEUES).div_ceil(AT_A_TIME) {
        if round == WARM_UP.div_ceil(AT_A_TIME) {
            before = memory(&mut c);
        }
        let names: Vec<String> = (0..AT_A_TIME).map(|_| create(&mut other, "memory")).collect();
        names.iter().for_each(|name| use_queue(&mut c, name));
        other.batch_execute(&format!("DROP TABLE {}", names.join(", "))).unwrap();
        use_queue(&mut c, &lasting);
    }
    assert_flat(before, memory(&mut c));
    other.batch_execute(&format!("DROP TABLE {lasting}")).unwrap();
}
