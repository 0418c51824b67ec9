//! Capacity through crashes and prepared transactions: the limit is never exceeded, at the price of refusing a put in
//! doubt.

use crate::ends::{After, after_each_end, cases};
use xqueue_tests::*;

#[test]
fn a_capacity_holds_after_each_end_of_the_server() {
    after_each_end(cases![a_producer_with_room_is_killed, prepared_before_the_server_started]);
}

fn a_producer_with_room_is_killed(q: &mut Queue, _: &str) -> After {
    q.upgrade(&json!({"features": {"capacity": 5}}));
    q.fill(3);
    let mut open = q.client();
    open.batch_execute("BEGIN").unwrap();
    put(&mut open, &q.name, 1);
    put(&mut open, &q.name, 2);
    let waiting = Waiter::put(q, &empty_tasks(2));
    Box::new(move |q: &mut Queue| {
        drop(open);
        assert!(waiting.join().result.is_err());
        // Immediately after the start: a put waits until the tasks are counted.
        assert_eq!((q.puts(3), q.puts(2)), (0, 2));
        q.fails("INSERT INTO {q} DEFAULT VALUES", "53400", "is full");
        assert_eq!((&q.stats()["capacity"], q.total()), (&json!(5), 5));
    })
}

fn prepared_before_the_server_started(q: &mut Queue, how: &str) -> After {
    let (outcome, left) = if how == "fast" { ("ROLLBACK", 3) } else { ("COMMIT", 1) };
    q.upgrade(&json!({"features": {"capacity": 3}}));
    let gid = q.name.clone();
    q.sql(&format!(
        "BEGIN; SELECT xqueue.put('{{q}}', '[{{}}, {{}}]'); PREPARE TRANSACTION '{gid}'"
    ));
    Box::new(move |q: &mut Queue| {
        q.fails("SELECT xqueue.put('{q}', '{}')", "55000", "it is not known");
        q.fails("INSERT INTO {q} DEFAULT VALUES", "55000", "it is not known");
        q.sql(&format!("{outcome} PREPARED '{gid}'"));
        q.assert_exact();
        assert_eq!((q.puts(left) as i64, q.puts(1)), (left, 0), "{outcome}");
    })
}

#[test]
fn prepared_puts_keep_their_room() {
    let _server = Server::alone();
    let mut q = Queue::limited("roomcrash", 6, 1);
    let prepare = |n: i64| {
        let put = format!("SELECT xqueue.put('{{q}}', '{}')", empty_tasks(n));
        format!("BEGIN; {put}; PREPARE TRANSACTION '{{q}}_{n}'")
    };
    (1..=2).for_each(|n| q.sql(&prepare(n)));
    q.assert_reserved(3);
    assert_eq!((q.puts(3), q.puts(2)), (0, 2), "two beside the one that is there");
    q.fails("INSERT INTO {q} DEFAULT VALUES", "53400", "is full");
    let waiting = Waiter::put(&mut q, &empty_tasks(2));
    q.sql("COMMIT PREPARED '{q}_1'");
    assert_eq!(q.puts(1), 0);
    q.sql("ROLLBACK PREPARED '{q}_2'");
    assert_eq!(waiting.tasks().len(), 2);
    q.sql("DELETE FROM {q}");
    q.sql(&prepare(2));
    let waiting = Waiter::put(&mut q, &empty_tasks(5));
    q.sql("COMMIT PREPARED '{q}_2'");
    q.assert_nothing_reserved();
    q.assert_tasks(&[("total", 2)]);
    assert!(!waiting.finished());
    q.drain(1);
    assert_eq!(waiting.tasks().len(), 5);
}

/// A row that no trigger reported is counted before the next put.
#[test]
fn rows_that_were_not_counted() {
    let _server = Server::alone();
    let mut q = Queue::limited("roomcrash", 3, 1);
    q.sql("ALTER TABLE {q} DISABLE TRIGGER xqueue_insert; INSERT INTO {q} DEFAULT VALUES");
    q.sql("ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert");
    assert_eq!((q.puts(2), q.puts(1)), (0, 1));
}
