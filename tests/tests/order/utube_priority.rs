//! Sub-queues with priorities: the one whose first task is the most urgent goes first, and equal ones take turns.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

fn queue(direct_path: bool, utube: Value) -> Queue {
    let features = json!({"utube": utube, "priority": true, "delayed": true, "buried": true});
    let mut q = Queue::with("utube_priority", COLUMNS, &json!({"features": features}));
    q.sql(&format!("SET xqueue.direct_path = {direct_path}"));
    q
}

fn in_both_ways(test: impl Fn(&mut Queue)) {
    for direct_path in [true, false] {
        test(&mut queue(direct_path, json!(true)));
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

/// Tasks are taken in the order in which they are listed as ready, if each has a sub-queue of its own.
#[test]
fn what_is_listed_is_what_is_taken() {
    in_both_ways(|q| {
        q.sql("INSERT INTO {q} (id, tube, priority) SELECT i, i, hashint4(i) % 5 FROM generate_series(1, 60) i");
        q.sql("SELECT xqueue.put('{q}', '{\"id\": 99}', tube => '99', front => true)");
        let listed = ids(&q.ask("SELECT xqueue.tasks_by_state('{q}', 'ready')"));
        assert_eq!(listed[0], 99);
        let mut served = vec![];
        for _ in 0..10 {
            served.extend(q.takes(3));
        }
        assert_eq!(served, listed[..30]);
    });
}

/// The least priority at the heads of all sub-queues without a task in flight.
const LEAST: &str = "SELECT coalesce(to_jsonb(min(priority)), 'null') FROM (SELECT DISTINCT ON (tube) tube, priority, status FROM {q} \
    WHERE status IN ({line}) ORDER BY tube, priority, id) AS head WHERE status = 'R' \
    AND NOT EXISTS (SELECT FROM {q} t WHERE t.tube = head.tube AND t.status = 'T')";

#[test]
fn at_random_the_most_urgent_is_next() {
    let seed = seed();
    for run in 0..8u64 {
        let seed = u64::wrapping_add(seed, run);
        let mut random = StdRng::seed_from_u64(seed);
        let (direct_path, is_strict) = (random.random_bool(0.5), random.random_bool(0.3));
        let utube = if is_strict { json!({"strict": true}) } else { json!(true) };
        let mut q = queue(direct_path, utube);
        let least = LEAST.replace("{line}", if is_strict { "'R', 'W'" } else { "'R'" });
        let mut log = vec![];
        for _ in 0..250 {
            let (tube, priority) = (random.random_range(0..12), random.random_range(0..6));
            let any = format!("(SELECT id FROM {{q}} ORDER BY hashint8(id + {tube}) LIMIT 1)");
            let mine = "(SELECT id FROM {q} WHERE status = 'T' ORDER BY hashint8(id) LIMIT 1)";
            let mine = |sql: &str| format!("SELECT {sql} FROM {{q}} t WHERE id = {mine}");
            let step = match random.random_range(0..16) {
                0..4 => format!(
                    "SELECT xqueue.put('{{q}}', '{{}}', tube => '{tube}', priority => {priority})"
                ),
                4 => format!("SELECT xqueue.put('{{q}}', '{{}}', tube => '{tube}', front => true)"),
                5 => format!(
                    "SELECT xqueue.put('{{q}}', '{{}}', tube => '{tube}', priority => {priority}, delay => '1 h')"
                ),
                6 => format!("UPDATE {{q}} SET priority = {priority} WHERE id = {any}"),
                7 => format!("UPDATE {{q}} SET tube = '{tube}' WHERE id = {any} AND status <> 'T'"),
                8 => format!("DELETE FROM {{q}} WHERE id = {any}"),
                9 => "SELECT xqueue.restart('{q}', id) FROM {q} WHERE status = 'W' LIMIT 1".into(),
                10 => mine(&format!(
                    "xqueue.release('{{q}}', id, update => '{{\"priority\": {priority}}}')"
                )),
                11 => mine("xqueue.release('{q}', id, delay => '1 h')"),
                12 => mine("xqueue.bury('{q}', id)"),
                13 => "SELECT xqueue.kick('{q}', 2)".into(),
                14 => "BEGIN; SELECT xqueue.take('{q}', count => 2); ROLLBACK".into(),
                _ => "SELECT xqueue.upgrade('{q}', '{}')".into(),
            };
            log.push(step.clone());
            q.sql(&step);
            if random.random_bool(0.6) {
                let expected = q.ask(&least).into_iter().next().unwrap_or_default();
                let task =
                    q.ask("SELECT xqueue.take('{q}')").into_iter().next().unwrap_or_default();
                log.push(format!("take: {task}"));
                assert_eq!(task["priority"], expected, "{log:#?}");
                if random.random_bool(0.7) && task != Value::Null {
                    q.sql(&format!("SELECT xqueue.ack('{{q}}', {})", task["id"]));
                    log.push("ack".into());
                }
            }
            let report = q.ask_one("SELECT xqueue.check('{q}')");
            assert_eq!(report["problems"], json!([]), "{log:#?}");
        }
    }
}
