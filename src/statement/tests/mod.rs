//! What several kinds of statements have in common.

mod names;
mod properties;
mod tokens;

use crate::statement::*;

pub(super) fn table(features: &str) -> Table {
    let key = |name: &str| KeyColumn { name: name.into(), equals: EQUALS.into() };
    let features: Features = serde_json::from_str(features).expect("features");
    let needed = Field::ALL.into_iter().filter(|field| field.is_needed(&features));
    Table {
        schema: "app".into(),
        name: "\"Jobs\"".into(),
        key: vec![key("a"), key("b")],
        fields: needed.map(|field| (field, field.name().to_string())).collect(),
        columns: BTreeMap::from([(7, "progress".to_string())]),
        status_type: "\"char\"".into(),
        tube_equals: EQUALS.into(),
        most_attempts: None,
        reason_length: None,
        labels: Status::ALL.iter().map(|status| format!("'{}'", status.letter())).collect(),
        features,
    }
}

#[test]
fn a_parameter_that_is_used_twice_is_one() {
    let mut parameters = Parameters::default();
    assert_eq!(parameters.add(Parameter::Delay), "$1");
    assert_eq!(parameters.add(Parameter::Key(0)), "$2");
    assert_eq!(parameters.add(Parameter::Delay), "$1");
}

#[test]
fn a_failed_attempt_is_judged_only_where_tries_are_limited() {
    let back =
        Return { delay: None, ttl: None, failed: Some("released"), renews: false, at_once: false };
    let plain = table("{}").returned(&back).join(", ");
    assert_eq!(plain, "status = 'R'::\"char\", owner = NULL");
    let limited = table(r#"{"retry": {"limit": 3, "backoff": 2}}"#).returned(&back).join(", ");
    assert!(limited.contains("'B'::\"char\" ELSE 'W'::\"char\""), "{limited}");
    assert!(limited.contains("power('2'::"), "{limited}");
    let at_once = Return { delay: None, ttl: None, at_once: true, ..back };
    let limited = table(r#"{"retry": {"limit": 3, "backoff": 2}}"#);
    assert!(limited.returned(&at_once).join(", ").contains("ELSE 'R'::\"char\""));
    let by_force = Return { failed: None, ..back };
    let snatched = table(r#"{"retry": {"limit": 3}}"#).returned(&by_force).join(", ");
    assert!(snatched.starts_with("status = 'R'::\"char\", owner = NULL"), "{snatched}");
}
