//! The candidate ring, see [`xqueue_models::ring`].

use xqueue_models::ring::{Flaw, HIDDEN, ORDER, Rings};
use xqueue_models::{breaks, holds};

fn small() -> Rings {
    Rings { puts: 3, takes: 4, ..Rings::default() }
}

#[test]
fn takes_are_in_order_beside_puts_and_rollbacks() {
    holds("ring", small());
}

#[test]
fn takes_are_in_order_beside_locks() {
    holds("ring, locks", Rings { locks: 1, puts: 2, ..small() });
}

#[test]
fn takes_of_several_tasks_are_in_order() {
    holds("ring, several", Rings { more: 1, takes: 3, ..small() });
    holds("ring, several, locks", Rings { more: 1, locks: 1, puts: 2, takes: 3, ..small() });
}

/// Has a ring of all tasks and a ring of one tube, which share tasks.
fn two() -> Rings {
    Rings { has_tube: true, puts: 3, takes: 3, ..Rings::default() }
}

#[test]
fn takes_are_in_order_in_two_rings() {
    holds("two rings", two());
}

#[test]
fn takes_are_in_order_in_two_rings_beside_locks() {
    holds("two rings, locks", Rings { locks: 1, puts: 2, ..two() });
}

#[test]
fn each_step_is_needed() {
    let locked = Rings { locks: 1, puts: 2, ..small() };
    for (flaw, model) in [
        (Flaw::NoUndo, small()),
        (Flaw::NoAbandon, small()),
        (Flaw::NoLower, small()),
        (Flaw::ReadBeforeHandOut, small()),
        (Flaw::OldSnapshot, Rings { takes: 5, ..small() }),
        (Flaw::LockForgotten, locked.clone()),
        (Flaw::UndoInOneRing, Rings { takes: 4, ..two() }),
    ] {
        breaks(flaw, Rings { flaw: Some(flaw), ..model }, ORDER);
    }
    for flaw in [Flaw::NoUndo, Flaw::NoAbandon, Flaw::NoLower, Flaw::ReadBeforeHandOut] {
        breaks(flaw, Rings { flaw: Some(flaw), ..small() }, HIDDEN);
    }
    breaks(Flaw::LockForgotten, Rings { flaw: Some(Flaw::LockForgotten), ..locked }, HIDDEN);
}
