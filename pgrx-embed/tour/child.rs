//! A consumer from its parent's side.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::Result;

pub struct Consumer {
    /// The uuid of its session in the database.
    pub session: String,
    number: usize,
    child: Child,
}

impl Consumer {
    pub fn start(number: usize) -> Result<Consumer> {
        let child = Command::new(std::env::current_exe()?)
            .args(["consumer", &number.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut consumer = Consumer { session: String::new(), number, child };
        if let Some(output) = consumer.child.stdout.take() {
            BufReader::new(output).read_line(&mut consumer.session)?;
        }
        consumer.session.truncate(consumer.session.trim_end().len());
        if consumer.session.is_empty() {
            return Err(format!("consumer {number} ended before it began").into());
        }
        Ok(consumer)
    }

    /// Sends SIGKILL: the consumer can tell neither us nor the server.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Fails if the consumer has ended without being killed.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                Err(format!("consumer {} ended by itself: {status}", self.number).into())
            }
        }
    }

    /// Makes the consumer end by itself.
    pub fn leave(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("consumer {} failed: {status}", self.number).into())
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // It can be dead already.
        drop(self.kill());
    }
}
