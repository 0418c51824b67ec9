//! Cases that prepare a queue, and look at it after the server has ended and started again.

use xqueue_tests::*;

/// Looks at what a case has prepared, after the end.
pub type After = Box<dyn FnOnce()>;
/// Prepares a queue for this end of the server: "SIGKILL", "immediate" or "fast".
pub type Case = fn(&str) -> After;

/// Pairs each function with its name.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => { &[$((stringify!($case), $case as $crate::ends::Case)),+] };
}
pub(crate) use cases;

/// Prepares all cases, ends the server, and lets the cases look: once for each way in which a server ends.
pub fn after_each_end(cases: &[(&str, Case)]) {
    let server = Server::alone();
    for how in ["SIGKILL", "immediate", "fast"] {
        let prepared: Vec<_> = cases.iter().map(|(name, prepare)| (name, prepare(how))).collect();
        if how == "SIGKILL" {
            let victim =
                "SELECT max(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'";
            server.kill_backend(scalar(&mut connect(), victim, &[]));
        } else {
            server.restart(how);
        }
        for (name, after) in prepared {
            println!("{name} after {how}");
            after();
        }
    }
}
