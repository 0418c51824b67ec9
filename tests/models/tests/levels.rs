//! Levels of sub-queues, see [`xqueue_models::levels`].

use xqueue_models::levels::{BOUND, Flaw, Levels, TURNS, URGENT};
use xqueue_models::{breaks, holds};

fn small() -> Levels {
    Levels { takes: 3, puts: 3, ..Levels::default() }
}

fn undone() -> Levels {
    Levels { takes: 2, puts: 3, rollbacks: 1, ..Levels::default() }
}

#[test]
fn beside_puts() {
    holds("levels", small());
}

#[test]
fn beside_rollbacks() {
    holds("levels, rollbacks", undone());
}

#[test]
fn each_step_is_needed() {
    for (flaw, model, property) in [
        (Flaw::LevelWithoutFloor, small(), BOUND),
        (Flaw::NotLowered, small(), BOUND),
        (Flaw::UndoneSilently, undone(), BOUND),
        (Flaw::LimitIgnored, small(), URGENT),
        (Flaw::ServedToFront, small(), TURNS),
    ] {
        breaks(flaw, Levels { flaw: Some(flaw), ..model }, property);
    }
}
