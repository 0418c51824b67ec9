//! The options of `upgrade` and `create`: what may be asked for, and how a later call changes them.

use super::status::Status;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The `options` argument, as the user gives it. Absent means: as it is, or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
    /// Values of the status column that stand for the letters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<Status, String>,
    #[serde(skip_serializing_if = "Features::is_empty")]
    pub features: Features,
    /// The state given to rows that are there before a status column is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<Status>,
}

/// Which columns of the table play which part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runat: Option<String>,
}

impl Fields {
    pub fn is_empty(&self) -> bool {
        *self == Fields::default()
    }
}

/// What the queue can do beyond put, take, ack and release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Tasks may be put and released with a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<bool>,
}

impl Features {
    pub fn is_empty(&self) -> bool {
        *self == Features::default()
    }
}

impl Options {
    /// Reads options; the message of an error names what is not known or not right.
    pub fn parse(text: &str) -> Result<Options, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| without_position(&error.to_string()))?;
        refuse_lists(&value)?;
        let options: Options =
            serde_json::from_value(value).map_err(|error| without_position(&error.to_string()))?;
        options.verify()?;
        Ok(options)
    }

    /// These options with `newer` on top: what `newer` names is switched, the rest stays.
    pub fn merge(&self, newer: &Options) -> Result<Options, String> {
        let mut states = self.states.clone();
        states.extend(newer.states.clone());
        let pick = |new: &Option<String>, old: &Option<String>| new.clone().or(old.clone());
        let merged = Options {
            fields: Fields {
                status: pick(&newer.fields.status, &self.fields.status),
                owner: pick(&newer.fields.owner, &self.fields.owner),
                runat: pick(&newer.fields.runat, &self.fields.runat),
            },
            states,
            features: Features { delayed: newer.features.delayed.or(self.features.delayed) },
            existing: newer.existing.or(self.existing),
        };
        merged.verify()?;
        Ok(merged)
    }

    /// These options with the fields named as their columns are called by now.
    pub fn with_fields(mut self, status: &str, owner: &str, runat: Option<&str>) -> Options {
        let fields = &mut self.fields;
        fields.status = fields.status.take().map(|_| status.to_string());
        fields.owner = fields.owner.take().map(|_| owner.to_string());
        if let Some(runat) = runat {
            fields.runat = fields.runat.take().map(|_| runat.to_string());
        }
        self
    }

    /// The value of the status column that stands for `status`.
    pub fn label(&self, status: Status) -> String {
        self.states.get(&status).cloned().unwrap_or_else(|| status.letter().to_string())
    }

    fn verify(&self) -> Result<(), String> {
        let labels: BTreeSet<String> =
            Status::ALL.iter().map(|status| self.label(*status)).collect();
        if labels.len() < Status::ALL.len() {
            return Err("two states have the same value".into());
        }
        if matches!(self.existing, Some(Status::Taken | Status::Waiting)) {
            return Err("rows that are there cannot be made taken (T) or waiting (W)".into());
        }
        let fields = [&self.fields.status, &self.fields.owner, &self.fields.runat];
        let named: Vec<&String> = fields.into_iter().flatten().collect();
        if named.iter().any(|name| name.is_empty()) {
            return Err("a field names a column without a name".into());
        }
        if named.iter().collect::<BTreeSet<_>>().len() < named.len() {
            return Err("two fields name the same column".into());
        }
        Ok(())
    }
}

/// serde would read the members of a struct from a list, too.
fn refuse_lists(value: &serde_json::Value) -> Result<(), String> {
    match value {
        serde_json::Value::Array(_) => Err("a list where an object is needed".into()),
        serde_json::Value::Object(members) => members.values().try_for_each(refuse_lists),
        _ => Ok(()),
    }
}

/// serde_json adds where in the text an error stands, which means nothing for a jsonb value.
fn without_position(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_string(),
        None => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused_by_name() {
        for (text, name) in [
            (r#"{"colour": 1}"#, "`colour`"),
            (r#"{"features": {"zap": true}}"#, "`zap`"),
            (r#"{"fields": {"state": "x"}}"#, "`state`"),
            (r#"{"states": {"Q": "x"}}"#, "`Q`"),
        ] {
            let error = Options::parse(text).expect_err(text);
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("line"), "{error}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for text in [
            r#"[]"#,
            r#"{"features": {"delayed": "perhaps"}}"#,
            r#"{"states": {"R": "x", "T": "x"}}"#,
            r#"{"states": {"R": "T"}}"#,
            r#"{"fields": {"status": ""}}"#,
            r#"{"fields": {"status": "a", "owner": "a"}}"#,
            r#"{"existing": "ready"}"#,
            r#"{"existing": "T"}"#,
        ] {
            assert!(Options::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn merge_switches_only_what_is_named() {
        let first = Options::parse(
            r#"{"fields": {"status": "state"}, "states": {"R": "new"}, "features": {"delayed": true}}"#,
        )
        .expect("options");
        assert_eq!(first.merge(&Options::default()).expect("merged"), first);
        let off = Options::parse(r#"{"features": {"delayed": false}}"#).expect("options");
        let merged = first.merge(&off).expect("merged");
        assert_eq!(merged.features.delayed, Some(false));
        assert_eq!(merged.fields, first.fields);
        assert_eq!(merged.label(Status::Ready), "new");
        assert_eq!(merged.label(Status::Taken), "T");
    }
}
