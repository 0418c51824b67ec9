//! Sub-queues, see [`xqueue_models::subqueues`].

use xqueue_models::subqueues::{Flaw, MARKED, ONE, QUEUED, Subqueues};
use xqueue_models::{breaks, holds};

fn small() -> Subqueues {
    Subqueues { takes: 3, puts: 2, rollbacks: 1, releases: 1, ..Subqueues::default() }
}

fn by_hand() -> Subqueues {
    Subqueues { takes: 2, puts: 2, releases: 1, by_hand: 1, ..Subqueues::default() }
}

fn lost() -> Subqueues {
    Subqueues { takes: 3, puts: 2, releases: 1, resets: 1, ..Subqueues::default() }
}

#[test]
fn one_task_is_in_flight_and_no_sub_queue_is_lost() {
    for (name, model) in [
        ("subqueues", small()),
        ("subqueues, by hand", by_hand()),
        ("subqueues, reset", lost()),
        ("subqueues, by hand, reset", Subqueues { resets: 1, ..by_hand() }),
        ("subqueues, crash", Subqueues { takes: 2, puts: 2, crashes: 1, ..Subqueues::default() }),
    ] {
        holds(name, model);
    }
}

#[test]
fn each_step_is_needed() {
    for (flaw, model, property) in [
        (Flaw::SnapshotBeforeClaim, small(), QUEUED),
        (Flaw::DirtyIgnored, small(), QUEUED),
        (Flaw::UndoDrops, small(), QUEUED),
        (Flaw::FreedBeforeVisible, small(), ONE),
        (Flaw::SettledIgnored, small(), QUEUED),
        (Flaw::HandUnclaimed, by_hand(), ONE),
        (Flaw::ReportIgnored, lost(), ONE),
        (Flaw::SettledKept, lost(), ONE),
        (Flaw::MarkWithoutFloor, small(), MARKED),
    ] {
        breaks(flaw, Subqueues { flaw: Some(flaw), ..model }, property);
    }
}
