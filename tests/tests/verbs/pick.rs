//! Tasks that are picked by a user's function, or by the caller.

use xqueue_tests::*;

/// Makes a queue whose function picks with this SELECT; `count` and `tube` are its arguments.
fn picked_by(features: &str, select: &str) -> Queue {
    let features: Value = features.parse().expect("features");
    let mut q = Queue::with("pick", COLUMNS, &json!({ "features": features }));
    picks(&mut q, "pick(count integer, tube text) RETURNS SETOF bigint", select);
    q
}

/// Creates or replaces a function and lets it pick.
fn picks(q: &mut Queue, function: &str, select: &str) {
    q.sql(&format!("CREATE OR REPLACE FUNCTION {{q}}_{function} LANGUAGE sql AS $$ {select} $$"));
    let name = function.split('(').next().unwrap_or_default();
    let pick = format!("{}_{name}", q.name);
    q.upgrade(&json!({"features": {"pick": pick}}));
}

#[test]
fn the_function_says_which_and_in_which_order() {
    let mut q =
        picked_by("{}", "SELECT id FROM {q} WHERE status = 'R' ORDER BY id DESC LIMIT count");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 9)");
    assert_eq!(q.takes(1), [9]);
    assert_eq!(q.takes(3), [8, 7, 6]);
    let rows = "SELECT to_jsonb(t) FROM xqueue.take(NULL::{q}, count => 2) AS t";
    assert_eq!(ids(&q.ask(rows)), [5, 4]);
    assert_eq!(id(&q.ask_one("CALL xqueue.next('{q}')")), 3);
    // A task that the caller names is taken without the function.
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', id => 1)")), [1]);
    assert_eq!(q.takes(9), [2]);
    assert!(q.takes(1).is_empty());
    assert_eq!(q.calls("take"), 9);
}

