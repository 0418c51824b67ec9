//! The parameters of a request: the part of its address after the question mark.

use percent_encoding::percent_decode_str;

#[derive(Debug, Default, PartialEq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Query(pairs.collect())
    }

    /// Returns the value of a parameter, "" if it was not given.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    pub fn number(&self, name: &str) -> u32 {
        self.get(name).parse().unwrap_or(0)
    }
}

/// Decodes a parameter. Invalid UTF-8 becomes U+FFFD, and NUL is removed because PostgreSQL's text cannot contain it.
fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_request() {
        let query =
            Query::parse("queue=public.%22My+Q%22&key=%7B%22id%22%3A7%7D&page=3&&odd&z=%00%ff");
        assert_eq!(query.get("queue"), "public.\"My Q\"");
        assert_eq!(query.get("key"), "{\"id\":7}");
        assert_eq!((query.number("page"), query.number("odd"), query.number("none")), (3, 0, 0));
        assert_eq!(query.get("z"), "\u{fffd}");
        assert_eq!(Query::parse(""), Query::default());
    }
}
