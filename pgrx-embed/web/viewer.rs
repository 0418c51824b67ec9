//! Viewers: each has a connection of its own, as its own role, and what was last read over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::sync::{Mutex, Semaphore};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::actions;
use crate::database::{Database, Purpose};
use crate::failure::Failure;
use crate::json;
use crate::login::Credentials;
use crate::query::Query;
use crate::sections::{Section, sections};

/// A section that took the server some time is not read again before this many times as long: a viewer costs it at most
/// about a tenth of a core.
const REST: u32 = 10;

/// A connection is closed after this time without a request, as of a page that is hidden.
const IDLE: Duration = Duration::from_secs(60);

/// A connection is made anew after this time, so that a role or password that is no longer valid ends there.
const LIFETIME: Duration = Duration::from_secs(600);

/// After a failure to connect the same answer is given for this time.
const RETRY: Duration = Duration::from_millis(900);

/// Viewers logged in at a time; more are refused.
const MAX_VIEWERS: usize = 64;

/// Logins tried at a time, and how long one that fails holds its place: bounds how fast passwords can be guessed.
const LOGINS_AT_A_TIME: usize = 4;
const LOGIN_PENALTY: Duration = Duration::from_secs(1);

pub struct Viewer {
    credentials: Option<Credentials>,
    connection: Mutex<Connection>,
}

/// Statements of a viewer run one after the other.
#[derive(Default)]
struct Connection {
    open: Option<Open>,
    failed: Option<(Instant, Failure)>,
    used: Option<Instant>,
    read: HashMap<(String, Vec<String>), Read>,
}

struct Open {
    client: Client,
    since: Instant,
}

/// A section as it was read.
struct Read {
    value: String,
    at: Instant,
    rest: Duration,
}

impl Viewer {
    fn new(credentials: Option<Credentials>) -> Arc<Viewer> {
        Arc::new(Viewer { credentials, connection: Mutex::default() })
    }

    /// Returns the sections that `query` asks for, as one JSON object.
    pub async fn look(&self, database: &Database, query: &Query) -> Result<String, Failure> {
        let mut connection = self.connection.lock().await;
        connection.used = Some(Instant::now());
        let mut members = vec![];
        for section in sections(query) {
            let name = section.name;
            members.push((name, connection.section(database, &self.credentials, section).await?));
        }
        let members: Vec<_> = members.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Ok(json::object(&members))
    }

    /// Acts in a connection of its own, so that a lock that an action waits for holds up no look.
    pub async fn act(
        &self,
        database: &Database,
        name: &str,
        query: &Query,
    ) -> Result<String, Failure> {
        let client = database.connect(self.credentials.as_ref(), Purpose::Act).await?;
        let answer = actions::act(&client, name, query).await;
        self.connection.lock().await.read.clear();
        answer
    }

    async fn close_if_idle(&self) {
        let mut connection = self.connection.lock().await;
        if connection.is_idle() {
            *connection = Connection::default();
        }
    }
}

impl Connection {
    fn is_idle(&self) -> bool {
        self.used.is_none_or(|used| used.elapsed() > IDLE)
    }

    async fn section(
        &mut self,
        database: &Database,
        credentials: &Option<Credentials>,
        section: Section,
    ) -> Result<String, Failure> {
        self.read.retain(|_, read| read.at.elapsed() < read.rest.max(IDLE));
        let asked = (section.statement, section.parameters);
        if let Some(read) = self.read.get(&asked).filter(|read| read.at.elapsed() < read.rest) {
            return Ok(read.value.clone());
        }
        let client = self.client(database, credentials).await?;
        let begun = Instant::now();
        let value = match ask(client, &asked.0, &asked.1).await {
            Ok(value) => value.unwrap_or_else(|| "null".into()),
            // Without what the first section tells there is nothing to show; what is wrong with another stands in its place.
            Err(failure) if section.name == "server" || client.is_closed() => {
                return Err(Failure { status: StatusCode::SERVICE_UNAVAILABLE, ..failure });
            }
            Err(failure) => failure.json(),
        };
        let rest = section.at_most_every.max(begun.elapsed() * REST);
        self.read.insert(asked, Read { value: value.clone(), at: begun, rest });
        Ok(value)
    }

