//! Drives the connections and the model in parallel and compares them.

use std::time::{Duration, Instant};

use postgres::SimpleQueryMessage;
use rand::Rng;
use rand::rngs::StdRng;
use xqueue_tests::*;

use super::chance::{Chooser, Step};
use super::model::{Key, LOCKED, Model, Task};
use super::operation::Operation;
use super::shape::Shape;

/// The time that a statement waits for a row that another session has changed.
const PATIENCE: &str = "SET lock_timeout = '40ms'";
/// The time that the worker has for its work.
const DEADLINE: Duration = Duration::from_secs(15);
/// Number of statements shown after a failure.
const SHOWN: usize = 40;

struct Connection {
    client: Client,
    session: usize,
}

pub struct Machine {
    random: StdRng,
    shape: Shape,
    q: Queue,
    model: Model,
    connections: Vec<Connection>,
    /// The name of each session in the column owner.
    sessions: Vec<String>,
    next_key: Key,
    /// By connection: whether its transaction has made a change that nothing reports.
    unreported: Vec<bool>,
    log: Vec<String>,
}

impl Machine {
    pub fn start(mut random: StdRng, connections: usize) -> Machine {
        let shape = Shape::random(&mut random);
        println!("{connections} connections, {shape:?}");
        let mut machine = Machine {
            random,
            q: shape.make("machine"),
            model: Model::new(shape.features.clone(), connections),
            shape,
            connections: vec![],
            sessions: vec![],
            next_key: 0,
            unreported: vec![false; connections],
            log: vec![],
        };
        for _ in 0..connections {
            let connection = machine.connect();
            machine.connections.push(connection);
        }
        machine
    }

    fn connect(&mut self) -> Connection {
        let mut client = self.q.client();
        let session = greet(&mut client, &mut self.sessions);
        Connection { client, session }
    }

    pub fn step(&mut self) {
        let at = self.random.random_range(0..self.connections.len());
        let step = Step::random(&mut self.random, &self.model, at);
        match step {
            Step::Operation => self.operation(at),
            Step::Leave | Step::Terminate => self.leave(at, step == Step::Terminate),
            Step::Discard => self.discard(at),
            _ => self.transaction(at, step),
        }
        self.compare();
        if self.model.in_transaction(at) {
            self.compare_view(at);
        } else {
            self.unreported[at] = false;
        }
    }

    fn note(&mut self, at: usize, sql: &str) {
        self.log.push(format!("{at}: {sql}"));
    }

    fn run(&mut self, at: usize, sql: &str) {
        self.note(at, sql);
        if let Err(e) = self.connections[at].client.batch_execute(sql) {
            self.fail(&format!("{sql} failed: {e:?}"));
        }
    }

    fn transaction(&mut self, at: usize, step: Step) {
        let savepoint = self.model.savepoints(at);
        let (sql, follow): (String, fn(&mut Model, usize)) = match step {
            Step::Begin => ("BEGIN".into(), Model::begin),
            Step::Commit => ("COMMIT".into(), Model::commit),
            Step::RollBack => ("ROLLBACK".into(), Model::roll_back),
            Step::Savepoint => (format!("SAVEPOINT s{}", savepoint + 1), Model::begin),
            Step::RollBackTo => (format!("ROLLBACK TO s{savepoint}"), Model::roll_back_to),
            _ => (format!("RELEASE s{savepoint}"), Model::keep_layer),
        };
        self.run(at, &sql);
        follow(&mut self.model, at);
    }

    /// Chooses an operation. A take that skips a row with an unreported change can get it late, so there is no take
    /// while another session has made such a change.
    fn choose(&mut self, at: usize) -> Operation {
        let mut all = self.unreported.iter().enumerate();
        let is_without_takes = all.any(|(other, is_unreported)| other != at && *is_unreported);
        loop {
            let operation = Chooser {
                random: &mut self.random,
                model: &self.model,
                connection: at,
                me: self.connections[at].session,
                next_key: &mut self.next_key,
            }
            .operation();
            if !(is_without_takes && matches!(operation, Operation::Take(..))) {
                return operation;
            }
        }
    }

