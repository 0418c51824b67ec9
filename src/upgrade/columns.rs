//! Assigns columns of a table to the fields of the queue.

use crate::error::{Error, Result};
use crate::queue::{self, Fitness};
use crate::server::relation::{ColumnType, Relation};
use crate::server::value::Value;
use crate::server::{catalog, index, spi, sql_name, types};
use pgrx::PgSqlErrorCode;
use std::collections::BTreeMap;
use xqueue_core::definition::{Column, Definition};
use xqueue_core::field::Field;
use xqueue_core::names::LONGEST_NAME;
use xqueue_core::options::Options;
use xqueue_core::status::Status;

/// Finds the columns of a queue in its table.
pub struct Columns<'a> {
    pub relation: &'a Relation,
    pub options: &'a Options,
    /// The part of the options that this call gives.
    pub newer: &'a Options,
    pub previous: Option<&'a Definition>,
    /// The key that the queue had, or that the note of a restored table names.
    pub known_key: Vec<Column>,
    pub same_table: bool,
}

impl Columns<'_> {
    /// Returns the known key if it still is one. Otherwise returns the columns of the primary key, or else of a unique
    /// index over NOT NULL columns.
    pub fn key(&self) -> Result<Vec<ColumnType>> {
        let plain = index::plain_keys(self.relation);
        if let Some(key) = self.kept_key(&plain) {
            return Ok(key);
        }
        // The order of the columns is that of the index; those behind the first indnkeyatts are of INCLUDE.
        let keys: Vec<String> = spi::connect(|spi| {
            let rows = spi.run_with(
                "SELECT pg_catalog.array_to_string((i.indkey::pg_catalog.int2[])[:i.indnkeyatts OPERATOR(pg_catalog.-) 1], ' ') \
                 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid \
                 JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.relam \
                 WHERE i.indrelid OPERATOR(pg_catalog.=) $1 AND m.amname OPERATOR(pg_catalog.=) 'btree' AND i.indisunique \
                 AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL \
                 ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid",
                &[(types::OID, Some(Value::oid(self.relation.oid())))],
            );
            (0..rows.len()).filter_map(|row| rows.text(row, 1)).collect()
        });
        let columns = self.relation.columns();
        let find = |number: &i16| {
            columns.iter().find(|column| column.number == *number && column.is_not_null).cloned()
        };
        let key = |numbers: &String| -> Option<Vec<ColumnType>> {
            let numbers = numbers.split(' ').map(|number| number.parse().ok());
            let numbers: Vec<i16> = numbers.collect::<Option<_>>()?;
            // An index in another collation can hold two values that the column takes for equal.
            if !plain.contains(&numbers) {
                return None;
            }
            numbers.iter().map(find).collect()
        };
        keys.iter().find_map(key).ok_or_else(|| self.without_key())
    }

    /// Returns the columns of the known key if none can be NULL and a unique index has exactly these, in any order.
    fn kept_key(&self, unique: &[Vec<i16>]) -> Option<Vec<ColumnType>> {
        let never_null = |column| {
            queue::column_of(self.relation, column, self.same_table)
                .filter(|column| column.is_not_null)
        };
        let key: Vec<ColumnType> = self.known_key.iter().map(never_null).collect::<Option<_>>()?;
        let has = |number: &i16| key.iter().any(|column| column.number == *number);
        let is_key = |index: &Vec<i16>| index.len() == key.len() && index.iter().all(has);
        unique.iter().any(is_key).then_some(key)
    }

    fn without_key(&self) -> Error {
        let table = queue::display_name(self.relation.oid());
        let refused = |what| {
            Error::new(
                PgSqlErrorCode::ERRCODE_INVALID_TABLE_DEFINITION,
                format!("table \"{}\" has {what}", self.relation.name()),
            )
        };
        let deferrable = spi::connect(|spi| {
            let rows = spi.run_with(
                "SELECT pg_catalog.quote_ident(c.conname), pg_catalog.regexp_replace(\
                 pg_catalog.pg_get_constraintdef(c.oid), ' DEFERRABLE( INITIALLY DEFERRED)?$', '') \
                 FROM pg_catalog.pg_constraint c WHERE c.conrelid OPERATOR(pg_catalog.=) $1 \
                 AND c.contype OPERATOR(pg_catalog.=) ANY ('{p,u}') AND c.condeferrable \
                 ORDER BY c.contype, c.oid LIMIT 1",
                &[(types::OID, Some(Value::oid(self.relation.oid())))],
            );
            rows.text(0, 1).zip(rows.text(0, 2))
        });
        if let Some((name, definition)) = deferrable {
            return refused("a key that is DEFERRABLE")
                .detail("It allows two tasks of the same key until the statement, or the transaction, ends.")
                .hint(format!("ALTER TABLE {table} DROP CONSTRAINT {name}, ADD {definition};"));
        }
        let key = self.known_key.iter();
        let key = key.filter_map(|key| queue::column_of(self.relation, key, self.same_table));
        let key: Vec<String> = key.map(|column| catalog::quote(&column.name)).collect();
        let key = if key.is_empty() { "…".into() } else { key.join(", ") };
        refused("no key").hint(format!(
            "A queue needs a primary key, or a unique index over columns that are NOT NULL: \
             ALTER TABLE {table} ADD PRIMARY KEY ({key});"
        ))
    }

    /// Returns the columns of all fields in use, and the fields whose columns must be added.
    pub fn fields(&self) -> Result<(BTreeMap<Field, ColumnType>, Vec<Field>)> {
        let (mut fields, mut added) = (BTreeMap::new(), Vec::new());
        let needed = Field::ALL.into_iter();
        for field in needed.filter(|field| field.is_needed(&self.options.features)) {
            let column = match self.find(field)? {
                Some(column) => column,
                None => {
                    added.push(field);
                    self.to_add(field)
                }
            };
            Fitness { options: self.options, queue: None }.require_field(field, &column)?;
            fields.insert(field, column);
        }
        Ok((fields, added))
    }

    /// Returns the columns that order the tasks before their keys.
    pub fn order(&self, fields: &BTreeMap<Field, ColumnType>) -> Result<Vec<ColumnType>> {
        let previous = self.previous.filter(|_| self.newer.fields.order.is_none());
        let order = match previous {
            Some(known) => known.order.iter().map(|column| self.ordering(column)).collect(),
            None => {
                let named = |name: &String| Column { name: name.clone(), number: 0 };
                let named = self.options.fields.order().iter().map(named);
                named.map(|column| self.ordering(&column)).collect::<Result<Vec<_>>>()
            }
        }?;
        let fitness = Fitness { options: self.options, queue: None };
        for column in &order {
            fitness.equality("order", column)?;
            self.refuse_to_order(fields, column)?;
        }
        Ok(order)
    }

    /// Finds a column of the order.
    fn ordering(&self, wanted: &Column) -> Result<ColumnType> {
        queue::column_of(self.relation, wanted, self.same_table).ok_or_else(|| {
            let (table, name) = (self.relation.name(), &wanted.name);
            Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("the order needs column \"{name}\", which table \"{table}\" does not have"),
            )
            .hint("Name columns of the table in {\"fields\": {\"order\": …}}; [] stands for the key alone.")
        })
    }

    /// Refuses a column of the order that another field uses, or that can be NULL.
    fn refuse_to_order(
        &self,
        fields: &BTreeMap<Field, ColumnType>,
        column: &ColumnType,
    ) -> Result<()> {
        let refused = |why: &str| {
            Error::new(
                PgSqlErrorCode::ERRCODE_INVALID_TABLE_DEFINITION,
                format!("column \"{}\" cannot order the tasks: {why}", column.name),
            )
        };
        if let Some((field, _)) = fields.iter().find(|(_, used)| used.name == column.name) {
            return Err(refused(&format!("it is the {}", field.name()))
                .hint("Name a column of yours that the queue does not use."));
        }
        if column.is_not_null {
            return Ok(());
        }
        Err(refused("it can be NULL").hint(format!(
            "ALTER TABLE {} ALTER COLUMN {} SET NOT NULL; lets the queue use it.",
            queue::display_name(self.relation.oid()),
            catalog::quote(&column.name)
        )))
    }

    fn to_add(&self, field: Field) -> ColumnType {
        let oid = match field {
            Field::Status | Field::Tube | Field::Reason => types::TEXT,
            Field::Owner => types::UUID,
            Field::Runat | Field::Expires => types::TIMESTAMPTZ,
            Field::Priority | Field::Attempts => types::INT4,
            Field::Ttr => types::INTERVAL,
        };
        ColumnType {
            name: self.chosen(self.options, field).unwrap_or(field.name()).to_string(),
            number: 0,
            oid,
            base: oid,
            has_default: false,
            is_identity: false,
            is_generated: false,
            is_not_null: false,
            refuses_null: false,
            collation: types::type_collation(oid),
            modifier: -1,
        }
    }

    /// Returns the column that the options name for a field.
    fn chosen<'o>(&self, options: &'o Options, field: Field) -> Option<&'o str> {
        options.fields.columns.get(&field).map(String::as_str)
    }

    /// Returns the column already in use for a field, or named by the options, or made by an earlier upgrade. Any other
    /// column with the field's name is refused, never adopted.
    fn find(&self, field: Field) -> Result<Option<ColumnType>> {
        let named =
            |name: &str| self.relation.columns().into_iter().find(|column| column.name == name);
        if let Some(current) = self.playing(field) {
            return match self.chosen(self.newer, field) {
                Some(name) if name != current.name => {
                    Err(self.refuse_other_column(field, &current.name))
                }
                _ => Ok(Some(current)),
            };
        }
        let chosen = self.chosen(self.options, field);
        if let Some(name) = chosen.filter(|name| name.len() > LONGEST_NAME) {
            return Err(sql_name::too_long(name));
        }
        let Some(column) = named(chosen.unwrap_or(field.name())) else { return Ok(None) };
        let made = self.previous.is_some_and(|known| {
            let made = known.made.columns.iter();
            made.filter_map(|made| queue::column_of(self.relation, made, self.same_table))
                .any(|made| made.number == column.number)
        });
        if chosen.is_some() || made {
            return Ok(Some(column));
        }
        let (name, field) = (&column.name, field.name());
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN,
            format!("table \"{}\" has a column \"{name}\" of its own", self.relation.name()),
        )
        .hint(format!(
            "Let the queue use it with {{\"fields\": {{\"{field}\": \"{name}\"}}}}, or name another \
             column, to be added: {{\"fields\": {{\"{field}\": \"queue_{field}\"}}}}."
        )))
    }

    fn playing(&self, field: Field) -> Option<ColumnType> {
        let column = self.previous?.fields.get(&field)?;
        queue::column_of(self.relation, column, self.same_table)
    }

    fn refuse_other_column(&self, field: Field, current: &str) -> Error {
        let field = field.name();
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "field {field} of a live queue cannot move from column \"{current}\" to another"
            ),
        )
        .hint("Call xqueue.downgrade() first, or rename the column.")
    }

    pub fn refuse_other_states(&self) -> Result<()> {
        let Some(known) = self.previous else { return Ok(()) };
        let differs = |status: &Status| known.options.label(*status) != self.options.label(*status);
        if !Status::ALL.iter().any(differs) {
            return Ok(());
        }
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the states of a live queue cannot be given other values",
        )
        .hint("Call xqueue.downgrade(), UPDATE the status column, and upgrade again."))
    }
}

