//! `create` by several sessions at once.

use std::sync::Barrier;
use xqueue_tests::*;

#[test]
fn sessions_create_the_same_queue() {
    for _ in 0..5 {
        let mut q = Queue::adopt(&database(), &unique("created"));
        let (barrier, clients) = (Barrier::new(6), [(); 6].map(|()| q.client()));
        std::thread::scope(|scope| {
            for mut c in clients {
                let (q, barrier) = (&q.name, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    c.run(&format!("SELECT xqueue.create('{q}', if_not_exists => true)"));
                });
            }
        });
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        assert_eq!(q.takes(2), [1]);
    }
}
