//! Expected errors.

use postgres::Client;
use postgres::error::DbError;

/// Runs statements that can fail, in the simple protocol.
pub fn try_sql(c: &mut Client, sql: &str) -> Result<(), postgres::Error> {
    c.batch_execute(sql)
}

#[track_caller]
pub fn db_error(e: &postgres::Error) -> &DbError {
    e.as_db_error()
        .unwrap_or_else(|| panic!("the server sent no error, the connection broke: {e:?}"))
}

/// Returns the SQLSTATE of an error that the server sent.
#[track_caller]
pub fn code(e: &postgres::Error) -> &str {
    db_error(e).code().code()
}

/// Runs a statement that must fail with one of the SQLSTATEs (separated by blanks) and a message that contains `words`.
/// The connection must be usable afterwards.
#[track_caller]
pub fn expect_error(c: &mut Client, sql: &str, states: &str, words: &str) -> DbError {
    let error = match c.batch_execute(sql) {
        Ok(()) => panic!("no error from {sql}"),
        Err(e) => e,
    };
    let error = db_error(&error).clone();
    let state = error.code().code();
    assert!(
        states.split(' ').any(|s| s == state),
        "{sql}\n  wanted {states}, got {state}: {} / {:?} / {:?}",
        error.message(),
        error.detail(),
        error.hint()
    );
    assert!(
        error.message().contains(words),
        "{sql}\n  wanted the message to contain {words:?}, got {:?}",
        error.message()
    );
    error
}
