//! Sub-queues with priorities: the one whose first task is the most urgent goes first, and equal ones take turns.

use xqueue_tests::*;

/// Runs a test with the direct path and without it.
fn in_both_ways(test: impl Fn(&mut Queue)) {
    for direct_path in [true, false] {
        let features = json!({"utube": true, "priority": true, "delayed": true, "buried": true});
        let mut q = Queue::with("utube_priority", COLUMNS, &json!({"features": features}));
        q.sql(&format!("SET xqueue.direct_path = {direct_path}"));
        test(&mut q);
    }
}

/// Puts a task into each of 49 sub-queues.
fn crowd(q: &mut Queue) {
    q.sql("INSERT INTO {q} (id, tube, priority) SELECT i, 'crowd ' || i, 10 FROM generate_series(1, 49) i");
}

#[test]
fn equals_take_turns() {
    in_both_ways(|q| {
        q.sql("INSERT INTO {q} (id, tube, priority) SELECT i, 'long', 5 FROM generate_series(1, 10) i");
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (11, 'a', 5), (12, 'b', 5), (13, 'a', 5), (14, 'b', 7)");
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (20, 'long', 1), (21, 'a', 1)");
        let mut served = vec![];
        for _ in 0..16 {
            let [task] = q.takes(1)[..] else { panic!("there are tasks after {served:?}") };
            q.sql(&format!("SELECT xqueue.ack('{{q}}', {task})"));
            served.push(task);
        }
        let expected = [20, 21, 12, 1, 11, 2, 13, 3, 4, 5, 6, 7, 8, 9, 10, 14];
        assert_eq!(served, expected);
    });
}

#[test]
fn one_transaction_goes_on_with_what_is_the_most_urgent() {
    in_both_ways(|q| {
        crowd(q);
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (100, 'a', 1), (101, 'a', 2), (102, 'a', 10), (103, 'a', 12)");
        q.sql("BEGIN");
        for (task, next) in [(None, 100), (Some(100), 101), (Some(101), 1)] {
            let ack = task.map(|task| format!("SELECT xqueue.ack('{{q}}', {task})"));
            ack.into_iter().for_each(|ack| q.sql(&ack));
            assert_eq!(q.takes(1), [next], "after {task:?}");
        }
        q.sql("SELECT xqueue.put('{q}', '{\"id\": 200}', tube => 'b', priority => 5)");
        assert_eq!(q.takes(1), [200], "what it has put itself");
        q.sql("COMMIT; SELECT xqueue.release('{q}', 1)");
        let next = q.ask("SELECT xqueue.take('{q}', done => 200, count => 2)");
        assert_eq!(ids(&next).len(), 2);
        q.sql("SELECT xqueue.release(t) FROM {q} t WHERE status = 'T'");
        q.sql("UPDATE {q} SET priority = 3 WHERE id = 102");
        let (mut served, mut task) = (vec![], Value::Null);
        for _ in 0..2 {
            let sql = format!("CALL xqueue.next('{}', '0', task => $1)", q.name);
            let given = (task != Value::Null).then_some(&task);
            task = q.admin.query_one(&sql, &[&given]).expect("next").get(0);
            served.push(id(&task));
            q.sql("UPDATE {q} SET priority = 4 WHERE id = 103");
        }
        assert_eq!(served, [102, 103]);
    });
}

#[test]
fn a_locked_urgent_task_holds_up_no_other_sub_queue() {
    in_both_ways(|q| {
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3), (4, 'c', 4)");
        let mut locker = q.session();
        locker.sql("BEGIN; SELECT FROM {q} WHERE id = 1 FOR UPDATE");
        assert_eq!(q.takes(1), [3]);
        assert_eq!(q.takes(9), [4]);
        assert!(q.takes(9).is_empty(), "2 does not pass 1");
        let waiter = Waiter::take(q);
        locker.sql("COMMIT");
        assert_eq!(id(&waiter.task().1), 1);
        q.wait_for("taken", 2);
    });
}

#[test]
fn a_sub_queue_asked_for_is_taken_from_whatever_comes_first() {
    in_both_ways(|q| {
        crowd(q);
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (100, 'a', 50), (101, 'b', 1)");
        assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [100]);
        assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', id => 7)")), [7]);
        assert_eq!(q.takes(3), [101, 1, 2]);
    });
}

#[test]
fn tasks_without_a_priority_come_last() {
    for direct_path in ["on", "off"] {
        let columns = "id bigint PRIMARY KEY, urgency smallint";
        let features = json!({"utube": true, "priority": true});
        let options = json!({"features": features, "fields": {"priority": "urgency"}});
        let mut q = Queue::with("utube_priority", columns, &options);
        q.sql(&format!("SET xqueue.direct_path = {direct_path}"));
        q.sql("INSERT INTO {q} (id, tube, urgency) VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', 32767), \
               (4, 'd', -32768), (5, 'a', 0)");
        assert_eq!(q.takes(2), [4, 5]);
        q.sql("SELECT xqueue.ack('{q}', 5)");
        assert_eq!(q.takes(9), [3, 2, 1]);
    }
}
