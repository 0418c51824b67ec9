//! Queues with a capacity, and producers that wait for capacity.

use serde_json::{Value, json};

use crate::ask::ask;
use crate::client::{scalar, wait_until};
use crate::queue::{COLUMNS, Queue};
use crate::waiter::Waiter;

impl Queue {
    /// Makes a queue with columns id bigint and payload jsonb, with this capacity and number of tasks.
    pub fn limited(theme: &str, capacity: i64, tasks: i64) -> Queue {
        let options = json!({"features": {"capacity": capacity}});
        let mut queue = Queue::with(theme, COLUMNS, &options);
        queue.fill(tasks);
        queue
    }

    /// Adds tasks by hand.
    #[track_caller]
    pub fn fill(&mut self, tasks: i64) {
        self.sql(&format!("INSERT INTO {{q}} SELECT FROM generate_series(1, {tasks})"));
    }

    /// Deletes tasks by hand.
    #[track_caller]
    pub fn drain(&mut self, tasks: i64) {
        self.sql(&format!(
            "DELETE FROM {{q}} WHERE id IN (SELECT id FROM {{q}} ORDER BY id LIMIT {tasks})"
        ));
    }

    #[track_caller]
    pub fn total(&mut self) -> i64 {
        scalar(&mut self.admin, &format!("SELECT count(*) FROM {}", self.name), &[])
    }

    #[track_caller]
    pub fn wait_for_producers(&mut self, count: i64) {
        let what = format!("{} has {count} producers waiting", self.name);
        wait_until(&what, || self.stats()["producers"] == json!(count));
    }

    #[track_caller]
    pub fn assert_reserved(&mut self, tasks: i64) {
        assert_eq!(self.stats()["reserved"], json!(tasks), "the room that is reserved");
    }

    /// Waits until no capacity is reserved: a session that has just ended returns its reservation within moments.
    #[track_caller]
    pub fn assert_nothing_reserved(&mut self) {
        let what = format!("no room is reserved in {}", self.name);
        wait_until(&what, || matches!(self.stats()["reserved"].as_i64(), None | Some(0)));
    }

    /// Returns the number of tasks that a put without timeout puts.
    #[track_caller]
    pub fn puts(&mut self, tasks: i64) -> usize {
        let sql = format!("SELECT xqueue.put('{{q}}', '{}')", empty_tasks(tasks));
        let name = self.name.clone();
        ask(&mut self.admin, &name, &sql).len()
    }
}

/// Returns a jsonb array of `count` tasks.
pub fn empty_tasks(count: i64) -> Value {
    json!(vec![json!({}); count as usize])
}

impl Waiter {
    /// Starts a put, which waits for capacity when this returns.
    #[track_caller]
    pub fn put(queue: &mut Queue, tasks: &Value) -> Waiter {
        let sql = format!("SELECT xqueue.put('{}', '{tasks}', timeout => '30s')", queue.name);
        Waiter::producing(queue, &sql)
    }

    /// Starts a statement that returns jsonb; it waits for capacity when this returns.
    #[track_caller]
    pub fn producing(queue: &mut Queue, sql: &str) -> Waiter {
        let waiter = Waiter::start(queue.client(), &sql.replace("{q}", &queue.name));
        let stands = "SELECT EXISTS (SELECT FROM xqueue.producers WHERE pid = $1)";
        let what = format!("backend {} waits for room in {sql}", waiter.pid);
        wait_until(&what, || waiter.finished() || scalar(&mut queue.admin, stands, &[&waiter.pid]));
        if waiter.finished() {
            panic!("it did not wait: {:?}", waiter.join().result);
        }
        waiter
    }

    /// Returns the tasks that the waiter has put.
    #[track_caller]
    pub fn tasks(self) -> Vec<Value> {
        self.join().result.unwrap_or_else(|e| panic!("the wait failed: {e:?}"))
    }
}
