//! The server decides how many tasks pass before it raises a mark or scans the priorities. Tests repeat until they
//! observe the effect. A test that expects no effect repeats as often as another needed to observe one.

use std::sync::OnceLock;

use serde_json::json;

use crate::queue::Queue;

/// Maximum number of repetitions; an effect not observed by then never comes.
const MOST: usize = 10_000;

/// Repeats a step until it returns true for the effect. Returns the number of steps.
#[track_caller]
pub fn repeat_until(effect: &str, mut step: impl FnMut() -> bool) -> usize {
    let Some(count) = (1..=MOST).find(|_| step()) else {
        panic!("{effect}: not after {MOST} repetitions");
    };
    count
}

/// Returns the low-water mark that `check` reports (`mark` or `buried_mark`) for a queue whose keys are numbers.
#[track_caller]
pub fn mark(q: &mut Queue, which: &str) -> Option<i64> {
    let check = q.ask_one("SELECT xqueue.check('{q}')");
    let mark = check[which].as_str()?;
    Some(mark.parse().unwrap_or_else(|_| panic!("{which} in {check}")))
}

/// Takes and acks tasks, one at a time; puts another task behind all others for each. A loop within the server commits
/// each step.
#[track_caller]
pub fn drain(q: &mut Queue, tasks: usize) {
    q.sql(&format!(
        "DO $$ BEGIN
             FOR step IN 1..{tasks} LOOP
                 INSERT INTO {{q}} (id) SELECT max(id) + 1 FROM {{q}};
                 COMMIT;
                 PERFORM xqueue.ack('{{q}}', (t->>'id')::bigint) FROM xqueue.take('{{q}}') t;
                 IF NOT FOUND THEN RAISE EXCEPTION 'no task is left'; END IF;
                 COMMIT;
             END LOOP;
         END $$"
    ));
}

/// Returns about twice the number of takes that raise the mark of a new queue.
pub fn enough_takes() -> usize {
    static ENOUGH: OnceLock<usize> = OnceLock::new();
    *ENOUGH.get_or_init(|| {
        let mut q = Queue::new("enough");
        q.sql("INSERT INTO {q} (id) VALUES (1)");
        let drains = repeat_until("the mark is raised", || {
            drain(&mut q, 8);
            mark(&mut q, "mark").is_some_and(|mark| mark > 1)
        });
        2 * 8 * drains
    })
}

/// Returns twice the number of kicks that raise the mark of the buried tasks of a new queue.
pub fn enough_kicks() -> usize {
    static ENOUGH: OnceLock<usize> = OnceLock::new();
    *ENOUGH.get_or_init(|| {
        let mut q = Queue::with(
            "enough",
            "id bigint PRIMARY KEY",
            &json!({"features": {"buried": true}}),
        );
        q.sql("INSERT INTO {q} (id, status) VALUES (1, 'B')");
        let kicks = repeat_until("the mark of buried tasks is raised", || {
            q.sql("INSERT INTO {q} (id, status) SELECT max(id) + 1, 'B' FROM {q}; SELECT xqueue.kick('{q}', 1)");
            mark(&mut q, "buried_mark").is_some_and(|mark| mark > 1)
        });
        2 * kicks
    })
}
