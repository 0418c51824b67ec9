//! The guard of taken tasks. An UPDATE by hand must not change the state or the owner of a task that another session
//! has taken. Such an UPDATE comes, for example, from a program that writes back a row it has read earlier.

use crate::error::{Error, Result};
use crate::parts::leases::{session, store};
use crate::queue::Queue;
use crate::queue::owner::NOBODY;
use crate::server::process;
use crate::server::row::Row;
use crate::server::types::Uuid;
use crate::settings;
use crate::write::row;
use crate::write::seen::Seen;
use pgrx::PgSqlErrorCode;
use xqueue_core::change::CallKind;
use xqueue_core::status::Status;

/// Refuses to take a task away from its session, except in the calls that do this. `call`: the call that this session
/// is executing; its triggers can change tasks too.
pub fn refuse_to_take_away(
    queue: &Queue,
    old: &Seen<impl Row>,
    new: &Seen<impl Row>,
    call: Option<CallKind>,
) -> Result<()> {
    if old.place.status != Status::Taken
        || matches!(call, Some(CallKind::Snatch | CallKind::Session | CallKind::Ttr))
        || !queue.features().guards()
        || !settings::guards()
        || process::replays()
    {
        return Ok(());
    }
    let is_of_others = |holder: &Uuid| *holder != NOBODY && !session::is_joined_to(*holder);
    let Some(holder) = row::holder(queue, old).filter(is_of_others) else { return Ok(()) };
    if row::holder(queue, new) == Some(holder) {
        return Ok(());
    }
    let task = queue.key_text_of(old.row);
    let by = match store::holder(holder) {
        Some(pid) => pid.to_string(),
        None => "a session without a connection".into(),
    };
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("task {task} is taken by {by}: an UPDATE does not change its status or owner"),
    )
    .detail(format!("Queue \"{}\".", queue.name))
    .hint(
        "Update only other columns: a row read earlier can be out of date. xqueue.snatch() takes a task away. \
         For repair work: SET xqueue.guard = off.",
    ))
}
