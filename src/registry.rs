//! Which tables are queues, and everything a process has to know to work with one: read once,
//! kept until the server says that the table has changed.

use crate::delta::SlotId;
use crate::error::{Error, Result};
use crate::model::definition::{Column, Definition};
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::relation::{self, ColumnType, Lock, Relation, RowType};
use crate::pg::spi::{Plan, Rows, Spi};
use crate::pg::trigger::Tuple;
use crate::pg::{callbacks, catalog, jsonb, process, spi, types, user};
use crate::shmem::{databases, queues};
use crate::statement::{self, Change, Form, KeyColumn, PutSource};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{Datum, Oid};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;

const REGISTRY: &CStr = c"queue";

thread_local! {
    static QUEUES: RefCell<HashMap<Oid, Rc<Queue>>> = RefCell::new(HashMap::new());
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    /// How often something went stale.
    static STALE_COUNT: Cell<u64> = const { Cell::new(0) };
    /// A definition went stale while the map was in use.
    static ALL_STALE: Cell<bool> = const { Cell::new(false) };
}

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
    stale: Cell<bool>,
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

/// A queue by its table, on which the caller holds a lock.
pub fn get(table: Oid) -> Result<Rc<Queue>> {
    find(table)?.ok_or_else(|| not_a_queue(table))
}

/// The same; None if the table is not a queue.
pub fn find(table: Oid) -> Result<Option<Rc<Queue>>> {
    if ALL_STALE.take() {
        QUEUES.with_borrow_mut(HashMap::clear);
    }
    let known = QUEUES.with_borrow(|queues| queues.get(&table).cloned());
    if let Some(queue) = known.filter(|queue| !queue.stale.get()) {
        return Ok(Some(queue));
    }
    if !WATCHING.replace(true) {
        callbacks::watch_definitions();
    }
    let seen = STALE_COUNT.get();
    let Some((definition, same_table)) = read(table)? else {
        QUEUES.with_borrow_mut(|queues| queues.remove(&table));
        return Ok(None);
    };
    let Some(relation) = Relation::open(table, Lock::AccessShare) else { return Ok(None) };
    let queue = Rc::new(Queue::describe(&relation, definition, same_table)?);
    // What was read may have changed while it was read: good for this call, looked at again by
    // the next.
    queue.stale.set(STALE_COUNT.get() != seen);
    QUEUES.with_borrow_mut(|queues| queues.insert(table, queue.clone()));
    Ok(Some(queue))
}

/// The server's word that a table, or every table, has to be looked at again.
pub fn stale(table: Option<Oid>) {
    STALE_COUNT.set(STALE_COUNT.get() + 1);
    let done = QUEUES.with(|queues| match (queues.try_borrow(), table) {
        (Ok(queues), Some(table)) => {
            if let Some(queue) = queues.get(&table) {
                queue.stale.set(true);
            }
            true
        }
        (Ok(queues), None) => {
            queues.values().for_each(|queue| queue.stale.set(true));
            true
        }
        (Err(_), _) => false,
    });
    if !done {
        ALL_STALE.set(true);
    }
}

/// The definition of a table as the registry has it, and whether the columns' numbers still hold
/// (they do not after dump and restore).
pub fn read(table: Oid) -> Result<Option<(Definition, bool)>> {
    let row = catalog::own_row(REGISTRY, table, |row| {
        let written_for = row.datum(2).map(types::oid);
        (row.datum(3).map(jsonb::text).unwrap_or_default(), written_for == Some(table))
    });
    let Some((text, same_table)) = row else { return Ok(None) };
    let definition = serde_json::from_str(&text).map_err(|error| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
            format!("the definition of queue \"{}\" cannot be read: {error}", display_name(table)),
        )
        .hint("Call xqueue.downgrade() and xqueue.upgrade() on it.")
    })?;
    Ok(Some((definition, same_table)))
}

/// Locks the registry, for a worker, which must not wait for DROP EXTENSION. False if that cannot
/// be done at once.
pub fn try_lock() -> bool {
    catalog::own_relation(REGISTRY)
        .is_some_and(|registry| relation::try_lock(registry, Lock::AccessShare))
}

/// Writes a definition down, as the owner of the registry. The caller has checked that the current
/// role owns the table.
pub fn write(table: Oid, definition: &Definition) -> Result<()> {
    let value = serde_json::to_value(definition).map_err(|error| {
        Error::new(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, format!("cannot write: {error}"))
    })?;
    as_registry_owner(|spi| {
        spi.run_with(
            "INSERT INTO xqueue.queue (relation, incarnation, definition) VALUES ($1, $1, $2) \
             ON CONFLICT (relation) DO UPDATE \
             SET incarnation = excluded.incarnation, definition = excluded.definition",
            &[(types::OID, Some(table.into())), (types::JSONB, Some(jsonb::from_value(&value)))],
        );
    })
}

pub fn delete(table: Oid) -> Result<()> {
    as_registry_owner(|spi| {
        spi.run_with(
            "DELETE FROM xqueue.queue WHERE relation::pg_catalog.oid OPERATOR(pg_catalog.=) $1",
            &[(types::OID, Some(table.into()))],
        );
    })
}

