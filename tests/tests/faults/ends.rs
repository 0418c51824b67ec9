//! Cases that prepare a queue, and look at it after its server has started again, or a standby has taken over.

use xqueue_tests::*;

/// Looks at a queue after the end.
pub type After = Box<dyn FnOnce(&mut Queue)>;
/// Prepares a queue for this end of its server: "SIGKILL", "immediate", "fast" or "promotion".
pub type Case = fn(&mut Queue, &str) -> After;

/// Pairs each function with its name.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => { &[$((stringify!($case), $case as $crate::ends::Case)),+] };
}
pub(crate) use cases;

/// Prepares all cases, ends the server, and lets the cases look: once for each way in which a server ends.
pub fn after_each_end(cases: &[(&str, Case)]) {
    let server = Server::alone();
    for how in ["SIGKILL", "immediate", "fast"] {
        let prepared = prepare(cases, how, || Queue::new("end"));
        if how == "SIGKILL" {
            let victim =
                "SELECT max(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'";
            server.kill_backend(scalar(&mut connect(), victim, &[]));
        } else {
            server.restart(how);
        }
        look(prepared, how, Queue::reconnect);
    }
    let (primary, standby) = Cluster::with_standby();
    let options = json!({"features": {"delayed": true}});
    let make = || Queue::make_at(primary.config(), &unique("end"), COLUMNS, &options);
    let prepared = prepare(cases, "promotion", make);
    standby.catch_up(&primary);
    // Failed takes on the standby have no later effect.
    let mut reader = standby.client();
    for (_, q, _) in &prepared {
        let take = format!("SELECT xqueue.take('{}')", q.name);
        (0..300).for_each(|_| drop(try_sql(&mut reader, &take)));
    }
    fail_over(&primary, &standby);
    look(prepared, "promotion", |q| q.move_to(standby.config()));
    standby.assert_quiet();
}

type Prepared<'a> = Vec<(&'a str, Queue, After)>;

fn prepare<'a>(cases: &[(&'a str, Case)], how: &str, make: impl Fn() -> Queue) -> Prepared<'a> {
    let prepared = cases.iter().map(|(name, case)| {
        let mut q = make();
        let after = case(&mut q, how);
        (*name, q, after)
    });
    prepared.collect()
}

fn look(prepared: Prepared<'_>, how: &str, connect: impl Fn(&mut Queue)) {
    for (name, mut q, after) in prepared {
        println!("{name} after {how}");
        connect(&mut q);
        after(&mut q);
    }
}

/// Ends the primary and promotes the standby.
pub fn fail_over(primary: &Cluster, standby: &Cluster) {
    standby.catch_up(primary);
    primary.stop("immediate");
    standby.promote();
    standby.wait_running();
}
