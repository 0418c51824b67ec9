//! Error messages for a step that a task's state or owner does not allow, such as an ack of another session's task.

use crate::api::argument::Key;
use crate::api::pooler;
use crate::error::Error;
use crate::parts::leases::sessions::Part;
use crate::parts::leases::{session, store};
use crate::queue::owner::{self, NOBODY};
use crate::queue::{self, Arguments, Queue, Statement};
use crate::server::process;
use crate::server::spi::Spi;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use crate::write::unchanged;
use pgrx::PgSqlErrorCode;
use xqueue_core::statement::Verb;
use xqueue_core::status::Status;

/// The actual state of a task to which a step did not apply.
pub struct FoundTask {
    task: String,
    status: Option<Status>,
    owner: Option<Uuid>,
    attempts: Option<i64>,
}

/// Returns the error of a step that found no task in the required state. `attempt` is that of an ack.
pub fn explain(
    spi: &Spi,
    queue: &Queue,
    key: &Key,
    found: Option<FoundTask>,
    (verb, attempt): (Verb, Option<Value>),
) -> Error {
    let Some(found) = found else { return missing(key, queue) };
    let error = match verb {
        verb if verb.applies().own => found.not_mine(spi, queue, attempt),
        Verb::Dig => found.not_in(Status::Buried, "Only a buried task can be dug out."),
        Verb::Snatch => found.not_taken("Only a taken task can be taken away."),
        Verb::Restart => found.not_restartable(),
        Verb::Switch(_) => found.held(),
        _ => found.unchanged(),
    };
    error.detail(format!("Queue \"{}\".", queue.name))
}

fn missing(key: &Key, queue: &Queue) -> Error {
    let task = queue::key_text(key);
    let hint = if is_taken_as_text(&task, queue) {
        "A text is itself the key of this queue: cast a batch to text[], an object to jsonb."
    } else {
        "It has been acked or deleted, or was never put."
    };
    Error::new(PgSqlErrorCode::ERRCODE_NO_DATA_FOUND, format!("task {task} was not found"))
        .hint(hint)
        .detail(format!("Queue \"{}\".", queue.name))
}

/// Returns whether a text looks like a batch or an object but is itself the key, because the queue's key is a text.
fn is_taken_as_text(task: &str, queue: &Queue) -> bool {
    let is_text = matches!(queue.key.as_slice(), [key] if types::TEXTS.contains(&key.base));
    is_text && task.starts_with(['{', '['])
}

/// Names the holder of a task: a process, or a session without a connection at present.
fn holder(owner: Uuid) -> String {
    match store::holder(owner) {
        Some(pid) if pid == process::pid() && !session::is_joined_to(owner) => {
            format!("an earlier session of this connection ({pid})")
        }
        Some(pid) => pid.to_string(),
        None if store::is_open_to_current_role(owner) => {
            format!("session {}", types::uuid_text(owner))
        }
        None => "a session without a connection".into(),
    }
}

/// Returns the hint for a task held by another session of this connection.
fn way_back(owner: Uuid) -> String {
    if session::joined(Part::Local).is_some() {
        return "Until the end of the transaction the connection acts for the session that was joined for it.".into();
    }
    format!(
        "SELECT xqueue.identify('{}'); makes the connection act for that.",
        types::uuid_text(owner)
    )
}

fn not_in_state(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

impl FoundTask {
    /// Reads the task with the key in `arguments`; None if there is none.
    pub fn look_up(
        spi: &Spi,
        queue: &Queue,
        key: &Key,
        arguments: &Arguments,
    ) -> Option<FoundTask> {
        let rows = queue.run(spi, &Statement::Holder, arguments);
        (!rows.is_empty()).then(|| FoundTask {
            task: queue::key_text(key),
            status: queue.status_read(rows.value(0, 1)),
            owner: rows.value(0, 2).map(owner::holder).filter(|owner| *owner != NOBODY),
            attempts: rows.value(0, 3).map(|count| count.to_integer()),
        })
    }

    /// Returns whether the session for which this connection acts holds the task, in this attempt if one is given.
    pub fn is_held(&self, attempt: Option<Value>) -> bool {
        let is_own = self.owner.is_some() && self.owner == session::current_if_any();
        self.status == Some(Status::Taken) && is_own && !self.is_in_another(attempt)
    }

    fn is_in_another(&self, attempt: Option<Value>) -> bool {
        let attempt = attempt.map(Value::to_integer);
        self.attempts.is_some_and(|count| attempt.is_some_and(|attempt| attempt != count))
    }

    fn not_mine(&self, spi: &Spi, queue: &Queue, attempt: Option<Value>) -> Error {
        if self.status != Some(Status::Taken) {
            return self.not_taken(
                "Take it first; a task that was taken is given back when its session or its time to run ends.",
            );
        }
        let Some(owner) = self.owner else {
            return not_in_state(format!("task {} is taken, but by no session", self.task))
                .hint("Its status was set by hand; set it back to ready by hand.");
        };
        let acting = session::current_if_any();
        if Some(owner) != acting && session::is_joined_to(owner) {
            return Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
                format!(
                    "task {} is taken by session {} of this connection ({}), not by session {}, for which it acts",
                    self.task,
                    types::uuid_text(owner),
                    process::pid(),
                    acting.map(types::uuid_text).unwrap_or_default(),
                ),
            )
            .hint(way_back(owner));
        }
        if Some(owner) != acting {
            let error = Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
                format!(
                    "task {} is taken by {}, not by you ({})",
                    self.task,
                    holder(owner),
                    process::pid()
                ),
            );
            return pooler::hinted(error, spi, queue, &self.task, owner);
        }
        if !self.is_in_another(attempt) {
            return self.unchanged();
        }
        not_in_state(format!(
            "task {} is in attempt {}, not {}",
            self.task,
            self.attempts.unwrap_or_default(),
            attempt.map(Value::to_integer).unwrap_or_default()
        ))
        .hint("It was given back and taken again since: this attempt has ended.")
    }

    fn not_taken(&self, hint: &str) -> Error {
        if self.status == Some(Status::Taken) {
            return self.unchanged();
        }
        not_in_state(format!("task {} is not taken by anybody", self.task)).hint(hint)
    }

    fn not_in(&self, wanted: Status, hint: &str) -> Error {
        if self.status == Some(wanted) {
            return self.unchanged();
        }
        not_in_state(format!("task {} is {}, not {}", self.task, self.state(), wanted.name()))
            .hint(hint)
    }

    fn not_restartable(&self) -> Error {
        if matches!(self.status, Some(Status::Waiting | Status::Zombie | Status::Done)) {
            return self.unchanged();
        }
        not_in_state(format!("task {} is {} and cannot be restarted", self.task, self.state()))
            .hint("A waiting, zombie or done task can; dig brings a buried one back, snatch a taken one.")
    }

    fn held(&self) -> Error {
        if self.status != Some(Status::Taken) {
            return self.unchanged();
        }
        let owner = self.owner.map_or("nobody".into(), holder);
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
            format!("task {} is taken by {owner}", self.task),
        )
        .hint("xqueue.snatch() takes it away.")
    }

    fn unchanged(&self) -> Error {
        unchanged::error(&self.task)
    }

    fn state(&self) -> &'static str {
        self.status.map_or("in no state", Status::name)
    }
}
