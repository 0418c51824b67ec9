//! The candidate ring, see [`xqueue_models::ring`].

use xqueue_models::ring::{Flaw, HIDDEN, ORDER, Rings};
use xqueue_models::{breaks, holds};

fn small() -> Rings {
    Rings { puts: 2, takes: 4, ..Rings::default() }
}

fn locked() -> Rings {
    Rings { locks: 1, takes: 3, ..small() }
}

/// Has a ring of all tasks and a ring of one tube, which share tasks.
fn two() -> Rings {
    Rings { has_tube: true, takes: 3, ..small() }
}

#[test]
fn takes_are_in_order() {
    let begun = Rings { ready: 2, takes: 4, locks: 1, ..Rings::default() };
    for (name, model) in [
        ("ring", small()),
        ("ring, locks", locked()),
        ("ring, several", Rings { more: 1, puts: 3, takes: 3, ..small() }),
        ("ring, several, locks", Rings { more: 1, ..locked() }),
        ("ring, several, rollbacks", Rings { more: 1, ..begun }),
        ("two rings", two()),
        ("two rings, locks", Rings { locks: 1, ready: 2, puts: 1, ..two() }),
    ] {
        holds(name, model);
    }
}

#[test]
fn each_step_is_needed() {
    let begun = Rings { ready: 2, puts: 1, takes: 3, ..Rings::default() };
    let two = Rings { ready: 2, puts: 0, takes: 4, ..two() };
    for (flaw, model, property) in [
        (Flaw::NoUndo, begun.clone(), ORDER),
        (Flaw::NoUndo, small(), HIDDEN),
        (Flaw::NoAbandon, begun.clone(), ORDER),
        (Flaw::NoAbandon, small(), HIDDEN),
        (Flaw::NoLower, begun.clone(), ORDER),
        (Flaw::NoLower, small(), HIDDEN),
        (Flaw::ReadBeforeHandOut, begun.clone(), ORDER),
        (Flaw::ReadBeforeHandOut, small(), HIDDEN),
        (Flaw::OldSnapshot, begun.clone(), ORDER),
        (Flaw::LockForgotten, Rings { locks: 1, ..begun }, ORDER),
        (Flaw::LockForgotten, locked(), HIDDEN),
        (Flaw::UndoInOneRing, two.clone(), ORDER),
        (Flaw::UndoInOneRing, two, HIDDEN),
    ] {
        breaks(flaw, Rings { flaw: Some(flaw), ..model }, property);
    }
}
