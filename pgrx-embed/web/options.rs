//! The command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub const HELP: &str = "\
board [--dsn CONNECTION] [--listen ADDRESS] [--login] [--host NAME]... [--write]

Shows the queues of a database in the browser. The database is the one that CONNECTION, as for psql, or PGHOST, PGPORT,
PGUSER, PGPASSWORD and PGDATABASE name. Prints the address to open, and runs until it is ended.

  --dsn CONNECTION  postgresql://role@host/database, or host=... user=... dbname=...
  --listen ADDRESS  address and port, or only a port (default 127.0.0.1:8321; port 0: a free one)
  --login           each viewer logs in with a database role and its password; always so where others can connect,
                    which means on any address but this machine's own
  --host NAME       a name under which the board is reached, as behind a proxy; addresses and localhost always are
  --write           show the buttons: retry, delete, pause, resume";

const DEFAULT_PORT: u16 = 8321;

#[derive(Debug)]
pub enum Command {
    Board(Options),
    Help,
}

#[derive(Debug)]
pub struct Options {
    pub dsn: Option<String>,
    pub listen: SocketAddr,
    pub login: bool,
    /// Allowed names in the Host header, in lower case.
    pub hosts: Vec<String>,
    pub write: bool,
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options {
        dsn: None,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
        login: false,
        hosts: vec![],
        write: false,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            "--dsn" => options.dsn = Some(value()?),
            "--listen" => options.listen = address(&value()?)?,
            "--login" => options.login = true,
            "--host" => options.hosts.push(value()?.to_ascii_lowercase()),
            "--write" => options.write = true,
            "--help" | "-h" => return Ok(Command::Help),
            _ => return Err(format!("what is {argument}?")),
        }
    }
    options.login |= !options.listen.ip().is_loopback();
    Ok(Command::Board(options))
}

/// Parses `127.0.0.1:8321`, `[::1]:8321`, `192.0.2.1` or `8321`.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let with_port = |ip: IpAddr| SocketAddr::from((ip, DEFAULT_PORT));
    text.parse()
        .or_else(|_| text.parse().map(with_port))
        .map_err(|_| format!("--listen takes an IP address and a port, not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> Result<Options, String> {
        match parse(arguments.split_whitespace().map(String::from))? {
            Command::Board(options) => Ok(options),
            Command::Help => Err("help".into()),
        }
    }

    #[test]
    fn board_is_local_and_read_only_by_default() {
        let options = options("").unwrap();
        assert_eq!(options.listen.to_string(), "127.0.0.1:8321");
        assert!(!options.login && !options.write && options.hosts.is_empty());
    }

    #[test]
    fn board_that_others_can_reach_asks_for_a_login() {
        for address in ["0.0.0.0:80", "192.0.2.7", "[::]:8321", "[2001:db8::1]:1"] {
            assert!(options(&format!("--listen {address}")).unwrap().login, "{address}");
        }
        for address in ["127.0.0.1:80", "127.9.9.9", "[::1]:8321", "0", "9000"] {
            assert!(!options(&format!("--listen {address}")).unwrap().login, "{address}");
        }
        assert!(options("--login").unwrap().login);
    }

    #[test]
    fn board_refuses_what_it_does_not_know() {
        for arguments in ["--listen", "--listen localhost:80", "--listen 70000", "--dsn", "--what"]
        {
            assert!(options(arguments).is_err(), "{arguments}");
        }
    }
}
