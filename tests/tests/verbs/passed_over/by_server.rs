//! Refusals by the server itself: indexes, generated columns, triggers with built-in functions, foreign keys.

use super::{REFUSALS, SHAPES, fill, queue, take_all_but_bad, taken};
use xqueue_tests::{Heard, Queue, json, pid, private_memory, wait_until};

/// A take needs a subtransaction only for a task that enters an index which can refuse it.
#[test]
fn an_index_that_a_task_does_not_come_into_costs_no_subtransaction() {
    let mut q = queue(SHAPES[0], "");
    fill(&mut q, &[], "", "", SHAPES[0].1);
    for (index, has_one) in [
        ("", false),
        ("CREATE INDEX ON {q} (payload, status)", false),
        ("CREATE INDEX ON {q} (id, owner)", false),
        ("CREATE INDEX ON {q} ((1 / id))", false),
        ("CREATE INDEX ON {q} (id) WHERE status = 'T' AND payload > 'a'", false),
        ("CREATE UNIQUE INDEX ON {q} (payload, id) WHERE status IN ('R', 'W')", false),
        ("CREATE UNIQUE INDEX ON {q} (payload, id) WHERE status IN ('R', 'T')", true),
        ("CREATE INDEX ON {q} (payload, owner)", true),
    ] {
        q.sql(index);
        // Other tests change functions, which makes takes use the statement path; that path always uses a
        // subtransaction.
        let mut c = q.session();
        wait_until("the direct path takes", || {
            c.sql("BEGIN");
            assert_eq!(taken(&mut c, ", count => 3").len(), 3);
            let writers = "SELECT to_jsonb(xmin <> pg_current_xact_id()::xid) FROM {q}
                           WHERE status = 'T'";
            let writers = c.ask(writers);
            c.sql("ROLLBACK");
            writers == vec![json!(has_one); 3]
        });
    }
}

/// An existing index entry grows by the owner that the take writes.
#[test]
fn a_task_whose_entry_gets_too_long_is_passed_over() {
    for index in ["(payload, owner)", "(payload) INCLUDE (owner)"] {
        let mut q = queue(SHAPES[0], "");
        q.sql(&format!(
            "ALTER TABLE {{q}} ALTER payload SET STORAGE EXTERNAL; CREATE INDEX ON {{q}} {index};
             INSERT INTO {{q}} (id, payload) VALUES (1, repeat('x', 2680)), (2, 'good')"
        ));
        assert_eq!(q.takes(1), [2], "{index}");
        let error = q.error();
        assert!(error.contains("task 1 cannot be taken: index row size"), "{error}");
    }
}

/// A take does not immediately retry a task that an index has refused.
#[test]
fn a_task_that_an_index_refuses_rests() {
    let mut q = queue(SHAPES[0], "");
    fill(&mut q, &[1], "bad", "{}", SHAPES[0].1);
    q.sql(REFUSALS[5].0);
    let writes = |q: &mut Queue| q.ask_one("SELECT to_jsonb(xmax::text) FROM {q} WHERE id = 1");
    let release = "SELECT xqueue.release('{q}', id) FROM {q} WHERE status = 'T'";
    // The pauses grow to more than a second.
    for _ in 0..5 {
        let last = writes(&mut q);
        wait_until("it is tried again", || {
            q.sql(release);
            q.takes(1);
            writes(&mut q) != last
        });
    }
    // Other tests change functions, which makes a take use the statement path; that path tries again.
    wait_until("it rests", || {
        q.sql(release);
        let last = writes(&mut q);
        assert_eq!(q.takes(5).len(), 5);
        writes(&mut q) == last
    });
    assert!(q.error().contains("task 1 cannot be taken"));
}

/// Returns the id of a task that can be taken.
fn try_take(q: &mut Queue) -> Option<String> {
    let take = format!("SELECT xqueue.take('{}')->>'id'", q.name);
    q.admin.query_opt(&take, &[]).ok().flatten()?.get(0)
}

