//! The connection to the server that the environment names, found like psql finds it.

use std::env::{self, VarError};

use postgres::{Client, Config, NoTls};

use crate::{Result, explain};

pub fn connect(application: &str) -> Result<Client> {
    let user = setting("PGUSER", "postgres")?;
    connect_to(&setting("PGDATABASE", &user)?, application)
}

/// Connects to a database of this name.
pub fn connect_to(database: &str, application: &str) -> Result<Client> {
    let Address { host, port, user } = address()?;
    Config::new()
        .host(&host)
        .port(port)
        .user(&user)
        .dbname(database)
        .application_name(application)
        .options("-c client_min_messages=warning")
        .connect(NoTls)
        .map_err(|error| {
            format!("no connection to {database} on {host}, port {port}: {}", explain(&error))
                .into()
        })
}

/// The server's address, and the role.
pub struct Address {
    pub host: String,
    pub port: u16,
    pub user: String,
}

pub fn address() -> Result<Address> {
    let port = setting("PGPORT", "5432")?;
    Ok(Address {
        host: setting("PGHOST", "/var/run/postgresql")?,
        port: port.parse().map_err(|_| format!("PGPORT is no port: {port}"))?,
        user: setting("PGUSER", "postgres")?,
    })
}

fn setting(name: &str, otherwise: &str) -> Result<String> {
    match env::var(name) {
        Err(VarError::NotPresent) => Ok(otherwise.to_owned()),
        value => value.map_err(|error| format!("{name}: {error}").into()),
    }
}
