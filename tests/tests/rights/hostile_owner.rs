//! Owners alter the tables of their queues in every way that PostgreSQL allows. Afterwards every function in both
//! forms, every view and the worker fail with an error or work correctly. No backend crashes, and the queues of other
//! owners go on.

mod acts;
mod calls;
mod victim;

use acts::Act;
use victim::Victim;

/// Does each act on its own queue, first in a transaction that is rolled back, then committed.
fn endure(acts: Vec<Act>) {
    let mut victim = Victim::new();
    let (mut done, mut complaints) = (0, Vec::new());
    for act in &acts {
        done += usize::from(victim.endure(act, &mut complaints));
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    assert!(done * 2 > acts.len(), "PostgreSQL allowed only {done} of {}", acts.len());
}

#[test]
fn other_types_for_owner_and_times() {
    endure(acts::types(&["owner", "runat", "expires"]));
}

#[test]
fn other_types_for_what_decides_the_order() {
    endure(acts::types(&["status", "priority", "tube"]));
}

#[test]
fn other_types_for_what_counts_and_what_names() {
    endure(acts::types(&["attempts", "ttr", "reason", "id"]));
}

#[test]
fn columns_that_are_dropped_renamed_and_constrained() {
    endure(acts::columns());
}

#[test]
fn rules_heirs_policies_and_storage() {
    endure(acts::tables());
}