/// Refuses a column that two fields use.
pub fn refuse_shared_columns(fields: &BTreeMap<Field, ColumnType>) -> Result<()> {
    let names: Vec<&str> = fields.values().map(|column| column.name.as_str()).collect();
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        None => Ok(()),
        Some((_, name)) => {
            Err(Error::invalid(format!("two fields use the same column \"{name}\""))
                .hint("Name another column for one of them in {\"fields\": …}."))
        }
    }
}

/// Refuses NOT NULL columns for fields that are sometimes empty.
pub fn refuse_never_empty(relation: &Relation, fields: &BTreeMap<Field, ColumnType>) -> Result<()> {
    let is_empty_at_times = |field: &Field| matches!(field, Field::Owner | Field::Reason);
    let mut fields = fields.iter();
    match fields.find(|(field, column)| is_empty_at_times(field) && column.refuses_null) {
        None => Ok(()),
        Some((field, column)) => Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_TABLE_DEFINITION,
            format!("column \"{}\" cannot be the {}: it is NOT NULL", column.name, field.name()),
        )
        .hint(format!(
            "ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL; lets the queue use it.",
            queue::display_name(relation.oid()),
            catalog::quote(&column.name)
        ))),
    }
}

/// Refuses key columns for fields that the queue itself changes.
pub fn refuse_key_columns(fields: &BTreeMap<Field, ColumnType>, key: &[ColumnType]) -> Result<()> {
    let is_key = |column: &ColumnType| key.iter().any(|part| part.name == column.name);
    match fields.iter().find(|(field, column)| field.is_own() && is_key(column)) {
        None => Ok(()),
        Some((field, column)) => Err(Error::invalid(format!(
            "column \"{}\" cannot be the {}: it is part of the key",
            column.name,
            field.name()
        ))
        .hint("The queue changes it; name another column in {\"fields\": …}.")),
    }
}
