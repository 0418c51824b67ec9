//! `put` on the direct path. Its options are in [`super::producer`].

use crate::api::producer::Put;
use crate::api::values::Values;
use crate::error::Result;
use crate::server::spi::Rows;
use crate::write::direct;

impl Put<'_> {
    /// Puts tasks on the direct path; false if that is not possible.
    pub(super) fn directly(
        &self,
        tasks: &[Values],
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<bool> {
        // Only the statement path checks whether the caller can set such a column.
        let may_be_set = |values: &Values| {
            !values.columns().any(|column| column.is_identity || column.is_generated)
        };
        let is_plain = tasks.iter().all(|values| values.is_plain() && may_be_set(values));
        if !is_plain || self.may_have_to_wait() {
            return Ok(false);
        }
        let Some(writer) = direct::writer(self.queue) else { return Ok(false) };
        let tasks: Vec<_> = tasks.iter().map(Values::read).collect::<Result<_>>()?;
        let rows = direct::put(self.queue, &writer, &tasks, &self.statement, &self.arguments)?;
        let Some(rows) = rows else { return Ok(false) };
        deliver(&rows)?;
        Ok(true)
    }
}
