//! Checks that several kinds of statements share.

mod golden;
mod names;
mod properties;
mod tokens;

use crate::statement::*;

pub fn table(features: &str) -> Table {
    let key = |name: &str| KeyColumn { name: name.into(), equals: EQUALS.into() };
    let features: Features = serde_json::from_str(features).expect("features");
    let needed = Field::ALL.into_iter().filter(|field| field.is_needed(&features));
    Table {
        schema: "app".into(),
        name: "\"Jobs\"".into(),
        key: vec![key("a"), key("b")],
        order: vec!["a".into(), "b".into()],
        marked: 0,
        fields: needed.map(|field| (field, field.name().to_string())).collect(),
        times: BTreeMap::new(),
        time_zone: "'UTC'".into(),
        columns: BTreeMap::from([(7, "progress".to_string())]),
        status_type: "\"char\"".into(),
        owner_is_text: false,
        tube_equals: EQUALS.into(),
        most_attempts: i64::from(i32::MAX),
        reason_length: None,
        labels: Status::ALL.iter().map(|status| format!("'{}'", status.letter())).collect(),
        features,
    }
}

/// A table whose times are NOT NULL.
pub fn never_null(features: &str) -> Table {
    let mut table = table(features);
    let kind = TimeKind::Zoned { decimals: 6 };
    let column = TimeColumn { kind, is_not_null: true, has_default: false };
    table.times = [Field::Runat, Field::Expires].map(|field| (field, column)).into();
    table
}

#[test]
fn a_parameter_that_is_used_twice_is_one() {
    let mut parameters = Parameters::default();
    assert_eq!(parameters.add(Parameter::Delay), "$1");
    assert_eq!(parameters.add(Parameter::Key(0)), "$2");
    assert_eq!(parameters.add(Parameter::Delay), "$1");
}