    fn operation(&mut self, at: usize) {
        let me = self.connections[at].session;
        let operation = self.choose(at);
        let rows = self.random.random_bool(0.3);
        let sql = self.shape.sql(&self.q.name, &operation, rows);
        self.note(at, &sql);
        let expected = self.model.perform(at, me, &operation);
        let found = self.ask(at, &sql, &operation);
        let same = match (&expected, &found) {
            (Ok(keys), Ok(found)) => same_tasks(&operation, keys, found),
            // A batch can meet a locked task before the task that the model finds first.
            (Err(state), Err((found, _))) => {
                *state == found || found == LOCKED && operation.names_several()
            }
            _ => false,
        };
        if !same {
            self.fail(&format!("expected {expected:?}, got {found:?}"));
        }
        self.unreported[at] |= expected.is_ok() && operation.is_unreported();
        if expected.is_err() && self.model.in_transaction(at) {
            let has_savepoint = self.model.savepoints(at) > 0;
            self.transaction(at, if has_savepoint { Step::RollBackTo } else { Step::RollBack });
        }
    }

    /// Returns the keys of the tasks that a statement returns, or the SQLSTATE and text of its error.
    fn ask(
        &mut self,
        at: usize,
        sql: &str,
        operation: &Operation,
    ) -> Result<Vec<Key>, (String, String)> {
        let messages = self.connections[at].client.simple_query(sql).map_err(|e| {
            let error = db_error(&e);
            (error.code().code().to_owned(), error.message().to_owned())
        })?;
        let values = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let key = |value: &str| match operation {
            Operation::Kick(_) | Operation::ReleaseAll | Operation::GiveBack => {
                value.parse().expect("a number")
            }
            _ => self.shape.key_in(&value.parse().expect("a task as jsonb")),
        };
        Ok(values.filter(|value| !value.is_empty()).map(key).collect())
    }

    fn leave(&mut self, at: usize, terminated: bool) {
        let session = self.connections[at].session;
        self.note(at, if terminated { "-- is terminated" } else { "-- disconnects" });
        if terminated {
            let pid = pid_of(&self.sessions[session]);
            let sent: bool = scalar(&mut self.q.admin, "SELECT pg_terminate_backend($1)", &[&pid]);
            assert!(sent, "backend {pid} gets the signal");
        }
        let connection = self.connect();
        self.connections[at] = connection;
        self.model.roll_back(at);
        self.model.end_session(session);
    }

    fn discard(&mut self, at: usize) {
        let session = self.connections[at].session;
        self.run(at, "DISCARD ALL");
        let connection = &mut self.connections[at];
        connection.session = greet(&mut connection.client, &mut self.sessions);
        self.model.end_session(session);
    }

