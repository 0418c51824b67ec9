//! The option `fields`: the columns of the table by field, and the columns that order the tasks.

use crate::field::Field;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The columns that the options name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fields {
    #[serde(flatten)]
    pub columns: BTreeMap<Field, String>,
    /// The columns by which tasks of equal priority are taken, before their keys. An empty list means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<String>>,
}

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Fields::default()
    }

    pub(crate) fn merge(&self, newer: &Fields) -> Fields {
        let mut columns = self.columns.clone();
        columns.extend(newer.columns.clone());
        Fields { columns, order: newer.order.clone().or(self.order.clone()) }
    }

    /// Returns the columns that order the tasks before their keys.
    pub fn order(&self) -> &[String] {
        self.order.as_deref().unwrap_or_default()
    }

    pub(crate) fn verify(&self) -> Result<(), String> {
        let (columns, order) = (&self.columns, self.order());
        if columns.values().chain(order).any(String::is_empty) {
            return Err("a field names a column without a name".into());
        }
        if columns.values().collect::<BTreeSet<_>>().len() < columns.len() {
            return Err("two fields name the same column".into());
        }
        if order.iter().collect::<BTreeSet<_>>().len() < order.len() {
            return Err("the order names a column twice".into());
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Fields, D::Error> {
        input.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Fields;

    fn expecting(&self, output: &mut fmt::Formatter) -> fmt::Result {
        output.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = members.next_key::<String>()? {
            if name == "order" {
                fields.order = Some(members.next_value::<Names>()?.0);
                continue;
            }
            let field = Field::ALL.into_iter().find(|field| field.name() == name);
            let field = field.ok_or_else(|| unknown(&name))?;
            fields.columns.insert(field, members.next_value()?);
        }
        Ok(fields)
    }
}

fn unknown<E: Error>(name: &str) -> E {
    let known = Field::ALL.map(Field::name).into_iter().chain(["order"]);
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    E::custom(format!("unknown variant `{name}`, expected one of {}", known.join(", ")))
}

/// A name, or a list of names.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Names, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Names;
            fn expecting(&self, output: &mut fmt::Formatter) -> fmt::Result {
                output.write_str("a string or a list")
            }
            fn visit_str<E>(self, name: &str) -> Result<Names, E> {
                Ok(Names(vec![name.into()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Names, A::Error> {
                let list = SeqAccessDeserializer::new(list);
                Vec::deserialize(list).map(Names)
            }
        }
        input.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn the_order_is_a_column_or_a_list() {
        let one = fields(r#"{"status": "state", "order": "created"}"#);
        assert_eq!(one.order(), ["created"]);
        assert_eq!(one.columns[&Field::Status], "state");
        assert_eq!(one, fields(r#"{"status": "state", "order": ["created"]}"#));
        assert_eq!(fields(r#"{"order": ["a", "b"]}"#).order(), ["a", "b"]);
        let written = serde_json::to_string(&one).expect("text");
        assert_eq!(written, r#"{"status":"state","order":["created"]}"#);
        assert_eq!(fields(&written), one);
    }

    #[test]
    fn an_order_stays_until_another_one_or_none_is_given() {
        let first = fields(r#"{"order": "a"}"#);
        assert_eq!(first.merge(&Fields::default()), first);
        assert_eq!(first.merge(&fields(r#"{"order": ["b", "c"]}"#)).order(), ["b", "c"]);
        assert!(first.merge(&fields(r#"{"order": []}"#)).order().is_empty());
    }

    #[test]
    fn an_order_that_makes_no_sense_is_refused() {
        for text in [r#"{"order": ""}"#, r#"{"order": ["a", ""]}"#, r#"{"order": ["a", "a"]}"#] {
            assert!(fields(text).verify().is_err(), "{text}");
        }
        for text in
            [r#"{"order": 5}"#, r#"{"order": [5]}"#, r#"{"order": null}"#, r#"{"orders": "a"}"#]
        {
            assert!(serde_json::from_str::<Fields>(text).is_err(), "{text}");
        }
    }
}
