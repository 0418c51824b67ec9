//! Wake-ups, see [`xqueue_models::wakeups`].

use xqueue_models::wakeups::{AWAKE, BOUNDED, CONSUMERS, Flaw, TASKS, Wakeups};
use xqueue_models::{breaks, holds};

/// Lets all consumers see all tasks.
fn alike() -> Wakeups {
    Wakeups { sees: [[true; TASKS]; CONSUMERS], sleepers: 2, rollbacks: 1, deaths: 0, flaw: None }
}

/// Lets each tenant see only its own tasks, like row security.
fn tenants() -> Wakeups {
    Wakeups { sees: [[true, false, false], [false, true, true], [false, true, true]], ..alike() }
}

/// Ends a consumer early.
fn dying(model: Wakeups) -> Wakeups {
    Wakeups { rollbacks: 0, deaths: 1, ..model }
}

#[test]
fn where_all_see_the_same() {
    holds("wake-ups", alike());
    holds("wake-ups, a consumer ends", dying(alike()));
}

#[test]
fn where_row_security_shows_each_its_own() {
    holds("wake-ups, tenants", tenants());
    holds("wake-ups, tenants, a consumer ends", dying(tenants()));
}

#[test]
fn each_step_is_needed() {
    for (flaw, model, property) in [
        (Flaw::NoLookOnceJoined, alike(), AWAKE),
        (Flaw::TokenKept, dying(alike()), AWAKE),
        (Flaw::SecondTokenKept, alike(), AWAKE),
        (Flaw::VainUsesUp, tenants(), AWAKE),
        (Flaw::RoundAndRound, tenants(), BOUNDED),
        (Flaw::MissedIgnored, Wakeups { sleepers: CONSUMERS, rollbacks: 0, ..alike() }, AWAKE),
        (Flaw::AnotherUsesUp, alike(), AWAKE),
        (Flaw::WokenTooEarly, alike(), AWAKE),
        (Flaw::UndoneSilently, alike(), AWAKE),
    ] {
        breaks(flaw, Wakeups { flaw: Some(flaw), ..model }, property);
    }
}
