//! Low-water marks, see [`xqueue_models::marks`].

use xqueue_models::marks::{AWAKE, Flaw, INVARIANT, Marks};
use xqueue_models::{breaks, holds};

fn small() -> Marks {
    Marks { transactions: 3, raises: 2, ..Marks::default() }
}

#[test]
fn they_are_right_beside_commits_and_rollbacks() {
    holds("marks", small());
}

#[test]
fn they_are_right_if_tasks_share_a_position() {
    holds("marks, shared", Marks { shares_positions: true, prepares: 1, ..small() });
}

#[test]
fn they_are_right_beside_raises_that_take_too_long() {
    holds("marks, slow raises", Marks { slow_raises: true, ..small() });
}

#[test]
fn they_are_right_beside_prepared_transactions() {
    holds("marks, prepared", Marks { prepares: 1, ..small() });
}

#[test]
fn they_are_right_after_a_crash() {
    holds("marks, crash", Marks { prepares: 1, crashes: 1, transactions: 2, ..small() });
}

#[test]
fn each_step_is_needed() {
    let prepared = Marks { prepares: 1, ..small() };
    for (flaw, model, property) in [
        (Flaw::SnapshotBeforeStart, small(), INVARIANT),
        (Flaw::NoFloor, small(), INVARIANT),
        (Flaw::LowerBeforeVisible, small(), INVARIANT),
        (Flaw::LowerAfterWaking, small(), AWAKE),
        (Flaw::RaiseBesideOwnTake, small(), INVARIANT),
        (Flaw::PreparedIgnored, prepared.clone(), INVARIANT),
        (Flaw::RaiseDuringLook, Marks { crashes: 1, ..prepared.clone() }, INVARIANT),
        (Flaw::MarkedOnce, Marks { crashes: 1, ..prepared.clone() }, INVARIANT),
        (Flaw::NoNudge, Marks { crashes: 1, ..prepared }, AWAKE),
        (Flaw::AbandonedRaiseEnds, Marks { slow_raises: true, ..small() }, INVARIANT),
        (Flaw::KeepOverCrash, Marks { crashes: 1, ..small() }, INVARIANT),
    ] {
        breaks(flaw, Marks { flaw: Some(flaw), ..model }, property);
    }
}
