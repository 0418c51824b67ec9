//! How the values of a status column are read and written.

use crate::error::{Error, Result};
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::relation::ColumnType;
use crate::pg::{catalog, types};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{Datum, Oid};

/// How the values of a status column are read.
pub struct StatusColumn {
    pub(super) oid: Oid,
    modifier: i32,
    /// The column is of the type "char" itself, no domain.
    is_char: bool,
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
        let base = column.base;
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
        } else if catalog::is_enum(base) && base == column.oid {
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
        let is_char = column.oid == types::CHAR;
        Ok(StatusColumn { oid: column.oid, modifier: column.modifier, is_char, labels })
    }

    /// The value that stands for a state.
    pub(super) fn write(&self, status: Status, options: &Options) -> Result<Datum> {
        match &self.labels {
            Labels::Letters(letters) if self.is_char => {
                Ok(types::from_char(letters[status as usize]))
            }
            _ => catalog::parse_value_for(&options.label(status), self.oid, self.modifier),
        }
    }

    pub(super) fn read(&self, value: Option<Datum>) -> Option<Status> {
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
