//! The connection to the server that the environment names, as psql would find it.

use std::env::{self, VarError};

use postgres::{Client, Config, NoTls};

use crate::{Result, explain};

pub fn connect(application: &str) -> Result<Client> {
    let host = setting("PGHOST", "/var/run/postgresql")?;
    let port = setting("PGPORT", "5432")?;
    let user = setting("PGUSER", "postgres")?;
    let database = setting("PGDATABASE", &user)?;
    Config::new()
        .host(&host)
        .port(port.parse().map_err(|_| format!("PGPORT is no port: {port}"))?)
        .user(&user)
        .dbname(&database)
        .application_name(application)
        .options("-c client_min_messages=warning")
        .connect(NoTls)
        .map_err(|error| {
            format!("no connection to {database} on {host}, port {port}: {}", explain(&error))
                .into()
        })
}

fn setting(name: &str, otherwise: &str) -> Result<String> {
    match env::var(name) {
        Err(VarError::NotPresent) => Ok(otherwise.to_owned()),
        value => value.map_err(|error| format!("{name}: {error}").into()),
    }
}
