//! Feature tube: which task wakes which consumer, and labels of several types. pg_regress tests takes of one session.

mod waiting;

use xqueue_tests::*;

fn tubes() -> Queue {
    let features =
        json!({"tube": true, "delayed": true, "buried": true, "keep": true, "ttr": true});
    Queue::with("tube", COLUMNS, &json!({"features": features}))
}

/// Starts a consumer that waits for a task of one tube.
fn waiter(q: &mut Queue, tube: &str) -> Waiter {
    let sql = format!("SELECT xqueue.take('{}', '30 seconds', tube => '{tube}')", q.name);
    Waiter::waiting(q, &sql)
}

/// Returns whether the consumer is still in the wait queue.
fn still_waits(q: &mut Queue, waiter: &Waiter) -> bool {
    !waiter.finished() && is_waiting(&mut q.admin, waiter.pid)
}

#[test]
fn a_prepared_put_wakes_a_consumer_of_its_tube() {
    let mut q = tubes();
    let a = waiter(&mut q, "a");
    q.sql("BEGIN; SELECT xqueue.put('{q}', '[{}, {}]', tube => 'a'); PREPARE TRANSACTION '{q}'");
    assert!(!a.finished());
    q.sql("COMMIT PREPARED '{q}'");
    let (_client, task) = a.task();
    assert_eq!(id(&task), 1);
}

#[test]
fn tubes_can_be_of_any_type_that_has_an_order() {
    let mood = unique("mood");
    connect().run(&format!("CREATE TYPE {mood} AS ENUM ('sad', 'glad')"));
    for (column, a, b, same_as_a) in [
        ("int", "1", "2", "01"),
        (mood.as_str(), "sad", "glad", "sad"),
        ("varchar(5)", "a", "b", "a"),
        ("char(5)", "a", "b", "a "),
        ("numeric", "1.5", "2", "1.50"),
        (
            "uuid",
            "00000000-0000-0000-0000-00000000000a",
            "00000000-0000-0000-0000-00000000000b",
            "00000000-0000-0000-0000-00000000000A",
        ),
    ] {
        let columns = format!("{COLUMNS}, kind {column}");
        let options = json!({"fields": {"tube": "kind"}, "features": {"tube": true}});
        let mut q = Queue::with("tube", &columns, &options);
        let (wants_b, wants_a) = (waiter(&mut q, b), waiter(&mut q, same_as_a));
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{{}}', tube => '{a}')"));
        let (_client, task) = wants_a.task();
        assert_eq!(id(&task), 1, "{column}");
        assert!(still_waits(&mut q, &wants_b), "{column}");
        q.sql(&format!(r#"SELECT xqueue.put('{{q}}', '{{"kind": "{b}"}}')"#));
        let (_client, task) = wants_b.task();
        assert_eq!(id(&task), 2, "{column}");
    }
}
