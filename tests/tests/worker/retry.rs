//! Feature retry: attempts are counted.

use xqueue_tests::{Queue, Reads, json};

/// The attempts column has a domain type, so a take leaves the increment to a statement. Such a take still scans no
/// other tasks.
#[test]
fn attempts_of_a_domain_are_counted_without_a_walk() {
    let mut q = Queue::new("retry_domain");
    let name = q.name.clone();
    q.sql("CREATE DOMAIN tries_{q} AS int CHECK (VALUE < 100)");
    q.sql("ALTER TABLE {q} ADD tries tries_{q} NOT NULL DEFAULT 0");
    q.upgrade(&json!({ "fields": { "attempts": "tries" }, "features": { "retry": true } }));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2000)");
    let mut c = q.client();
    let take = format!("SELECT FROM xqueue.take(NULL::{name})");
    let read: i64 = (0..5).map(|_| Reads::of(&mut c, &name, &take, "COMMIT").entries).sum();
    let taken = "SELECT to_jsonb(count(*)) FROM {q} WHERE status = 'T' AND tries = 1";
    assert_eq!(q.ask_one(taken), json!(5));
    assert!((5..100).contains(&read), "{read} entries were read by 5 takes");
    q.sql("ALTER TABLE {q} ALTER tries TYPE int");
    q.sql("DROP DOMAIN tries_{q}");
}
