//! `put`: tasks into a queue.

use super::argument::{self, Target};
use crate::error::{Error, Result};
use crate::pg::function::{Call, Output};
use crate::pg::jsonb::{self, Shape};
use crate::pg::relation::Lock;
use crate::pg::{catalog, context, spi, types};
use crate::registry::{Queue, Statement};
use crate::sql_functions;
use crate::statement::{Form, PutSource};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Datum;

sql_functions! {
    put, pg_finfo_put => put_impl,
}

/// put(queue, task jsonb, delay interval)
fn put_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let delay = argument::duration(call, 2, "delay")?.filter(|(_, length)| *length > 0);
    let queue = target.open(Lock::RowExclusive)?;
    if delay.is_some() && !queue.is_delayed() {
        return Err(not_enabled("delayed", &queue));
    }
    let output = Output::open(call);
    if target.form == Form::Row {
        output.expects(&queue.row_columns, &queue.name)?;
    }
    let put = Put {
        queue: &queue,
        form: target.form,
        delay: delay.map(|(interval, _)| types::from_interval(interval)),
        output: &output,
    };
    let hint = format!("Each member of a task is a column of {} and has its type.", queue.name);
    context::hinted(&hint, || match (call.datum(1), target.row) {
        (Some(task), _) => put.json(jsonb::unpacked(task)),
        (None, Some(row)) => put.row(row),
        (None, None) => Err(Error::null("task")),
    })?;
    Ok(call.null())
}

/// A call of put, with what all its tasks share.
struct Put<'call> {
    queue: &'call Queue,
    form: Form,
    delay: Option<Datum>,
    output: &'call Output,
}

impl Put<'_> {
    fn json(&self, task: Datum) -> Result<()> {
        match jsonb::shape(task) {
            Shape::Object(members) => {
                self.refuse_columns(&members)?;
                self.insert(task, &members, PutSource::Object)
            }
            Shape::Array => {
                let tasks = jsonb::elements(task);
                let shapes = tasks.iter().map(|task| match jsonb::shape(*task) {
                    Shape::Object(members) => Ok(members),
                    _ => Err(no_object()),
                });
                let shapes = shapes.collect::<Result<Vec<_>>>()?;
                // All before the first is put.
                shapes.iter().try_for_each(|members| self.refuse_columns(members))?;
                match shapes.first() {
                    None => Ok(()),
                    Some(first) if shapes.iter().all(|members| members == first) => {
                        self.insert(task, first, PutSource::Array)
                    }
                    Some(_) => tasks.into_iter().zip(&shapes).try_for_each(|(task, members)| {
                        self.insert(task, members, PutSource::Object)
                    }),
                }
            }
            Shape::Scalar => Err(no_object()),
        }
    }

    /// The row's values, except NULLs, which leave the column its default, and the queue's own
    /// columns, which an ORM's model may well hold.
    fn row(&self, row: Datum) -> Result<()> {
        let fields = catalog::record_fields(row);
        let given = self.queue.columns().iter().filter(|column| {
            let value = fields.get(column.number as usize - 1).and_then(|(_, value)| *value);
            value.is_some() && !self.queue.is_own_column(&column.name)
        });
        let names: Vec<String> = given.map(|column| column.name.clone()).collect();
        self.insert(row, &names, PutSource::Row)
    }

    fn insert(&self, source: Datum, names: &[String], kind: PutSource) -> Result<()> {
        let columns = names.iter().map(|name| catalog::quote(name)).collect();
        let (form, delayed) = (self.form, self.delay.is_some());
        let statement = Statement::Put { form, columns, source: kind, delayed };
        let arguments: Vec<_> = [Some(source)].into_iter().chain(self.delay.map(Some)).collect();
        spi::connect(|spi| {
            let rows = spi.run_plan(&self.queue.plan(spi, statement), &arguments);
            self.output.push_all(&rows, self.form);
        });
        Ok(())
    }

    fn refuse_columns(&self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| self.refuse_column(name))
    }

    fn refuse_column(&self, name: &str) -> Result<()> {
        let queue = self.queue;
        if queue.is_own_column(name) {
            return Err(Error::invalid(format!(
                "column \"{name}\" of queue \"{}\" cannot be given by a task",
                queue.name
            ))
            .hint("Leave it out: it belongs to the queue. A time to start at is given as delay."));
        }
        if queue.column(name).is_none() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("column \"{name}\" of queue \"{}\" does not exist", queue.name),
            )
            .hint(
                "The members of a task are columns of the table; put all else into a jsonb column.",
            ));
        }
        Ok(())
    }
}

/// The error of a method or option whose feature is off.
pub fn not_enabled(feature: &str, queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("feature {feature} is not enabled"),
    )
    .detail(format!("Queue \"{}\".", queue.name))
    .hint(format!(
        "SELECT xqueue.upgrade({}, '{{\"features\": {{\"{feature}\": true}}}}');",
        catalog::quote_literal(&queue.name)
    ))
}

fn no_object() -> Error {
    Error::invalid("a task must be a jsonb object").hint(
        "Give an object whose members are columns, {\"payload\": …}, or an array of such objects.",
    )
}
