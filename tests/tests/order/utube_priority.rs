//! Sub-queues with priorities: the one whose first task is the most urgent goes first, and equal ones take turns.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

/// A user's trigger on the table, which makes takes use the statement path.
const TRIGGER: &str = "CREATE FUNCTION {q}_nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER nothing AFTER UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_nothing()";

fn queue(by_statement: bool) -> Queue {
    of_kind(by_statement, json!(true))
}

fn of_kind(by_statement: bool, utube: Value) -> Queue {
    let features = json!({"utube": utube, "priority": true, "delayed": true, "buried": true});
    let mut q = Queue::with("utube_priority", COLUMNS, &json!({"features": features}));
    if by_statement {
        q.sql(TRIGGER);
    }
    q
}

/// Drops the trigger's function, which the queue's end leaves.
fn end(mut q: Queue) {
    q.sql("DROP FUNCTION IF EXISTS {q}_nothing() CASCADE");
}

fn in_both_ways(test: impl Fn(&mut Queue)) {
    for by_statement in [false, true] {
        let mut q = queue(by_statement);
        test(&mut q);
        q.verify();
        end(q);
    }
}

/// Puts a task into each of 49 sub-queues.
fn crowd(q: &mut Queue) {
    q.sql("INSERT INTO {q} (id, tube, priority) SELECT i, 'crowd ' || i, 10 FROM generate_series(1, 49) i");
}

#[test]
fn an_urgent_task_passes_all_other_sub_queues() {
    in_both_ways(|q| {
        crowd(q);
        assert_eq!(q.takes(1), [1]);
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (100, 'urgent', 1)");
        assert_eq!(q.takes(1), [100]);
        // Urgent tasks in a sub-queue that waits, in one that was served, and behind a task in flight.
        q.sql(
            "INSERT INTO {q} (id, tube, priority) VALUES (101, 'crowd 30', 2), (102, 'urgent', 1)",
        );
        assert_eq!(q.takes(1), [101]);
        assert_eq!(q.takes(1), [2]);
        q.sql("SELECT xqueue.ack('{q}', 100)");
        assert_eq!(q.takes(3), [102, 3, 4]);
        q.sql("SELECT xqueue.put('{q}', '{\"id\": 103}', tube => 'crowd 49', front => true)");
        assert_eq!(q.takes(1), [103], "in front of all");
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (104, 'x', 99), (105, 'crowd 48', 99)");
        let left = q.takes(100);
        assert_eq!(left.len(), 49 - 4 - 2 + 1, "{left:?}");
        assert_eq!(left.last(), Some(&104), "{left:?}");
    });
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

/// The known priority of a sub-queue can be more urgent than its tasks.
#[test]
fn what_is_less_urgent_than_it_was_known_to_be_comes_in_its_place() {
    in_both_ways(|q| {
        crowd(q);
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (100, 'a', 1), (101, 'a', 20), (102, 'b', 2)");
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (103, 'c', 0)");
        q.sql("DELETE FROM {q} WHERE id = 100; UPDATE {q} SET priority = 15 WHERE id = 102");
        q.sql("UPDATE {q} SET status = 'B' WHERE id = 103");
        assert_eq!(q.takes(49), (1..=49).collect::<Vec<_>>());
        assert_eq!(q.takes(9), [102, 101]);
        q.sql("SELECT xqueue.release('{q}', 102, update => '{\"priority\": 30}')");
        q.sql("SELECT xqueue.release('{q}', 101)");
        q.sql("SELECT xqueue.kick('{q}', 1)");
        assert_eq!(q.takes(9), [103, 101, 102]);
    });
}

#[test]
fn what_is_undone_is_as_urgent_as_before() {
    in_both_ways(|q| {
        crowd(q);
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (100, 'a', 1), (101, 'a', 20)");
        for undo in ["ROLLBACK", "ROLLBACK TO s; COMMIT"] {
            q.sql("BEGIN; SAVEPOINT s");
            assert_eq!(q.takes(2), [100, 1]);
            q.sql(undo);
            q.verify();
        }
        q.sql("BEGIN");
        assert_eq!(q.takes(1), [100]);
        q.sql("SAVEPOINT s; SELECT xqueue.ack('{q}', 100)");
        assert_eq!(q.takes(1), [1], "its next comes later than those of the others");
        q.sql("ROLLBACK TO s; COMMIT; SELECT xqueue.release('{q}', 100)");
        assert_eq!(q.takes(1), [100]);
        // The end of a session.
        q.sql("SELECT xqueue.release('{q}', 100)");
        let mut c = q.client();
        assert_eq!(ids(&take(&mut c, &q.name, "0", 2)), [100, 1]);
        drop(c);
        q.wait_for("taken", 0);
        assert_eq!(q.takes(2), [100, 2], "1 was served last of its equals");
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
        let mut c = q.client();
        c.batch_execute(&format!("BEGIN; SELECT FROM {} WHERE id = 1 FOR UPDATE", q.name)).unwrap();
        assert_eq!(q.takes(1), [3]);
        assert_eq!(q.takes(9), [4]);
        assert!(q.takes(9).is_empty(), "2 does not pass 1");
        let waiter = Waiter::take(q);
        c.batch_execute("COMMIT").unwrap();
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
    for by_statement in [false, true] {
        let columns = "id bigint PRIMARY KEY, urgency smallint";
        let features = json!({"utube": true, "priority": true});
        let options = json!({"features": features, "fields": {"priority": "urgency"}});
        let mut q = Queue::with("utube_priority", columns, &options);
        if by_statement {
            q.sql(TRIGGER);
        }
        q.sql("INSERT INTO {q} (id, tube, urgency) VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', 32767), \
               (4, 'd', -32768), (5, 'a', 0)");
        assert_eq!(q.takes(2), [4, 5]);
        q.sql("SELECT xqueue.ack('{q}', 5)");
        assert_eq!(q.takes(9), [3, 2, 1]);
        end(q);
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
        let (by_statement, is_strict) = (random.random_bool(0.5), random.random_bool(0.3));
        let utube = if is_strict { json!({"strict": true}) } else { json!(true) };
        let mut q = of_kind(by_statement, utube);
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
        end(q);
    }
}
