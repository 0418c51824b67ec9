//! Which columns of a table play which part in the queue to be.

use crate::error::{Error, Result};
use crate::model::definition::{Definition, Field};
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::relation::{ColumnType, Relation};
use crate::pg::{catalog, spi, types};
use crate::registry::{self, StatusColumn};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;

/// Finds the columns of a queue among those of its table.
pub struct Columns<'a> {
    pub relation: &'a Relation,
    pub options: &'a Options,
    /// Of the options, those that this call gives.
    pub newer: &'a Options,
    pub previous: Option<&'a Definition>,
    pub same_table: bool,
}

impl Columns<'_> {
    /// The primary key, or else a unique index over columns that are never null.
    pub fn key(&self) -> Result<Vec<ColumnType>> {
        let numbers = spi::connect(|spi| {
            let rows = spi.run_with(
                "SELECT pg_catalog.array_to_string(i.indkey::pg_catalog.int2[], ' ') \
                 FROM pg_catalog.pg_index i WHERE i.indrelid = $1 AND i.indisunique \
                 AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL \
                 AND i.indnatts = i.indnkeyatts AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a \
                 WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) AND NOT a.attnotnull) \
                 ORDER BY i.indisprimary DESC, i.indnatts, i.indexrelid LIMIT 1",
                &[(types::OID, Some(self.relation.oid().into()))],
            );
            rows.text(0, 1)
        });
        let Some(numbers) = numbers else {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_INVALID_TABLE_DEFINITION,
                format!("table \"{}\" has no key", self.relation.name()),
            )
            .hint(
                "A queue needs a primary key, or a unique index over columns that are NOT NULL.",
            ));
        };
        let columns = self.relation.columns();
        let number = |text: &str| text.parse::<i16>().ok();
        let find = |wanted| columns.iter().find(|column| Some(column.number) == wanted).cloned();
        Ok(numbers.split(' ').filter_map(|text| find(number(text))).collect())
    }

    /// The column for a field of a fixed type, and whether it has to be added.
    pub fn field(&self, field: Field, oid: Oid) -> Result<(ColumnType, bool)> {
        match self.find(field)? {
            Some(column) if column.oid == oid => Ok((column, false)),
            Some(column) => Err(Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" cannot be the {}: it is of type {}",
                    column.name,
                    field.name(),
                    catalog::type_name(column.oid)
                ),
            )
            .hint(format!("It has to be of type {}.", catalog::type_name(oid)))),
            None => Ok((self.to_add(field, oid), true)),
        }
    }

    pub fn status(&self) -> Result<(ColumnType, bool)> {
        let (column, adds) = match self.find(Field::Status)? {
            Some(column) => (column, false),
            None => {
                let letters = Status::ALL.iter().all(|s| self.options.label(*s).len() == 1);
                let oid = if letters { types::CHAR } else { types::TEXT };
                (self.to_add(Field::Status, oid), true)
            }
        };
        StatusColumn::new(&column, self.options)?;
        if column.is_generated {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("column \"{}\" cannot be the status: it is generated", column.name),
            )
            .hint("Use a column that can be changed."));
        }
        Ok((column, adds))
    }

    /// The column that plays a part already, or that the options name, or that we made once.
    /// Another column that happens to have the field's name is never adopted.
    fn find(&self, field: Field) -> Result<Option<ColumnType>> {
        let named =
            |name: &str| self.relation.columns().into_iter().find(|column| column.name == name);
        if let Some(current) = self.playing(field) {
            return match field.chosen(self.newer) {
                Some(name) if name != current.name => {
                    Err(self.refuse_other_column(field, &current.name))
                }
                _ => Ok(Some(current)),
            };
        }
        let chosen = field.chosen(self.options);
        let Some(column) = named(chosen.unwrap_or(field.name())) else { return Ok(None) };
        let made = self.previous.is_some_and(|known| {
            let made = known.made.columns.iter();
            made.filter_map(|made| registry::column_of(self.relation, made, self.same_table))
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
        let known = self.previous?;
        let column = match field {
            Field::Status => Some(&known.status),
            Field::Owner => Some(&known.owner),
            Field::Runat => known.runat.as_ref(),
        };
        registry::column_of(self.relation, column?, self.same_table)
    }

    fn to_add(&self, field: Field, oid: Oid) -> ColumnType {
        let name = field.chosen(self.options).unwrap_or(field.name()).to_string();
        ColumnType { name, number: 0, oid, has_default: false, is_generated: false, modifier: -1 }
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
