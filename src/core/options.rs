//! The options of `upgrade` and `create`, and how a later call changes them.

use crate::features::Features;
use crate::fields::Fields;
use crate::status::Status;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The `options` argument. An absent option is unchanged, or has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
    /// Values of the status column by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "labels")]
    pub states: BTreeMap<Status, String>,
    #[serde(skip_serializing_if = "Features::is_empty")]
    pub features: Features,
    /// State of the rows that exist before the status column is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<Status>,
    /// Zone of the times in columns of type timestamp; UTC by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Tubes with statistics of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tube_stats: Option<Vec<String>>,
    /// Conversion of tasks in states that the new features do not have. Not kept beyond the call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub convert: BTreeMap<Status, Conversion>,
}

/// Conversion of the tasks of an abolished state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conversion {
    #[serde(rename = "R")]
    Ready,
    #[serde(rename = "B")]
    Buried,
    #[serde(rename = "D")]
    Done,
    #[serde(rename = "delete")]
    Delete,
}

impl Conversion {
    /// Returns the new state of the tasks; None if they are deleted.
    pub fn status(self) -> Option<Status> {
        match self {
            Conversion::Ready => Some(Status::Ready),
            Conversion::Buried => Some(Status::Buried),
            Conversion::Done => Some(Status::Done),
            Conversion::Delete => None,
        }
    }
}

/// Maximum tubes of a queue with statistics of their own; options with more are refused.
pub const TUBES_COUNTED: usize = 16;

/// Reads the values of the states: texts, or integers for a status column of integers.
fn labels<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<Status, String>, D::Error> {
    struct Label(String);
    struct Reader;
    impl Visitor<'_> for Reader {
        type Value = Label;
        fn expecting(&self, output: &mut fmt::Formatter) -> fmt::Result {
            output.write_str("a string or an integer")
        }
        fn visit_str<E>(self, text: &str) -> Result<Label, E> {
            Ok(Label(text.into()))
        }
        fn visit_i64<E>(self, number: i64) -> Result<Label, E> {
            Ok(Label(number.to_string()))
        }
        fn visit_u64<E>(self, number: u64) -> Result<Label, E> {
            Ok(Label(number.to_string()))
        }
    }
    impl<'de> Deserialize<'de> for Label {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Label, D::Error> {
            input.deserialize_any(Reader)
        }
    }
    let read = BTreeMap::<Status, Label>::deserialize(input)?;
    Ok(read.into_iter().map(|(status, label)| (status, label.0)).collect())
}

impl Options {
    /// Parses options; error messages name the unknown or invalid part.
    pub fn parse(text: &str) -> Result<Options, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| without_position(&error.to_string()))?;
        refuse_lists(&value)?;
        let options: Options =
            serde_path_to_error::deserialize(value).map_err(|error| in_words(&error))?;
        options.verify()?;
        Ok(options)
    }

    /// Returns these options, overridden by the options set in `newer`.
    pub fn merge(&self, newer: &Options) -> Result<Options, String> {
        let mut states = self.states.clone();
        states.extend(newer.states.clone());
        let mut merged = Options {
            fields: self.fields.merge(&newer.fields),
            states,
            features: self.features.merge(&newer.features),
            existing: newer.existing.or(self.existing),
            time_zone: newer.time_zone.clone().or(self.time_zone.clone()),
            tube_stats: newer.tube_stats.clone().or(self.tube_stats.clone()),
            convert: BTreeMap::new(),
        };
        if !merged.tubes_counted().is_empty() && merged.features.tube.is_none() {
            merged.features.tube = Some(true);
        }
        merged.verify()?;
        if !merged.tubes_counted().is_empty() && !merged.features.has_tubes() {
            return Err("tube_stats needs feature tube".into());
        }
        Ok(merged)
    }

    /// Returns the value of the status column for `status`.
    pub fn label(&self, status: Status) -> String {
        self.states.get(&status).cloned().unwrap_or_else(|| status.letter().to_string())
    }

    /// Returns the zone of the times in columns without a time zone.
    pub fn time_zone(&self) -> &str {
        self.time_zone.as_deref().unwrap_or("UTC")
    }

    /// Returns the tubes with statistics of their own.
    pub fn tubes_counted(&self) -> &[String] {
        self.tube_stats.as_deref().unwrap_or_default()
    }

    /// Returns whether the functions of a queue with these options can bring tasks into a state.
    pub fn has_state(&self, status: Status) -> bool {
        let features = &self.features;
        match status {
            Status::Ready | Status::Taken => true,
            Status::Waiting => features.delays() || features.backoff().is_some(),
            Status::Buried => features.buries(),
            Status::Zombie => features.zombies(),
            Status::Done => features.keeps(),
        }
    }

    fn verify(&self) -> Result<(), String> {
        let labels: BTreeSet<String> =
            Status::ALL.iter().map(|status| self.label(*status)).collect();
        if labels.len() < Status::ALL.len() {
            return Err("two states have the same value".into());
        }
        // Nothing would ever lead out of these states.
        if matches!(self.existing, Some(Status::Taken | Status::Waiting | Status::Zombie)) {
            return Err(
                "rows that are there cannot be made taken (T), waiting (W) or zombies (Z)".into()
            );
        }
        self.fields.verify()?;
        let tubes = self.tubes_counted();
        if tubes.len() > TUBES_COUNTED {
            return Err(format!("tube_stats names more than {TUBES_COUNTED} tubes"));
        }
        if tubes.iter().collect::<BTreeSet<_>>().len() < tubes.len() {
            return Err("tube_stats names a tube twice".into());
        }
        if self.convert.contains_key(&Status::Ready) || self.convert.contains_key(&Status::Taken) {
            return Err("only tasks in W, B, Z and D can be converted".into());
        }
        self.features.verify()
    }
}

