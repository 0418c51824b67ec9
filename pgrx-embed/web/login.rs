//! HTTP Basic: a viewer's database role and password.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    pub role: String,
    pub password: String,
}

impl Credentials {
    /// Parses the header Authorization. In HTTP Basic the password can contain colons, the role cannot.
    pub fn parse(header: &str) -> Option<Credentials> {
        let (scheme, encoded) = header.split_once(' ')?;
        let is_basic = scheme.eq_ignore_ascii_case("basic");
        let decoded = is_basic.then(|| BASE64_STANDARD.decode(encoded.trim()).ok()).flatten()?;
        let text = String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))?;
        let (role, password) = text.split_once(':')?;
        let is_whole = !role.is_empty() && !password.is_empty();
        is_whole.then(|| Credentials { role: role.into(), password: password.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String)> {
        let header = format!("Basic {}", BASE64_STANDARD.encode(text));
        Credentials::parse(&header).map(|login| (login.role, login.password))
    }

    #[test]
    fn login_has_role_and_password() {
        assert_eq!(parsed("ann:a:b ü"), Some(("ann".into(), "a:b ü".into())));
        for text in ["ann", "ann:", ":secret", "an\0n:secret", ""] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
        for header in ["", "Basic", "Basic !", "Bearer YTpi", "Basic //8="] {
            assert!(Credentials::parse(header).is_none(), "{header}");
        }
        assert!(Credentials::parse("basic YTpi").is_some());
    }
}
