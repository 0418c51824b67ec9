//! `put`: puts tasks into a queue.

use crate::api::argument::{self, Target};
use crate::api::features::{not_enabled, tube_value};
use crate::api::values::Values;
use crate::api::waiting::{gone_or, refuse_fixed_snapshot};
use crate::error::{Error, Result};
use crate::parts::waiters::wait::Deadline;
use crate::queue::{Arguments, Fired, Queue, Statement};
use crate::server::function::{Call, Output};
use crate::server::jsonb::{self, Shape};
use crate::server::relation::LockMode;
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::xact::{self, Verdict};
use crate::server::{context, record};
use crate::sql_functions;
use crate::write::counting;
use crate::write::front;
use crate::write::reservation::{self, Lack};
use xqueue_core::change::CallKind;
use xqueue_core::conflict::Conflict;
use xqueue_core::field::Field;
use xqueue_core::form::Form;
use xqueue_core::names::Id;
use xqueue_core::statement::{self, Parameter, Source};

sql_functions! {
    "put" as put, pg_finfo_put(
        queue: queue, task: jsonb = [NULL], delay: interval = NULL, ttl: interval = NULL,
        ttr: interval = NULL, priority: bigint = NULL, tube: text = NULL, front: boolean = false,
        timeout: interval = "0", on_conflict: text = "error",
    ) -> [tasks] => put_impl;
}

fn put_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::put::queue)?;
    let delay = argument::interval(call, arg::put::delay, false)?;
    let ttl = argument::interval(call, arg::put::ttl, true)?;
    let ttr = argument::interval(call, arg::put::ttr, true)?;
    let priority = call.get(arg::put::priority);
    let tube = call.get(arg::put::tube);
    let front = call.get(arg::put::front).unwrap_or(false);
    let (_, timeout) =
        argument::duration(call, arg::put::timeout)?.ok_or_else(|| Error::null("timeout"))?;
    let conflict = conflict(call)?;
    let output = Output::open(call);
    let put = || {
        let queue = target.open(LockMode::RowExclusive)?;
        if target.form == Form::Row {
            output.expects(&queue.row_columns, &queue.name)?;
        }
        let mut put = Put::new(&queue, target.form);
        put.give(delay, PutOption::Delay)?;
        put.give(ttl, PutOption::Ttl)?;
        put.give(ttr, PutOption::Ttr)?;
        put.give_priority(priority)?;
        let tube = tube.as_deref().map(|tube| tube_value(tube, &queue));
        put.give(tube.transpose()?, PutOption::Tube)?;
        if front {
            put.give_front()?;
        }
        put.statement.conflict = conflict;
        put.run(call.value(arg::put::task), target.row, |rows| {
            queue.show(&output, rows, target.form);
            Ok(())
        })
    };
    if timeout == 0 {
        put()?;
        return Ok(None);
    }
    refuse_fixed_snapshot("room")?;
    // A put that finds the queue full is rolled back, so that the call holds no lock while it waits.
    let look = || {
        let mut lack = Ok(None);
        xact::in_subtransaction(|| {
            lack = put();
            if matches!(lack, Ok(None)) { Verdict::Keep(()) } else { Verdict::Undo }
        });
        lack
    };
    let deadline = Deadline::after(Some(timeout));
    let again = |name: &str| look().map_err(|error| gone_or(error, &target, name));
    reservation::wait(look()?, deadline, again, || {})?;
    Ok(None)
}

/// Returns how to treat a task whose key already exists.
fn conflict(call: &Call) -> Result<Conflict> {
    let name = call.get(arg::put::on_conflict).ok_or_else(|| Error::null("on_conflict"))?;
    match Conflict::named(&name) {
        // A delay of zero ends the wait of a task; a missing delay does not.
        Some(Conflict::Update { .. }) => {
            let delay = argument::duration(call, arg::put::delay)?;
            Ok(Conflict::Update { at_once: delay.is_some_and(|(_, length)| length == 0) })
        }
        Some(conflict) => Ok(conflict),
        None => Err(Error::invalid(format!("\"{name}\" is no value of on_conflict"))
            .hint("Give 'error', 'nothing' or 'update'.")),
    }
}

/// A call of `put`, with the values that all its tasks share.
pub struct Put<'call> {
    pub(super) queue: &'call Queue,
    pub(super) statement: statement::Put,
    pub(super) arguments: Arguments<'call>,
}

/// A value that a call gives to all its tasks.
#[derive(Clone, Copy)]
pub(super) enum PutOption {
    Delay,
    Ttl,
    Ttr,
    Priority,
    Tube,
}

