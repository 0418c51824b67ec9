//! Takes by a search of the index.

use crate::server::heap::{Bound, Found, Open, Scan};
use crate::server::{injection, xact};
use crate::write::direct::ahead::Attempt;
use pgrx::pg_sys::Oid;

/// Maximum number of searches of a take; beyond it a statement is to find what others change again and again.
const SEARCHES: usize = 3;

/// Lets `attempt` take the tasks that an index leads to, in order, and returns whether there may be more, for a
/// statement to find.
///
/// What other transactions are changing or have locked is passed over. Where one of them has ended since, its task may
/// be free: the index is searched again.
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
        // Of several that hold a row it is not known when they end: a second look is enough.
        let still_holds = |holder: &Option<u32>| holder.map_or(search > 1, xact::is_in_progress);
        if holders.iter().all(still_holds) {
            return false;
        }
        open.renew_snapshot();
    }
    true
}
