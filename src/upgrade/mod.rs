//! What a table lacks to be the queue that the options ask for.

mod attachments;
mod columns;

use crate::error::{Error, Result};
use crate::model::definition::{Column, Definition, Field};
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::relation::{ColumnType, Relation};
use crate::pg::{spi, types};
use crate::registry;
use crate::statement::Table;
use attachments::{add_indexes, add_triggers};
use columns::Columns;
use pgrx::PgSqlErrorCode;
use serde_json::{Value, json};

pub use attachments::{drop_index_if_there, enabled_triggers};

/// The queue to be, and the way there.
pub struct Blueprint {
    pub definition: Definition,
    pub ddl: Vec<String>,
    /// Some of the statements lock the table against readers too; better all of them from the
    /// start, as raising a lock may end in a deadlock.
    pub needs_table_alone: bool,
    pub is_new: bool,
    redefines: bool,
    /// Names of the columns that are added.
    adds: Vec<String>,
}

impl Blueprint {
    pub fn draw(relation: &Relation, newer: &Options) -> Result<Blueprint> {
        let previous = registry::read(relation.oid())?;
        let same_table = previous.as_ref().is_none_or(|(_, same_table)| *same_table);
        let previous = previous.map(|(definition, _)| definition);
        let before = previous.as_ref().map(|definition| definition.options.clone());
        let options = before.unwrap_or_default().merge(newer).map_err(Error::invalid)?;
        let columns =
            Columns { relation, options: &options, newer, previous: previous.as_ref(), same_table };
        columns.refuse_other_states()?;
        let key = columns.key()?;
        let (status, adds_status) = columns.status()?;
        let (owner, adds_owner) = columns.field(Field::Owner, types::UUID)?;
        let runat = match Field::Runat.is_needed(&options) {
            true => Some(columns.field(Field::Runat, types::TIMESTAMPTZ)?),
            false => None,
        };
        let adds_runat = runat.as_ref().is_some_and(|(_, adds)| *adds);
        let runat = runat.map(|(column, _)| column);
        refuse_shared_columns([Some(&status), Some(&owner), runat.as_ref()])?;
        let mut made = previous.as_ref().map(|known| known.made.clone()).unwrap_or_default();
        let sql = registry::table_names(relation, &options, &status, &owner, runat.as_ref(), &key)?;
        if previous.is_none() && !adds_status {
            refuse_foreign_values(&sql)?;
        }
        refuse_waiting_without_delay(previous.as_ref(), &sql, &options)?;

        let mut ddl = Vec::new();
        let mut adds = Vec::new();
        let added =
            [(Field::Status, adds_status, &status.name), (Field::Owner, adds_owner, &owner.name)];
        let runat_name = runat.as_ref().map(|column| (Field::Runat, adds_runat, &column.name));
        for (field, is_added, name) in added.into_iter().chain(runat_name) {
            if is_added {
                ddl.extend(sql.add_column(field, options.existing.unwrap_or(Status::Ready)));
                adds.push(name.clone());
            }
        }
        if previous.is_none() && !adds_status && has_rows_without_status(&sql) {
            ddl.push(sql.fill_status(options.existing.unwrap_or(Status::Ready)));
        }
        if !adds_status && !status.has_default && !made.status_default {
            ddl.push(sql.set_status_default());
            made.status_default = true;
        }
        add_indexes(relation, &sql, &status, &owner, runat.as_ref(), &key, &mut ddl, &mut made);
        let retrigger =
            previous.as_ref().is_some_and(|known| known.runat.is_some() != runat.is_some());
        add_triggers(relation, &sql, retrigger, &mut ddl);
        let needs_table_alone = ddl.iter().any(|statement| {
            statement.starts_with("DROP")
                || statement.starts_with("UPDATE")
                || statement.contains(" COLUMN ")
        });
        let definition = Definition {
            options: options.with_fields(
                &status.name,
                &owner.name,
                runat.as_ref().map(|c| c.name.as_str()),
            ),
            key: key.iter().map(registry::written).collect(),
            status: registry::written(&status),
            owner: registry::written(&owner),
            runat: runat.as_ref().map(registry::written),
            made,
        };
        Ok(Blueprint {
            redefines: previous.as_ref() != Some(&definition),
            is_new: previous.is_none(),
            definition,
            ddl,
            needs_table_alone,
            adds,
        })
    }

