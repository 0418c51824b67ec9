//! Drives the connections and the model in parallel and compares them.

use std::time::{Duration, Instant};

use postgres::SimpleQueryMessage;
use rand::Rng;
use rand::rngs::StdRng;
use xqueue_tests::*;

use super::chance::{Chooser, Step};
use super::features::Features;
use super::late::Late;
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
    late: Late,
    log: Vec<String>,
}

impl Machine {
    pub fn start(mut random: StdRng, connections: usize) -> Machine {
        let features = Features::random(&mut random);
        let shape = Shape::random(&mut random, &features);
        println!("{connections} connections, {features:?}, {shape:?}");
        let mut machine = Machine {
            random,
            q: shape.make("machine"),
            shape,
            model: Model::new(features, connections),
            connections: vec![],
            sessions: vec![],
            next_key: 0,
            late: Late::new(connections),
            log: vec![],
        };
        for _ in 0..connections {
            let connection = machine.connect();
            machine.connections.push(connection);
        }
        machine
    }

    fn connect(&mut self) -> Connection {
        let mut connection = Connection { client: self.q.client(), session: 0 };
        self.greet(&mut connection);
        connection
    }

    /// Starts a new session.
    fn greet(&mut self, connection: &mut Connection) {
        connection.client.batch_execute(PATIENCE).expect("the setting is known");
        connection.session = self.sessions.len();
        self.sessions.push(scalar(&mut connection.client, "SELECT xqueue.identify()::text", &[]));
    }

    pub fn step(&mut self) {
        let at = self.random.random_range(0..self.connections.len());
        let step = Step::random(&mut self.random, &self.model, at);
        match step {
            Step::Operation => self.operation(at),
            Step::Leave { terminated } => self.leave(at, terminated),
            Step::Discard => self.discard(at),
            _ => self.transaction(at, step),
        }
        self.compare();
        if self.model.in_transaction(at) {
            self.compare_view(at);
        } else {
            self.late.end(at, true);
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
        match step {
            Step::Begin => {
                self.run(at, "BEGIN");
                self.model.begin(at);
            }
            Step::Commit => {
                self.run(at, "COMMIT");
                self.model.commit(at);
            }
            Step::RollBack => {
                self.run(at, "ROLLBACK");
                self.model.roll_back(at);
            }
            Step::Savepoint => {
                self.run(at, &format!("SAVEPOINT s{}", savepoint + 1));
                self.model.begin(at);
            }
            Step::RollBackTo => {
                self.run(at, &format!("ROLLBACK TO s{savepoint}"));
                self.model.roll_back_to(at);
                self.late.end(at, false);
            }
            _ => {
                self.run(at, &format!("RELEASE s{savepoint}"));
                self.model.keep_layer(at);
            }
        }
    }

    fn operation(&mut self, at: usize) {
        let me = self.connections[at].session;
        let operation = Chooser {
            random: &mut self.random,
            model: &self.model,
            connection: at,
            me,
            next_key: &mut self.next_key,
        }
        .operation();
        let rows = self.random.random_bool(0.3);
        let sql = self.shape.sql(&self.q.name, &operation, rows);
        self.note(at, &sql);
        let locks = matches!(operation, Operation::Truncate | Operation::Upgrade { .. });
        let expected = self.model.perform(at, me, &operation);
        if locks {
            // The worker can hold a lock on the table for a moment.
            self.connections[at].client.batch_execute("SET lock_timeout = 0").expect("a setting");
        }
        self.late.begin(at, &operation);
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
        if expected.is_ok() {
            self.late.done(at, &operation);
        }
        self.shape.becomes(&self.model.features);
        if expected.is_err() && self.model.in_transaction(at) {
            self.recover(at);
        } else if locks && self.model.in_transaction(at) {
            // The lock would block all other sessions.
            let end = if self.random.random_bool(0.5) { Step::Commit } else { Step::RollBack };
            self.transaction(at, end);
            self.shape.becomes(&self.model.features);
        }
        if locks {
            self.connections[at].client.batch_execute(PATIENCE).expect("a setting");
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
        if matches!(operation, Operation::Truncate) {
            return Ok(vec![]);
        }
        let values = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let key = |value: &str| match operation {
            Operation::Kick { .. } | Operation::ReleaseAll | Operation::GiveBack => {
                value.parse().expect("a number")
            }
            _ => self.shape.key_in(&value.parse().expect("a task as jsonb")),
        };
        Ok(values.filter(|value| !value.is_empty()).map(key).collect())
    }

    /// Rolls back after an error, to the last savepoint or completely.
    fn recover(&mut self, at: usize) {
        let has_savepoint = self.model.savepoints(at) > 0;
        self.transaction(at, if has_savepoint { Step::RollBackTo } else { Step::RollBack });
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
        let mut connection = self.connections.remove(at);
        self.greet(&mut connection);
        self.connections.insert(at, connection);
        self.model.end_session(session);
    }

    /// Compares the table, the counters and the owners as all sessions see them.
    fn compare(&mut self) {
        let expected = self.expected();
        let sql = self.shape.table(&self.q.name);
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let found = self.found(&sql);
            if found == expected {
                return;
            }
            if start.elapsed() > DEADLINE {
                self.fail(&difference(&expected, &found));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn expected(&self) -> Vec<String> {
        let mut lines = self.lines(self.model.tasks.iter());
        let counters = &self.model.counters;
        let calls = counters.calls.iter().filter(|(_, count)| **count != 0);
        lines.extend(calls.map(|(call, count)| format!("{call}: {count}")));
        lines.extend(counters.transitions.iter().map(|(ends, count)| format!("{ends}: {count}")));
        for (state, letter) in STATES {
            let count = self.model.tasks.values().filter(|task| task.status == letter).count();
            lines.push(format!("{state}: {count} tasks"));
            if self.model.features.tube {
                let in_tube = self.model.tasks.values().filter(|task| task.tube == Some("a"));
                let count = in_tube.filter(|task| task.status == letter).count();
                lines.push(format!("{state}: {count} tasks in tube a"));
            }
        }
        if self.model.features.capacity.is_some() {
            lines.push(format!("room for {} tasks is reserved", self.model.reserved()));
        }
        lines.sort();
        lines
    }

    fn found(&mut self, sql: &str) -> Vec<String> {
        let table: String = scalar(&mut self.q.admin, sql, &[]);
        let stats = self.q.stats();
        let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
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
        if self.model.features.capacity.is_some() {
            lines.push(format!("room for {} tasks is reserved", stats["reserved"]));
        }
        if stats["exact"] != json!(true) {
            lines.push("not exact".into());
        }
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
        tasks.map(|(key, task)| self.shape.line(*key, task, &self.sessions)).collect()
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
        Operation::Take { .. } | Operation::TakeNamed { .. } => expected == found,
        Operation::Kick { .. } | Operation::ReleaseAll | Operation::GiveBack => {
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