#[test]
fn what_cannot_be_taken_is_passed_over() {
    let select = "SELECT * FROM unnest('{99, NULL, 4, 1, 3, 1, 2, 5}'::bigint[])";
    let mut q = picked_by(r#"{"delayed": true, "ttl": true}"#, select);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    let mut other = q.session();
    other.sql("SELECT xqueue.take('{q}', id => 1); SELECT xqueue.switch('{q}', 4, 'W', '1 h')");
    other.sql("BEGIN; UPDATE {q} SET payload = '1' WHERE id = 3");
    assert_eq!(q.takes(10), [2, 5]);
    other.sql("COMMIT");
    assert_eq!(q.takes(10), [3]);
    q.sql("SELECT xqueue.release('{q}', ARRAY[2, 5])");
    assert_eq!(q.takes(1), [2], "no more than wanted");
    q.sql("UPDATE {q} SET expires = clock_timestamp() WHERE id = 5");
    assert!(q.takes(1).is_empty());
}

#[test]
fn it_is_asked_again_as_long_as_others_are_faster() {
    let mut q = picked_by("{}", "SELECT NULL::bigint");
    q.sql("CREATE SEQUENCE {q}_asked; INSERT INTO {q} DEFAULT VALUES");
    let asked = |q: &mut Queue| -> i64 {
        scalar(&mut q.admin, &format!("SELECT nextval('{}_asked')", q.name), &[])
    };
    let replace = |q: &mut Queue, select: &str| {
        picks(q, "pick(count integer, tube text) RETURNS SETOF bigint", select);
    };
    // The function returns no row and is called once.
    replace(&mut q, "SELECT 1::bigint WHERE nextval('{q}_asked') < 0");
    let before = asked(&mut q);
    assert!(q.takes(1).is_empty());
    assert_eq!(asked(&mut q), before + 2);
    // The function returns a missing task: the number of calls is limited.
    replace(&mut q, "SELECT 99::bigint WHERE nextval('{q}_asked') > 0");
    let before = asked(&mut q);
    assert!(q.takes(1).is_empty());
    assert_eq!(asked(&mut q), before + 11);
    // The third call returns an existing task.
    q.sql("SELECT setval('{q}_asked', 1)");
    replace(&mut q, "SELECT CASE WHEN nextval('{q}_asked') < 4 THEN 99 ELSE 1 END");
    assert_eq!(q.takes(1), [1]);
}

#[test]
fn tube_time_to_run_and_attempts() {
    let features = r#"{"tube": true, "ttr": 60, "retry": true, "priority": true}"#;
    let select = "SELECT id FROM {q} t WHERE status = 'R' AND (t.tube = $2 OR $2 IS NULL) ORDER BY id DESC LIMIT count";
    let mut q = picked_by(features, select);
    q.sql("SELECT xqueue.put('{q}', '{}', tube => CASE WHEN i % 2 = 0 THEN 'even' END) FROM generate_series(1, 6) AS i");
    let tube = |q: &mut Queue, more: &str| {
        ids(&q.ask(&format!("SELECT xqueue.take('{{q}}', tube => 'even'{more})")))
    };
    assert_eq!(tube(&mut q, ""), [6]);
    assert!(q.holds(6, "attempts = 1 AND runat > now() + '50 s'::interval"));
    assert_eq!(tube(&mut q, ", ttr => '1 h', count => 9"), [4, 2]);
    assert!(q.holds(4, "runat > now() + '50 min'::interval"));
    assert_eq!(q.takes(9), [5, 3, 1]);
    // The function ignores the tube; the extension checks it.
    let blind = "blind(count integer) RETURNS SETOF integer";
    picks(&mut q, blind, "SELECT * FROM generate_series(1, 6)");
    q.sql("SELECT xqueue.release_all('{q}')");
    assert_eq!(tube(&mut q, ", count => 9"), [2, 4, 6]);
}

#[test]
fn waiting_consumers_ask_again() {
    let mut q = picked_by(
        "{}",
        "SELECT id FROM {q} WHERE status = 'R' AND payload = '1' ORDER BY id DESC LIMIT count",
    );
    let waiter = Waiter::take(&mut q);
    let next = format!("CALL xqueue.next('{}')", q.name);
    let other = Waiter::waiting(&mut q, &next);
    put(&mut q.admin, &q.name, 5);
    // The function does not pick that task.
    q.sql("INSERT INTO {q} (payload) SELECT '1' FROM generate_series(1, 2)");
    let kept = [waiter.task(), other.task()];
    let mut taken = kept.each_ref().map(|(_, task)| id(task));
    taken.sort_unstable();
    assert_eq!(taken, [2, 3]);
    // A waiting consumer notices when the function is replaced or removed.
    let waiter = Waiter::take(&mut q);
    q.upgrade(&json!({"features": {"pick": false}}));
    let (_kept, task) = waiter.task();
    assert_eq!(id(&task), 1);
}

#[test]
fn keys_of_several_columns() {
    let mut q = Queue::with("pick", "b text, a int, n int, PRIMARY KEY (a, b)", &json!({}));
    q.sql("INSERT INTO {q} VALUES ('x', 1), ('y', 1), ('x', 2)");
    let keys = |q: &mut Queue| -> Vec<String> {
        let taken = q.ask("SELECT xqueue.take('{q}', count => 9)");
        q.sql("SELECT xqueue.release_all('{q}')");
        taken.iter().map(|task| format!("{}{}", task["a"], task["b"].as_str().unwrap())).collect()
    };
    let ready = "FROM {q} WHERE status = 'R'";
    let by_b = format!("SELECT * {ready} ORDER BY b DESC, a DESC LIMIT count");
    picks(&mut q, "rows(count integer) RETURNS SETOF {q}", &by_b);
    assert_eq!(keys(&mut q), ["1y", "2x", "1x"]);
    let by_a = format!("SELECT b, n, a {ready} ORDER BY b, a DESC LIMIT count");
    picks(&mut q, "keys(count integer) RETURNS TABLE (b text, n int, a bigint)", &by_a);
    assert_eq!(keys(&mut q), ["2x", "1x", "1y"]);
    picks(&mut q, "half(count integer) RETURNS TABLE (a int, c int)", "SELECT 1, 2");
    q.fails("SELECT xqueue.take('{q}')", "42703", "pick.b");
}

#[test]
fn keys_of_another_type_are_read() {
    let mut q = picked_by("{}", "SELECT 1::bigint");
    put(&mut q.admin, &q.name, 1);
    for (kind, value) in [("text", "'1'"), ("numeric", "1.0"), ("smallint", "1::int2")] {
        let function = format!("{kind}(count integer) RETURNS SETOF {kind}");
        picks(&mut q, &function, &format!("SELECT {value}"));
        if kind == "numeric" {
            let error = q.fails("SELECT xqueue.take('{q}')", "22P02", "invalid input syntax");
            assert!(error.hint().is_some(), "{error:?}");
        } else {
            assert_eq!(q.takes(9), [1]);
            q.sql("SELECT xqueue.release('{q}', 1)");
        }
    }
}

#[test]
fn it_runs_with_the_rights_of_the_consumer() {
    let role = Role::create();
    let mut q = picked_by("{}", "SELECT id FROM {q} WHERE payload = to_jsonb(current_user::text)");
    let name = q.name.clone();
    q.sql(&format!("GRANT SELECT, UPDATE ON {{q}} TO {0}; INSERT INTO {{q}} (payload) VALUES ('\"postgres\"'), ('\"{0}\"')", role.name));
    let mut c = role.client();
    // A function with that name in another schema is not used.
    c.batch_execute(&format!(
        "CREATE FUNCTION pg_temp.{name}_pick(count integer, tube text) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint'"
    ))
    .unwrap();
    assert_eq!(take_all(&mut c, &name), [2]);
    q.sql("REVOKE EXECUTE ON FUNCTION {q}_pick FROM PUBLIC");
    let take_one = format!("SELECT xqueue.take('{name}')");
    expect_error(&mut c, &take_one, "42501", "permission denied for function");
    assert_eq!(put(&mut q.admin, &name, 3), 3, "who only puts does not need it");
}

/// Tasks that the caller names. The state machine and pg_regress try takes of one session.
#[test]
fn many_want_the_same_ones() {
    let mut q = Queue::with("named", COLUMNS, &json!({}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 50)");
    let takers = [(); 4].map(|()| {
        let mut session = q.session();
        std::thread::spawn(move || {
            let all = "SELECT xqueue.take('{q}', id => ARRAY(SELECT generate_series(1, 50)))";
            (ids(&session.ask(all)), session)
        })
    });
    let ended = takers.map(|taker| taker.join().expect("taken"));
    let mut all: Vec<i64> = ended.iter().flat_map(|(taken, _)| taken.clone()).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=50).collect::<Vec<i64>>(), "each went to one of them");
}
