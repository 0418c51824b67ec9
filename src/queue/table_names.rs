//! SQL names of a queue's table and columns for its statements.

use crate::error::Result;
use crate::queue::fitness::Fitness;
use crate::queue::order::order_of;
use crate::queue::times::time_column;
use crate::server::relation::{ColumnType, Relation};
use crate::server::{catalog, types};
use std::collections::BTreeMap;
use xqueue_core::field::Field;
use xqueue_core::options::Options;
use xqueue_core::statement::{self, KeyColumn};
use xqueue_core::status::Status;

/// Returns the hashes of the types that the statements of a queue name. A session reads the queue again after one of
/// these types has changed.
pub(super) fn types_named(fields: &BTreeMap<Field, ColumnType>, key: &[ColumnType]) -> Vec<u32> {
    let status = fields.get(&Field::Status).map(|column| column.base);
    let compared = fields.get(&Field::Tube).into_iter().chain(key);
    let compared = compared.map(|column| types::compared_type(column.oid));
    status.into_iter().chain(compared).map(types::catalog_hash).collect()
}

/// Returns the quoted names that the statements of a queue use.
pub fn table_names(
    relation: &Relation,
    options: &Options,
    fields: &BTreeMap<Field, ColumnType>,
    key: &[ColumnType],
    order: &[ColumnType],
) -> Result<statement::Table> {
    let fitness = Fitness { options, queue: None };
    let key = key.iter().map(|column| {
        let equals = fitness.equality("key", column)?;
        Ok(KeyColumn { name: catalog::quote(&column.name), equals })
    });
    let tube_equals = fields.get(&Field::Tube).map(|column| fitness.equality("tube", column));
    let status = fields.get(&Field::Status);
    let quoted = |column: &ColumnType| catalog::quote(&column.name);
    // The server compares varchar as text. It shows a list of varchar in a form that it reads as another expression. An
    // index over such a list would not be recognized in a restored table.
    let status_type = match status.map(|column| column.base) {
        Some(types::VARCHAR) => types::type_name(types::TEXT),
        Some(base) => types::type_name(base),
        None => String::new(),
    };
    let attempts = fields.get(&Field::Attempts).map(|column| column.base);
    // The modifier of char(n) or varchar(n) is n + 4.
    let reason = fields.get(&Field::Reason);
    let reason = reason.map(|column| types::base_modifier(column.oid, column.modifier) - 4);
    Ok(statement::Table {
        schema: catalog::quote(&catalog::schema_name(relation.schema())),
        name: catalog::quote(&relation.name()),
        key: key.collect::<Result<_>>()?,
        order: order.iter().map(quoted).collect(),
        marked: order_of(order).map_or(0, |order| order.columns()),
        fields: fields.iter().map(|(field, column)| (*field, quoted(column))).collect(),
        times: [Field::Runat, Field::Expires]
            .into_iter()
            .filter_map(|field| Some((field, time_column(fields.get(&field)?)?)))
            .collect(),
        time_zone: catalog::quote_literal(options.time_zone()),
        columns: relation.columns().iter().map(|column| (column.number, quoted(column))).collect(),
        status_type,
        owner_is_text: fields.get(&Field::Owner).is_some_and(|owner| owner.oid != types::UUID),
        tube_equals: tube_equals.transpose()?.unwrap_or_default(),
        most_attempts: types::greatest_integer(attempts.unwrap_or(types::INT8)),
        reason_length: reason.filter(|length| *length > 0),
        labels: Status::ALL.iter().map(|s| catalog::quote_literal(&options.label(*s))).collect(),
        features: options.features.clone(),
    })
}
