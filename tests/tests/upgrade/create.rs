//! `create` by several sessions at once.

use std::sync::{Arc, Barrier};
use std::thread;
use xqueue_tests::*;

#[test]
fn sessions_create_the_same_queue() {
    for _ in 0..5 {
        let name = unique("created");
        let barrier = Arc::new(Barrier::new(6));
        let create = || {
            let (mut c, barrier) = (connect(), barrier.clone());
            let sql = format!("SELECT xqueue.create('{name}', if_not_exists => true)");
            thread::spawn(move || {
                barrier.wait();
                c.batch_execute(&sql).map_err(|error| format!("{error:?}"))
            })
        };
        let creators: Vec<_> = (0..6).map(|_| create()).collect();
        for creator in creators {
            assert_eq!(creator.join().expect("a session"), Ok(()));
        }
        let mut q = Queue::adopt(&database(), &name);
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        assert_eq!(q.takes(2), [1]);
    }
    let name = unique("created");
    let mut c = connect();
    c.batch_execute(&format!("CREATE TABLE {name} ()")).unwrap();
    let sql = format!("SELECT xqueue.create('{name}', if_not_exists => true)");
    let error = expect_error(&mut c, &sql, "42P07", "already exists");
    assert!(error.hint().is_some_and(|hint| hint.contains("xqueue.upgrade()")), "{error:?}");
    c.batch_execute(&format!("DROP TABLE {name}")).unwrap();
}
