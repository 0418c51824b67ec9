//! Changes of many tasks, which the caller does not name: `kick`, `plow`, `release_all`, `give_back`.
//!
//! If a single task can refuse, the call proceeds in two steps:
//! 1. It picks the tasks and changes each by its key, all in one subtransaction.
//! 2. If that fails, it picks and locks the tasks outside and changes them in parts. A part that fails is halved, down
//!    to the tasks that refuse.

use super::{MOST, Passed};
use crate::error::Result;
use crate::queue::{self, Arguments, Queue};
use crate::server::spi::Rows;
use crate::server::value::Value;
use crate::write::unchanged;
use xqueue_core::change::CallKind;
use xqueue_core::form::Form;
use xqueue_core::statement::{Change, Parameter};

/// Maximum number of tasks that are changed in one subtransaction once a task has refused.
const PART: usize = 1000;

/// Receives the tasks that were changed.
type Deliver<'a> = &'a mut dyn FnMut(&Rows) -> Result<()>;

/// A key of a task.
type Key = Vec<Value<'static>>;

/// Numbers of tasks.
#[derive(Default)]
struct Numbers {
    changed: usize,
    passed_over: usize,
}

/// Changes tasks up to the limit among the arguments, except tasks that no UPDATE can write, and returns their number.
/// If there is no other task, the caller gets the error of such a task.
pub fn change(
    queue: &Queue,
    call: CallKind,
    change: Change,
    arguments: &Arguments,
    mut deliver: impl FnMut(&Rows) -> Result<()>,
) -> Result<usize> {
    let mut passed = Passed::of(queue, call, Form::Row);
    match passed.change_many(change, arguments, &mut deliver)? {
        0 => passed.insist_on(arguments, |arguments| {
            passed.change_one(change, arguments, |rows| {
                unchanged::refuse(queue, rows, |status| passed.is_right(status))?;
                deliver(rows)
            })
        }),
        changed => Ok(changed),
    }
}

impl Passed<'_> {
    /// Changes tasks up to the limit among the arguments, except tasks that no UPDATE can write.
    pub fn change_many(
        &mut self,
        change: Change,
        arguments: &Arguments,
        deliver: Deliver,
    ) -> Result<usize> {
        if !self.may_fail() {
            return self.run(change, arguments, deliver);
        }
        let wanted = arguments.get(Parameter::Limit).map_or(0, Value::to_integer).max(0) as usize;
        let (mut arguments, mut numbers) = (arguments.clone(), Numbers::default());
        while numbers.changed < wanted && numbers.passed_over < MOST as usize {
            let left = wanted - numbers.changed;
            arguments.set(Parameter::Limit, Value::int4(left as i32));
            arguments.set(Parameter::Skip, Value::int4(numbers.passed_over as i32));
            if self.change_some(change, &arguments, &mut numbers, deliver)? < left {
                break;
            }
        }
        Ok(numbers.changed)
    }

    /// Changes the tasks that a statement picks, except tasks that refuse. Returns how many it picks.
    fn change_some(
        &mut self,
        change: Change,
        arguments: &Arguments,
        numbers: &mut Numbers,
        deliver: Deliver,
    ) -> Result<usize> {
        if let Some(picked) = self.change_part(change, arguments, None, numbers, deliver)? {
            return Ok(picked);
        }
        let keys = self.picked_all(change, arguments);
        let mut parts: Vec<&[Key]> = keys.chunks(PART).rev().collect();
        while let Some(part) = parts.pop() {
            if self.change_part(change, arguments, Some(part), numbers, deliver)?.is_none() {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
        Ok(keys.len())
    }

    /// Changes the tasks with these keys, or without keys the tasks that a statement picks, and returns their number.
    /// Returns None if a task refuses, unless there is a single key.
    fn change_part(
        &mut self,
        change: Change,
        arguments: &Arguments,
        keys: Option<&[Key]>,
        numbers: &mut Numbers,
        deliver: Deliver,
    ) -> Result<Option<usize>> {
        let (mut picked, mut kept) = (0, Vec::new());
        let tried = self.tried(|see| {
            let keys = keys.map_or_else(|| self.picked_all(change, arguments), <[Key]>::to_vec);
            let mut arguments = arguments.clone();
            picked = keys.len();
            for key in keys {
                arguments.set_key(&key);
                if self.change_one(change, &arguments, |rows| see(rows))? == 0 {
                    kept.push(key);
                }
            }
            Ok(picked)
        });
        match (tried, keys) {
            (Ok(tasks), _) => {
                numbers.changed += picked - kept.len();
                numbers.passed_over += kept.len();
                for key in kept {
                    self.note(&key, unchanged::failure(&queue::key_text(&key)).into());
                }
                if !tasks.is_empty() {
                    deliver(&Rows::of(tasks))?;
                }
                Ok(Some(picked))
            }
            (Err(refusal), Some([key])) => {
                numbers.passed_over += 1;
                self.note(key, refusal);
                Ok(Some(1))
            }
            (Err(_), _) => Ok(None),
        }
    }
}