/// The options that can be lists.
const LISTS: [&str; 2] = ["tube_stats", "order"];

/// Refuses lists instead of objects, which serde would accept for structs.
fn refuse_lists(value: &serde_json::Value) -> Result<(), String> {
    match value {
        serde_json::Value::Array(_) => Err("a list where an object is needed".into()),
        serde_json::Value::Object(members) => {
            let others = members.iter().filter(|(name, _)| !LISTS.contains(&name.as_str()));
            others.map(|(_, member)| member).try_for_each(refuse_lists)
        }
        _ => Ok(()),
    }
}

/// Returns which option is wrong, and why, in the terms of JSON.
fn in_words(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let message = error.inner().to_string();
    let message = message.replacen("unknown field", "unknown option", 1);
    let mut message = message.replacen("unknown variant", "unknown value", 1);
    for (of_rust, of_json) in [
        ("a map", "an object"),
        ("string or map", "a string or an object"),
        ("struct Features", "an object"),
        ("a sequence", "a list"),
        ("u32", "a whole number"),
        ("f64", "a number"),
    ] {
        if let Some(start) = message.strip_suffix(&format!("expected {of_rust}")) {
            message = format!("{start}expected {of_json}");
        }
    }
    let path = error.path().to_string();
    let (parent, last) = path.rsplit_once('.').unwrap_or(("", &path));
    // The message already names an unknown option.
    let is_unknown = last == "?" || message.starts_with(&format!("unknown option `{last}`"));
    match if is_unknown { parent } else { &path } {
        "" | "." => message,
        path => format!("{path}: {message}"),
    }
}

/// Removes the position that serde_json adds to an error: it means nothing for a jsonb value.
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
            (r#"{"x at line 3": 1}"#, "`x at line 3`"),
        ] {
            let error = Options::parse(text).expect_err(text);
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("at line 1"), "{error}");
        }
    }

    #[test]
    fn a_wrong_value_is_refused_by_the_name_of_its_option() {
        for (text, expected) in [
            (r#"{"features": 5}"#, "features: invalid type: integer `5`, expected an object"),
            (
                r#"{"features": {"tube": "a"}}"#,
                "features.tube: invalid type: string \"a\", expected a boolean",
            ),
            (
                r#"{"features": {"retry": {"limit": "x"}}}"#,
                "features.retry: invalid type: string \"x\", expected a whole number",
            ),
            (
                r#"{"tube_stats": [1]}"#,
                "tube_stats[0]: invalid type: integer `1`, expected a string",
            ),
        ] {
            assert_eq!(Options::parse(text).expect_err(text), expected);
        }
        for (text, start) in [
            (r#"{"colour": 1}"#, "unknown option `colour`"),
            (r#"{"features": {"zap": true}}"#, "features: unknown option `zap`"),
            (r#"{"features": {"retry": {"zap": 1}}}"#, "features.retry: unknown option `zap`"),
            (r#"{"states": {"Q": "x"}}"#, "states: unknown value `Q`"),
        ] {
            let error = Options::parse(text).expect_err(text);
            assert!(error.starts_with(start), "{error}");
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
            r#"{"tube_stats": ["a", "a"]}"#,
            r#"{"convert": {"R": "delete"}}"#,
            r#"{"convert": {"B": "T"}}"#,
        ] {
            assert!(Options::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counting_tubes_needs_tubes() {
        let counted = Options::parse(r#"{"tube_stats": ["a"]}"#).expect("options");
        let merged = Options::default().merge(&counted).expect("merged");
        assert!(merged.features.has_tubes());
        let off = Options::parse(r#"{"features": {"tube": false}}"#).expect("options");
        assert!(merged.merge(&off).is_err());
    }

    #[test]
    fn states_can_be_integers() {
        let options =
            Options::parse(r#"{"states": {"R": 0, "T": -1, "W": "2"}}"#).expect("options");
        let labels = [Status::Ready, Status::Taken, Status::Waiting].map(|s| options.label(s));
        assert_eq!(labels, ["0", "-1", "2"]);
        let error = Options::parse(r#"{"states": {"R": true}}"#).expect_err("refused");
        assert!(error.ends_with("expected a string or an integer"), "{error}");
    }

    #[test]
    fn a_conversion_is_for_one_call() {
        let first = Options::parse(r#"{"convert": {"B": "R", "D": "delete"}}"#).expect("options");
        assert_eq!(first.convert[&Status::Buried].status(), Some(Status::Ready));
        assert!(Options::default().merge(&first).expect("merged").convert.is_empty());
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
