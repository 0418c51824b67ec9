//! Errors for users: message, cause and next step.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// An error that ends the statement: message, SQLSTATE, detail and hint.
#[derive(Debug)]
pub struct Error {
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), detail: None, hint: None }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Error {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Returns message and hint, for a report.
    pub fn told(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}. {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns the hint, for a report.
    pub fn next_step(&self) -> &str {
        self.hint.as_deref().unwrap_or_default()
    }

    /// Returns the error for a NULL where a value is required.
    pub fn null(argument: &str) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("argument \"{argument}\" must not be NULL"),
        )
        .hint(format!("Give a value for \"{argument}\"."))
    }

    /// Returns the error for an invalid value.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
    }

    /// Returns the error for a role without the privileges on a queue's table.
    pub fn permission_denied(queue: &str) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("permission denied for queue \"{queue}\""),
        )
        .hint(format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {queue} lets a role work with it."))
    }

    /// Returns the error for a query planned before the columns of a queue were changed.
    pub fn columns_changed(queue: &str) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("the columns of queue \"{queue}\" have changed since this query was planned"),
        )
        .hint("Run the query again; if it is prepared, prepare it again.")
    }

    /// Returns the error for an operation that only the primary can do; `refused` names it.
    pub fn on_standby(refused: String) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            format!("{refused}: this server is a standby"),
        )
        .hint("Connect to the primary: there xqueue.state() is not WAITING.")
    }

    /// Returns the error of every function on a server started without the library.
    pub fn not_loaded() -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "xqueue must be loaded when the server starts",
        )
        .hint(
            "Put shared_preload_libraries = 'xqueue' into postgresql.conf and restart the server.",
        )
    }

    /// Returns the error for a database without the extension.
    pub fn not_installed() -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "extension xqueue is not installed in this database",
        )
        .hint("CREATE EXTENSION xqueue;")
    }

    /// Raises the error as an ERROR.
    pub fn raise(self) -> ! {
        self.report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }

    /// Ends the process with a FATAL; the rest of the server keeps running.
    pub fn end_process(self) -> ! {
        self.report(PgLogLevel::FATAL);
        unreachable!("a FATAL does not return")
    }

    /// Reports the error to the client and the log as a WARNING, and continues.
    pub fn warn(self) {
        self.report(PgLogLevel::WARNING);
    }

    /// Reports advice to the client as a NOTICE, and continues.
    pub fn advise(self) {
        self.report(PgLogLevel::NOTICE);
    }

    fn report(self, level: PgLogLevel) {
        let mut report = ErrorReport::new(self.code, shortened(self.message), "xqueue");
        if let Some(detail) = self.detail {
            report = report.set_detail(shortened(detail));
        }
        if let Some(hint) = self.hint {
            report = report.set_hint(shortened(hint));
        }
        report.report(level);
    }
}

/// Truncates a message that quotes a long value. The server copies the message several times, and running out of memory
/// there would end the process.
fn shortened(mut text: String) -> String {
    const LONGEST: usize = 8192;
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// Formats a number of tasks, for example "1 ready task".
pub fn tasks(count: i64, kind: &str) -> String {
    format!("{count} {kind} task{}", if count == 1 { "" } else { "s" })
}

/// Returns the value of a result, or raises its error.
pub trait OrRaise<T> {
    fn or_raise(self) -> T;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|error| error.raise())
    }
}
