//! Runs the statements of a queue by their kept plans.

use crate::error::Result;
use crate::queue::handle::Queue;
use crate::queue::kept;
use crate::queue::plans::{Arguments, MANY, PreparedPlan, Statement};
use crate::server::spi::{Plan, Rows, Spi};
use crate::server::sql_name;
use crate::server::types;
use crate::server::value::Value;
use pgrx::pg_sys::Oid;
use std::rc::Rc;
use xqueue_core::statement::{Change, Parameter, Text};

impl Queue {
    /// Runs a statement by its kept plan. Arguments without a parameter in the statement are ignored.
    pub fn run<'spi>(
        &self,
        spi: &'spi Spi,
        statement: &Statement,
        arguments: &Arguments,
    ) -> Rows<'spi> {
        let prepared = self.prepared(spi, statement);
        let value = |parameter: &Parameter| {
            let is_empty_row = *parameter == Parameter::EmptyRow;
            if is_empty_row { Value::empty_row(self.row_type) } else { arguments.get(*parameter) }
        };
        spi.run_plan(&prepared.plan, prepared.parameters.iter().map(value))
    }

    /// Runs a statement in a worker's job. Returns None if the description has become stale. Then a name in the statement
    /// can mean another role's object. That role's code must not run with the rights of the queue's owner.
    pub fn run_in_job<'spi>(
        &self,
        spi: &'spi Spi,
        statement: &Statement,
        arguments: &Arguments,
    ) -> Option<Rows<'spi>> {
        let prepared = self.prepared(spi, statement);
        let values = prepared.parameters.iter().map(|parameter| arguments.get(*parameter));
        prepared.plan.make_ready();
        // A renamed schema is visible shortly before its invalidation arrives.
        let named = sql_name::find_table(&self.sql.qualified());
        let is_own = named.is_ok_and(|table| table == self.table) && !self.stale.get();
        is_own.then(|| spi.run_ready(&prepared.plan, values))
    }

    /// Picks and changes tasks; passes the returned rows to `see`, and returns the number of changed tasks.
    pub fn change(
        &self,
        spi: &Spi,
        change: Change,
        arguments: &Arguments,
        see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        let run = |statement: &Statement, arguments: &Arguments| {
            Some(self.run(spi, statement, arguments))
        };
        Ok(self.change_by(run, change, arguments, see)?.unwrap_or_default())
    }

    /// Changes tasks in a worker's job, and returns their number. Returns None if the description has become stale.
    pub fn change_in_job(
        &self,
        spi: &Spi,
        change: Change,
        arguments: &Arguments,
    ) -> Result<Option<usize>> {
        let run = |statement: &Statement, arguments: &Arguments| {
            self.run_in_job(spi, statement, arguments)
        };
        self.change_by(run, change, arguments, |_| Ok(()))
    }

    /// Picks and changes tasks by statements that `run` runs, until it returns None.
    fn change_by<'spi>(
        &self,
        run: impl Fn(&Statement, &Arguments) -> Option<Rows<'spi>>,
        change: Change,
        arguments: &Arguments,
        mut see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<usize>> {
        if self.has_simple_key {
            let Some(rows) = run(&Statement::Change(change), arguments) else { return Ok(None) };
            if !rows.is_empty() {
                see(&rows)?;
            }
            return Ok(Some(rows.len()));
        }
        let Some(picked) = run(&Statement::Pick(change), arguments) else { return Ok(None) };
        let mut arguments = arguments.clone();
        let mut changed = 0;
        for row in 0..picked.len() {
            for index in 0..self.key.len() {
                let value = picked.value(row, index as i32 + 1);
                arguments.set_or_null(Parameter::Key(index), value);
            }
            let Some(rows) = run(&Statement::ChangeOne(change), &arguments) else { break };
            changed += rows.len();
            if !rows.is_empty() {
                see(&rows)?;
            }
        }
        Ok(Some(changed))
    }

    fn prepared(&self, spi: &Spi, statement: &Statement) -> Rc<PreparedPlan> {
        if let Some(prepared) = self.plans.0.borrow().get(statement) {
            return prepared.clone();
        }
        let Text { sql, parameters } = self.text(statement);
        let types: Vec<Oid> = parameters.iter().map(|parameter| self.type_of(*parameter)).collect();
        let prepared = Rc::new(PreparedPlan { plan: Plan::prepare(spi, &sql, &types), parameters });
        let mut plans = self.plans.0.borrow_mut();
        if plans.len() >= MANY {
            plans.retain(|statement, _| !statement.is_one_of_many());
        }
        plans.insert(statement.clone(), prepared.clone());
        drop(plans);
        kept::make_room(self);
        prepared
    }

    fn text(&self, statement: &Statement) -> Text {
        match statement {
            Statement::Change(change) => self.sql.change(*change),
            Statement::Pick(change) => self.sql.pick(*change),
            Statement::ChangeOne(change) => self.sql.change_one(*change),
            Statement::Step(step) => self.sql.step(step),
            Statement::Put(put) => self.sql.put(put),
            Statement::Peek => self.sql.peek(),
            Statement::First(within) => self.sql.first(*within),
            Statement::NextLevel => self.sql.next_level(),
            Statement::Least { marked } => self.sql.least(*marked),
            Statement::Holder => self.sql.holder(),
            Statement::NextDue => self.sql.next_due(),
            Statement::Holders => self.sql.holders(),
            Statement::Holding => self.sql.holding(),
            Statement::SubqueueOfTask => self.sql.subqueue_of_task(),
            Statement::IsTakeable => self.sql.is_takeable(),
            Statement::FirstLevel => self.sql.first_level(),
            Statement::Subqueues => self.sql.subqueues(),
        }
    }

    fn type_of(&self, parameter: Parameter) -> Oid {
        let column = |number: i16| {
            self.columns().iter().find(|column| column.number == number).map(|column| column.oid)
        };
        match parameter {
            Parameter::Session => types::UUID,
            Parameter::Sessions => types::UUID_ARRAY,
            Parameter::Key(index) => types::compared_type(self.key[index].oid),
            Parameter::Keys => types::array_type(self.key[0].base),
            Parameter::Level | Parameter::Priority => types::INT8,
            Parameter::Mark(index) => self.ordered_by[index].oid,
            Parameter::Now | Parameter::Since => types::TIMESTAMPTZ,
            Parameter::Limit | Parameter::Skip => types::INT4,
            Parameter::Attempt => types::INT4,
            Parameter::Error => types::TEXT,
            Parameter::Delay | Parameter::Ttl | Parameter::Ttr => types::INTERVAL,
            Parameter::Increment => types::INTERVAL,
            Parameter::Tube => {
                self.tube().map_or(types::TEXT, |tube| types::compared_type(tube.oid))
            }
            Parameter::Subqueue => types::INT8,
            Parameter::Column(number) => column(number).unwrap_or(types::TEXT),
            Parameter::Task | Parameter::Tasks => types::JSONB,
            Parameter::Row | Parameter::EmptyRow => self.row_type,
        }
    }
}
