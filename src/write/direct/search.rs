//! Takes by searching the index.

use crate::server::heap::{Bound, Open, ScanStep};
use crate::server::{injection, xact};
use crate::write::direct::attempt::{Attempt, Attempts};
use pgrx::pg_sys::Oid;

/// Maximum number of searches of a take; beyond it a statement has to find tasks that other transactions keep changing.
const SEARCHES: usize = 3;

/// Tries the tasks of an index in order. Returns whether there can be more tasks, which a statement has
/// to find.
///
/// Tasks that other transactions are changing or have locked are passed over. If one of these transactions has ended
/// since, its task is possibly free, so the index is searched again.
pub fn take(open: &Open, index: Oid, bounds: &[Bound], attempts: &mut Attempts) -> bool {
    for search in 1..=SEARCHES {
        let (mut holders, mut is_impossible) = (Vec::new(), false);
        injection::point(c"xqueue-index-is-to-be-searched");
        open.scan(index, bounds, |found| {
            match attempts.attempt(found) {
                Attempt::Held(holder) if !holders.contains(&holder.transaction()) => {
                    holders.push(holder.transaction());
                }
                Attempt::Impossible => is_impossible = true,
                Attempt::Taken | Attempt::Unfit | Attempt::Held(_) | Attempt::Refused => {}
            }
            if is_impossible || attempts.is_over() { ScanStep::Ends } else { ScanStep::GoesOn }
        });
        if is_impossible || attempts.is_over() {
            return is_impossible;
        }
        // If several transactions hold a row, it is not known when they end: a second search is enough.
        let still_holds = |holder: &Option<u32>| holder.map_or(search > 1, xact::is_in_progress);
        if holders.iter().all(still_holds) {
            return false;
        }
        open.renew_snapshot();
    }
    true
}
