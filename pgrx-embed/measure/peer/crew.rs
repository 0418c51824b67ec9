//! Clients of a queue outside PostgreSQL: one thread each, until the time ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::{Load, MANY, Timed, Work};
use crate::Result;
use crate::numbers::Sample;
use crate::pgbench::Length;

const PATIENCE: Duration = Duration::from_secs(10);

/// A client's connection.
pub trait Client {
    fn put(&mut self) -> Result<()>;
    /// Returns None if no task is left.
    fn take(&mut self) -> Result<Option<u64>>;
    fn ack(&mut self, task: u64) -> Result<()>;

    fn put_many(&mut self, _count: u32) -> Result<()> {
        Err("it has no batches".into())
    }

    fn take_many(&mut self, _count: u32) -> Result<Vec<u64>> {
        Err("it has no batches".into())
    }

    fn ack_many(&mut self, _tasks: &[u64]) -> Result<()> {
        Err("it has no batches".into())
    }
}

/// Runs the work with all clients.
pub fn work<C: Client>(
    connect: impl Fn() -> Result<C> + Sync,
    work: Work,
    load: &Load,
) -> Result<Timed> {
    let mut done = 0;
    let mut longest = Duration::ZERO;
    let mut all = Sample::default();
    thread::scope(|scope| -> Result<()> {
        let clients: Vec<_> = (0..load.clients)
            .map(|_| scope.spawn(|| one(&connect, work, load).map_err(|error| error.to_string())))
            .collect();
        for client in clients {
            let (tasks, time, takes) = client.join().map_err(|_| "a client panicked")??;
            done += tasks;
            longest = longest.max(time);
            all.append(takes);
        }
        Ok(())
    })?;
    let tasks = f64::from(done);
    Ok(Timed { per_second: tasks / longest.as_secs_f64(), takes: all, tasks })
}

fn one<C: Client>(
    connect: impl Fn() -> Result<C>,
    work: Work,
    load: &Load,
) -> Result<(u32, Duration, Sample)> {
    let mut client = connect()?;
    let mut takes = Sample::default();
    let begin = Instant::now();
    let (mut calls, mut tasks) = (0, 0);
    while match load.length {
        Length::Seconds(seconds) => begin.elapsed() < Duration::from_secs(seconds.into()),
        Length::Calls(count) => calls < count,
    } {
        match step(&mut client, work, &mut takes)? {
            Some(done) => tasks += done,
            None => break,
        }
        calls += 1;
    }
    Ok((tasks, begin.elapsed(), takes))
}

/// Does the work once, and returns its number of tasks, or None if no task is left to take.
fn step(client: &mut impl Client, work: Work, takes: &mut Sample) -> Result<Option<u32>> {
    match work {
        Work::Put => client.put()?,
        Work::PutMany => {
            client.put_many(MANY)?;
            return Ok(Some(MANY));
        }
        Work::Lifecycle | Work::TakeAndAck => {
            if work == Work::Lifecycle {
                client.put()?;
            }
            let Some(task) = takes.time(|| client.take())? else { return Ok(None) };
            client.ack(task)?;
        }
        Work::TakeAndAckMany => {
            let tasks = takes.time(|| client.take_many(MANY))?;
            if tasks.is_empty() {
                return Ok(None);
            }
            client.ack_many(&tasks)?;
            return Ok(Some(tasks.len() as u32));
        }
    }
    Ok(Some(1))
}

/// A server with its own data, new each time.
pub struct Server {
    child: Child,
    pub socket: PathBuf,
}

impl Server {
    /// Starts the command for the folder and the socket, and waits until the socket accepts connections.
    pub fn start(folder: &Path, command: impl Fn(&Path, &Path) -> Command) -> Result<Server> {
        let data = folder.join("data");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        fs::create_dir(&data)?;
        let socket = data.join("socket");
        let log = File::create(data.join("log"))?;
        let child = command(&data, &socket)
            .current_dir(&data)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut server = Server { child, socket };
        let begin = Instant::now();
        while std::os::unix::net::UnixStream::connect(&server.socket).is_err() {
            if server.child.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
                return Err(format!("the server in {} does not start", data.display()).into());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It can have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
