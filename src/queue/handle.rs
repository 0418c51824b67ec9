//! A queue, ready to work with: its table, its columns, its plans.

use crate::error::{Error, Result};
use crate::parts::schedule::requests;
use crate::parts::slot;
use crate::queue::digest::Secret;
use crate::queue::direct::Directs;
use crate::queue::fires::Fires;
use crate::queue::fitness::Fitness;
use crate::queue::labels::hashes;
use crate::queue::lacking::{lost_column, lost_order};
use crate::queue::order::{order_columns, order_of};
use crate::queue::plans::Plans;
use crate::queue::shown::Shows;
use crate::queue::status::StatusColumn;
use crate::queue::store::Entry;
use crate::queue::table_names::{table_names, types_named};
use crate::queue::triggers::{self, Tracking};
use crate::queue::{column_of, not_a_queue, written};
use crate::server::own_table;
use crate::server::relation::{self, ColumnType, Relation};
use crate::server::row::Row;
use crate::server::row_type::RowType;
use crate::server::time_zone::TimeZone;
use crate::server::value::Value;
use crate::server::{operators, process, time, types, xact};
use crate::transaction;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use xqueue_core::change::StateAndTube;
use xqueue_core::definition::{Column, Definition};
use xqueue_core::features::Features;
use xqueue_core::field::Field;
use xqueue_core::order::Order;
use xqueue_core::slot_id::SlotId;
use xqueue_core::statement::{self, Index};
use xqueue_core::status::Status;

/// A queue with its resolved table, columns and plans.
pub struct Queue {
    pub table: Oid,
    pub slot: SlotId,
    /// The table's name in SQL.
    pub name: String,
    pub definition: Definition,
    pub sql: statement::Table,
    pub key: Vec<KeyType>,
    /// The columns by which tasks of equal priority are taken.
    pub ordered_by: Vec<KeyType>,
    /// Hashes of the types that statements name: the types of status, tube and key.
    pub(super) types: Vec<u32>,
    pub row_type: Oid,
    pub row_columns: RowType,
    /// The SQL name of the user's function for changes.
    pub hook: Option<String>,
    /// Order of the tasks if the queue has low-water marks. A queue has marks only if triggers report every ready task
    /// and all tasks are visible to all roles.
    pub order: Option<Order>,
    /// Order of the keys, if they have one column.
    pub(super) key_order: Option<Order>,
    /// Each priority has its own mark.
    pub by_priority: bool,
    /// Hashes of the counted tubes' labels; None for a label that is not a value of the column any more.
    pub(super) counted_labels: Vec<Option<u64>>,
    /// Labels of tubes are equal if and only if their hashes are.
    pub tells_tubes: bool,
    /// Keys are equal if and only if their hashes are.
    pub(super) tells_keys: bool,
    pub tracking: Tracking,
    /// The zone of times in columns without a time zone.
    pub time_zone: TimeZone,
    /// Triggers report every task, and all tasks are visible to all roles.
    pub is_tracked: bool,
    /// Row security is on: visibility depends on the role.
    pub has_row_security: bool,
    /// Key of the hash that distinguishes sub-queues; unused without sub-queues.
    pub(super) secret: Secret,
    /// No task is taken before this instant.
    paused_until: Option<i64>,
    /// The queue's number of redefinitions when it was read.
    pub(super) redefinitions: u64,
    pub shows: Shows,
    /// A change of a task can be refused because of its values: by a trigger, a rule, a hook, a check, a foreign key, a
    /// domain, or a NOT NULL that is NOT VALID.
    pub may_refuse: bool,
    /// The changes that fire something of a user's.
    pub fires: Fires,
    status: StatusColumn,
    columns: Vec<ColumnType>,
    /// Column numbers of the fields, indexed by `Field as usize`; 0 for a field without a column.
    numbers: [i16; Field::ALL.len()],
    pub(super) plans: Plans,
    pub(super) directs: Directs,
    /// Indexes already looked up; valid as long as the description is.
    pub(super) found: RefCell<Vec<(Index, Oid)>>,
    /// Names of the missing key or indexes, after the first check.
    pub(super) lost: OnceCell<Option<String>>,
    /// A user's index or generated column can refuse a task; set by the first check.
    pub(super) may_refuse_values: OnceCell<bool>,
    /// Changes of the table run code of its owner; set by the first check.
    pub(super) user_code: OnceCell<bool>,
    /// The key is a single column, neither an array nor compared as another type, so that keys can be put into an
    /// array.
    pub has_simple_key: bool,
    pub(super) stale: Rc<Cell<bool>>,
    /// Number of the last use, counted over all queues; the least is the least recently used queue.
    pub(super) used: Cell<u64>,
    /// Bytes accounted to this queue in the memory of all kept queues; 0 if it is not kept.
    pub(super) weighed: Cell<usize>,
}

#[derive(Clone, Debug)]
pub struct KeyType {
    pub name: String,
    pub number: i16,
    pub oid: Oid,
    /// The type below all domains.
    pub base: Oid,
    pub is_array: bool,
    pub collation: Oid,
    /// The type's modifier; -1 if the type has no modifier.
    pub modifier: i32,
}

