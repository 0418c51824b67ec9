//! A queue, ready to work with: its table, its columns, its plans.

use super::column_of;
use super::status::StatusColumn;
use crate::delta::SlotId;
use crate::error::{Error, Result};
use crate::model::definition::{Column, Definition};
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::relation::{ColumnType, Relation, RowType};
use crate::pg::spi::{Plan, Rows, Spi};
use crate::pg::trigger::Tuple;
use crate::pg::{catalog, process, types};
use crate::shmem::{databases, queues};
use crate::statement::{self, Change, Form, KeyColumn, PutSource};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{Datum, Oid};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// A queue, ready to work with.
pub struct Queue {
    pub table: Oid,
    pub slot: SlotId,
    /// The table as SQL names it.
    pub name: String,
    pub definition: Definition,
    pub sql: statement::Table,
    pub key: Vec<KeyType>,
    pub row_type: Oid,
    pub row_columns: RowType,
    status: StatusColumn,
    columns: Vec<ColumnType>,
    plans: RefCell<HashMap<Statement, Rc<Plan>>>,
    /// The key is one column, and no array: keys can be put into an array.
    has_simple_key: bool,
    pub(super) stale: Cell<bool>,
}

#[derive(Clone, Debug)]
pub struct KeyType {
    pub name: String,
    pub oid: Oid,
}

/// The statements whose plans are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// For a key of one column.
    Change(Change),
    /// For keys of several columns.
    Pick(Change),
    ChangeOne(Change),
    Ack(Form),
    Release(Form),
    ReleaseDelayed(Form),
    Peek(Form),
    Holder,
    Put {
        form: Form,
        columns: Vec<String>,
        source: PutSource,
        delayed: bool,
    },
    NextDue,
    Holders,
}

/// Plans for `put` that are kept: one for each set of columns that producers send.
const PUT_PLANS: usize = 64;