    /// Returns the open connection, or connects.
    async fn client(
        &mut self,
        database: &Database,
        credentials: &Option<Credentials>,
    ) -> Result<&Client, Failure> {
        let is_usable = |open: &Open| !open.client.is_closed() && open.since.elapsed() < LIFETIME;
        let open = match self.open.take().filter(is_usable) {
            Some(open) => open,
            None => self.connect(database, credentials).await?,
        };
        Ok(&self.open.insert(open).client)
    }

    async fn connect(
        &mut self,
        database: &Database,
        credentials: &Option<Credentials>,
    ) -> Result<Open, Failure> {
        if let Some((at, failure)) = &self.failed
            && at.elapsed() < RETRY
        {
            return Err(failure.clone());
        }
        self.read.clear();
        match database.connect(credentials.as_ref(), Purpose::Look).await {
            Ok(client) => Ok(Open { client, since: Instant::now() }),
            Err(failure) => {
                self.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }
}

/// Runs a statement that gives one JSON value or no row.
async fn ask(
    client: &Client,
    statement: &str,
    parameters: &[String],
) -> Result<Option<String>, Failure> {
    let parameters: Vec<_> =
        parameters.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
    let row = client.query_typed_opt(statement, &parameters).await;
    let row = row.map_err(|error| Failure::of_statement(&error))?;
    Ok(row.and_then(|row| row.get(0)))
}

pub struct Viewers {
    /// Acts as the role that started the board.
    own: Arc<Viewer>,
    logged_in: Mutex<HashMap<Credentials, Arc<Viewer>>>,
    logins: Semaphore,
}

impl Viewers {
    pub fn new() -> Viewers {
        Viewers {
            own: Viewer::new(None),
            logged_in: Mutex::default(),
            logins: Semaphore::new(LOGINS_AT_A_TIME),
        }
    }

    pub fn own(&self) -> Arc<Viewer> {
        self.own.clone()
    }

    /// Returns the viewer with these credentials, once the database server has accepted them.
    pub async fn log_in(
        &self,
        database: &Database,
        credentials: Credentials,
    ) -> Result<Arc<Viewer>, Failure> {
        if let Some(viewer) = self.logged_in.lock().await.get(&credentials) {
            return Ok(viewer.clone());
        }
        let Ok(_place) = self.logins.acquire().await else {
            unreachable!("the semaphore is never closed");
        };
        let viewer = Viewer::new(Some(credentials.clone()));
        let mut connection = viewer.connection.lock().await;
        connection.used = Some(Instant::now());
        if let Err(failure) = connection.client(database, &viewer.credentials).await {
            tokio::time::sleep(LOGIN_PENALTY).await;
            return Err(failure);
        }
        drop(connection);
        let mut logged_in = self.logged_in.lock().await;
        if logged_in.len() >= MAX_VIEWERS {
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many viewers are logged in",
            ));
        }
        Ok(logged_in.entry(credentials).or_insert(viewer).clone())
    }

    /// Makes the next request of a viewer log in again, as after its password was changed.
    pub async fn log_out(&self, viewer: &Viewer) {
        if let Some(credentials) = &viewer.credentials {
            self.logged_in.lock().await.remove(credentials);
        }
    }

    /// Closes connections that are not in use. A viewer that returns is connected, and logged in, anew.
    pub async fn close_idle(&self) {
        self.own.close_if_idle().await;
        let viewers: Vec<_> = self.logged_in.lock().await.values().cloned().collect();
        for viewer in viewers {
            if viewer.connection.lock().await.is_idle() {
                self.log_out(&viewer).await;
            }
        }
    }
}