impl Queue {
    /// Describes a queue from its table and its definition.
    pub(super) fn describe(relation: &Relation, entry: Entry, redefinitions: u64) -> Result<Queue> {
        let Entry { mut definition, same_table, paused_until } = entry;
        let table = relation.oid();
        let find_or = |wanted: &Column, lost: fn(Oid, &str) -> Error| {
            column_of(relation, wanted, same_table).ok_or_else(|| lost(table, &wanted.name))
        };
        let find = |wanted: &Column| find_or(wanted, lost_column);
        let mut fields = BTreeMap::new();
        let mut numbers = [0; Field::ALL.len()];
        for (field, wanted) in &mut definition.fields {
            let column = find(wanted)?;
            *wanted = written(&column);
            numbers[*field as usize] = column.number;
            fields.insert(*field, column);
        }
        let key = definition.key.iter().map(find).collect::<Result<Vec<_>>>()?;
        let order = definition.order.iter().map(|wanted| find_or(wanted, lost_order));
        let order = order.collect::<Result<Vec<_>>>()?;
        let ordered_by = order_columns(order, &key);
        let display_name = crate::queue::display_name(table);
        let fitness = Fitness { options: &definition.options, queue: Some(&display_name) };
        fitness.require(&fields, &key, &ordered_by)?;
        let status =
            fields.get(&Field::Status).ok_or_else(|| lost_column(table, Field::Status.name()))?;
        let status = StatusColumn::new(status, &fitness)?;
        let counted_labels = hashes(&fitness, &fields)?;
        let types = types_named(&fields, &key);
        let sql = table_names(relation, &definition.options, &fields, &key, &ordered_by)?;
        let database = process::database();
        let capacity = definition.options.features.capacity();
        let owner = relation.owner();
        let slot = slot::find_or_add(database.into(), table.into(), owner.into(), capacity);
        let (slot, is_new) = slot.ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("there are more than {} queues", crate::settings::max_queues()),
            )
            .hint("Raise xqueue.max_queues in postgresql.conf and restart the server.")
        })?;
        requests::want_database_worker(database.into(), is_new);
        if let Some(mut slot) = slot::lock(slot) {
            slot.counters.note_counted_tubes(!counted_labels.is_empty());
            slot.table.note_pauses(paused_until.is_some());
            slot.table.set_has_subqueues(definition.options.features.has_subqueues());
        }
        // A definition made by this transaction is not valid for others before the transaction ends.
        let is_owner_known = !transaction::has_redefined(slot);
        if let Some(mut slot) = slot::lock(slot).filter(|_| is_owner_known) {
            slot.table.learn_owner(owner.into());
        }
        let has_row_security = relation.has_row_security();
        let tracking = triggers::tracking(relation, &sql);
        let is_tracked = tracking == Tracking::Always && !has_row_security;
        // A NULL priority comes after all others, but marks know whole numbers only. Marks of sub-queues ignore
        // priorities.
        let has_subqueues = definition.options.features.has_subqueues();
        let secret = if has_subqueues { own_table::secret()? } else { Secret::default() };
        let by_priority = fields.get(&Field::Priority);
        let by_priority =
            by_priority.map(|column| column.is_not_null && types::is_integer(column.base));
        let tells_tubes =
            fields.get(&Field::Tube).is_none_or(|column| operators::is_told_by_hash(column.base));
        let tells_keys = key.iter().all(|column| operators::is_told_by_hash(column.base));
        let has_unknown = by_priority.is_some_and(|is_known| has_subqueues || !is_known);
        let has_null = ordered_by.iter().any(|column| !column.is_not_null);
        let is_marked = is_tracked && !has_unknown && !has_null;
        let order = order_of(&ordered_by).filter(|_| is_marked);
        let key_order = order_of(&key).filter(|order| order.columns() == 1);
        // Marks are not lowered while the queue has no order that they support.
        if let Some(mut slot) = slot::lock(slot).filter(|_| order.is_none()) {
            slot.marks().forget();
        }
        let key_type = |key: ColumnType| KeyType {
            name: key.name,
            number: key.number,
            oid: key.oid,
            base: key.base,
            is_array: types::element_type(key.base).is_some(),
            collation: key.collation,
            modifier: key.modifier,
        };
        let key: Vec<KeyType> = key.into_iter().map(key_type).collect();
        let ordered_by: Vec<KeyType> = ordered_by.into_iter().map(key_type).collect();
        let is_simple = |key: &KeyType| !key.is_array && types::compared_type(key.oid) == key.oid;
        let has_simple_key = matches!(key.as_slice(), [key] if is_simple(key));
        let columns = relation.columns();
        let is_domain = |column: &ColumnType| column.base != column.oid;
        let is_own = |number: &i16| {
            Field::ALL.iter().any(|field| field.is_own() && numbers[*field as usize] == *number)
        };
        let fires = match definition.options.features.hook() {
            Some(_) => Fires::ALL,
            None => Fires::of(relation, &sql, |number| is_own(&number)),
        };
        let may_refuse = triggers::are_made_by_users(relation, &sql)
            || definition.options.features.hook().is_some()
            || relation.check_count() > 0
            || relation.foreign_key_columns().iter().any(is_own)
            || columns.iter().any(is_domain)
            || columns.iter().any(|column| column.refuses_null && !column.is_not_null);
        let row_columns = RowType::of(relation.row_type()).ok_or_else(|| not_a_queue(table))?;
        Ok(Queue {
            table,
            slot,
            name: sql.qualified(),
            status,
            sql,
            key,
            ordered_by,
            types,
            row_type: relation.row_type(),
            row_columns,
            secret,
            paused_until,
            redefinitions,
            hook: definition.options.features.hook().map(String::from),
            order,
            key_order,
            by_priority: by_priority == Some(true),
            counted_labels,
            tells_tubes,
            tells_keys,
            tracking,
            time_zone: TimeZone::named(definition.options.time_zone())?,
            is_tracked,
            shows: Shows::of(&columns),
            may_refuse,
            has_row_security,
            fires,
            definition,
            columns,
            numbers,
            plans: Plans::default(),
            directs: Directs::default(),
            found: RefCell::default(),
            lost: OnceCell::new(),
            may_refuse_values: OnceCell::new(),
            user_code: OnceCell::new(),
            has_simple_key,
            stale: Rc::default(),
            used: Cell::default(),
            weighed: Cell::default(),
        })
    }

    /// Returns whether the open transaction can be in the middle of a statement that changes the table. The triggers
    /// have then not reported some changes that are already visible.
    pub fn may_be_changing(&self) -> bool {
        xact::id_if_any() != 0 && relation::is_in_use(self.table)
    }

    /// Returns whether a take's result depends on the caller: another caller can find tasks that this one does not.
    pub fn gives_by_caller(&self) -> bool {
        self.has_row_security || self.features().picker().is_some()
    }

    pub fn features(&self) -> &Features {
        &self.definition.options.features
    }

    /// Returns the end of the queue's pause.
    pub fn paused_until(&self) -> Option<i64> {
        self.paused_until.filter(|until| *until > time::now())
    }

    /// Returns the state of a row; an error if its status value stands for no state.
    pub fn status_of(&self, row: &impl Row) -> Result<Status> {
        let value = row.value(self.numbers[Field::Status as usize]);
        self.status.read(value).ok_or_else(|| {
            let shown = match value {
                Some(value) => format!("'{}'", value.shown()),
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
                "Column {} can be {}.",
                self.sql.fields.get(&Field::Status).map_or("", String::as_str),
                known.join(", ")
            ))
        })
    }

    /// Returns the state that a value of the status column stands for.
    pub fn status_read(&self, value: Option<Value>) -> Option<Status> {
        self.status.read(value)
    }

    /// Returns the value of the status column that stands for a state.
    pub fn status_value(&self, status: Status) -> Result<Value<'static>> {
        self.status.write(status, &self.definition.options)
    }

    /// Returns the state and the tube of a row; an error if its status value stands for no state.
    pub fn place_of(&self, row: &impl Row) -> Result<StateAndTube> {
        Ok(StateAndTube { status: self.status_of(row)?, tube: self.tube_of(row) })
    }

    /// Returns when the worker must act on a row in this state (µs).
    pub fn due_of(&self, row: &impl Row, status: Status) -> Option<i64> {
        let runat = self.is_timed(status).then(|| self.instant_of(row, Field::Runat)).flatten();
        let expires = status.is_mortal().then(|| self.instant_of(row, Field::Expires)).flatten();
        [runat, expires].into_iter().flatten().min()
    }

    /// Returns whether the worker acts on a task in this state at its `runat`.
    pub fn is_timed(&self, status: Status) -> bool {
        self.features().is_timed(status)
    }

    /// Returns the value in a field of a row.
    pub fn value_of<'row>(&self, row: &'row impl Row, field: Field) -> Option<Value<'row>> {
        let number = self.numbers[field as usize];
        if number == 0 { None } else { row.value(number) }
    }

    pub fn key_of<'row>(&self, row: &'row impl Row) -> Vec<Value<'row>> {
        self.key.iter().filter_map(|key| row.value(key.number)).collect()
    }

    /// Formats the key of a row for people.
    pub fn key_text_of(&self, row: &impl Row) -> String {
        crate::queue::key_text(&self.key_of(row))
    }

    /// Returns the column of a field, if it has one.
    pub fn column_of(&self, field: Field) -> Option<&ColumnType> {
        let number = self.numbers[field as usize];
        self.columns.iter().find(|column| column.number == number)
    }

    /// Returns the number of a field's column; 0 if it has no column.
    pub fn number_of(&self, field: Field) -> i16 {
        self.numbers[field as usize]
    }

    pub fn column(&self, name: &str) -> Option<&ColumnType> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }

    /// Returns whether a column is the queue's own, which only its functions change.
    pub fn is_own_column(&self, number: i16) -> bool {
        let fields = self.definition.fields.iter();
        fields.filter(|(field, _)| field.is_own()).any(|(_, column)| column.number == number)
    }

    pub fn is_key_column(&self, number: i16) -> bool {
        self.key.iter().any(|key| key.number == number)
    }
}
