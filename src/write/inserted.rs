//! The record of a new row whose state is not known before: users' triggers, or an INSERT by hand, can give it any.

use crate::error::Result;
use crate::queue::Queue;
use crate::server::row::Row;
use crate::transaction;
use crate::write::seen::Seen;
use crate::write::subqueues::by_hand;
use crate::write::{reservation, row};
use xqueue_core::change::CallKind;
use xqueue_core::status::Status;

/// Records a row that was inserted. Refuses it if the capacity, or another taken task of its sub-queue, does not allow
/// it. `call`: the call that this session is executing.
pub fn note<R: Row>(queue: &Queue, new: Seen<R>, call: Option<CallKind>) -> Result<()> {
    if new.place.status == Status::Taken {
        by_hand::claim(queue, &new.place, new.row)?;
    }
    row::note(queue, None::<Seen<R>>, Some(new), call);
    transaction::note(queue.slot, |delta| delta.counters.call(CallKind::Put, 1));
    reservation::admit(queue)
}
