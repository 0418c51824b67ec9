//! Whether a change of a task runs code of its table's owner, which may take any time and refuse to be
//! cancelled.

use crate::queue::Queue;
use crate::server::relation::{ColumnType, Lock, Relation};
use crate::server::types;
use crate::settings;

impl Queue {
    /// Returns whether a change of the table's rows may run more than the extension's triggers and cheap expressions:
    /// other triggers and those of foreign keys, rules, policies, the hook, and what checks, indexes with their
    /// operator classes, generated columns, and types that users have made, call. Which expressions are cheap:
    /// [`crate::server::expression`]. Defaults are none of these: a change makes no new row. In doubt it may. A
    /// statement may, so with the direct path off every queue does.
    ///
    /// The caller holds a lock on the table that keeps away who would add such things.
    pub fn runs_user_code(&self) -> bool {
        !settings::allows_direct_path() || *self.user_code.get_or_init(|| self.finds_user_code())
    }

    fn finds_user_code(&self) -> bool {
        if !self.is_sole_writer || self.has_row_security {
            return true;
        }
        let Some(table) = Relation::open(self.table, Lock::None) else { return true };
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
