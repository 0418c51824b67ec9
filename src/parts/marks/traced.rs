//! The steps of the low-water marks of a queue: of the one before which no task is ready, and the one before which none
//! is buried. Those of tubes and priorities are lowered and raised by the same code.

use crate::model::position::{Group, Position};
use crate::parts::marks::mark::Mark;
use crate::server::process;
use serde_json::{Value, json};

/// What a step may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    ready: Limits,
    buried: Limits,
    is_prepared: bool,
    is_looking: bool,
}

/// Of a mark: its place, its floor, and since when it is being raised.
type Limits = (Position, Position, i64);

/// Notes what a step has done to the marks of a slot, under the lock of that.
pub fn step(generation: u64, (before, after): (Seen, Seen), what: impl FnOnce() -> Value) {
    crate::trace::step("marks", || {
        let mut event = what();
        event["slot"] = generation.into();
        event["before"] = before.shown();
        event["after"] = after.shown();
        event
    });
}

impl Seen {
    pub fn of((ready, buried): (Mark, Mark), is_prepared: bool, is_looking: bool) -> Seen {
        let limits = |mark: Mark| (mark.at, mark.floor, mark.raised_since());
        Seen { ready: limits(ready), buried: limits(buried), is_prepared, is_looking }
    }

    fn shown(&self) -> Value {
        let mark = |(at, floor, since): Limits| json!({ "at": at.to_string(), "floor": floor.to_string(), "since": since });
        json!({
            "ready": mark(self.ready),
            "buried": mark(self.buried),
            "prepared": self.is_prepared,
            "looking": self.is_looking,
        })
    }
}

/// A raise of a mark begins.
pub fn raise_begins(group: Group, since: i64) -> Option<Value> {
    let group = name(group)?;
    Some(json!({ "do": "Start", "group": group, "since": since, "by": process::pid() }))
}

/// It ends; nothing is found where the look has failed.
pub fn raise_ends(group: Group, since: i64, found: Option<Position>) -> Option<Value> {
    let (group, found) = (name(group)?, found.map(|found| found.to_string()));
    Some(
        json!({ "do": "End", "group": group, "since": since, "by": process::pid(), "found": found }),
    )
}

/// A commit has made tasks ready, or buried them, in these places at the earliest; or it has done what is not known, and the
/// marks are forgotten.
pub fn lowered(places: impl Iterator<Item = (Group, Position)>, forgets: bool) -> Value {
    let (mut ready, mut buried) = (None::<Position>, None::<Position>);
    for (group, position) in places {
        let lower = |lowest: &mut Option<Position>| {
            *lowest = Some(lowest.map_or(position, |lowest| lowest.min(position)));
        };
        if group != Group::Buried {
            lower(&mut ready);
        }
        if matches!(group, Group::Buried | Group::ALL) {
            lower(&mut buried);
        }
    }
    let [ready, buried] = [ready, buried].map(|lowest| lowest.map(|lowest| lowest.to_string()));
    json!({
        "do": "Lower", "commit": crate::trace::number(), "ready": ready, "buried": buried, "forgets": forgets,
    })
}

/// Where a task has come to stand.
pub fn stand((group, position): (Group, Position)) -> Value {
    let group = match group {
        Group::Buried => "buried",
        Group::ALL => "any",
        Group::Ready { .. } => "ready",
    };
    json!([group, position.to_string()])
}

/// The mark of a group, if its steps are traced.
fn name(group: Group) -> Option<&'static str> {
    match group {
        Group::ALL => Some("ready"),
        Group::Buried => Some("buried"),
        Group::Ready { .. } => None,
    }
}
