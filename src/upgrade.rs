//! What a table lacks to be the queue that the options ask for.

use crate::error::{Error, Result};
use crate::model::definition::{Column, Definition, Field, Made};
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::relation::{ColumnType, Relation};
use crate::pg::{catalog, spi, types};
use crate::registry::{self, StatusColumn};
use crate::statement::{Index, TRIGGERS, Table};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use serde_json::{Value, json};

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

/// Finds the columns of a queue among those of its table.
struct Columns<'a> {
    relation: &'a Relation,
    options: &'a Options,
    /// Of the options, those that this call gives.
    newer: &'a Options,
    previous: Option<&'a Definition>,
    same_table: bool,
}

impl Columns<'_> {
    /// The primary key, or else a unique index over columns that are never null.
    fn key(&self) -> Result<Vec<ColumnType>> {
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
    fn field(&self, field: Field, oid: Oid) -> Result<(ColumnType, bool)> {
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

    fn status(&self) -> Result<(ColumnType, bool)> {
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

    fn refuse_other_states(&self) -> Result<()> {
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

#[allow(clippy::too_many_arguments, reason = "the parts of one table")]
fn add_indexes(
    relation: &Relation,
    sql: &Table,
    status: &ColumnType,
    owner: &ColumnType,
    runat: Option<&ColumnType>,
    key: &[ColumnType],
    ddl: &mut Vec<String>,
    made: &mut Made,
) {
    let present = present_indexes(relation);
    for index in Index::ALL {
        let numbers: Vec<i16> = match index {
            Index::Ready => key.iter().map(|column| column.number).collect(),
            Index::Taken => vec![owner.number],
            Index::Due => runat.map(|column| column.number).into_iter().collect(),
        };
        if numbers.is_empty() {
            drop_index(relation, index, ddl, made);
            continue;
        }
        let predicates = sql.deparsed_predicates(index, &catalog::short_type_name(status.oid));
        let fits = |known: &PresentIndex| {
            known.columns == numbers && predicates.contains(&known.predicate)
        };
        if !present.iter().any(fits) {
            let name = catalog::free_name(&relation.name(), index.suffix(), relation.schema());
            ddl.push(sql.create_index(index, &catalog::quote(&name)));
            made.indexes.insert(index.suffix().to_string(), name);
        }
    }
}

/// An index whose feature is off, if it is ours.
fn drop_index(relation: &Relation, index: Index, ddl: &mut Vec<String>, made: &mut Made) {
    if let Some(name) = made.indexes.remove(index.suffix()) {
        ddl.extend(drop_index_if_there(relation, &name));
    }
}

pub fn drop_index_if_there(relation: &Relation, name: &str) -> Option<String> {
    let schema = catalog::quote(&catalog::schema_name(relation.schema()));
    catalog::has_relation(name, relation.schema())
        .then(|| format!("DROP INDEX {schema}.{}", catalog::quote(name)))
}

struct PresentIndex {
    columns: Vec<i16>,
    predicate: String,
}

/// The partial indexes of a table that have the default order.
fn present_indexes(relation: &Relation) -> Vec<PresentIndex> {
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT pg_catalog.array_to_string(i.indkey::pg_catalog.int2[], ' '), \
             pg_catalog.pg_get_expr(i.indpred, i.indrelid) FROM pg_catalog.pg_index i \
             JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_am am ON am.oid = c.relam AND am.amname = 'btree' \
             WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NOT NULL \
             AND i.indexprs IS NULL AND 0 = ALL (i.indoption::pg_catalog.int2[])",
            &[(types::OID, Some(relation.oid().into()))],
        );
        let numbers = |text: String| text.split(' ').filter_map(|part| part.parse().ok()).collect();
        (0..rows.len())
            .map(|row| PresentIndex {
                columns: numbers(rows.text(row, 1).unwrap_or_default()),
                predicate: rows.text(row, 2).unwrap_or_default(),
            })
            .collect()
    })
}

fn add_triggers(relation: &Relation, sql: &Table, retrigger: bool, ddl: &mut Vec<String>) {
    let enabled = enabled_triggers(relation);
    let wanted = sql.triggers();
    for name in TRIGGERS {
        let is_wanted = wanted.iter().any(|(trigger, _)| *trigger == name);
        let is_there = enabled.iter().any(|(trigger, _)| trigger == name);
        if is_there && (!is_wanted || retrigger && name == "xqueue_update") {
            ddl.push(sql.drop_trigger(name));
        }
    }
    for (name, statements) in &wanted {
        match enabled.iter().find(|(trigger, _)| trigger == name) {
            Some((_, always)) if !retrigger || *name != "xqueue_update" => {
                ddl.extend(statements[1..].iter().filter(|_| !always).cloned());
            }
            _ => ddl.extend(statements.iter().cloned()),
        }
    }
}

/// Our triggers on a table, and whether each fires always.
pub fn enabled_triggers(relation: &Relation) -> Vec<(String, bool)> {
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT t.tgname, t.tgenabled = 'A' FROM pg_catalog.pg_trigger t \
             WHERE t.tgrelid = $1 AND NOT t.tgisinternal",
            &[(types::OID, Some(relation.oid().into()))],
        );
        (0..rows.len())
            .filter_map(|row| Some((rows.text(row, 1)?, rows.text(row, 2)? == "t")))
            .filter(|(name, _)| TRIGGERS.contains(&name.as_str()))
            .collect()
    })
}
