//! How much shared memory queues use: only the touched part of the server's allocation.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use xqueue_tests::*;

const QUEUES: usize = 150;
/// Maximum bytes for a queue with a candidate ring.
const OF_PLAIN_QUEUE: usize = 8_000;

/// Returns the segment's addresses in a backend. The segment's header comes first.
fn segment(c: &mut Client) -> Range<usize> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid(c))).expect("its maps");
    let map = maps.lines().find(|map| map.ends_with("/dev/zero (deleted)")).expect("the segment");
    let base = map.split('-').next().and_then(|at| usize::from_str_radix(at, 16).ok());
    let allocated = "SELECT off, size FROM pg_shmem_allocations WHERE name = 'xqueue'";
    let row = c.query_one(allocated, &[]).expect("xqueue's part of it");
    let [off, size] = [0, 1].map(|column| row.get::<_, i64>(column) as usize);
    let begin = base.expect("an address") + off;
    begin..begin + size
}

/// Returns the bytes that are present in this backend's page table: touched by it, or mapped together with touched
/// pages.
fn touched(c: &mut Client) -> usize {
    const PAGE: usize = 4096;
    const PRESENT: u64 = 1 << 63;
    let segment = segment(c);
    let mut pages = std::fs::File::open(format!("/proc/{}/pagemap", pid(c))).expect("its pages");
    let of = segment.start / PAGE..segment.end.div_ceil(PAGE);
    pages.seek(SeekFrom::Start(of.start as u64 * 8)).expect("the first page");
    let mut entries = vec![0; of.len() * 8];
    pages.read_exact(&mut entries).expect("all pages");
    let entries = entries.chunks_exact(8).map(|entry| entry.try_into().map(u64::from_ne_bytes));
    entries.flatten().filter(|entry| entry & PRESENT != 0).count() * PAGE
}

fn create(c: &mut Client, options: &str) -> Vec<String> {
    let make = |_| {
        let name = unique("shared");
        c.run(&format!("SELECT xqueue.create('{name}', '{options}')"));
        name
    };
    (0..QUEUES).map(make).collect()
}

/// Runs each call in its own transaction; otherwise the take would not read ahead.
fn use_queues(c: &mut Client, names: &[String], tube: &str) {
    for name in names {
        for sql in [
            "SELECT xqueue.put('{q}', '[{}, {}]'{tube})",
            "SELECT xqueue.take('{q}'{tube})",
            "SELECT xqueue.ack('{q}', id) FROM {q} WHERE status = 'T'",
            "SELECT xqueue.take('{q}'{tube})",
            "SELECT xqueue.stats('{q}')",
        ] {
            c.run(&sql.replace("{q}", name).replace("{tube}", tube));
        }
    }
}

#[test]
fn a_plain_queue_takes_little_shared_memory() {
    let server = Server::alone();
    let _options = server.with_options("-c huge_pages=off -c xqueue.max_queues=2000");
    let database = Database::new("shared");
    let (mut c, mut maker) = (database.client(), database.client());
    let plain = create(&mut maker, r#"{"features": {"delayed": true, "ttl": true}}"#);
    let tubes = create(&mut maker, r#"{"features": {"tube": true}, "tube_stats": ["a"]}"#);
    let exact = "SELECT bool_and((s->>'exact')::boolean) FROM xqueue.stats() s";
    wait_until("the worker has looked at all", || scalar(&mut maker, exact, &[]));
    // Touches the memory that does not depend on the number of queues.
    use_queues(&mut c, &plain[..QUEUES / 5], "");
    let growth = |c: &mut Client, names: &[String], tube: &str| {
        let before = touched(c);
        use_queues(c, names, tube);
        (touched(c) - before) / names.len()
    };
    let of_plain = growth(&mut c, &plain[QUEUES / 5..], "");
    let of_tubes = growth(&mut c, &tubes, ", tube => 'a'");
    println!("{of_plain} bytes of a plain queue, {of_tubes} of one with tubes");
    assert!((4_000..OF_PLAIN_QUEUE).contains(&of_plain), "{of_plain} bytes of a plain queue");
    assert!(of_tubes > of_plain, "{of_tubes} bytes of one with tubes");
}
