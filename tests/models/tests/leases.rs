//! Leases, see [`xqueue_models::leases`].

use xqueue_models::leases::{FENCED, Flaw, KEPT, Leases, NOT_LOST};
use xqueue_models::{breaks, holds};

fn deadlines() -> Leases {
    Leases { takes: 2, expiries: 2, touches: 1, ..Leases::default() }
}

fn by_hand() -> Leases {
    Leases { takes: 2, gifts: 1, snatches: 1, ..Leases::default() }
}

#[test]
fn beside_deadlines_and_lost_sessions() {
    holds("leases, deadlines", deadlines());
}

#[test]
fn beside_rollbacks_and_crashes() {
    holds("leases, crash", Leases { takes: 2, rollbacks: true, crashes: 1, ..Leases::default() });
}

#[test]
fn beside_gifts_and_tasks_taken_away() {
    holds("leases, by hand", by_hand());
}

#[test]
fn each_step_is_needed() {
    let crash = Leases { takes: 2, crashes: 1, ..Leases::default() };
    for (flaw, model, property) in [
        (Flaw::AckWithoutOwner, deadlines(), FENCED),
        (Flaw::AckWithoutAttempt, deadlines(), FENCED),
        (Flaw::OverdueUnchecked, deadlines(), KEPT),
        (Flaw::AttachedTooEarly, crash, KEPT),
        (Flaw::LockedForgotten, by_hand(), NOT_LOST),
        (Flaw::CountersBelieved, by_hand(), NOT_LOST),
        (Flaw::NoDistrust, by_hand(), NOT_LOST),
        (Flaw::NotLookedAfter, by_hand(), NOT_LOST),
        (Flaw::LookedAfterTooEarly, by_hand(), NOT_LOST),
        (Flaw::LeftBeforeAbort, by_hand(), NOT_LOST),
    ] {
        breaks(flaw, Leases { flaw: Some(flaw), ..model }, property);
    }
}
