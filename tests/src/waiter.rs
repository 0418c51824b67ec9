//! A consumer that waits in a thread of this process.

use std::thread::JoinHandle;

use postgres::Client;
use postgres::error::DbError;
use serde_json::Value;

use crate::client::{pid, scalar, wait_until};
use crate::errors::db_error;
use crate::queue::Queue;

pub struct Waiter {
    pub pid: i32,
    thread: JoinHandle<Outcome>,
}

/// The result of a wait. The connection is kept: its tasks are released when it is dropped.
pub struct Outcome {
    pub client: Client,
    pub result: Result<Vec<Value>, postgres::Error>,
}

pub fn is_waiting(c: &mut Client, pid: i32) -> bool {
    scalar(c, "SELECT EXISTS (SELECT FROM xqueue.consumers WHERE pid = $1)", &[&pid])
}

pub fn is_connected(c: &mut Client, pid: i32) -> bool {
    scalar(c, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", &[&pid])
}

/// Returns whether a backend sleeps in the extension. A consumer in the wait queue checks once more before that, and can
/// find a task that was put for an earlier one. Other roles do not see whether it sleeps.
fn is_asleep(c: &mut Client, pid: i32) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity \
               WHERE pid = $1 AND (wait_event_type = 'Extension' OR state IS NULL))";
    scalar(c, sql, &[&pid])
}

impl Waiter {
    /// Starts a `take` of one task, which waits when this returns.
    #[track_caller]
    pub fn take(queue: &mut Queue) -> Waiter {
        let client = queue.client();
        Waiter::take_in(queue, client)
    }

    /// Starts a `take` in an existing connection.
    #[track_caller]
    pub fn take_in(queue: &mut Queue, client: Client) -> Waiter {
        let sql = format!("SELECT xqueue.take({}, '30s')", literal(&queue.name));
        Waiter::waiting_in(queue, client, &sql)
    }

    /// Starts a statement that returns jsonb; it waits when this returns.
    #[track_caller]
    pub fn waiting(queue: &mut Queue, sql: &str) -> Waiter {
        let client = queue.client();
        Waiter::waiting_in(queue, client, sql)
    }

    /// Starts a waiter in an existing connection. `{q}` in the statement stands for the queue's name.
    #[track_caller]
    pub fn waiting_in(queue: &mut Queue, client: Client, sql: &str) -> Waiter {
        let waiter = Waiter::start(client, &sql.replace("{q}", &queue.name));
        let what = format!("backend {} waits in {sql}", waiter.pid);
        let admin = &mut queue.admin;
        let sleeps = |c: &mut Client| is_waiting(c, waiter.pid) && is_asleep(c, waiter.pid);
        wait_until(&what, || waiter.finished() || sleeps(admin));
        if waiter.finished() {
            panic!("it did not wait: {:?}", waiter.join().result);
        }
        waiter
    }

    #[track_caller]
    pub fn start(mut client: Client, sql: &str) -> Waiter {
        let (pid, sql) = (pid(&mut client), sql.to_owned());
        let thread = std::thread::spawn(move || {
            let result = client.query(&sql, &[]);
            let result = result.map(|rows| {
                let tasks = rows.iter().map(|row| row.get::<_, Option<Value>>(0));
                tasks.map(|task| task.unwrap_or(Value::Null)).collect()
            });
            Outcome { client, result }
        });
        Waiter { pid, thread }
    }

    pub fn finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the backend waits for a lock.
    #[track_caller]
    pub fn wait_for_lock(&self, queue: &mut Queue) {
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
        let what = format!("backend {} waits for a lock", self.pid);
        wait_until(&what, || scalar(&mut queue.admin, waits, &[&self.pid]));
    }

    /// Cancels the statement from another session. Unlike a cancel request, the signal is on its way when this returns.
    pub fn cancel(&self, by: &mut Client) {
        let _sent: bool = scalar(by, "SELECT pg_cancel_backend($1)", &[&self.pid]);
    }

    #[track_caller]
    pub fn join(self) -> Outcome {
        let what = format!("the wait of backend {} ends", self.pid);
        wait_until(&what, || self.thread.is_finished());
        self.thread.join().expect("the waiting thread did not panic")
    }

    /// Returns the only task that the waiter got, and its connection.
    #[track_caller]
    pub fn task(self) -> (Client, Value) {
        let Outcome { client, result } = self.join();
        let mut tasks = result.unwrap_or_else(|e| panic!("the wait failed: {e:?}"));
        assert_eq!(tasks.len(), 1, "one task, not {tasks:?}");
        (client, tasks.remove(0))
    }

    #[track_caller]
    pub fn error(self) -> (Client, DbError) {
        let Outcome { client, result } = self.join();
        match result {
            Ok(tasks) => panic!("the wait ended with {tasks:?}, not with an error"),
            Err(e) => (client, db_error(&e).clone()),
        }
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
