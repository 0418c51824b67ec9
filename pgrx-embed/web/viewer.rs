//! Viewers: each connects as its own role for each request, and caches the sections that it read last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::sync::{Mutex, Semaphore};

use crate::actions;
use crate::database::{Database, Session};
use crate::failure::Failure;
use crate::json;
use crate::login::Credentials;
use crate::query::Query;
use crate::sections::{Section, sections};

/// A section is not read again for this many times its duration, so a viewer costs the server at most about a tenth of
/// a core.
const REST: u32 = 10;

/// A viewer without requests for this time is forgotten, and has to log in again.
const IDLE: Duration = Duration::from_secs(60);

/// After this time a viewer's login is checked again: the server must still ask for the password.
const LIFETIME: Duration = Duration::from_secs(600);

/// After a failed connection, the failure is returned without another attempt for this time.
const RETRY: Duration = Duration::from_millis(900);

/// Maximum number of logged-in viewers. Further logins are refused.
const MAX_VIEWERS: usize = 64;

/// Concurrent login attempts, and the time that a failed attempt keeps its slot. Together they limit the rate of
/// password guesses.
const LOGINS_AT_A_TIME: usize = 4;
const LOGIN_PENALTY: Duration = Duration::from_secs(1);

pub struct Viewer {
    credentials: Option<Credentials>,
    known: Mutex<Known>,
}

/// The state of a viewer. Its lock is held during a read, so a viewer reads over one connection at a time.
struct Known {
    failed: Option<(Instant, Failure)>,
    used: Instant,
    examined: Option<Instant>,
    read: HashMap<(String, Vec<String>), Read>,
}

/// A section with its last value.
struct Read {
    value: String,
    at: Instant,
    rest: Duration,
}

impl Viewer {
    fn new(credentials: Option<Credentials>) -> Arc<Viewer> {
        let known =
            Known { failed: None, used: Instant::now(), examined: None, read: HashMap::default() };
        Arc::new(Viewer { credentials, known: Mutex::new(known) })
    }

    /// Returns the requested sections as one JSON object. Connects if a section has to be read.
    pub async fn look(&self, database: &Database, query: &Query) -> Result<String, Failure> {
        let mut known = self.known.lock().await;
        known.used = Instant::now();
        known.read.retain(|_, read| read.at.elapsed() < read.rest);
        let mut session = None;
        let mut members = vec![];
        for Section { name, statement, parameters, at_most_every } in sections(query) {
            let asked = (statement, parameters);
            let value = match known.read.get(&asked) {
                Some(read) => read.value.clone(),
                None => {
                    let session = match &session {
                        Some(session) => session,
                        None => session.insert(self.connect(database, &mut known).await?),
                    };
                    known.read(session, name, asked, at_most_every).await?
                }
            };
            members.push((name, value));
        }
        let members: Vec<_> = members.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Ok(json::object(&members))
    }

    /// Acts over a separate connection, so that an action waiting for a lock delays no read.
    pub async fn act(
        &self,
        database: &Database,
        name: &str,
        query: &Query,
    ) -> Result<String, Failure> {
        let session = database.connect(self.credentials.as_ref()).await?;
        let answer = actions::act(&session, name, query).await;
        self.known.lock().await.read.clear();
        answer
    }

    async fn connect(&self, database: &Database, known: &mut Known) -> Result<Session, Failure> {
        if let Some((at, failure)) = &known.failed
            && at.elapsed() < RETRY
        {
            return Err(failure.clone());
        }
        let connected = async {
            if let Some(credentials) = &self.credentials
                && known.examined.is_none_or(|at| at.elapsed() > LIFETIME)
            {
                database.require_password_check(&credentials.role).await?;
                known.examined = Some(Instant::now());
            }
            database.connect(self.credentials.as_ref()).await
        };
        let connected = connected.await;
        if let Err(failure) = &connected {
            known.failed = Some((Instant::now(), failure.clone()));
        }
        connected
    }

    async fn is_idle(&self) -> bool {
        self.known.lock().await.used.elapsed() > IDLE
    }
}

impl Known {
    async fn read(
        &mut self,
        session: &Session,
        name: &str,
        asked: (String, Vec<String>),
        at_most_every: Duration,
    ) -> Result<String, Failure> {
        let begun = Instant::now();
        let value = match session.look(&asked.0, &asked.1).await {
            Ok(value) => value.unwrap_or_else(|| "null".into()),
            // Without the section "server" there is nothing to show. A failure of another section is shown in that
            // section.
            Err(failure) if name == "server" || session.is_closed() => {
                return Err(Failure { status: StatusCode::SERVICE_UNAVAILABLE, ..failure });
            }
            Err(failure) => failure.json(),
        };
        let rest = at_most_every.max(begun.elapsed() * REST);
        self.read.insert(asked, Read { value: value.clone(), at: begun, rest });
        Ok(value)
    }
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
        if let Err(failure) = viewer.connect(database, &mut *viewer.known.lock().await).await {
            tokio::time::sleep(LOGIN_PENALTY).await;
            return Err(failure);
        }
        let mut logged_in = self.logged_in.lock().await;
        if logged_in.len() >= MAX_VIEWERS {
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many viewers are logged in",
            ));
        }
        Ok(logged_in.entry(credentials).or_insert(viewer).clone())
    }

    /// Makes a viewer's next request log in again, for example after a change of the password.
    pub async fn log_out(&self, viewer: &Viewer) {
        if let Some(credentials) = &viewer.credentials {
            self.logged_in.lock().await.remove(credentials);
        }
    }

    /// Forgets idle viewers, with their passwords.
    pub async fn forget_idle(&self) {
        let viewers: Vec<_> = self.logged_in.lock().await.values().cloned().collect();
        for viewer in viewers {
            if viewer.is_idle().await {
                self.log_out(&viewer).await;
            }
        }
    }
}
