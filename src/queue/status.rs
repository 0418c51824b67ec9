//! Reads and writes the values of a status column.

use crate::error::{Error, Result};
use crate::queue::fitness::Fitness;
use crate::server::relation::ColumnType;
use crate::server::value::Value;
use crate::server::{operators, types};
use pgrx::pg_sys::Oid;
use xqueue_core::field::Field;
use xqueue_core::options::Options;
use xqueue_core::status::Status;

/// The type of a status column and the labels of its states.
pub struct StatusColumn {
    pub(super) oid: Oid,
    /// The type below all domains.
    base: Oid,
    modifier: i32,
    /// The column's type is "char" itself, not a domain.
    is_char: bool,
    labels: Labels,
    /// Collation under which different strings can be equal.
    collation: Option<Oid>,
}

/// A value for each state, indexed by `Status as usize`.
type ByStatus<T> = [T; Status::ALL.len()];

enum Labels {
    Letters(ByStatus<u8>),
    Texts(ByStatus<String>),
    Enum(ByStatus<Oid>),
    Integers(ByStatus<i64>),
}

impl StatusColumn {
    /// Returns the description of a status column; refuses a type or labels that cannot hold the states.
    pub fn new(column: &ColumnType, fitness: &Fitness) -> Result<StatusColumn> {
        let base = column.base;
        let texts = Status::ALL.map(|status| fitness.options.label(status));
        let unfit = |label: &str| {
            Error::invalid(format!(
                "column \"{}\"{} of type {} cannot hold the state '{label}'",
                column.name,
                fitness.of_queue(),
                types::type_name(column.oid)
            ))
            .hint(fitness.with_remedy(LABELS))
        };
        // The modifier of char(n) or varchar(n) is n + 4.
        let modifier = types::base_modifier(column.oid, column.modifier);
        let longest = if modifier > 4 { modifier as usize - 4 } else { usize::MAX };
        if let Some(label) = texts.iter().find(|text| text.chars().count() > longest) {
            return Err(unfit(label));
        }
        let mut collation = None;
        let labels = if base == types::CHAR {
            if let Some(label) = texts.iter().find(|text| text.len() != 1) {
                return Err(unfit(label));
            }
            Labels::Letters(texts.map(|text| text.as_bytes()[0]))
        } else if types::TEXTS.contains(&base) {
            refuse_equal(&texts, column, fitness)?;
            collation = operators::tells_by_rules(column.collation).then_some(column.collation);
            Labels::Texts(texts)
        } else if types::is_enum(base) && base == column.oid {
            let mut values = [Oid::INVALID; Status::ALL.len()];
            for (value, text) in values.iter_mut().zip(&texts) {
                *value = types::enum_value(base, text).ok_or_else(|| unfit(text))?;
            }
            Labels::Enum(values)
        } else if types::is_integer(base) {
            let mut values = [0; Status::ALL.len()];
            for (value, text) in values.iter_mut().zip(&texts) {
                *value = integer(text, base).ok_or_else(|| unfit(text))?;
            }
            Labels::Integers(values)
        } else {
            let what = format!("it is of type {}", types::type_name(column.oid));
            let hint = "Use a column of type \"char\", char, text, varchar, smallint, integer, bigint or an enum.";
            return Err(fitness.refused(Field::Status, column, &what, hint));
        };
        let is_char = column.oid == types::CHAR;
        Ok(StatusColumn {
            oid: column.oid,
            base,
            modifier: column.modifier,
            is_char,
            labels,
            collation,
        })
    }

    /// Returns the value that stands for a state.
    pub(super) fn write(&self, status: Status, options: &Options) -> Result<Value<'static>> {
        // A domain has no such value: it is parsed.
        if let Labels::Integers(values) = &self.labels
            && let Some(value) = Value::integer(values[status as usize], self.oid)
        {
            return Ok(value);
        }
        match &self.labels {
            Labels::Letters(letters) if self.is_char => Ok(Value::letter(letters[status as usize])),
            Labels::Texts(texts) if self.oid == types::TEXT => {
                Ok(Value::text(&texts[status as usize]))
            }
            _ => operators::parse_value_for(&options.label(status), self.oid, self.modifier),
        }
    }

    /// Returns the state that a value stands for.
    pub fn read(&self, value: Option<Value>) -> Option<Status> {
        let value = value?;
        let position = match &self.labels {
            Labels::Letters(letters) => {
                letters.iter().position(|letter| *letter == value.to_letter())
            }
            Labels::Texts(texts) => self.read_text(value, texts),
            Labels::Enum(values) => {
                let label = value.to_enum_label(self.oid);
                values.iter().position(|oid| *oid == label)
            }
            Labels::Integers(values) => {
                let number = value.try_integer()?;
                values.iter().position(|known| *known == number)
            }
        };
        position.map(|index| Status::ALL[index])
    }

    /// Returns the index of the label that equals a string.
    fn read_text(&self, value: Value, labels: &ByStatus<String>) -> Option<usize> {
        let is_padded = self.base == types::BPCHAR;
        let same = value.with_text(|text| {
            labels.iter().position(|label| match is_padded {
                true => trimmed(label.as_bytes()) == trimmed(text),
                false => label.as_bytes() == text,
            })
        });
        let by_rules = || {
            let collation = self.collation?;
            let equals =
                |label: &String| operators::equals_text(value, label, self.base, collation);
            labels.iter().position(equals)
        };
        same.or_else(by_rules)
    }
}

/// Reads an integer of a type as it is written without leading zeros.
fn integer(text: &str, oid: Oid) -> Option<i64> {
    let number = text.parse().ok().filter(|number: &i64| number.to_string() == text)?;
    Value::integer(number, oid).map(|_| number)
}

/// Strips the trailing blanks that pad char(n).
fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// Refuses labels that the column cannot distinguish, for example under its collation: a statement about one state
/// would affect tasks in another.
fn refuse_equal(texts: &ByStatus<String>, column: &ColumnType, fitness: &Fitness) -> Result<()> {
    for (index, text) in texts.iter().enumerate() {
        let is_equal =
            |other: &&String| operators::equal_texts(text, other, column.base, column.collation);
        if let Some(other) = texts[..index].iter().find(is_equal) {
            return Err(Error::invalid(format!(
                "column \"{}\"{} does not distinguish the states '{other}' and '{text}'",
                column.name,
                fitness.of_queue()
            ))
            .detail(format!("They are equal values of type {}.", types::type_name(column.oid)))
            .hint(fitness.with_remedy(LABELS)));
        }
    }
    Ok(())
}

const LABELS: &str =
    "Say in {\"states\": …} which values of the column stand for the letters R, T, W, B, Z and D.";
