//! Programs that act on servers. They run as the owner of the servers, which is never root.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the path in a variable that `pgrx-embed/test` sets.
pub fn path(variable: &str) -> PathBuf {
    PathBuf::from(std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set")))
}

/// Returns a program that runs as the servers' user.
pub fn server_command(program: impl AsRef<OsStr>) -> ServerCommand {
    let prefix = std::env::var("XQUEUE_AS").unwrap_or_default();
    let mut words = prefix.split_whitespace();
    let command = match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    };
    ServerCommand(command)
}

pub struct ServerCommand(Command);

impl ServerCommand {
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> ServerCommand {
        self.0.args(args);
        self
    }

    /// Sets variables of its environment.
    pub fn environment(mut self, variables: &[(&str, &str)]) -> ServerCommand {
        self.0.envs(variables.iter().copied());
        self
    }

    #[track_caller]
    pub fn succeed(mut self) {
        let status = self.0.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).status();
        let status = status.unwrap_or_else(|e| panic!("{:?}: {e}", self.0));
        assert!(status.success(), "{:?}: {status}", self.0);
    }

    /// Runs a program whose failure does not matter, without output.
    pub fn attempt(self) {
        self.works();
    }

    /// Runs the program and returns whether it succeeds.
    pub fn works(mut self) -> bool {
        let command = self.0.current_dir("/").stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// Runs the program and returns its output.
    #[track_caller]
    pub fn output(mut self) -> String {
        let output = self.0.current_dir("/").stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|e| panic!("{:?}: {e}", self.0));
        assert!(output.status.success(), "{:?}: {}", self.0, output.status);
        String::from_utf8(output.stdout).expect("it speaks UTF-8").trim().to_owned()
    }
}
