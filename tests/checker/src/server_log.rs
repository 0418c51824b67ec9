//! The lines of a server's log that these faults explain.

/// The prefix of log lines: time, PID, SQLSTATE and kind of process.
pub const PREFIX: &str = "log_line_prefix = '%m|%p|%e|%b|'";

/// Errors that the faults, and other clients, cause for clients.
const ERRORS: [&str; 15] = [
    "0A000", // a feature is off while the queue is switched
    "22023", // the same
    "25P02", // a transaction after its error
    "40001", "40P01", // a deadlock of a fault's DDL
    "42701", "42703", // columns come and go
    "42704", "53100", // the disk is full
    "53200", // out of memory
    "53400", // no room under the capacity
    "55000", // the lease is lost
    "55P03", // a fault's DDL has waited long enough
    "57014", // cancelled
    "P0002", // the task is gone
];
/// Errors that end sessions (terminate, stop, crash), and failed connections while the server starts or stops.
const ENDS: [&str; 7] = ["57P01", "57P02", "57P03", "53100", "53300", "08P01", "08006"];
/// Warnings of a crash, of a full disk, of a stop while a transaction waits for a standby, and of clients that roll
/// back without a transaction.
const WARNINGS: [&str; 5] = ["57P02", "53100", "57014", "57P01", "25P01"];

/// Returns the unexpected lines.
pub fn unexpected(log: &str) -> Vec<&str> {
    let next = log.lines().skip(1).chain([""]);
    let lines = log.lines().zip(next);
    let is_new =
        |(line, next): &(&str, &str)| !is_expected(line) && !is_cancelled_at_start(line, next);
    lines.filter(is_new).map(|(line, _)| line).collect()
}

/// Returns whether a session was cancelled, and thereby ended, at its start: the next line has no statement yet.
fn is_cancelled_at_start(line: &str, next: &str) -> bool {
    let mut parts = line.splitn(5, '|').skip(1);
    let (pid, state) = (parts.next(), parts.next());
    let is_end = parts.nth(1).is_some_and(|text| text.starts_with("FATAL:"));
    let of_next: Vec<&str> = next.splitn(5, '|').collect();
    let has_statement = of_next.get(1).copied() == pid
        && of_next.get(4).is_some_and(|text| text.starts_with("STATEMENT:"));
    state == Some("57014") && is_end && !has_statement
}

fn is_expected(line: &str) -> bool {
    if line.contains("TRAP:") || line.contains("panicked at") {
        return false;
    }
    let mut parts = line.splitn(5, '|').skip(2);
    let (Some(state), Some(_), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
        return true;
    };
    match text.split_once(':').unwrap_or((text, "")) {
        // A backup reads files while they grow; a backend can end before it is terminated.
        ("WARNING", text) => {
            let harmless =
                ["could not verify checksum in file", "is not a PostgreSQL backend process"];
            // The worker meets the errors that clients meet, and retries.
            let is_tried_again = text.contains("xqueue: cannot") && ERRORS.contains(&state);
            let is_harmless = harmless.iter().any(|words| text.contains(words));
            WARNINGS.contains(&state) || is_tried_again || is_harmless
        }
        ("ERROR", _) => ERRORS.contains(&state),
        // Processes of the killed postmaster still end when the server is started. It is started again.
        ("FATAL", text) if text.contains("pre-existing shared memory block") => true,
        ("FATAL", _) => ENDS.contains(&state),
        ("PANIC", _) => state == "53100",
        // SIGABRT follows a PANIC, which has its own line.
        ("LOG", _) if text.contains("terminated by signal") => {
            text.contains("signal 9") || text.contains("signal 6")
        }
        ("LOG", text) => !text.contains(" xqueue:"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_ends_only_a_session_that_begins() {
        let cancelled =
            "2026-11-22 10:00:00.000 UTC|7|57014|client backend|FATAL:  canceling statement";
        let of = |pid: u32| {
            format!("2026-11-22 10:00:00.000 UTC|{pid}|57014|client backend|STATEMENT:  SELECT")
        };
        assert_eq!(unexpected(cancelled), [""; 0]);
        assert_eq!(unexpected(&format!("{cancelled}\n{}", of(8))), [""; 0]);
        assert_eq!(unexpected(&format!("{cancelled}\n{}", of(7))), [cancelled]);
    }

    #[test]
    fn only_surprises_are_left() {
        let log = "\
            2026-11-22 10:00:00.000 UTC|7|55000|client backend|ERROR:  task 7 is not taken by anybody\n\
            2026-11-22 10:00:00.000 UTC|7|XX000|client backend|ERROR:  could not open relation\n\
            2026-11-22 10:00:00.000 UTC|7|00000|postmaster|LOG:  server process (PID 8) was terminated by signal 9: Killed\n\
            2026-11-22 10:00:00.000 UTC|7|00000|postmaster|LOG:  server process (PID 8) was terminated by signal 11: Segfault\n\
            2026-11-22 10:00:00.000 UTC|7|F0001|postmaster|FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use\n\
            2026-11-22 10:00:00.000 UTC|7|F0001|postmaster|FATAL:  lock file \"postmaster.pid\" already exists\n\
            2026-11-22 10:00:00.000 UTC|7|01000|xqueue worker|WARNING:  xqueue: cannot read the list of queues\n\
            2026-11-22 10:00:00.000 UTC|7|40P01|xqueue worker|WARNING:  xqueue: cannot look after sessions: deadlock detected\n\
            TRAP: failed Assert(\"x\")\n\
            \tsome lines of a context\n";
        let lines: Vec<usize> =
            log.lines().enumerate().filter(|(_, l)| !is_expected(l)).map(|(n, _)| n).collect();
        assert_eq!(lines, [1, 3, 5, 6, 8]);
        assert_eq!(unexpected(log).len(), 5);
    }
}
