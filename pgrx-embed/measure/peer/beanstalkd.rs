//! beanstalkd, with its log on disk, through its text protocol.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::crew::{self, Client, Server};
use super::{Load, Peer, Timed, Work, version_in};
use crate::Result;

/// Priority 0, no delay, one minute to run.
const PUT: &str = "put 0 0 60 8\r\n{\"n\": 1}\r\n";
const RESERVE: &str = "reserve-with-timeout 0\r\n";

pub struct Beanstalkd {
    folder: PathBuf,
    version: String,
    server: Option<Server>,
}

impl Beanstalkd {
    pub fn new(folder: &Path) -> Result<Beanstalkd> {
        Ok(Beanstalkd { folder: folder.into(), version: version_in(folder)?, server: None })
    }
}

impl Peer for Beanstalkd {
    fn name(&self) -> &str {
        "beanstalkd"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn does(&self, work: Work) -> bool {
        !matches!(work, Work::PutMany | Work::TakeAndAckMany)
    }

    fn fill(&mut self, tasks: u32, commit: &'static str) -> Result<()> {
        self.server = None;
        let binary = self.folder.join("usr/bin/beanstalkd");
        // Milliseconds between flushes; 50 is beanstalkd's default.
        let flush = if commit == "on" { "-f0" } else { "-f50" };
        let server = Server::start(&self.folder, |data, socket| {
            let mut command = Command::new(&binary);
            let address = format!("unix:{}", socket.display());
            command.arg("-l").arg(address).arg("-b").arg(data).arg(flush);
            command
        })?;
        let mut connection = Connection::open(&server.socket)?;
        for _ in 0..tasks {
            connection.put()?;
        }
        self.server = Some(server);
        Ok(())
    }

    fn run_timed(&mut self, work: Work, load: &Load) -> Result<Option<Timed>> {
        let server = self.server.as_ref().ok_or("it was not started")?;
        crew::work(|| Connection::open(&server.socket), work, load).map(Some)
    }
}

struct Connection {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Connection {
    fn open(socket: &Path) -> Result<Connection> {
        let stream = UnixStream::connect(socket)?;
        let answers = BufReader::new(stream.try_clone()?);
        Ok(Connection { stream, answers })
    }

    /// Sends a command. Fails if the answer does not begin with the word for success.
    fn ask(&mut self, command: &str, success: &str) -> Result<()> {
        self.stream.write_all(command.as_bytes())?;
        let answer = self.line()?;
        if answer.starts_with(success) {
            Ok(())
        } else {
            Err(format!("beanstalkd: {answer}").into())
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Client for Connection {
    fn put(&mut self) -> Result<()> {
        self.ask(PUT, "INSERTED")
    }

    fn take(&mut self) -> Result<Option<u64>> {
        self.stream.write_all(RESERVE.as_bytes())?;
        let answer = self.line()?;
        let id = match answer.split(' ').collect::<Vec<_>>()[..] {
            ["TIMED_OUT"] => return Ok(None),
            ["RESERVED", id, _] => id.parse()?,
            _ => return Err(format!("beanstalkd: {answer}").into()),
        };
        self.line()?; // the task itself
        Ok(Some(id))
    }

    fn ack(&mut self, task: u64) -> Result<()> {
        self.ask(&format!("delete {task}\r\n"), "DELETED")
    }
}