/// A take writes only a limited number of tasks that an index refuses, and reaches the task behind them in the end.
#[test]
fn a_take_writes_few_of_many_tasks_that_an_index_refuses() {
    let mut q = queue(SHAPES[0], "");
    // With assertions the direct path locks each row first. If the subtransaction of the change is rolled back, the
    // transaction that holds the lock changes the row again. On a full page that fails an assertion of PostgreSQL's own
    // in heap_update.
    if q.ask_one("SELECT to_jsonb(current_setting('debug_assertions'))") == "on" {
        return;
    }
    q.sql(
        "CREATE UNIQUE INDEX ON {q} (payload) WHERE status = 'T';
         INSERT INTO {q} (id, payload) SELECT n, CASE WHEN n < 400 THEN 'same' ELSE 'other' END FROM generate_series(1, 400) n",
    );
    assert_eq!(q.takes(1), [1]);
    let first = try_take(&mut q);
    let written = q.ask_one("SELECT to_jsonb(count(*)) FROM {q} WHERE xmax <> 0");
    let count = written.as_i64().expect("a number");
    assert!(first.is_none() && (1..=110).contains(&count), "{count} were written for {first:?}");
    wait_until("the task behind them is taken", || try_take(&mut q).as_deref() == Some("400"));
}

/// The server cannot prepare such a check, and must not keep the half of its work.
#[test]
fn a_check_with_a_constant_part_that_fails() {
    for (check, code) in [("id < 100000::smallint", "22003"), ("id > 9 OR 1 / 0 = 1", "22012")] {
        let mut q = queue(SHAPES[0], "");
        q.sql(&format!(
            "INSERT INTO {{q}} (id, payload) VALUES (1, 'a'), (2, 'b');
             ALTER TABLE {{q}} ADD CONSTRAINT odd CHECK ({check}) NOT VALID, ADD CONSTRAINT other CHECK (id > 0)"
        ));
        for _ in 0..3 {
            q.fails("SELECT xqueue.take('{q}')", code, "");
        }
        q.sql("ALTER TABLE {q} DROP CONSTRAINT odd");
        // A task that could not be written rests for a while.
        let mut taken = Vec::new();
        wait_until("both are taken", || {
            taken.extend(q.takes(2));
            taken.len() == 2
        });
    }
}

/// The kept checks are prepared once, not for each task that they refuse.
#[test]
fn checks_that_refuse_every_task_need_no_more_memory() {
    let memory = "SELECT to_jsonb(sum(used_bytes)::bigint) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'";
    for (check, code) in [("id < 0", "23514"), ("10 / (id - id) > 0", "22012")] {
        let mut q = queue(SHAPES[0], "");
        q.sql(&format!(
            "INSERT INTO {{q}} (id, payload) SELECT n, n FROM generate_series(1, 500) n;
             ALTER TABLE {{q}} ADD CHECK ({check}) NOT VALID"
        ));
        let mut memory_after = |times| {
            for _ in 0..times {
                q.fails("SELECT xqueue.take('{q}')", code, "");
            }
            q.ask_one(memory).as_i64().expect("a number of bytes")
        };
        let before = memory_after(2);
        let after = memory_after(5);
        assert!(after < before + 100_000, "{check}: {before} bytes, then {after}");
    }
}

/// The constant part of a check depends on a setting that changes later.
#[test]
fn a_check_whose_constant_part_would_fail_later() {
    let mut q = queue(SHAPES[0], "");
    q.sql(
        "ALTER TABLE {q} ADD CONSTRAINT a CHECK (1 / (length('\\x41'::bytea::text) - 1) >= 0),
             ADD CONSTRAINT b CHECK (id < 100 OR status = 'R')",
    );
    assert!(q.takes(1).is_empty(), "the table is described");
    q.sql("INSERT INTO {q} (id, payload) VALUES (101, 'a'), (102, 'b'), (103, 'c')");
    // The error is that of a statement, which prepares its own checks.
    for (setting, error) in [("escape", "22012"), ("hex", "23514")] {
        q.sql(&format!("SET bytea_output = {setting}"));
        q.fails("SELECT xqueue.take('{q}')", error, "");
    }
}

