//! A thread of this process that waits for a task to end.

use std::thread::JoinHandle;

use postgres::Client;
use postgres::error::DbError;

use crate::client::{pid, scalar, wait_until};
use crate::errors::db_error;
use crate::queue::Queue;

pub struct Watcher {
    pub pid: i32,
    thread: JoinHandle<Result<Option<String>, postgres::Error>>,
}

impl Watcher {
    /// Starts `xqueue.wait`; it sleeps when this returns.
    #[track_caller]
    pub fn wait(queue: &mut Queue, id: i64, timeout: &str) -> Watcher {
        let sql = format!("SELECT xqueue.wait('{{q}}', {id}, '{timeout}')");
        Watcher::asleep(queue, &sql)
    }

    /// Starts a statement that returns an outcome; it sleeps when this returns.
    #[track_caller]
    pub fn asleep(queue: &mut Queue, sql: &str) -> Watcher {
        let mut client = queue.client();
        let (pid, text) = (pid(&mut client), sql.replace("{q}", &queue.name));
        let thread = std::thread::spawn(move || client.query_one(&text, &[]).map(|row| row.get(0)));
        let watcher = Watcher { pid, thread };
        let what = format!("backend {pid} waits in {sql}");
        wait_until(&what, || watcher.finished() || sleeps(&mut queue.admin, pid));
        if watcher.finished() {
            panic!("it did not wait: {:?}", watcher.thread.join());
        }
        watcher
    }

    pub fn finished(&self) -> bool {
        self.thread.is_finished()
    }

    #[track_caller]
    pub fn join(self) -> Result<Option<String>, postgres::Error> {
        let what = format!("the wait of backend {} ends", self.pid);
        wait_until(&what, || self.thread.is_finished());
        self.thread.join().expect("the waiting thread did not panic")
    }

    /// Returns the outcome that was reported; None after the timeout.
    #[track_caller]
    pub fn outcome(self) -> Option<String> {
        self.join().unwrap_or_else(|e| panic!("the wait failed: {e:?}"))
    }

    #[track_caller]
    pub fn assert_told(self, outcome: &str) {
        assert_eq!(self.outcome().as_deref(), Some(outcome));
    }

    #[track_caller]
    pub fn error(self) -> DbError {
        match self.join() {
            Ok(outcome) => panic!("the wait ended with {outcome:?}, not with an error"),
            Err(e) => db_error(&e).clone(),
        }
    }
}

fn sleeps(c: &mut Client, pid: i32) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Extension')";
    scalar(c, sql, &[&pid])
}
