//! Decides whether a change of a task by the worker runs code of its table's owner. Such code can run for any time and
//! ignore cancellation.

use crate::queue::Queue;
use crate::server::relation::{ColumnType, LockMode, Relation};
use crate::server::types;
use crate::settings;

impl Queue {
    /// Returns whether a change of a task by the worker can run more than the extension's triggers and cheap
    /// expressions ([`crate::server::expression`]). It can if it fires something of a user's, if the table has
    /// policies, or if checks, indexes, generated columns or types call functions of users. Defaults do not count,
    /// because a change makes no new row. Returns true in doubt, and if the direct path is off.
    ///
    /// The caller holds a lock on the table that keeps others from adding such things.
    pub fn runs_user_code(&self) -> bool {
        !settings::allows_direct_path() || *self.user_code.get_or_init(|| self.finds_user_code())
    }

    fn finds_user_code(&self) -> bool {
        if self.fires_in_worker() || self.has_row_security {
            return true;
        }
        let Some(table) = Relation::open(self.table, LockMode::None) else { return true };
        let is_of_users = |column: &ColumnType| {
            let element = types::element_type(column.base).unwrap_or(column.base);
            column.is_generated
                || column.base != column.oid
                || types::has_parts_or_checks(element)
                || types::is_made_by_users(element)
        };
        !table.is_heap()
            || table.is_partition()
            || table.columns().iter().any(is_of_users)
            || !table.has_only_cheap_expressions()
    }
}