impl<'call> Put<'call> {
    pub fn new(queue: &'call Queue, form: Form) -> Put<'call> {
        let statement = statement::Put::new(form, Source::Values);
        Put { queue, statement, arguments: Arguments::default() }
    }

    /// Gives all tasks a value of the call. Refuses it if its feature is off.
    pub(super) fn give(&mut self, value: Option<Value<'call>>, option: PutOption) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let (features, put) = (self.queue.features(), &mut self.statement);
        let (is_given, feature, is_on, parameter) = match option {
            PutOption::Delay => (&mut put.delay, "delayed", features.delays(), Parameter::Delay),
            PutOption::Ttl => (&mut put.ttl, "ttl", features.expires(), Parameter::Ttl),
            PutOption::Ttr => (&mut put.ttr, "ttr", features.has_deadlines(), Parameter::Ttr),
            PutOption::Priority => {
                (&mut put.priority, "priority", features.has_priority(), Parameter::Priority)
            }
            PutOption::Tube => (&mut put.tube, "tube", features.has_tubes(), Parameter::Tube),
        };
        if !is_on {
            return Err(not_enabled(feature, self.queue));
        }
        *is_given = true;
        self.arguments.set(parameter, value);
        Ok(())
    }

    /// Puts the tasks before all others, by a lower priority value.
    fn give_front(&mut self) -> Result<()> {
        if !self.queue.features().has_priority() {
            return Err(not_enabled("priority", self.queue));
        }
        if self.statement.priority {
            return Err(Error::invalid("a task that is put to the front has no other priority")
                .hint("Give either front or priority."));
        }
        self.statement.front = true;
        Ok(())
    }

    /// Puts the argument: a jsonb object, an array of objects, or the row. If the capacity does not suffice, puts no
    /// task and returns the lack.
    pub fn run(
        self,
        task: Option<Value<'call>>,
        row: Option<Value<'call>>,
        mut deliver: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<Lack>> {
        let (name, front) = (&self.queue.name, self.statement.front);
        let hint = || match front {
            true => front::hint(self.queue),
            false => format!("Each member of a task is a column of {name} and has its type."),
        };
        context::hinted_of_arguments(hint, || match (task, row) {
            (Some(task), _) => self.json(jsonb::unpacked(task), &mut deliver),
            (None, Some(row)) => self.row(row, &mut deliver),
            (None, None) => Err(Error::null("task")),
        })
    }

    fn json(
        mut self,
        task: Value<'call>,
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<Lack>> {
        let queue = self.queue;
        match jsonb::shape(task) {
            Shape::Object => {
                let values = Values::of(task, queue)?.ok_or_else(no_object)?;
                self.refuse(&values)?;
                if self.may_meet_others() {
                    return self.merge(std::slice::from_ref(&values), deliver);
                }
                self.in_room(1, |put| put.one(&values, deliver))
            }
            Shape::Array => {
                let tasks = jsonb::elements(task).into_iter();
                let tasks = tasks.map(|task| Values::of(task, queue)?.ok_or_else(no_object));
                let tasks = tasks.collect::<Result<Vec<_>>>()?;
                // All tasks are checked before the first is put.
                tasks.iter().try_for_each(|values| self.refuse(values))?;
                if self.may_meet_others() {
                    return self.merge(&tasks, deliver);
                }
                let Some(first) = tasks.first() else { return Ok(None) };
                let columns = first.numbers();
                let are_alike = tasks.iter().all(|values| values.numbers() == columns);
                self.in_room(tasks.len(), |put| {
                    // Tasks with different columns are different statements. Each fires its AFTER triggers at its end.
                    let is_one = are_alike || queue.fires.at_put() == Fired::Nothing;
                    if is_one && put.directly(&tasks, deliver)? {
                        return Ok(());
                    }
                    if are_alike {
                        let objects = || tasks.iter().map(Values::object).collect::<Vec<_>>();
                        let list = match tasks.iter().any(Values::has_null_key) {
                            true => jsonb::array(&objects()),
                            false => task,
                        };
                        put.arguments.set(Parameter::Tasks, list);
                        return put.insert(Source::Tasks, columns, deliver).map(drop);
                    }
                    tasks.iter().try_for_each(|values| put.one(values, deliver))
                })
            }
            Shape::Scalar => Err(no_object()),
        }
    }

    /// Puts the row's values. Leaves out NULLs, so that their columns get their defaults, and the queue's own columns,
    /// which an ORM's model often contains.
    fn row(
        mut self,
        row: Value<'call>,
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<Lack>> {
        let fields = record::fields(row)?;
        let columns = self.queue.columns().iter().filter(|column| !column.is_generated);
        let given = columns.map(|column| column.number).filter(|number| {
            let value = fields.get(*number as usize - 1).and_then(|value| *value);
            value.is_some() && !self.queue.is_own_column(*number) && !self.gives(*number)
        });
        let columns: Vec<i16> = given.collect();
        self.require_key(|number| columns.contains(&number))?;
        self.arguments.set(Parameter::Row, row);
        if self.may_meet_others() {
            let has_key = self.queue.key.iter().all(|key| columns.contains(&key.number));
            let key = has_key.then(|| argument::key_of_row(row, self.queue)).transpose()?;
            return self.merge_keyed(&[key], deliver, |put, _, deliver| {
                put.insert(Source::Row, columns.clone(), deliver)
            });
        }
        self.in_room(1, |put| put.insert(Source::Row, columns, deliver).map(drop))
    }

    /// Runs `work` if the capacity for this many tasks can be reserved; otherwise returns the lack.
    pub(super) fn in_room(
        &mut self,
        tasks: usize,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Option<Lack>> {
        let lack = reservation::reserve(self.queue, tasks as i64)?;
        if lack.is_none() {
            if self.statement.front {
                // All tasks of the call get one priority, so that they are taken in key order.
                let priority = front::priority(self.queue)?;
                self.arguments.set(Parameter::Level, Value::int8(priority));
            }
            work(self)?;
            // Triggers can have suppressed some of the rows.
            reservation::give_back(self.queue.slot);
        }
        Ok(lack)
    }

    /// Puts a task, on the direct path if possible.
    fn one(
        &mut self,
        values: &Values<'call, '_>,
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<()> {
        match self.directly(std::slice::from_ref(values), deliver)? {
            true => Ok(()),
            false => self.values(values, deliver).map(drop),
        }
    }

    /// Puts a task by its values; returns the number of tasks put.
    pub(super) fn values(
        &mut self,
        values: &Values<'call, '_>,
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        values.bind(&mut self.arguments)?;
        let source = if values.is_plain() { Source::Values } else { Source::Task };
        self.insert(source, values.numbers(), deliver)
    }

    fn insert(
        &mut self,
        source: Source,
        columns: Vec<i16>,
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        self.statement.update = self.updates(&columns);
        (self.statement.source, self.statement.columns) = (source, columns);
        let statement = Statement::Put(self.statement.clone());
        let queue = self.queue;
        counting::run(queue, CallKind::Put, || {
            spi::connect(|spi| {
                let rows = queue.run(spi, &statement, &self.arguments);
                let tasks = (0..rows.len()).filter_map(|row| rows.value(row, 1));
                deliver(&queue.in_form(tasks, self.statement.form))?;
                Ok(rows.len())
            })
        })
    }

    /// Returns whether the default of the start time column gives a task its start.
    pub(super) fn may_have_to_wait(&self) -> bool {
        let number = self.queue.number_of(Field::Runat);
        let mut columns = self.queue.columns().iter();
        columns.any(|column| column.number == number && column.has_default && !column.refuses_null)
    }

    fn refuse(&self, values: &Values) -> Result<()> {
        let queue = self.queue;
        for column in values.columns() {
            if queue.is_own_column(column.number) {
                return Err(Error::invalid(format!(
                    "column \"{}\" of queue \"{}\" cannot be given by a task",
                    column.name, queue.name
                ))
                .hint("Leave it out: it belongs to the queue. Times are given as delay and ttl."));
            }
            if self.gives(column.number) {
                return Err(Error::invalid(format!(
                    "column \"{}\" of queue \"{}\" is given twice",
                    column.name, queue.name
                ))
                .hint("Give it by the task or by the parameter of put."));
            }
        }
        self.require_key(|number| values.has_value(number))
    }

    /// Returns whether a parameter of the call sets a column.
    fn gives(&self, number: i16) -> bool {
        let put = &self.statement;
        let given = [
            (put.ttr, Field::Ttr),
            (put.priority || put.front, Field::Priority),
            (put.tube, Field::Tube),
        ];
        given.iter().any(|(is_given, field)| *is_given && self.queue.number_of(*field) == number)
    }

    /// Requires tasks to bring their key if feature id = required.
    fn require_key(&self, has: impl Fn(i16) -> bool) -> Result<()> {
        let queue = self.queue;
        if queue.features().id != Some(Id::Required) {
            return Ok(());
        }
        match queue.key.iter().find(|key| !has(key.number)) {
            Some(key) => Err(argument::missing(&key.name, queue)),
            None => Ok(()),
        }
    }
}

fn no_object() -> Error {
    Error::invalid("a task must be a jsonb object").hint(
        "Give an object whose members are columns, {\"payload\": …}, or an array of such objects.",
    )
}
