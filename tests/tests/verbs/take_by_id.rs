//! Takes of tasks that the caller names. The state machine and pg_regress try those of one session.

use xqueue_tests::{COLUMNS, Queue, ids, json};

#[test]
fn many_want_the_same_one() {
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
