//! Connections to the database that the command line and the environment name, found like psql finds it.

use std::env::{self, VarError};
use std::time::Duration;

use hyper::StatusCode;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use crate::failure::{Failure, asks_password};
use crate::login::Credentials;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Begins a read-only transaction. It sets all settings that the board relies on, because an earlier statement can have
/// changed those of the session. Names are shown with their schema, and no object from the role's `search_path` gets
/// into the board's own statements.
const LOOKING: &str = "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp; \
    SET LOCAL statement_timeout = '3s'; SET LOCAL lock_timeout = '1s'; SET LOCAL client_min_messages = error; \
    SET LOCAL jit = off";

/// Begins a writing transaction. The table's triggers run with the role's `search_path`, as in any other session of the
/// role.
const ACTING: &str = "BEGIN READ WRITE; SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '2s'; \
    SET LOCAL client_min_messages = error";

/// A session for one request, discarded afterwards: settings changed by a statement do not reach the next request.
pub struct Session(Client);

/// The address of the database, and the role of the board's own viewer.
pub struct Database {
    config: Config,
}

impl Database {
    pub fn from_environment(dsn: Option<&str>) -> Result<Database, String> {
        let mut config: Config = dsn
            .unwrap_or("")
            .parse()
            .map_err(|error| format!("--dsn is not understood: {error}"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host(setting("PGHOST")?.unwrap_or("/var/run/postgresql".into()));
        }
        if let (true, Some(port)) = (config.get_ports().is_empty(), setting("PGPORT")?) {
            config.port(port.parse().map_err(|_| format!("PGPORT is no port: {port}"))?);
        }
        if let (None, Some(user)) = (config.get_user(), setting("PGUSER")?) {
            config.user(user);
        }
        if let (None, Some(password)) = (config.get_password(), setting("PGPASSWORD")?) {
            config.password(password);
        }
        if let (None, Some(database)) = (config.get_dbname(), setting("PGDATABASE")?) {
            config.dbname(database);
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err("sslmode=require: the board speaks no TLS, run it on the server".into());
        }
        config.connect_timeout(CONNECT_TIMEOUT).application_name("xqueue board");
        Ok(Database { config })
    }

    /// Connects as the viewer: with the credentials of its login, or as the role that started the board.
    pub async fn connect(&self, credentials: Option<&Credentials>) -> Result<Session, Failure> {
        let mut config = self.config.clone();
        if let Some(credentials) = credentials {
            config.user(&credentials.role).password(&credentials.password);
        }
        open(&config).await.map(Session).map_err(|error| Failure::of_connect(&error))
    }

    /// Fails if the server trusts the board's host: it would accept any password, so a login would prove nothing.
    /// The server logs nothing about a client that leaves when asked for a password: psql does this too.
    pub async fn require_password_check(&self, role: &str) -> Result<(), Failure> {
        let mut config = Config::new();
        for host in self.config.get_hosts() {
            match host {
                tokio_postgres::config::Host::Tcp(name) => config.host(name),
                tokio_postgres::config::Host::Unix(folder) => config.host_path(folder),
            };
        }
        for address in self.config.get_hostaddrs() {
            config.hostaddr(*address);
        }
        for port in self.config.get_ports() {
            config.port(*port);
        }
        if let Some(name) = self.config.get_dbname() {
            config.dbname(name);
        }
        config.user(role).connect_timeout(CONNECT_TIMEOUT).application_name("xqueue board");
        match open(&config).await {
            Err(error) if asks_password(&error) => Ok(()),
            Err(error) => Err(Failure::of_connect(&error)),
            Ok(_) => Err(Failure::new(
                StatusCode::FORBIDDEN,
                "the database server asks no password of this role, so a login here would prove nothing",
            )
            .with_hint("Connect the board over TCP, with scram-sha-256 in pg_hba.conf.")),
        }
    }
}

impl Session {
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Runs a statement that returns one value or no row, in a read-only transaction.
    pub async fn look(
        &self,
        statement: &str,
        parameters: &[String],
    ) -> Result<Option<String>, Failure> {
        let answer = self.run(LOOKING, statement, parameters, "ROLLBACK").await?;
        Ok(answer.and_then(|row| row.get(0)))
    }

    /// Runs a statement that returns a number.
    pub async fn act(&self, statement: &str, parameters: &[String]) -> Result<i64, Failure> {
        let answer = self.run(ACTING, statement, parameters, "COMMIT").await?;
        Ok(answer.map_or(0, |row| row.get(0)))
    }

    async fn run(
        &self,
        begin: &str,
        statement: &str,
        parameters: &[String],
        end: &str,
    ) -> Result<Option<Row>, Failure> {
        let parameters: Vec<_> =
            parameters.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
        let run = async {
            self.0.batch_execute(begin).await?;
            let row = self.0.query_typed_opt(statement, &parameters).await;
            self.0.batch_execute(if row.is_ok() { end } else { "ROLLBACK" }).await?;
            row
        };
        run.await.map_err(|error| Failure::of_statement(&error))
    }
}

async fn open(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // The task ends with the client or the server, and then the client's next statement fails.
    tokio::spawn(async move {
        let _ended = connection.await;
    });
    Ok(client)
}

fn setting(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