    pub fn changes_nothing(&self) -> bool {
        self.ddl.is_empty() && !self.redefines
    }

    /// The definition with the numbers of the columns that are there by now.
    pub fn settled(&self, relation: &Relation) -> Result<Definition> {
        let columns = relation.columns();
        let settle = |column: &Column| {
            let found = columns.iter().find(|known| known.name == column.name);
            found.map(registry::written).ok_or_else(|| {
                Error::new(
                    PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                    format!("column \"{}\" could not be added", column.name),
                )
                .hint("An event trigger may have undone it.")
            })
        };
        let mut definition = self.definition.clone();
        definition.key = definition.key.iter().map(settle).collect::<Result<_>>()?;
        definition.status = settle(&definition.status)?;
        definition.owner = settle(&definition.owner)?;
        definition.runat = definition.runat.as_ref().map(settle).transpose()?;
        for name in &self.adds {
            let column = settle(&Column { name: name.clone(), number: 0 })?;
            definition.made.columns.push(column);
        }
        Ok(definition)
    }
}

/// A definition as `upgrade` shows it.
pub fn describe(queue: &str, definition: &Definition) -> Value {
    let options = &definition.options;
    let states: serde_json::Map<String, Value> = Status::ALL
        .iter()
        .map(|status| (status.letter().to_string(), options.label(*status).into()))
        .collect();
    let mut fields = json!({ "status": definition.status.name, "owner": definition.owner.name });
    if let Some(runat) = &definition.runat {
        fields["runat"] = runat.name.clone().into();
    }
    json!({
        "queue": queue,
        "key": definition.key.iter().map(|column| column.name.clone()).collect::<Vec<_>>(),
        "fields": fields,
        "states": states,
        "features": { "delayed": definition.runat.is_some() },
        "existing": options.existing.unwrap_or(Status::Ready).letter().to_string(),
    })
}

fn has_rows_without_status(sql: &Table) -> bool {
    spi::connect(|spi| !spi.run(&sql.without_status()).is_empty())
}

fn refuse_foreign_values(sql: &Table) -> Result<()> {
    let foreign: Vec<String> = spi::connect(|spi| {
        let rows = spi.run(&sql.foreign_values());
        (0..rows.len()).filter_map(|row| rows.text(row, 1)).collect()
    });
    if foreign.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "column {} of table {} holds values that are no states: {}",
        sql.status,
        sql.qualified(),
        foreign.join(", ")
    ))
    .hint(
        "Say with {\"states\": {\"R\": …}} which values stand for which state, or UPDATE the rows.",
    ))
}

fn refuse_shared_columns(fields: [Option<&ColumnType>; 3]) -> Result<()> {
    let names: Vec<&str> =
        fields.into_iter().flatten().map(|column| column.name.as_str()).collect();
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        None => Ok(()),
        Some((_, name)) => {
            Err(Error::invalid(format!("two fields use the same column \"{name}\""))
                .hint("Name another column for one of them in {\"fields\": …}."))
        }
    }
}

/// Waiting tasks would never be ready again.
fn refuse_waiting_without_delay(
    previous: Option<&Definition>,
    sql: &Table,
    options: &Options,
) -> Result<()> {
    let switched_off =
        previous.is_some_and(|known| known.runat.is_some()) && !Field::Runat.is_needed(options);
    if !switched_off {
        return Ok(());
    }
    let waiting = spi::connect(|spi| spi.run(&sql.count_in(Status::Waiting)).number());
    if waiting == 0 {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!(
            "feature delayed cannot be switched off: {waiting} tasks of {} wait",
            sql.qualified()
        ),
    )
    .hint("Wait until they are ready, or UPDATE their status."))
}
