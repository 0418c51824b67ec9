//! Low-water marks, see [`xqueue_models::marks`].

use xqueue_models::marks::{AWAKE, Flaw, INVARIANT, Marks};
use xqueue_models::{breaks, holds};

fn small() -> Marks {
    Marks { transactions: 3, raises: 2, ..Marks::default() }
}

#[test]
fn they_hide_no_task_and_leave_no_consumer_asleep() {
    let prepared = Marks { prepares: 1, ..small() };
    for (name, model) in [
        ("marks", small()),
        ("marks, shared positions", Marks { shares_positions: true, ..prepared.clone() }),
        ("marks, slow raises", Marks { slow_raises: true, ..small() }),
        ("marks, prepared", prepared.clone()),
        ("marks, crash", Marks { crashes: 1, transactions: 2, ..prepared }),
    ] {
        holds(name, model);
    }
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
