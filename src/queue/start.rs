//! Where a scan in the take order begins.

use crate::queue::key_text;
use crate::server::heap::{Bound, Is};
use crate::server::value::Value;

/// Values of the columns that have a part in positions, where a scan begins.
#[derive(Clone, Copy)]
pub struct Start<'m> {
    pub first: Value<'m>,
    pub second: Option<Value<'m>>,
}

impl<'m> Start<'m> {
    /// Returns the bounds of an index scan that begins here.
    pub fn at_least(self) -> impl Iterator<Item = Bound<'m>> {
        let is = if self.second.is_some() { Is::RowAtLeast } else { Is::AtLeast };
        let second = self.second.map(|value| Bound { is: Is::RowEnds, value });
        [Bound { is, value: self.first }].into_iter().chain(second)
    }

    /// Returns the bounds of a scan that begins with the tasks at this position. `names_task`: only one task is there.
    pub fn at(self, names_task: bool) -> impl Iterator<Item = Bound<'m>> {
        let last = if names_task { Is::Equal } else { Is::AtLeast };
        let first = if self.second.is_some() { Is::Equal } else { last };
        let second = self.second.map(|value| Bound { is: last, value });
        [Bound { is: first, value: self.first }].into_iter().chain(second)
    }

    /// Formats the values for users.
    pub fn shown(self) -> String {
        key_text(&[Some(self.first), self.second].into_iter().flatten().collect::<Vec<_>>())
    }
}
