//! Connections to the database that the command line and the environment name, as psql would find it.

use std::env::{self, VarError};
use std::time::Duration;

use hyper::StatusCode;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};

use crate::failure::{Failure, asks_password};
use crate::login::Credentials;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Settings of every session. Names are shown with their schema, and nothing that the role's `search_path` names gets into
/// the board's own statements.
const LOOKING: &str = "-c default_transaction_read_only=on -c search_path=pg_catalog \
    -c statement_timeout=3s -c lock_timeout=1s -c client_min_messages=error -c jit=off";

/// Triggers of the table's run with the role's `search_path`, as in any other session of the role.
const ACTING: &str = "-c default_transaction_read_only=off -c statement_timeout=10s -c lock_timeout=2s \
    -c client_min_messages=error";

#[derive(Clone, Copy)]
pub enum Purpose {
    Look,
    Act,
}

/// Where the database is, and as which role the board's own viewer acts.
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
            return Err("sslmode=require: the board speaks no TLS, run it beside the server".into());
        }
        config.connect_timeout(CONNECT_TIMEOUT).application_name("xqueue board");
        Ok(Database { config })
    }

    /// Connects as the viewer: with the credentials of its login, or else as the role that started the board.
    pub async fn connect(
        &self,
        credentials: Option<&Credentials>,
        purpose: Purpose,
    ) -> Result<Client, Failure> {
        let mut config = self.config.clone();
        let settings = match purpose {
            Purpose::Look => LOOKING,
            Purpose::Act => ACTING,
        };
        let given = config.get_options().unwrap_or_default().to_string();
        config.options(format!("{given} {settings}"));
        if let Some(credentials) = credentials {
            config.user(&credentials.role);
            self.require_password_check(&credentials.role).await?;
            config.password(&credentials.password);
        }
        open(&config).await.map_err(|error| Failure::of_connect(&error))
    }

    /// A server that trusts the board's host lets every role in with any password: a login would prove nothing. Its
    /// silence after a client that leaves instead of giving a password is usual, psql does the same.
    async fn require_password_check(&self, role: &str) -> Result<(), Failure> {
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

async fn open(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // Ends with the client, or with the server; the client's next statement then fails.
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