fn as_registry_owner(work: impl FnOnce(&Spi)) -> Result<()> {
    let registry = catalog::own_relation(REGISTRY).ok_or_else(not_installed)?;
    let owner = Relation::open(registry, Lock::RowExclusive).ok_or_else(not_installed)?.owner();
    let _role = user::act_restricted_as(owner);
    spi::connect(work);
    Ok(())
}

impl Queue {
    /// Everything to know of a queue, from the table and its definition.
    fn describe(relation: &Relation, definition: Definition, same_table: bool) -> Result<Queue> {
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
                status: written(&status),
                owner: written(&owner),
                runat: runat.as_ref().map(written),
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

/// How the values of a status column are read.
pub struct StatusColumn {
    oid: Oid,
    modifier: i32,
    labels: Labels,
}

enum Labels {
    Letters([u8; 6]),
    Texts([String; 6]),
    Enum([Oid; 6]),
}

impl StatusColumn {
    /// Refuses a type, or labels, that cannot hold the states.
    pub fn new(column: &ColumnType, options: &Options) -> Result<StatusColumn> {
        let base = catalog::base_type(column.oid);
        let texts = Status::ALL.map(|status| options.label(status));
        let unfit = |label: &str| {
            Error::invalid(format!(
                "column \"{}\" of type {} cannot hold the state '{label}'",
                column.name,
                catalog::type_name(column.oid)
            ))
            .hint("Say in {\"states\": …} which values of the column stand for the letters R, T, W, B, Z and D.")
        };
        // A modifier of char(n) or varchar(n) is n + 4.
        let longest = if column.modifier > 4 { column.modifier as usize - 4 } else { usize::MAX };
        if let Some(label) = texts.iter().find(|text| text.chars().count() > longest) {
            return Err(unfit(label));
        }
        let labels = if base == types::CHAR {
            if let Some(label) = texts.iter().find(|text| text.len() != 1) {
                return Err(unfit(label));
            }
            Labels::Letters(texts.map(|text| text.as_bytes()[0]))
        } else if types::TEXTS.contains(&base) {
            Labels::Texts(texts)
        } else if catalog::is_enum(base) {
            let mut values = [Oid::INVALID; 6];
            for (value, text) in values.iter_mut().zip(&texts) {
                *value = catalog::enum_value(base, text).ok_or_else(|| unfit(text))?;
            }
            Labels::Enum(values)
        } else {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" cannot be the status: it is of type {}",
                    column.name,
                    catalog::type_name(column.oid)
                ),
            )
            .hint("Use a column of type \"char\", char, text, varchar or an enum."));
        };
        Ok(StatusColumn { oid: column.oid, modifier: column.modifier, labels })
    }

    fn read(&self, value: Option<Datum>) -> Option<Status> {
        let value = value?;
        let position = match &self.labels {
            Labels::Letters(letters) => {
                letters.iter().position(|letter| *letter == types::char(value))
            }
            Labels::Texts(texts) => types::with_text(value, |text| {
                // char(n) is padded with blanks.
                let text = text.trim_ascii_end();
                texts.iter().position(|label| label.as_bytes() == text)
            }),
            Labels::Enum(values) => values.iter().position(|oid| *oid == types::oid(value)),
        };
        position.map(|index| Status::ALL[index])
    }
}

/// The column that a definition means: by name, or by number if it was renamed since, unless the
/// table is one that was restored.
pub fn column_of(relation: &Relation, wanted: &Column, same_table: bool) -> Option<ColumnType> {
    let columns = relation.columns();
    let named = columns.iter().find(|column| column.name == wanted.name);
    let numbered = columns.iter().find(|column| column.number == wanted.number);
    // A restored table may have got the old oid by chance: then the name is there, elsewhere.
    if same_table { named.or(numbered) } else { named }.cloned()
}

/// Whether a table is the registry itself.
pub fn is_own_table(relation: &Relation) -> bool {
    catalog::own_relation(REGISTRY) == Some(relation.oid())
}

pub fn written(column: &ColumnType) -> Column {
    Column { name: column.name.clone(), number: column.number }
}

/// A table as SQL names it.
pub fn display_name(table: Oid) -> String {
    match catalog::table_name(table) {
        Some((schema, name)) => format!("{}.{}", catalog::quote(&schema), catalog::quote(&name)),
        None => format!("with oid {}", u32::from(table)),
    }
}

pub fn not_a_queue(table: Oid) -> Error {
    if catalog::table_name(table).is_none() {
        return Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("the table with oid {} has been dropped", u32::from(table)),
        )
        .hint("Create the queue again.");
    }
    let name = display_name(table);
    if !catalog::is_table(table) {
        return Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{name}\" is not an ordinary table, and so no queue"),
        )
        .hint("Name the queue's table.");
    }
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("table \"{name}\" is not a queue"),
    )
    .hint(format!("SELECT xqueue.upgrade({}); makes it one.", catalog::quote_literal(&name)))
}

fn not_installed() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "extension xqueue is not installed in this database",
    )
    .hint("CREATE EXTENSION xqueue;")
}

fn lost_column(table: Oid, column: &str) -> Error {
    let name = display_name(table);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        format!("queue \"{name}\" has lost its column \"{column}\""),
    )
    .hint(format!(
        "SELECT xqueue.upgrade({}); adds what is missing.",
        catalog::quote_literal(&name)
    ))
}
