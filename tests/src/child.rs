//! A consumer in a process of its own, for effects that only the death of a process has.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

pub struct Consumer {
    pub backend: i32,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Consumer {
    /// Starts a consumer. `exe` is `env!("CARGO_BIN_EXE_consumer")`; src/bin/consumer.rs describes the modes.
    pub fn start(exe: &str, mode: &str, db: &str, queue: &str) -> Consumer {
        Consumer::run(exe, &[mode, db, queue])
    }

    /// Starts a program with any arguments. It must print the PID of its backend first.
    pub fn run(exe: &str, args: &[&str]) -> Consumer {
        Consumer::spawn(Command::new(exe).args(args))
    }

    /// Starts a consumer that holds its task, on a server or pooler whose socket is in this folder.
    pub fn start_at(folder: &str, port: u16, exe: &str, db: &str, queue: &str) -> Consumer {
        let mut command = Command::new(exe);
        command.env("PGHOST", folder).env("PGPORT", port.to_string());
        Consumer::spawn(command.args(["hold", db, queue]))
    }

    fn spawn(command: &mut Command) -> Consumer {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Its last messages when it is killed would hide the test's own.
            .stderr(Stdio::null())
            .spawn()
            .expect("the consumer starts");
        let stdout = child.stdout.take().expect("its output is a pipe");
        let mut consumer = Consumer { backend: 0, child, lines: BufReader::new(stdout).lines() };
        consumer.backend = i32::try_from(consumer.number("pid")).expect("a PID");
        consumer
    }

    /// Waits until the consumer holds a task; returns the id.
    pub fn task(&mut self) -> i64 {
        self.number("took")
    }

    /// Waits until the process prints this word with a number; returns the number.
    pub fn number(&mut self, word: &str) -> i64 {
        let line = self.lines.next().expect("the consumer said something").expect("in UTF-8");
        let number = line.strip_prefix(word).unwrap_or_else(|| panic!("{line}, not {word}"));
        number.trim().parse().expect("a number")
    }

    /// Sends SIGKILL: the process cannot say goodbye to the server.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is dead");
    }

    /// Lets the process end by itself and close its connection in order.
    pub fn leave(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // Already dead is fine, and a panic here would hide the test's own.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
