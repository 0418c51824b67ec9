//! A server process stopped by a signal, to tell its work from the work of others.

use postgres::Client;

use crate::client::{database, scalar, wait_until};
use crate::turn::is_alone;

/// The system calls in which the server waits for its latch.
#[cfg(target_arch = "x86_64")]
const WAITS: [i64; 2] = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
#[cfg(not(target_arch = "x86_64"))]
const WAITS: [i64; 1] = [libc::SYS_epoll_pwait];

/// A worker or a backend that is stopped until this is dropped.
pub struct Stopped {
    pid: i32,
}

impl Stopped {
    /// Stops the worker of the client's database while it is idle: outside a transaction it holds no lock. A worker
    /// that counts also sleeps, but within a transaction. No other test can use that worker meanwhile.
    #[track_caller]
    pub fn worker(c: &mut Client) -> Stopped {
        let is_shared = scalar::<String>(c, "SELECT current_database()::text", &[]) == database();
        assert!(!is_shared || is_alone(), "a test that stops the worker starts with alone()");
        let idle = "SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'xqueue worker' \
                    AND datname = current_database() AND wait_event_type = 'Extension' \
                    AND xact_start IS NULL";
        let mut stopped = None;
        wait_until("the worker is idle", || {
            let mut idle = || scalar::<Option<i32>>(c, idle, &[]);
            stopped =
                idle().and_then(Stopped::asleep).filter(|stopped| idle() == Some(stopped.pid));
            stopped.is_some()
        });
        stopped.expect("the worker has a PID")
    }

    /// Stops a backend while it sleeps.
    #[track_caller]
    pub fn backend(pid: i32) -> Stopped {
        let mut stopped = None;
        wait_until("the backend sleeps", || {
            stopped = Stopped::asleep(pid);
            stopped.is_some()
        });
        stopped.expect("it has been stopped")
    }

    /// Returns None, and lets the process continue, if it woke before it stopped.
    fn asleep(pid: i32) -> Option<Stopped> {
        let stopped = Stopped { pid };
        stopped.signal(libc::SIGSTOP);
        // The kernel names the system call in which a process stopped, or reports that it runs.
        let file = format!("/proc/{pid}/syscall");
        let mut call = String::new();
        wait_until("the worker stops", || {
            call = std::fs::read_to_string(&file).expect("what the worker does");
            !call.starts_with("running")
        });
        let number = call.split_whitespace().next().and_then(|number| number.parse().ok());
        number.is_some_and(|number| WAITS.contains(&number)).then_some(stopped)
    }

    fn signal(&self, signal: i32) {
        // SAFETY: sends a signal; touches no memory of ours.
        let sent = unsafe { libc::kill(self.pid, signal) };
        assert_eq!(sent, 0, "the worker {} gets its signal", self.pid);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: sends a signal; touches no memory of ours. A panic here would hide the test's own.
        unsafe { libc::kill(self.pid, libc::SIGCONT) };
    }
}
