//! The kept plans of a queue's statements, and the arguments of their parameters.

use crate::queue::start::Start;
use crate::server::spi::Plan;
use crate::server::value::Value;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use xqueue_core::statement::{Change, Parameter, Put, Step, Within};

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
    Peek,
    /// The first task within a group of tasks.
    First(Within),
    /// The least priority of ready tasks that is the given one or later.
    NextLevel,
    /// The least priority of the ready tasks that follow a mark.
    Least {
        marked: bool,
    },
    Holder,
    NextDue,
    Holders,
    Holding,
    SubqueueOfTask,
    IsTakeable,
    /// The level of the first task of a sub-queue.
    FirstLevel,
    Subqueues,
}

impl Statement {
    /// Returns whether the statement depends on the columns that callers name. A queue can have many such statements.
    pub(super) fn is_one_of_many(&self) -> bool {
        match self {
            Statement::Put(_) => true,
            Statement::Step(step) => !step.update.is_empty(),
            _ => false,
        }
    }
}

/// Maximum number of kept plans of statements for which `is_one_of_many` is true.
pub(super) const MANY: usize = 64;

/// The kept plans of a queue.
#[derive(Default)]
pub struct Plans(pub(super) RefCell<HashMap<Statement, Rc<PreparedPlan>>>);

/// Measured size of a plan with the text and the parse tree of its statement, in bytes.
const SIZE: usize = 20 << 10;

impl Plans {
    pub(super) fn size(&self) -> usize {
        SIZE * self.0.borrow().len()
    }
}

pub(super) struct PreparedPlan {
    pub(super) plan: Plan,
    pub(super) parameters: Vec<Parameter>,
}

/// Values of a statement's parameters, by parameter.
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

    /// Sets where a scan begins.
    pub fn set_mark(&mut self, start: Option<Start<'m>>) {
        self.set_or_null(Parameter::Mark(0), start.map(|start| start.first));
        self.set_or_null(Parameter::Mark(1), start.and_then(|start| start.second));
    }

    /// Returns where a scan begins; None without a mark.
    pub fn mark(&self) -> Option<Start<'m>> {
        let second = self.get(Parameter::Mark(1));
        self.get(Parameter::Mark(0)).map(|first| Start { first, second })
    }

    pub fn get(&self, parameter: Parameter) -> Option<Value<'m>> {
        self.0.iter().find(|(known, _)| *known == parameter).and_then(|(_, value)| *value)
    }
}
