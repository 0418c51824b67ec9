//! The article's queue on Tarantool, through its binary protocol.

use std::io::{Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rmpv::Value;

use super::crew::{self, Client, Server};
use super::{Load, MANY, Peer, Timed, Work, version_in};
use crate::Result;

const QUEUE: &str = include_str!("../../peers/tarantool.lua");
const GREETING: usize = 128;
/// Keys and codes of the protocol.
const REQUEST_TYPE: u64 = 0x00;
const CALL: u64 = 0x0a;
const TUPLE: u64 = 0x21;
const FUNCTION_NAME: u64 = 0x22;
const DATA: u64 = 0x30;
const ERROR: u64 = 0x31;

pub struct Tarantool {
    folder: PathBuf,
    version: String,
    server: Option<Server>,
}

impl Tarantool {
    pub fn new(folder: &Path) -> Result<Tarantool> {
        Ok(Tarantool { folder: folder.into(), version: version_in(folder)?, server: None })
    }
}

impl Peer for Tarantool {
    fn name(&self) -> &str {
        "tarantool"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn does(&self, _work: Work) -> bool {
        true
    }

    fn fill(&mut self, tasks: u32, commit: &'static str) -> Result<()> {
        self.server = None;
        let binary = self.folder.join("usr/bin/tarantool");
        let script = self.folder.join("queue.lua");
        std::fs::write(&script, QUEUE)?;
        let wal_mode = if commit == "on" { "fsync" } else { "write" };
        let server = Server::start(&self.folder, |_, socket| {
            let mut command = Command::new(&binary);
            command.arg(&script).arg(socket).arg(wal_mode);
            command
        })?;
        let mut connection = Connection::open(&server.socket)?;
        for _ in 0..tasks.div_ceil(MANY) {
            connection.put_many(MANY)?;
        }
        self.server = Some(server);
        Ok(())
    }

    fn run_timed(&mut self, work: Work, load: &Load) -> Result<Option<Timed>> {
        let server = self.server.as_ref().ok_or("it was not started")?;
        crew::work(|| Connection::open(&server.socket), work, load).map(Some)
    }
}

struct Connection(UnixStream);

impl Connection {
    fn open(socket: &Path) -> Result<Connection> {
        let mut stream = UnixStream::connect(socket)?;
        stream.read_exact(&mut [0; GREETING])?;
        Ok(Connection(stream))
    }

    /// Calls a function and returns its single result.
    fn call(&mut self, function: &str, arguments: Vec<Value>) -> Result<Value> {
        let mut request = Vec::new();
        let header = Value::Map(vec![(REQUEST_TYPE.into(), CALL.into())]);
        let body = Value::Map(vec![
            (FUNCTION_NAME.into(), function.into()),
            (TUPLE.into(), Value::Array(arguments)),
        ]);
        rmpv::encode::write_value(&mut request, &header)?;
        rmpv::encode::write_value(&mut request, &body)?;
        let mut packet = Vec::with_capacity(request.len() + 5);
        rmpv::encode::write_value(&mut packet, &(request.len() as u64).into())?;
        packet.extend(request);
        self.0.write_all(&packet)?;

        let mut length = [0; 5];
        self.0.read_exact(&mut length)?;
        let [_, length @ ..] = length;
        let mut response = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut response)?;
        let mut response = Cursor::new(response);
        rmpv::decode::read_value(&mut response)?; // the header; what went wrong is in the body as well
        let body = rmpv::decode::read_value(&mut response)?;
        if let Some(error) = member(&body, ERROR) {
            return Err(format!("tarantool: {error}").into());
        }
        let value = member(&body, DATA).and_then(Value::as_array).and_then(|values| values.first());
        Ok(value.cloned().unwrap_or(Value::Nil))
    }
}

fn member(map: &Value, key: u64) -> Option<&Value> {
    let (_, value) = map.as_map()?.iter().find(|(name, _)| name.as_u64() == Some(key))?;
    Some(value)
}

fn payload() -> Value {
    Value::Map(vec![("n".into(), 1.into())])
}

impl Client for Connection {
    fn put(&mut self) -> Result<()> {
        self.call("put", vec![payload()]).map(drop)
    }

    fn take(&mut self) -> Result<Option<u64>> {
        let task = self.call("take", vec![0.into()])?;
        Ok(task.as_u64().filter(|task| *task > 0))
    }

    fn ack(&mut self, task: u64) -> Result<()> {
        self.call("ack", vec![task.into()]).map(drop)
    }

    fn put_many(&mut self, count: u32) -> Result<()> {
        self.call("put_many", vec![count.into(), payload()]).map(drop)
    }

    fn take_many(&mut self, count: u32) -> Result<Vec<u64>> {
        let tasks = self.call("take_many", vec![count.into()])?;
        let tasks = tasks.as_array().ok_or("tarantool: no tasks")?;
        Ok(tasks.iter().filter_map(Value::as_u64).collect())
    }

    fn ack_many(&mut self, tasks: &[u64]) -> Result<()> {
        let tasks = tasks.iter().map(|task| Value::from(*task)).collect();
        self.call("ack_many", vec![Value::Array(tasks)]).map(drop)
    }
}
