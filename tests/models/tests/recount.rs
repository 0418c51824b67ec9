//! The recount of a queue's tasks, see [`xqueue_models::recount`].

use xqueue_models::recount::{EXACT, Flaw, Recounts};
use xqueue_models::{breaks, holds};

fn small() -> Recounts {
    Recounts { transactions: 4, recounts: 2, ..Recounts::default() }
}

fn prepared() -> Recounts {
    Recounts { transactions: 2, recounts: 1, prepares: 1, crashes: 1, ..Recounts::default() }
}

#[test]
fn counters_are_exact_beside_commits_and_rollbacks() {
    holds("recount", small());
}

#[test]
fn counters_are_exact_beside_prepared_transactions_and_after_a_crash() {
    holds("recount, prepared", prepared());
}

#[test]
fn each_step_is_needed() {
    for (flaw, model) in [
        (Flaw::SnapshotUnlocked, small()),
        (Flaw::SinceAddsAll, small()),
        (Flaw::SinceAddsNone, small()),
        (Flaw::MarkedForever, small()),
        (Flaw::EndAtOnce, small()),
        (Flaw::TellBeforeVisible, small()),
        (Flaw::PreparedIgnored, prepared()),
        (Flaw::ExactDuringLook, prepared()),
        (Flaw::NoRecountAfterLook, prepared()),
    ] {
        breaks(flaw, Recounts { flaw: Some(flaw), ..model }, EXACT);
    }
}
