//! The actions of a viewer under `--write`. Each calls a function of docs/reference/functions.md with the viewer's
//! role.

use hyper::StatusCode;

use crate::database::Session;
use crate::failure::Failure;
use crate::json;
use crate::query::Query;

/// Maximum number of tasks that one "retry all" makes ready, which bounds the transaction.
const TASKS_PER_KICK: &str = "10000";

/// A statement that returns a number of tasks or queues. Its parameters are text.
struct Action {
    statement: &'static str,
    parameters: Vec<String>,
}

fn action(name: &str, query: &Query) -> Option<Action> {
    let text = |name| query.get(name).to_string();
    let (statement, parameters) = match name {
        "retry" => (
            "SELECT pg_catalog.count(*) FROM xqueue.dig($1, $2::pg_catalog.jsonb)",
            vec![text("queue"), text("id")],
        ),
        // The clicked list can be a second old: a task that was dug out and taken meanwhile stays.
        "delete" => (
            "SELECT pg_catalog.count(*) FROM xqueue.stats($1, $2::pg_catalog.jsonb) AS s
             CROSS JOIN LATERAL xqueue.delete($1, $2::pg_catalog.jsonb)
             WHERE s OPERATOR(pg_catalog.->>) 'state' OPERATOR(pg_catalog.=) 'buried'",
            vec![text("queue"), text("id")],
        ),
        "retry-all" => (
            "SELECT xqueue.kick($1, $2::pg_catalog.int4)::pg_catalog.int8",
            vec![text("queue"), TASKS_PER_KICK.into()],
        ),
        "pause" => (
            "SELECT pg_catalog.count(*) FROM xqueue.pause($1, nullif($2, '')::pg_catalog.interval)",
            vec![text("queue"), text("duration")],
        ),
        "resume" => ("SELECT pg_catalog.count(*) FROM xqueue.resume($1)", vec![text("queue")]),
        _ => return None,
    };
    Some(Action { statement, parameters })
}

/// Runs the requested action, and returns the number of tasks or queues that it changed.
pub async fn act(session: &Session, name: &str, query: &Query) -> Result<String, Failure> {
    let no_action = || Failure::new(StatusCode::NOT_FOUND, "there is no such action");
    let action = action(name, query).ok_or_else(no_action)?;
    let done = session.act(action.statement, &action.parameters).await?;
    Ok(json::object(&[("done", &done.to_string())]))
}
