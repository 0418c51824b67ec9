//! Labels of the counted tubes, parsed to values of the tube column. A session's settings determine how it shows and
//! parses values, so labels are not compared by text.

use crate::error::{Error, Result};
use crate::queue::digest::keyed;
use crate::queue::fitness::Fitness;
use crate::server::relation::ColumnType;
use crate::server::user::Pinned;
use crate::server::value::Value;
use crate::server::{operators, types, xact};
use std::collections::BTreeMap;
use xqueue_core::field::Field;

/// Parts of a text that stand for a different date each day.
const MOVING: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

impl Fitness<'_> {
    /// Returns the values of the labels in `tube_stats`; None for a label that its enum no longer has.
    pub fn labels<'to>(&self, column: &ColumnType) -> Result<Vec<Option<Value<'to>>>> {
        let labels = self.options.tubes_counted();
        if labels.is_empty() {
            return Ok(vec![]);
        }
        if !operators::is_told_by_hash(column.base) && column.base != types::INTERVAL {
            let what = format!("tubes of type {} cannot be counted", types::type_name(column.oid));
            let hint = "Leave tube_stats out, or use a tube column of type text, integer, uuid, date, timestamp, \
                        interval, numeric, bytea or an enum.";
            return Err(self.refused(Field::Tube, column, &what, hint));
        }
        let is_gone = |label: &str| {
            self.queue.is_some()
                && types::is_enum(column.base)
                && types::enum_value(column.base, label).is_none()
        };
        let read = |label: &String| match is_gone(label) {
            true => Ok(None),
            // A queue whose column has got another type is refused, like others that cannot be described.
            false => xact::unless_of_task(|| operators::parse_value(label, column.base))
                .map_err(|failure| {
                    let hint =
                        "It is a label in tube_stats, which have to be values of the tube column.";
                    Error::new(failure.code, failure.message).hint(hint)
                })
                .flatten()
                .map(Some),
        };
        let _formats = Pinned::formats();
        labels.iter().map(read).collect()
    }

    /// Refuses labels that stand for the same value, and labels whose value changes each day.
    pub fn refuse_vague_labels(&self, column: &ColumnType) -> Result<()> {
        let (labels, values) = (self.options.tubes_counted(), self.labels(column)?);
        let refused = |what: String| {
            Err(Error::invalid(what).hint("Name each tube in tube_stats once, by its value."))
        };
        for (index, (label, value)) in labels.iter().zip(&values).enumerate() {
            let is_equal = |other: &&Option<Value>| {
                value
                    .zip(**other)
                    .is_some_and(|(value, other)| operators::equal(value, other, column.collation))
            };
            if values[..index].iter().find(is_equal).is_some() {
                return refused(format!(
                    "tube \"{label}\" is in tube_stats twice, by another text of the same value"
                ));
            }
            let lower = label.to_lowercase();
            if types::is_of_time(column.base) && MOVING.iter().any(|word| lower.contains(word)) {
                return refused(format!(
                    "tube \"{label}\" in tube_stats is not always the same value"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the hashes of the labels in `tube_stats`, in the order of [`Fitness::labels`].
pub fn hashes(fitness: &Fitness, fields: &BTreeMap<Field, ColumnType>) -> Result<Vec<Option<u64>>> {
    let Some(column) = fields.get(&Field::Tube) else { return Ok(vec![]) };
    let hash = |label: Option<Value>| label.map(|label| keyed(label, column));
    Ok(fitness.labels(column)?.into_iter().map(hash).collect())
}
