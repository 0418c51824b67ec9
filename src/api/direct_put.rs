//! Direct path of `put`: the values that the call and the queue add to its tasks.

use crate::api::producer::Put;
use crate::api::values::Values;
use crate::error::Result;
use crate::model::field::Field;
use crate::model::status::Status;
use crate::server::spi::Rows;
use crate::server::time;
use crate::server::value::Value;
use crate::statement::Parameter;
use crate::write::direct;

impl Put<'_> {
    /// Puts tasks on the direct path; false if that is not possible.
    pub(super) fn directly(
        &self,
        tasks: &[Values],
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<bool> {
        // Only the statement path checks whether an identity may be given.
        let gives_identity = |values: &Values| values.columns().any(|column| column.is_identity);
        let is_plain = tasks.iter().all(|values| values.is_plain() && !gives_identity(values));
        if !is_plain || self.may_have_to_wait() {
            return Ok(false);
        }
        let Some(writer) = direct::writer(self.queue) else { return Ok(false) };
        let Some(common) = self.common() else { return Ok(false) };
        let tasks: Vec<_> = tasks.iter().map(Values::read).collect::<Result<_>>()?;
        let rows = direct::put(self.queue, &writer, &tasks, common, self.statement.form)?;
        let Some(rows) = rows else { return Ok(false) };
        deliver(&rows)?;
        Ok(true)
    }

    /// Returns the state of the new tasks and the values that the call and the queue give to all of them; None if a number
    /// is out of range.
    fn common(&self) -> Option<(Status, direct::Values<'_>)> {
        let (queue, put) = (self.queue, &self.statement);
        let argument = |parameter, is_given: bool| {
            if is_given { self.arguments.get(parameter) } else { None }
        };
        let mut common = Vec::new();
        let mut give = |field, value| common.push((queue.number_of(field), Some(value)));
        let mut start = time::now();
        if let Some(delay) = argument(Parameter::Delay, put.delay) {
            start = time::plus(start, delay);
            give(Field::Runat, Value::instant(start));
        }
        let default =
            queue.features().default_ttl().filter(|_| queue.number_of(Field::Expires) != 0);
        match argument(Parameter::Ttl, put.ttl) {
            Some(ttl) => give(Field::Expires, Value::instant(time::plus(start, ttl))),
            None => {
                if let Some(ttl) = default {
                    give(Field::Expires, Value::instant(time::after(start, ttl)?));
                }
            }
        }
        if let Some(ttr) = argument(Parameter::Ttr, put.ttr) {
            give(Field::Ttr, ttr);
        }
        if let Some(tube) = argument(Parameter::Tube, put.tube) {
            give(Field::Tube, tube);
        }
        let priority = argument(Parameter::Priority, put.priority);
        if let Some(priority) = priority.or_else(|| argument(Parameter::Level, put.front)) {
            let column = queue.column_of(Field::Priority)?;
            give(Field::Priority, Value::integer(priority.to_integer(), column.oid)?);
        }
        Some((if put.delay { Status::Waiting } else { Status::Ready }, common))
    }
}