    /// Compares the table, the counters and the owners as all sessions see them.
    fn compare(&mut self) {
        let expected = self.expected();
        let sql = self.shape.table(&self.q.name);
        let start = Instant::now();
        loop {
            let found = self.found(&sql);
            if found == expected {
                return;
            }
            if start.elapsed() > DEADLINE {
                self.fail(&difference(&expected, &found));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    fn expected(&self) -> Vec<String> {
        let Model { tasks, counters, .. } = &self.model;
        let counts = |is_meant: fn(&Task) -> bool| -> Value {
            let count =
                |letter: char| tasks.values().filter(|t| t.status == letter && is_meant(t)).count();
            STATES.into_iter().map(|(state, letter)| (state, count(letter))).collect()
        };
        let stats = json!({
            "calls": counters, "transitions": {}, "tasks": counts(|_| true),
            "tubes": {"a": {"tasks": counts(|task| task.tube == Some("a"))}},
            "exact": true,
        });
        self.report(self.lines(tasks.iter()), &stats)
    }

    fn found(&mut self, sql: &str) -> Vec<String> {
        let table: String = scalar(&mut self.q.admin, sql, &[]);
        let stats = self.q.stats();
        self.report(table.lines().map(str::to_owned).collect(), &stats)
    }

    /// Adds the statistics to the lines of the table.
    fn report(&self, mut lines: Vec<String>, stats: &Value) -> Vec<String> {
        for part in ["calls", "transitions"] {
            let counts = stats[part].as_object().expect("an object of counters");
            let counts = counts.iter().filter(|(_, count)| **count != json!(0));
            lines.extend(counts.map(|(name, count)| format!("{name}: {count}")));
        }
        for (state, _) in STATES {
            lines.push(format!("{state}: {} tasks", stats["tasks"][state]));
            if self.model.features.tube {
                let count = &stats["tubes"]["a"]["tasks"][state];
                lines.push(format!("{state}: {count} tasks in tube a"));
            }
        }
        lines.push(format!("exact: {}", stats["exact"]));
        lines.sort();
        lines
    }

    /// Compares the table as a session sees it in the middle of its transaction.
    fn compare_view(&mut self, at: usize) {
        let expected = self.lines(self.model.view(at).iter());
        let sql = self.shape.table(&self.q.name);
        let found: String = scalar(&mut self.connections[at].client, &sql, &[]);
        let found: Vec<String> = found.lines().map(str::to_owned).collect();
        if found != expected {
            self.fail(&format!("in the transaction of {at}: {}", difference(&expected, &found)));
        }
    }

    fn lines<'a>(&self, tasks: impl Iterator<Item = (&'a Key, &'a Task)>) -> Vec<String> {
        tasks.map(|(key, task)| Shape::line(*key, task, &self.sessions)).collect()
    }

    /// Ends all transactions and verifies the queue.
    pub fn finish(mut self) {
        for at in 0..self.connections.len() {
            if self.model.in_transaction(at) {
                self.transaction(at, Step::Commit);
            }
        }
        self.compare();
        println!("{:?}", self.model.counters);
        drop(self.q);
        if let Some(name) = self.shape.enumeration {
            connect().batch_execute(&format!("DROP TYPE {name}")).expect("nobody uses it");
        }
    }

    fn fail(&mut self, what: &str) -> ! {
        let first = self.log.len().saturating_sub(SHOWN);
        panic!("{}\nstep {}: {what}", self.log[first..].join("\n"), self.log.len());
    }
}

/// Starts a new session and returns its number.
fn greet(client: &mut Client, sessions: &mut Vec<String>) -> usize {
    client.run(PATIENCE);
    sessions.push(scalar(client, "SELECT xqueue.identify()::text", &[]));
    sessions.len() - 1
}

const STATES: [(&str, char); 6] = [
    ("ready", 'R'),
    ("taken", 'T'),
    ("waiting", 'W'),
    ("buried", 'B'),
    ("zombie", 'Z'),
    ("done", 'D'),
];

/// Compares tasks; a take returns its tasks in the order in which it takes them.
fn same_tasks(operation: &Operation, expected: &[Key], found: &[Key]) -> bool {
    match operation {
        Operation::Take(..) | Operation::TakeNamed(..) => expected == found,
        Operation::Kick(_) | Operation::ReleaseAll | Operation::GiveBack => {
            found == [expected.len() as i64]
        }
        _ => {
            let mut found = found.to_vec();
            let mut expected = expected.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            found == expected
        }
    }
}

fn difference(expected: &[String], found: &[String]) -> String {
    let only = |these: &[String], those: &[String]| {
        let only: Vec<&str> =
            these.iter().filter(|line| !those.contains(line)).map(String::as_str).collect();
        only.join("\n  ")
    };
    format!("the model says\n  {}\nthere is\n  {}", only(expected, found), only(found, expected))
}

/// Returns the PID that is part of a session's name.
fn pid_of(session: &str) -> i32 {
    i32::from_str_radix(&session[..8], 16).expect("eight hexadecimal digits")
}
