//! Failures, in words for a viewer, with the status of the response.

use hyper::StatusCode;
use tokio_postgres::error::SqlState;

use crate::json;

#[derive(Clone, Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into(), hint: None }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// Returns the failure of a connection: the server is unreachable, or refuses the role.
    pub fn of_connect(error: &tokio_postgres::Error) -> Failure {
        match error.as_db_error() {
            Some(db) if is_about_login(db.code()) => {
                let refused = Failure::new(StatusCode::UNAUTHORIZED, db.message());
                Failure { hint: db.hint().map(String::from), ..refused }
            }
            Some(db) => Failure {
                hint: db.hint().map(String::from),
                ..Failure::new(StatusCode::SERVICE_UNAVAILABLE, db.message())
            },
            None if asks_password(error) => {
                Failure::new(StatusCode::UNAUTHORIZED, "the server asks for a password")
                    .with_hint("Give it with PGPASSWORD, or start the board with --login.")
            }
            None => {
                let causes = explain(error);
                let cause = causes.strip_prefix("error connecting to server: ").unwrap_or(&causes);
                let message = format!("the server cannot be reached: {cause}");
                Failure::new(StatusCode::SERVICE_UNAVAILABLE, message)
            }
        }
    }

    /// Returns the failure of a statement, or of its connection.
    pub fn of_statement(error: &tokio_postgres::Error) -> Failure {
        let Some(db) = error.as_db_error() else {
            return Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the connection to the server is lost: {}", explain(error)),
            );
        };
        let is_missing = [
            SqlState::INVALID_SCHEMA_NAME,
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_FUNCTION,
        ]
        .contains(db.code());
        if is_missing && db.message().contains("xqueue") {
            return Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "this database does not have the extension xqueue, or not this version of it",
            )
            .with_hint("A superuser creates it with CREATE EXTENSION xqueue.");
        }
        let ends_connection = db.code().code().starts_with("57P");
        let status =
            if ends_connection { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::CONFLICT };
        Failure { hint: db.hint().map(String::from), ..Failure::new(status, db.message()) }
    }

    pub fn json(&self) -> String {
        let hint = self.hint.as_deref().map_or("null".into(), json::string);
        let error = json::object(&[("message", &json::string(&self.message)), ("hint", &hint)]);
        json::object(&[("error", &error)])
    }
}

/// Matches SQLSTATE class 28: no such role, wrong password, no entry in pg_hba.conf.
fn is_about_login(code: &SqlState) -> bool {
    code.code().starts_with("28")
}

/// Returns true if a connection without a password failed because the server asked for one.
pub fn asks_password(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none() && explain(error).contains("password missing")
}

/// Formats an error with all its causes.
fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
