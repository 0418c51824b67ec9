//! The kept plans of a queue's statements, and the values that they are run with.

use crate::error::Result;
use crate::queue::handle::Queue;
use crate::server::spi::{Plan, Rows, Spi};
use crate::server::value::Value;
use crate::server::{catalog, types};
use crate::statement::{Change, Form, Parameter, Put, Step, Text, Within};
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The statements whose plans are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// For a key of one column.
    Change(Change),
    /// For keys of several columns.
    Pick(Change),
    ChangeOne(Change),
    Step(Step),
    Put(Put),
    Peek(Form),
    /// The first of some tasks.
    First(Within),
    /// The first ready task, of a tube or of all, whose priority is a given one or comes later.
    NextLevel {
        tube: bool,
    },
    /// The least priority of the ready tasks, from a mark on.
    Least {
        marked: bool,
    },
    Holder,
    NextDue,
    Holders,
    Holding {
        named: bool,
    },
    FreeLane,
    IsTakeable,
    /// The level of the first task of a sub-queue.
    FirstLevel,
    Lanes,
}

impl Statement {
    /// Depends on which columns the callers name: there may be many such statements.
    fn is_one_of_many(&self) -> bool {
        match self {
            Statement::Put(_) => true,
            Statement::Step(step) => !step.update.is_empty(),
            _ => false,
        }
    }
}

/// So many plans are kept of statements that depend on what callers name.
const MANY: usize = 64;

/// The kept plans of a queue.
#[derive(Default)]
pub struct Plans(RefCell<HashMap<Statement, Rc<Prepared>>>);

struct Prepared {
    plan: Plan,
    parameters: Vec<Parameter>,
}

/// Values for the parameters of a statement, by what they are.
#[derive(Clone, Default)]
pub struct Arguments<'m>(Vec<(Parameter, Option<Value<'m>>)>);

impl<'m> Arguments<'m> {
    pub fn of(parameter: Parameter, value: Value<'m>) -> Arguments<'m> {
        let mut arguments = Arguments::default();
        arguments.set(parameter, value);
        arguments
    }

    pub fn set(&mut self, parameter: Parameter, value: Value<'m>) {
        self.set_or_null(parameter, Some(value));
    }

    pub fn set_or_null(&mut self, parameter: Parameter, value: Option<Value<'m>>) {
        match self.0.iter_mut().find(|(known, _)| *known == parameter) {
            Some(known) => known.1 = value,
            None => self.0.push((parameter, value)),
        }
    }

    pub fn set_key(&mut self, key: &[Value<'m>]) {
        for (index, value) in key.iter().enumerate() {
            self.set(Parameter::Key(index), *value);
        }
    }

    pub fn get(&self, parameter: Parameter) -> Option<Value<'m>> {
        self.0.iter().find(|(known, _)| *known == parameter).and_then(|(_, value)| *value)
    }
}

impl Queue {
    /// Runs a statement by its kept plan. What it takes no parameter for is passed over.
    pub fn run<'spi>(
        &self,
        spi: &'spi Spi,
        statement: &Statement,
        arguments: &Arguments,
    ) -> Rows<'spi> {
        let prepared = self.prepared(spi, statement);
        let values = prepared.parameters.iter().map(|parameter| arguments.get(*parameter));
        spi.run_plan(&prepared.plan, values)
    }

    /// Picks and changes tasks; shows what the change gives back, and says how many it changed.
    pub fn change(
        &self,
        spi: &Spi,
        change: Change,
        arguments: &Arguments,
        mut see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        if self.has_simple_key {
            let rows = self.run(spi, &Statement::Change(change), arguments);
            if !rows.is_empty() {
                see(&rows)?;
            }
            return Ok(rows.len());
        }
        let picked = self.run(spi, &Statement::Pick(change), arguments);
        let mut arguments = arguments.clone();
        let mut changed = 0;
        for row in 0..picked.len() {
            for index in 0..self.key.len() {
                let value = picked.value(row, index as i32 + 1);
                arguments.set_or_null(Parameter::Key(index), value);
            }
            let rows = self.run(spi, &Statement::ChangeOne(change), &arguments);
            changed += rows.len();
            if !rows.is_empty() {
                see(&rows)?;
            }
        }
        Ok(changed)
    }

    fn prepared(&self, spi: &Spi, statement: &Statement) -> Rc<Prepared> {
        if let Some(prepared) = self.plans.0.borrow().get(statement) {
            return prepared.clone();
        }
        let Text { sql, parameters } = self.text(statement);
        let types: Vec<Oid> = parameters.iter().map(|parameter| self.type_of(*parameter)).collect();
        let prepared = Rc::new(Prepared { plan: Plan::prepare(spi, &sql, &types), parameters });
        let mut plans = self.plans.0.borrow_mut();
        if plans.len() >= MANY {
            plans.retain(|statement, _| !statement.is_one_of_many());
        }
        plans.insert(statement.clone(), prepared.clone());
        prepared
    }

    fn text(&self, statement: &Statement) -> Text {
        match statement {
            Statement::Change(change) => self.sql.change(*change),
            Statement::Pick(change) => self.sql.pick(*change),
            Statement::ChangeOne(change) => self.sql.change_one(*change),
            Statement::Step(step) => self.sql.step(step),
            Statement::Put(put) => self.sql.put(put),
            Statement::Peek(form) => self.sql.peek(*form),
            Statement::First(within) => self.sql.first(*within),
            Statement::NextLevel { tube } => self.sql.next_level(*tube),
            Statement::Least { marked } => self.sql.least(*marked),
            Statement::Holder => self.sql.holder(),
            Statement::NextDue => self.sql.next_due(),
            Statement::Holders => self.sql.holders(),
            Statement::Holding { named } => self.sql.holding(*named),
            Statement::FreeLane => self.sql.free_lane(),
            Statement::IsTakeable => self.sql.is_takeable(),
            Statement::FirstLevel => self.sql.first_level(),
            Statement::Lanes => self.sql.lanes(),
        }
    }

    fn type_of(&self, parameter: Parameter) -> Oid {
        let column = |number: i16| {
            self.columns().iter().find(|column| column.number == number).map(|column| column.oid)
        };
        match parameter {
            Parameter::Session => types::UUID,
            Parameter::Sessions => types::UUID_ARRAY,
            Parameter::Key(index) => self.key[index].oid,
            Parameter::Keys => catalog::array_type(self.key[0].base),
            Parameter::Level | Parameter::Priority => types::INT8,
            Parameter::Mark => self.key[0].oid,
            Parameter::Now | Parameter::Since => types::TIMESTAMPTZ,
            Parameter::Limit | Parameter::Skip => types::INT4,
            Parameter::Attempt => types::INT4,
            Parameter::Delay | Parameter::Ttl | Parameter::Ttr => types::INTERVAL,
            Parameter::Increment => types::INTERVAL,
            Parameter::Tube => self.tube().map_or(types::TEXT, |tube| tube.oid),
            Parameter::Lane => types::INT8,
            Parameter::Column(number) => column(number).unwrap_or(types::TEXT),
            Parameter::Task | Parameter::Tasks => types::JSONB,
            Parameter::Row => self.row_type,
        }
    }
}
