//! Admission of requests. Pure: decides from the headers alone. The attacks, and the defence against each:
//!
//! 1. A foreign page whose name resolves to this host (DNS rebinding): `Host` must be an address, localhost, or a name
//!    of `--host`.
//! 2. A foreign page that sends a form or a fetch: a POST needs the board's own `Origin`, and the token of the page.
//! 3. Another user of this machine who opens the port: the key in the address, later in a cookie; with `--login` the
//!    password.
//! 4. A port of that user, to which the browser also sends this host's cookies: the path of the cookie is secret.

use std::net::IpAddr;

use crate::login::Credentials;

/// The relevant headers of a request.
#[derive(Default)]
pub struct Headers<'a> {
    pub host: &'a str,
    pub origin: &'a str,
    pub token: &'a str,
    pub cookie: &'a str,
    pub authorization: &'a str,
    /// The key in the address.
    pub key: &'a str,
    pub is_post: bool,
}

#[derive(Debug, PartialEq)]
pub enum Refusal {
    ForeignHost,
    ForeignPage,
    NoKey,
    NoLogin,
}

pub enum Viewer {
    /// Has the key: acts as the role that started the board.
    Own,
    Login(Credentials),
}

const COOKIE: &str = "board";

pub struct Admission {
    pub login: bool,
    pub hosts: Vec<String>,
    /// The path above all addresses of the board, "" with a login. Cookies are not bound to ports, but to paths: no
    /// other server on this host has this path, so the browser sends the cookie to no other.
    pub folder: String,
    pub key: String,
    pub token: String,
}

impl Admission {
    pub fn admit(&self, headers: &Headers) -> Result<Viewer, Refusal> {
        if !self.is_own_host(headers.host) {
            return Err(Refusal::ForeignHost);
        }
        let of_own_page = || {
            let origin = headers.origin.split_once("://").map(|(_, authority)| authority);
            origin.is_some_and(|authority| authority.eq_ignore_ascii_case(headers.host))
                && are_equal(headers.token, &self.token)
        };
        if headers.is_post && !of_own_page() {
            return Err(Refusal::ForeignPage);
        }
        if self.login {
            return Credentials::parse(headers.authorization)
                .map(Viewer::Login)
                .ok_or(Refusal::NoLogin);
        }
        let mut given = cookies(headers.cookie).chain([headers.key]);
        let has_key = given.any(|given| are_equal(given, &self.key));
        if has_key { Ok(Viewer::Own) } else { Err(Refusal::NoKey) }
    }

    /// Returns the path of a request below the folder.
    pub fn path<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (folder, below) = path.split_at_checked(self.folder.len())?;
        let is_own = self.folder.is_empty() || are_equal(folder, &self.folder);
        (is_own && below.starts_with('/')).then_some(below)
    }

    /// Returns the header that makes a browser keep the key, or None with a login.
    pub fn cookie(&self) -> Option<String> {
        let Admission { login, folder, key, .. } = self;
        let cookie = || format!("{COOKIE}={key}; Path={folder}/; HttpOnly; SameSite=Strict");
        (!login).then(cookie)
    }

    /// Accepts any port, because a tunnel has a different one.
    fn is_own_host(&self, host: &str) -> bool {
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let name = match bracketed {
            Some((address, _)) => address,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.to_ascii_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.hosts.contains(&name)
    }
}

/// Returns all values of the board's cookie: other servers on this host can set cookies with the same name.
fn cookies(header: &str) -> impl Iterator<Item = &str> {
    let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Compares secrets in constant time.
fn are_equal(given: &str, secret: &str) -> bool {
    let (given, secret) = (given.as_bytes(), secret.as_bytes());
    let difference = given.iter().zip(secret).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == secret.len() && !secret.is_empty() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(login: bool) -> Admission {
        Admission {
            login,
            hosts: vec!["board.example.org".into()],
            folder: "/5e5e".into(),
            key: "0a1b".into(),
            token: "7f7f".into(),
        }
    }

    fn refusal(login: bool, headers: &Headers) -> Option<Refusal> {
        board(login).admit(headers).err()
    }

    #[test]
    fn board_answers_under_its_own_names() {
        let of = |host| refusal(false, &Headers { host, key: "0a1b", ..Headers::default() });
        for host in [
            "127.0.0.1:8321",
            "localhost",
            "LOCALHOST:9000",
            "[::1]:8321",
            "192.0.2.1",
            "board.example.org",
            "Board.Example.org:443",
        ] {
            assert_eq!(of(host), None, "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org:8321",
            "127.0.0.1.example.org",
            "[example.org]:80",
        ] {
            assert_eq!(of(host), Some(Refusal::ForeignHost), "{host}");
        }
    }

    #[test]
    fn board_wants_its_key() {
        let host = "localhost:8321";
        let with =
            |key, cookie| refusal(false, &Headers { host, key, cookie, ..Headers::default() });
        assert_eq!(with("0a1b", ""), None);
        assert_eq!(with("", "a=b; board=0a1b"), None);
        assert_eq!(with("", "board=another; board=0a1b"), None);
        for (key, cookie) in
            [("", ""), ("0a1", ""), ("0a1c", ""), ("", "boar=0a1b"), ("", "board=")]
        {
            assert_eq!(with(key, cookie), Some(Refusal::NoKey), "{key} {cookie}");
        }
    }

    #[test]
    fn board_is_in_a_folder_that_its_cookie_is_for() {
        let board = board(false);
        let cookie = board.cookie();
        assert_eq!(cookie.as_deref(), Some("board=0a1b; Path=/5e5e/; HttpOnly; SameSite=Strict"));
        assert_eq!(board.path("/5e5e/"), Some("/"));
        assert_eq!(board.path("/5e5e/api/board"), Some("/api/board"));
        for path in ["/", "/5e5e", "/5e5f/", "/5e5e5e/", "/api/board", "/5e5ü/"] {
            assert_eq!(board.path(path), None, "{path}");
        }
    }

    #[test]
    fn board_with_login_wants_a_password_and_no_key() {
        let host = "192.0.2.1:8321";
        let with = |authorization| {
            refusal(true, &Headers { host, key: "0a1b", authorization, ..Headers::default() })
        };
        assert_eq!(with("Basic YW5uOnNlY3JldA=="), None);
        assert_eq!(with(""), Some(Refusal::NoLogin));
        let board = Admission { folder: String::new(), ..board(true) };
        assert_eq!((board.path("/"), board.cookie()), (Some("/"), None));
    }

    #[test]
    fn board_is_changed_from_its_own_page_only() {
        let host = "localhost:8321";
        let with = |origin, token| {
            refusal(
                false,
                &Headers { host, origin, token, key: "0a1b", is_post: true, ..Headers::default() },
            )
        };
        assert_eq!(with("http://localhost:8321", "7f7f"), None);
        assert_eq!(with("https://localhost:8321", "7f7f"), None);
        for (origin, token) in [
            ("", "7f7f"),
            ("null", "7f7f"),
            ("http://localhost:9000", "7f7f"),
            ("http://example.org", "7f7f"),
            ("http://localhost:8321", ""),
            ("http://localhost:8321", "7f7e"),
        ] {
            assert_eq!(with(origin, token), Some(Refusal::ForeignPage), "{origin} {token}");
        }
    }
}