impl Queue {
    /// Everything to know of a queue, from the table and its definition.
    pub(super) fn describe(
        relation: &Relation,
        definition: Definition,
        same_table: bool,
    ) -> Result<Queue> {
        let table = relation.oid();
        let find = |wanted: &Column| {
            column_of(relation, wanted, same_table).ok_or_else(|| lost_column(table, &wanted.name))
        };
        let status = find(&definition.status)?;
        let owner = find(&definition.owner)?;
        let runat = definition.runat.as_ref().map(find).transpose()?;
        let key = definition.key.iter().map(find).collect::<Result<Vec<_>>>()?;
        let sql =
            table_names(relation, &definition.options, &status, &owner, runat.as_ref(), &key)?;
        let database = process::database();
        let slot = queues::find_or_add(database.into(), table.into());
        let (slot, is_new) = slot.ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("there are more than {} queues", crate::guc::max_queues()),
            )
            .hint("Raise xqueue.max_queues in postgresql.conf and restart the server.")
        })?;
        databases::want_worker(database.into(), is_new);
        let is_simple =
            |key: &ColumnType| catalog::element_type(catalog::base_type(key.oid)).is_none();
        let has_simple_key = key.len() == 1 && key.iter().all(is_simple);
        Ok(Queue {
            table,
            slot,
            name: sql.qualified(),
            status: StatusColumn::new(&status, &definition.options)?,
            sql,
            key: key.into_iter().map(|key| KeyType { name: key.name, oid: key.oid }).collect(),
            row_type: relation.row_type(),
            row_columns: relation.row_columns(),
            definition: Definition {
                status: super::written(&status),
                owner: super::written(&owner),
                runat: runat.as_ref().map(super::written),
                ..definition
            },
            columns: relation.columns(),
            plans: RefCell::default(),
            has_simple_key,
            stale: Cell::new(false),
        })
    }

    /// The kept plan of a statement; its parameters are those that the statement's text says.
    pub fn plan(&self, spi: &Spi, statement: Statement) -> Rc<Plan> {
        if let Some(plan) = self.plans.borrow().get(&statement) {
            return plan.clone();
        }
        let (sql, types) = self.text(&statement);
        let plan = Rc::new(Plan::prepare(spi, &sql, &types));
        let mut plans = self.plans.borrow_mut();
        if plans.len() >= PUT_PLANS {
            plans.retain(|statement, _| !matches!(statement, Statement::Put { .. }));
        }
        plans.insert(statement, plan.clone());
        plan
    }

    /// Picks and changes tasks. `set` are the parameters of the change, `pick` those of the pick.
    /// Shows what the change gives back, and says how many tasks it changed.
    pub fn change(
        &self,
        spi: &Spi,
        change: Change,
        set: &[Option<Datum>],
        pick: &[Option<Datum>],
        mut see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        if self.has_simple_key {
            let plan = self.plan(spi, Statement::Change(change));
            let rows = spi.run_plan(&plan, &[set, pick].concat());
            if !rows.is_empty() {
                see(&rows)?;
            }
            return Ok(rows.len());
        }
        let picked = spi.run_plan(&self.plan(spi, Statement::Pick(change)), pick);
        let plan = self.plan(spi, Statement::ChangeOne(change));
        let mut changed = 0;
        for row in 0..picked.len() {
            let key = (1..=self.key.len() as i32).map(|column| picked.datum(row, column));
            let arguments: Vec<Option<Datum>> = set.iter().copied().chain(key).collect();
            let rows = spi.run_plan(&plan, &arguments);
            changed += rows.len();
            if !rows.is_empty() {
                see(&rows)?;
            }
        }
        Ok(changed)
    }

    fn text(&self, statement: &Statement) -> (String, Vec<Oid>) {
        let set = |change: &Change| match change {
            Change::Take(_) => vec![types::UUID],
            Change::Promote | Change::Reap | Change::ReapOwnerless => vec![],
        };
        let pick = |change: &Change| match change {
            Change::Take(_) | Change::ReapOwnerless => vec![types::INT4; 2],
            Change::Promote => vec![types::TIMESTAMPTZ, types::INT4, types::INT4],
            Change::Reap => vec![types::UUID_ARRAY, types::INT4, types::INT4],
        };
        let key: Vec<Oid> = self.key.iter().map(|key| key.oid).collect();
        let mine = |rest: &[Oid]| [&[types::UUID], key.as_slice(), rest].concat();
        let sql = &self.sql;
        let runat = sql.runat.as_deref().unwrap_or_default();
        match statement {
            Statement::Change(change) => {
                (sql.change(*change), [set(change), pick(change)].concat())
            }
            Statement::Pick(change) => (sql.pick(*change, 1), pick(change)),
            Statement::ChangeOne(change) => (sql.change_one(*change), [set(change), key].concat()),
            Statement::Ack(form) => (sql.ack(*form), mine(&[])),
            Statement::Release(form) => (sql.release(*form), mine(&[])),
            Statement::ReleaseDelayed(form) => {
                (sql.release_delayed(*form), mine(&[types::INTERVAL]))
            }
            Statement::Peek(form) => (sql.peek(*form), key),
            Statement::Holder => (sql.holder(), key),
            Statement::Put { form, columns, source, delayed } => {
                let from = if *source == PutSource::Row { self.row_type } else { types::JSONB };
                let delay = delayed.then_some(types::INTERVAL);
                let types = [from].into_iter().chain(delay).collect();
                (sql.put(*form, columns, *source, *delayed), types)
            }
            Statement::NextDue => (sql.next_due(runat), vec![]),
            Statement::Holders => (sql.holders(), vec![]),
        }
    }

    /// The state of a row; an error if its value stands for none.
    pub fn status_of(&self, row: &Tuple) -> Result<Status> {
        let value = row.datum(self.definition.status.number);
        self.status.read(value).ok_or_else(|| {
            let shown = match value {
                Some(value) => format!("'{}'", catalog::value_text(value, self.status.oid)),
                None => "NULL".to_string(),
            };
            let known: Vec<String> = Status::ALL
                .iter()
                .map(|s| format!("'{}'", self.definition.options.label(*s)))
                .collect();
            Error::new(
                PgSqlErrorCode::ERRCODE_CHECK_VIOLATION,
                format!("{shown} is no state of a task of queue \"{}\"", self.name),
            )
            .hint(format!(
                "Column {} may be {}.",
                catalog::quote(&self.definition.status.name),
                known.join(", ")
            ))
        })
    }

    /// The value of the status column that stands for a state.
    pub fn status_value(&self, status: Status) -> Result<Datum> {
        let label = self.definition.options.label(status);
        catalog::parse_value_for(&label, self.status.oid, self.status.modifier)
    }

    /// When the worker has to act on a row, in microseconds.
    pub fn runat_of(&self, row: &Tuple) -> Option<i64> {
        let runat = self.definition.runat.as_ref()?;
        row.datum(runat.number).map(types::timestamp)
    }

    pub fn column(&self, name: &str) -> Option<&ColumnType> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }

    /// Whether a column is the queue's own, to be changed only by its functions.
    pub fn is_own_column(&self, name: &str) -> bool {
        let definition = &self.definition;
        let runat = definition.runat.as_ref();
        [&definition.status, &definition.owner].into_iter().chain(runat).any(|own| own.name == name)
    }

    pub fn is_delayed(&self) -> bool {
        self.definition.runat.is_some()
    }
}

/// The names that the statements of a queue use, quoted.
pub fn table_names(
    relation: &Relation,
    options: &Options,
    status: &ColumnType,
    owner: &ColumnType,
    runat: Option<&ColumnType>,
    key: &[ColumnType],
) -> Result<statement::Table> {
    let key = key.iter().map(|column| {
        let equals = catalog::equality(column.oid).ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!(
                    "type {} of key column \"{}\" has no order",
                    catalog::type_name(column.oid),
                    column.name
                ),
            )
            .hint("A queue's key needs types with a btree order.")
        })?;
        Ok(KeyColumn { name: catalog::quote(&column.name), equals })
    });
    Ok(statement::Table {
        schema: catalog::quote(&catalog::schema_name(relation.schema())),
        name: catalog::quote(&relation.name()),
        key: key.collect::<Result<_>>()?,
        status: catalog::quote(&status.name),
        status_type: catalog::type_name(status.oid),
        labels: Status::ALL.iter().map(|s| catalog::quote_literal(&options.label(*s))).collect(),
        owner: catalog::quote(&owner.name),
        runat: runat.map(|runat| catalog::quote(&runat.name)),
    })
}

fn lost_column(table: Oid, column: &str) -> Error {
    let name = super::display_name(table);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        format!("queue \"{name}\" has lost its column \"{column}\""),
    )
    .hint(format!(
        "SELECT xqueue.upgrade({}); adds what is missing.",
        catalog::quote_literal(&name)
    ))
}
