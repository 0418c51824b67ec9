//! The worker of a database, stopped by a signal: what it does not do shows what others do.

use postgres::Client;

use crate::client::{scalar, wait_until};

/// A worker that does nothing until this is dropped.
pub struct Stopped {
    pid: i32,
}

impl Stopped {
    /// Stops the worker of the client's database while it is idle: it holds no lock then.
    #[track_caller]
    pub fn worker(c: &mut Client) -> Stopped {
        let idle = "SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'xqueue worker' \
                    AND datname = current_database() AND wait_event_type = 'Extension'";
        let mut pid = None;
        wait_until("the worker is idle", || {
            pid = scalar(c, idle, &[]);
            pid.is_some()
        });
        let stopped = Stopped { pid: pid.expect("the worker has a PID") };
        stopped.signal(libc::SIGSTOP);
        stopped
    }

    fn signal(&self, signal: i32) {
        // SAFETY: sends a signal; touches no memory of ours.
        let sent = unsafe { libc::kill(self.pid, signal) };
        assert_eq!(sent, 0, "the worker {} gets its signal", self.pid);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above. A panic here would hide the test's own.
        unsafe { libc::kill(self.pid, libc::SIGCONT) };
    }
}
