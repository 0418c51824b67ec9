//! Consumers that wait while features are switched.

use rand::SeedableRng;
use rand::rngs::StdRng;
use xqueue_tests::*;

use super::{conversions, features, seed, states};

const ROUNDS: usize = 40;

fn switch(c: &mut Client, q: &str, random: &mut StdRng) {
    let features = features(random);
    let convert = conversions(&states(&features), random);
    let options = json!({"features": features, "convert": convert});
    c.run(&format!("SELECT xqueue.upgrade('{q}', '{options}')"));
}

/// In each round one task arrives while features are switched, and one consumer waits for it: no switch ends its wait.
/// The worker is stopped: it would wake a consumer that sleeps although a task is ready, and must not be needed.
#[test]
fn no_wake_up_is_lost() {
    alone();
    let seed = seed();
    let other = Database::new("switch_wake");
    let mut q = Queue::new_in(&other.name, "switch_wake");
    let name = q.name.clone();
    let calls = [
        "SELECT xqueue.take('{q}', '50s')",
        "CALL xqueue.next('{q}', '50s')",
        "SELECT to_jsonb(t) FROM xqueue.take(NULL::{q}, '50s', 3) AS t",
        "SELECT xqueue.take('{q}', '50s', 3)",
    ];
    // The row form can only return a row of the type that the query was planned with.
    q.upgrade(&json!({"features": {
        "delayed": true, "buried": true, "zombie": true, "ttl": true, "ttr": true,
        "priority": true, "tube": true, "retry": {"limit": 3}}}));
    for round in 0..ROUNDS {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(round as u64));
        let worker = Stopped::worker(&mut q.admin);
        let call = calls[round % calls.len()].replace("{q}", &name);
        let consumer = Waiter::start(q.client(), &call);
        let (mut switcher, mut producer) = (q.client(), q.client());
        std::thread::scope(|scope| {
            scope.spawn(|| (0..4).for_each(|_| switch(&mut switcher, &name, &mut random)));
            scope.spawn(|| put(&mut producer, &name, 1));
        });
        let (client, task) = consumer.task();
        drop((worker, client));
        // The connection has ended. The next round begins without its task.
        wait_until("the task is nobody's", || {
            let sql = format!("DELETE FROM {name} WHERE id = $1 AND status <> 'T'");
            q.admin.execute(&sql, &[&id(&task)]).expect("it can be deleted") == 1
        });
    }
}

/// In the row form, a change of columns makes the server plan a prepared query again, and the query goes on. The jsonb
/// form is not affected.
#[test]
fn prepared_queries_go_on() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut q = Queue::with("switch_rows", COLUMNS, &json!({}));
    let name = q.name.clone();
    let mut c = q.client();
    let statements = [
        format!("SELECT xqueue.take('{name}')"),
        format!("SELECT to_jsonb(t) FROM xqueue.take(NULL::{name}) AS t"),
        format!("SELECT id, payload FROM xqueue.take(NULL::{name})"),
        format!("SELECT to_jsonb(t) FROM xqueue.peek(NULL::{name}, 1) AS t"),
    ];
    let prepared = statements.each_ref().map(|sql| c.prepare(sql).expect("it can be prepared"));
    for _ in 0..15 {
        switch(&mut q.admin, &name, &mut random);
        for (sql, statement) in statements.iter().zip(&prepared) {
            let task = put(&mut q.admin, &name, 1);
            let rows = c.query(statement, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
            assert!(sql.contains("peek") || rows.len() == 1, "{sql} takes {task}");
        }
        take_all(&mut c, &name);
        c.execute(&format!("DELETE FROM {name}"), &[]).expect("all tasks are deleted");
    }
}
