//! Splits SQL text by the server's lexical rules (`scan.l`), with standard_conforming_strings on.

/// Words used by the tests that cannot be names of columns or tables without quotes.
pub const RESERVED: [&str; 24] = [
    "all", "and", "any", "array", "as", "case", "create", "default", "desc", "else", "end", "for",
    "from", "in", "limit", "not", "null", "only", "or", "order", "select", "table", "user",
    "where",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A reserved word.
    Keyword(String),
    /// Any other word, folded to lower case, or a quoted name as written.
    Name(String),
    Literal(String),
    Number(String),
    Parameter(usize),
    Operator(String),
    Punctuation(char),
}

/// Returns the tokens of a text. Fails if the server would see a comment, or an unterminated name or literal.
pub fn tokens(sql: &str) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), sql);
    while let Some(first) = rest.chars().next() {
        let length;
        match first {
            ' ' | '\n' | '\t' => length = 1,
            '"' => {
                let (name, end) = quoted(rest, '"', false)?;
                if name.is_empty() {
                    return Err(format!("a name of no length: {rest}"));
                }
                tokens.push(Token::Name(name));
                length = end;
            }
            '\'' => {
                let (literal, end) = quoted(rest, '\'', false)?;
                tokens.push(Token::Literal(literal));
                length = end;
            }
            'e' | 'E' if rest[1..].starts_with('\'') => {
                let (literal, end) = quoted(&rest[1..], '\'', true)?;
                tokens.push(Token::Literal(literal));
                length = end + 1;
            }
            '$' => {
                length = 1 + run(&rest[1..], |c| c.is_ascii_digit());
                let number = rest[1..length].parse();
                tokens.push(Token::Parameter(number.map_err(|_| format!("no parameter: {rest}"))?));
            }
            '0'..='9' => {
                length = run(rest, |c| c.is_ascii_digit() || c == '.');
                tokens.push(Token::Number(rest[..length].into()));
            }
            '(' | ')' | '[' | ']' | ',' | ';' | '.' => {
                tokens.push(Token::Punctuation(first));
                length = 1;
            }
            ':' => {
                length = run(rest, |c| c == ':');
                tokens.push(Token::Operator(rest[..length].into()));
            }
            _ if "+-*/<>=~!@#%^&|`?".contains(first) => {
                length = run(rest, |c| "+-*/<>=~!@#%^&|`?".contains(c));
                let operator = &rest[..length];
                if operator.contains("--") || operator.contains("/*") {
                    return Err(format!("a comment: {rest}"));
                }
                tokens.push(Token::Operator(operator.into()));
            }
            _ if first.is_ascii_alphabetic() || first == '_' || !first.is_ascii() => {
                let is_part =
                    |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
                length = run(rest, is_part);
                let word = rest[..length].to_ascii_lowercase();
                let is_literal =
                    rest[length..].starts_with('\'') && ["b", "x", "n"].contains(&word.as_str());
                if is_literal || word == "u" && rest[length..].starts_with('&') {
                    return Err(format!("another kind of literal: {rest}"));
                }
                let is_reserved = RESERVED.contains(&word.as_str());
                tokens.push(if is_reserved { Token::Keyword(word) } else { Token::Name(word) });
            }
            _ => return Err(format!("no token: {rest}")),
        }
        rest = &rest[length..];
    }
    Ok(tokens)
}

fn run(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// Returns the text between quotes, where a doubled quote is a single one, and its length with the quotes. With
/// `escapes` a backslash makes the next character literal.
fn quoted(text: &str, quote: char, escapes: bool) -> Result<(String, usize), String> {
    let (mut content, mut chars) = (String::new(), text.char_indices().skip(1).peekable());
    while let Some((at, c)) = chars.next() {
        if c == quote {
            match chars.next_if(|(_, next)| *next == quote) {
                Some(_) => content.push(quote),
                None => return Ok((content, at + 1)),
            }
        } else if c == '\\' && escapes {
            match chars.next() {
                Some((_, escaped @ ('\\' | '\''))) => content.push(escaped),
                _ => return Err(format!("an unknown escape: {text}")),
            }
        } else {
            content.push(c);
        }
    }
    Err(format!("no end of a quotation: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart_as_the_server_does() {
        let name = |name: &str| Token::Name(name.into());
        let read = tokens(r#"Select "a""b".C, E'x\\''y' = 'z\' FROM $12::"char""#).expect("tokens");
        let expected = [
            Token::Keyword("select".into()),
            name("a\"b"),
            Token::Punctuation('.'),
            name("c"),
            Token::Punctuation(','),
            Token::Literal("x\\'y".into()),
            Token::Operator("=".into()),
            Token::Literal("z\\".into()),
            Token::Keyword("from".into()),
            Token::Parameter(12),
            Token::Operator("::".into()),
            name("char"),
        ];
        assert_eq!(read, expected);
        for text in ["\"a", "'a", r"E'a\'", "a -- b", "a /* b */", "$a", "\"\"", r#"U&"a""#, "x'1'"]
        {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
