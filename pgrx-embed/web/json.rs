//! The few pieces of JSON that the board writes itself. All other JSON is passed on from the server.

/// Returns a JSON string.
pub fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a JSON object. The values are JSON already.
pub fn object(members: &[(&str, &str)]) -> String {
    let members = members.iter().map(|(name, value)| format!("{}: {value}", string(name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_the_board_are_quoted() {
        assert_eq!(string("a \"b\" \\ \n\u{1} ü"), r#""a \"b\" \\ \n\u0001 ü""#);
        assert_eq!(object(&[("a", "1"), ("b", &string("x"))]), r#"{"a": 1, "b": "x"}"#);
        assert_eq!(object(&[]), "{}");
    }
}
