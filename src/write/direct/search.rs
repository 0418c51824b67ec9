//! Takes by searching the index.

use crate::server::heap::{Bound, Found, Open, Scan};
use crate::server::{injection, xact};
use crate::write::direct::ahead::Attempt;
use pgrx::pg_sys::Oid;

/// Maximum number of searches of a take; beyond it a statement has to find tasks that other transactions keep changing.
const SEARCHES: usize = 3;

/// Lets `attempt` take the tasks of an index in order. Returns whether there can be more tasks, which a statement has
/// to find.
///
/// Tasks that other transactions are changing or have locked are passed over. If one of these transactions has ended
/// since, its task is possibly free, so the index is searched again.
pub fn take(
    open: &Open,
    index: Oid,
    bounds: &[Bound],
    mut attempt: impl FnMut(&Found) -> Attempt,
) -> bool {
    for search in 1..=SEARCHES {
        let (mut holders, mut needs_statement) = (Vec::new(), None);
        let mut note = |holder: Option<u32>| {
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        };
        injection::point(c"xqueue-index-is-to-be-searched");
        open.scan(index, bounds, |found| {
            match attempt(found) {
                Attempt::Enough => needs_statement = Some(false),
                Attempt::Impossible => needs_statement = Some(true),
                Attempt::Changed(holder) => note(Some(holder)),
                Attempt::Locked(holder) => note(holder),
                Attempt::Taken | Attempt::Unfit | Attempt::Refused => {}
            }
            if needs_statement.is_some() { Scan::Ends } else { Scan::GoesOn }
        });
        if let Some(needs_statement) = needs_statement {
            return needs_statement;
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
