//! Queues as the workers serve them: delayed tasks, an owner's trigger, errors.

use crate::client::scalar;
use crate::queue::Queue;

impl Queue {
    /// Asserts that this many delayed tasks become ready, one after the other.
    #[track_caller]
    pub fn is_served(&mut self, times: i64) {
        let before = self.counted()["ready"].as_i64().expect("a number");
        for n in 1..=times {
            self.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
            self.wait_for("ready", before + n);
        }
    }

    /// Returns the error that the workers show for the queue; empty if there is none.
    #[track_caller]
    pub fn error(&mut self) -> String {
        let sql = "SELECT coalesce(error, '') FROM xqueue.queues WHERE queue = $1::text::regclass";
        scalar(&mut self.admin, sql, &[&self.name])
    }

    /// Creates an owner's trigger that runs `body` before each row of an event.
    #[track_caller]
    pub fn before_each(&mut self, event: &str, body: &str) {
        self.sql(&format!(
            "CREATE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$;
             CREATE TRIGGER own BEFORE {event} ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_f()"
        ));
    }

    /// Drops the owner's trigger, which a job worker can be running.
    #[track_caller]
    pub fn mend(&mut self) {
        self.sql("SET lock_timeout = '15s'; DROP TRIGGER own ON {q}; DROP FUNCTION {q}_f()");
    }
}
