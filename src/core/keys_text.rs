//! Interpretation of an untyped text argument for the keys of tasks. Drivers send a parameter of unknown type as text.
//! The text of a number is its digits. An object is JSON. An array is in the server's form, JSON, or a list with
//! commas.

use serde::de::IgnoredAny;

#[derive(Debug, PartialEq, Eq)]
pub enum KeysText<'text> {
    /// One key, in the format of its type's input function.
    One,
    /// An array in the server's format: `{1,2}`.
    Array,
    /// JSON: an object, or an array of keys or objects.
    Json,
    /// Keys separated by commas.
    List(Vec<&'text str>),
}

impl<'text> KeysText<'text> {
    /// Classifies a text. `is_plain`: the text of a key never contains a bracket or a comma.
    pub fn of(text: &'text str, is_plain: bool) -> KeysText<'text> {
        let text = text.trim();
        let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
        let is_empty = || text[1..].trim_start() == "}";
        match text.as_bytes().first() {
            Some(b'{') if !is_empty() && is_json() => KeysText::Json,
            Some(b'{') => KeysText::Array,
            Some(b'[') if is_plain && is_json() => KeysText::Json,
            _ => {
                let parts: Vec<&str> = text.split(',').map(str::trim).collect();
                let is_list = is_plain && parts.len() > 1 && parts.iter().all(|it| !it.is_empty());
                if is_list { KeysText::List(parts) } else { KeysText::One }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_arrays_of_clients_are_told_from_keys() {
        let of = |text| KeysText::of(text, true);
        assert_eq!(of("7"), KeysText::One);
        assert_eq!(of(""), KeysText::One);
        assert_eq!(of("{1,2}"), KeysText::Array);
        assert_eq!(of("{ }"), KeysText::Array);
        assert_eq!(of(r#"{"a","b"}"#), KeysText::Array);
        assert_eq!(of(r#" {"id": 1}"#), KeysText::Json);
        assert_eq!(of(r#"[1, {"id": 2}]"#), KeysText::Json);
        assert_eq!(of("26, 27"), KeysText::List(vec!["26", "27"]));
        assert_eq!(of("26,"), KeysText::One);
    }

    #[test]
    fn brackets_and_commas_of_a_type_belong_to_the_key() {
        let of = |text| KeysText::of(text, false);
        assert_eq!(of("[1,5]"), KeysText::One);
        assert_eq!(of("January 8, 1999"), KeysText::One);
        assert_eq!(of("{1,2}"), KeysText::Array);
    }
}