/// The error of each task quotes its text, which is kept only in part.
#[test]
fn long_errors_are_not_kept() {
    let mut q = queue(SHAPES[0], "");
    q.sql("CREATE INDEX ON {q} ((payload::int)) WHERE status = 'T'; CREATE SEQUENCE {q}_id OWNED BY {q}.id");
    let pid = pid(&mut q.admin);
    let mut memory_after_another_take = || {
        q.sql(
            "DELETE FROM {q};
             INSERT INTO {q} (id, payload) SELECT nextval('{q}_id'), repeat('x', 1000000) FROM generate_series(1, 50)",
        );
        q.fails("SELECT xqueue.take('{q}')", "22P02", "");
        private_memory(pid)
    };
    let before = (0..2).fold(0, |_, _| memory_after_another_take());
    let after = (0..3).fold(0, |_, _| memory_after_another_take());
    assert!(after < before + (50 << 20), "{before} bytes, then {after}");
}

/// A take that has passed over its maximum of tasks leaves the sub-queues that it has not tried to later takes.
#[test]
fn a_take_that_gives_up_forgets_no_sub_queue() {
    let mut q = queue(SHAPES[4], "");
    if q.ask_one("SELECT to_jsonb(current_setting('debug_assertions'))") == "on" {
        return;
    }
    q.sql(
        "CREATE UNIQUE INDEX ON {q} (payload) WHERE status = 'T';
         INSERT INTO {q} (tube, id, payload) SELECT 't' || n, n, 'same' FROM generate_series(1, 150) n;
         INSERT INTO {q} (tube, id, payload) VALUES ('z', 151, 'other')",
    );
    assert_eq!(q.takes(1), [1]);
    wait_until("the last sub-queue is served", || try_take(&mut q).as_deref() == Some("151"));
    wait_until("all tasks are delivered", || {
        q.sql("SELECT xqueue.ack(t) FROM {q} t WHERE status = 'T'");
        try_take(&mut q);
        q.ask_one("SELECT to_jsonb(count(*)) FROM {q}") == json!(0)
    });
}

/// Tasks behind a refused one are in flight like any other.
#[test]
fn a_task_behind_a_refused_one_is_in_flight() {
    let mut q = queue(SHAPES[4], "");
    q.sql(REFUSALS[5].0);
    q.sql("INSERT INTO {q} (tube, id, payload) VALUES ('a', 2, 'bad'), ('a', 3, 'good'), ('a', 4, 'good')");
    // Other tests change functions, which makes takes use the statement path; that path skips the whole sub-queue.
    let mut c = q.session();
    wait_until("the direct path takes", || try_take(&mut c).as_deref() == Some("3"));
    q.fails("UPDATE {q} SET status = 'T' WHERE id = 4", "23505", "");
}

/// Returns a session, and the warnings that it gets.
fn heard(q: &Queue) -> (Queue, Heard) {
    let (client, warnings) = Heard::open(q.config());
    let mut session = q.session();
    session.admin = client;
    (session, warnings)
}

