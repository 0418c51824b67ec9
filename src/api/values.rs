//! Values of columns, as tasks and updates give them: the members of a jsonb object.

use crate::error::{Error, Result};
use crate::pg::jsonb::{Member, Shape, members, shape};
use crate::pg::memory::Memory;
use crate::pg::relation::ColumnType;
use crate::pg::{catalog, spi, types};
use crate::registry::{Arguments, Queue};
use crate::statement::Parameter;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Datum;

/// The members of a jsonb object, each with the column of the queue's table that it is for.
pub struct Values<'a> {
    object: Datum,
    members: Vec<(Member, &'a ColumnType)>,
}

impl<'a> Values<'a> {
    /// None if `json` is no object. Refuses members that are no columns.
    pub fn of(json: Datum, queue: &'a Queue) -> Result<Option<Values<'a>>> {
        if shape(json) != Shape::Object {
            return Ok(None);
        }
        let pair = |member: Member| {
            let column = queue.column(&member.name);
            column.ok_or_else(|| no_such_column(&member.name, queue)).map(|column| (member, column))
        };
        let members = members(json).into_iter().map(pair).collect::<Result<_>>()?;
        Ok(Some(Values { object: json, members }))
    }

    pub fn columns(&self) -> impl Iterator<Item = &'a ColumnType> {
        self.members.iter().map(|(_, column)| *column)
    }

    pub fn numbers(&self) -> Vec<i16> {
        self.columns().map(|column| column.number).collect()
    }

    /// The columns that have a value other than NULL.
    pub fn has_value(&self, number: i16) -> bool {
        self.members.iter().any(|(member, column)| column.number == number && !member.is_null())
    }

    /// Adds the values, each of its column's type, to the arguments of a statement.
    pub fn bind(&self, arguments: &mut Arguments, queue: &Queue) -> Result<()> {
        for (member, column) in &self.members {
            let value = self.value(member, column, queue)?;
            arguments.set_or_null(Parameter::Column(column.number), value);
        }
        Ok(())
    }

    /// As jsonb_populate_record reads it.
    fn value(&self, member: &Member, column: &ColumnType, queue: &Queue) -> Result<Option<Datum>> {
        if member.is_null() {
            return Ok(None);
        }
        if column.oid == types::JSONB {
            return Ok(Some(member.to_jsonb()));
        }
        if member.is_nested() || catalog::base_type(column.oid) == types::JSON {
            return Ok(self.populated(column, queue));
        }
        catalog::parse_value_for(&member.text(), column.oid, column.modifier).map(Some)
    }

    /// The same by the server itself, for arrays, composite types and whatever is seldom.
    fn populated(&self, column: &ColumnType, queue: &Queue) -> Option<Datum> {
        let result = Memory::current();
        let name = queue.sql.columns.get(&column.number)?;
        spi::connect(|spi| {
            let rows = spi.run_with(
                &format!(
                    "SELECT new.{name} FROM pg_catalog.jsonb_populate_record(NULL::{}, $1) AS new",
                    queue.name
                ),
                &[(types::JSONB, Some(self.object))],
            );
            rows.datum(0, 1).map(|value| result.run(|| types::copy(value, column.oid)))
        })
    }
}

fn no_such_column(name: &str, queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        format!("column \"{name}\" of queue \"{}\" does not exist", queue.name),
    )
    .hint("The members of a task are columns of the table; put all else into a jsonb column.")
}
