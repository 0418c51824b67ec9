//! Column values given as members of a jsonb object, for tasks and updates.

use crate::error::{Error, Result};
use crate::queue::{Arguments, KeyType, Queue};
use crate::server::jsonb::{self, Member, Shape, members, shape};
use crate::server::memory::Memory;
use crate::server::relation::ColumnType;
use crate::server::value::Value;
use crate::server::{operators, spi, types};
use pgrx::PgSqlErrorCode;
use xqueue_core::statement::Parameter;

/// The members of a jsonb object, each with its column of the queue's table.
pub struct Values<'m, 'queue> {
    object: Value<'m>,
    members: Vec<(Member<'m>, &'queue ColumnType)>,
    /// The object also has a null key, which is left out of the members.
    has_null_key: bool,
}

impl<'m, 'queue> Values<'m, 'queue> {
    /// Pairs members with columns; None if `json` is not an object. Refuses members that are not columns.
    pub fn of(json: Value<'m>, queue: &'queue Queue) -> Result<Option<Values<'m, 'queue>>> {
        if shape(json) != Shape::Object {
            return Ok(None);
        }
        // A null key is left out, so that the column's default applies.
        let is_key_to_be = |member: &Member| {
            let column = queue.column(&member.name);
            member.is_null() && column.is_some_and(|column| queue.is_key_column(column.number))
        };
        let pair = |member: Member<'m>| {
            let column = queue.column(&member.name);
            column.ok_or_else(|| no_such_column(&member.name, queue)).map(|column| (member, column))
        };
        let given = members(json);
        let count = given.len();
        let members = given
            .into_iter()
            .filter(|member| !is_key_to_be(member))
            .map(pair)
            .collect::<Result<Vec<_>>>()?;
        let has_null_key = members.len() < count;
        Ok(Some(Values { object: json, members, has_null_key }))
    }

    /// Returns the object without null keys.
    pub fn object(&self) -> Value<'m> {
        match self.has_null_key {
            true => jsonb::object(self.members.iter().map(|(member, _)| member)),
            false => self.object,
        }
    }

    pub fn has_null_key(&self) -> bool {
        self.has_null_key
    }

    pub fn columns(&self) -> impl Iterator<Item = &'queue ColumnType> {
        self.members.iter().map(|(_, column)| *column)
    }

    pub fn numbers(&self) -> Vec<i16> {
        self.columns().map(|column| column.number).collect()
    }

    /// Returns whether a column has a value other than NULL.
    pub fn has_value(&self, number: i16) -> bool {
        self.members.iter().any(|(member, column)| column.number == number && !member.is_null())
    }

    /// Returns whether every value can be parsed here. The statement parses values of arrays, composite types and
    /// domains.
    pub fn is_plain(&self) -> bool {
        self.members.iter().all(|(member, column)| {
            let is_domain = column.base != column.oid;
            let is_scalar = || column.oid != types::JSON && !member.is_nested();
            column.oid == types::JSONB || !is_domain && is_scalar()
        })
    }

    /// Adds the values to a statement's arguments: one by one if they are plain, else as one object.
    pub fn bind(&self, arguments: &mut Arguments<'m>) -> Result<()> {
        if !self.is_plain() {
            arguments.set(Parameter::Task, self.object());
            return Ok(());
        }
        for (number, value) in self.read()? {
            arguments.set_or_null(Parameter::Column(number), value);
        }
        Ok(())
    }

    /// Parses the values, which must be plain; by column number.
    pub fn read<'to>(&self) -> Result<Vec<(i16, Option<Value<'to>>)>> {
        let value = |(member, column): &(Member, &ColumnType)| {
            let value = match member {
                member if member.is_null() => None,
                member if column.oid == types::JSONB => Some(member.to_jsonb()),
                member => {
                    let text = member.text();
                    Some(operators::parse_value_for(&text, column.oid, column.modifier)?)
                }
            };
            Ok((column.number, value))
        };
        self.members.iter().map(value).collect()
    }
}

/// Returns a column's value from its member of a task, parsed by the server's `jsonb_populate_record`.
pub fn populated<'to>(member: &Member, column: &KeyType, queue: &Queue) -> Option<Value<'to>> {
    let object = jsonb::object([member]);
    let result = Memory::current();
    let name = queue.sql.columns.get(&column.number)?;
    spi::connect(|spi| {
        let rows = spi.run_with(
            &format!("SELECT new.{name} FROM pg_catalog.jsonb_populate_record($1, $2) AS new"),
            &[(queue.row_type, Value::empty_row(queue.row_type)), (types::JSONB, Some(object))],
        );
        rows.value(0, 1).map(|value| result.run(|| value.copied()))
    })
}

fn no_such_column(name: &str, queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        format!("column \"{name}\" of queue \"{}\" does not exist", queue.name),
    )
    .hint("The members of a task are columns of the table; put all else into a jsonb column.")
}