/// A failed conversion to jsonb leaks no resource that the server would warn about.
#[test]
fn what_jsonb_cannot_hold_leaves_nothing_behind() {
    const COMPOSITE: &str = "
        CREATE TYPE {q}_inner AS (number int, doc json);
        CREATE DOMAIN {q}_domain AS {q}_inner CHECK ((VALUE).number > 0);
        CREATE TYPE {q}_outer AS (inner_ {q}_inner, inners {q}_inner[], checked {q}_domain);
        ALTER TABLE {q} ADD part_ {q}_outer";
    const CATALOGUE: &str = "ALTER TABLE {q} ADD part_ pg_catalog.pg_namespace";
    for columns in ["", COMPOSITE, CATALOGUE] {
        let mut q = queue(SHAPES[0], "");
        q.sql(columns);
        fill(&mut q, &[1, 2, 5], "good", r#"{"a": "\u0000"}"#, SHAPES[0].1);
        if columns == COMPOSITE {
            q.sql(
                r#"UPDATE {q} SET doc = '{}',
                     part_ = ROW(ROW(1, doc), ARRAY[ROW(2, doc)]::{q}_inner[], ROW(3, doc))"#,
            );
        }
        let (mut c, warnings) = heard(&q);
        for call in [
            "take('{q}', count => 100)",
            "take('{q}', '10 ms')",
            "take('{q}', id => 1)",
            "peek('{q}', 1)",
            "release('{q}', 1)",
            "delete('{q}', 1)",
        ] {
            if call.starts_with("release") {
                c.sql("SELECT FROM xqueue.take(NULL::{q}, id => 1)");
            }
            c.sql(&format!("SELECT xqueue.{call}"));
            let warned = warnings.take();
            assert!(warned.is_empty(), "{columns} {call}: {warned:?}");
        }
        q.sql("DELETE FROM {q}");
    }
}

/// A check that fails in the middle of a row leaks no resource either.
#[test]
fn what_fails_within_a_check_leaves_nothing_behind() {
    let mut q = queue(SHAPES[0], "");
    fill(&mut q, &[1, 2, 5], "good", r#"{"a": "\u0000"}"#, SHAPES[0].1);
    q.sql(
        "CREATE TYPE {q}_part AS (number int, doc json); ALTER TABLE {q} ADD part_ {q}_part;
         UPDATE {q} SET part_ = ROW(1, doc), doc = '{}';
         ALTER TABLE {q} ADD CHECK (to_jsonb(part_) IS NOT NULL) NOT VALID",
    );
    let (mut c, warnings) = heard(&q);
    assert_eq!(taken(&mut c, ", count => 100").len(), 17);
    let warned = warnings.take();
    assert!(warned.is_empty(), "{warned:?}");
    q.sql("DELETE FROM {q}");
}

/// A trigger with a built-in function, and a foreign key over the state, refuse some tasks and not others.
#[test]
fn a_trigger_and_a_foreign_key_of_the_server_refuse_a_task() {
    for (refusal, state, words) in [
        // The words of bad tasks exceed the limit of a tsvector.
        (
            "ALTER TABLE {q} DROP doc, ADD words tsvector, ADD body text;
             UPDATE {q} SET body = (SELECT string_agg(repeat('w', 2000) || n, ' ')
                 FROM generate_series(1, 600) AS n) WHERE payload = 'bad';
             CREATE TRIGGER a_as_it_is BEFORE UPDATE ON {q} FOR EACH ROW
             EXECUTE FUNCTION suppress_redundant_updates_trigger();
             CREATE TRIGGER b_words BEFORE UPDATE ON {q} FOR EACH ROW
             EXECUTE FUNCTION tsvector_update_trigger('words', 'pg_catalog.simple', 'body', 'status')",
            "54000",
            "string is too long for tsvector",
        ),
        (
            "ALTER TABLE {q} DROP doc;
             CREATE TABLE {q}_allowed AS SELECT p AS payload, s AS status
             FROM unnest('{good,bad}'::text[]) AS p, unnest('{R,T}'::text[]) AS s;
             ALTER TABLE {q}_allowed ADD PRIMARY KEY (payload, status);
             DELETE FROM {q}_allowed WHERE (payload, status) = ('bad', 'T');
             ALTER TABLE {q} ADD FOREIGN KEY (payload, status) REFERENCES {q}_allowed",
            "23503",
            "violates foreign key constraint",
        ),
    ] {
        let mut q = queue(SHAPES[0], "");
        fill(&mut q, &[1, 2, 5], "bad", "{}", SHAPES[0].1);
        q.sql(refusal);
        let mut c = take_all_but_bad(&q, SHAPES[0].1, true);
        let error = q.error();
        assert!(error.contains("cannot be taken: ") && error.contains(words), "{error}");
        c.fails("SELECT xqueue.take('{q}')", state, words);
        q.sql("DELETE FROM {q} WHERE payload = 'bad'");
        q.sql("DROP TABLE IF EXISTS {q}_allowed CASCADE");
    }
}

/// The last try changes a row after an earlier change was rolled back, even if the page has no room for another
/// version.
#[test]
fn a_task_of_a_full_page_is_tried_again() {
    for at in [2, 3] {
        let mut q = queue(SHAPES[0], "");
        let bad = "SELECT n, 'bad' FROM generate_series(1, 500) AS n";
        q.sql(&format!("INSERT INTO {{q}} (id, payload) {bad}"));
        let (refusal, state) = REFUSALS[at];
        q.sql(refusal);
        for take in ["take('{q}', count => 5)", "take('{q}')"] {
            q.session().fails(&format!("SELECT xqueue.{take}"), state, "");
        }
    }
}
