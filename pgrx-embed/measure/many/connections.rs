//! Connections that wait for tasks, all served by one thread, and ways to kill them.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use postgres::Client;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task;
use tokio_postgres::{Config, NoTls};

use crate::Result;
use crate::database::{self, Address};

const TAKE: &str = "SELECT (task->>'id')::bigint FROM xqueue.take('woken', '1 h') task";
/// The commit of the ack also records the task.
const ACK: &str = "
    INSERT INTO acked SELECT $1 FROM xqueue.ack('woken', $1::bigint)";

/// A task that a connection has just taken.
pub struct Taken {
    pub task: i64,
    pub at: Instant,
}

pub struct Connections {
    pub taken: Receiver<Taken>,
    waiting: Vec<Connection>,
    /// The thread of all connections, which ends when the sender is dropped.
    runtime: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Connection {
    backend: i32,
    socket: task::JoinHandle<()>,
    loops: task::JoinHandle<()>,
}

impl Connections {
    pub fn open(database: &str, count: usize) -> Result<Connections> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            // Runs until the sender is dropped.
            drop(runtime.block_on(stopped));
        });
        let (sender, taken) = mpsc::channel();
        let mut connections =
            Connections { taken, waiting: Vec::new(), runtime: Some((stop, thread)) };
        let Address { host, port, user } = database::address()?;
        let mut config = Config::new();
        config.host(&host).port(port).user(&user).dbname(database);
        // Flushes are not part of the measurement.
        config.options("-c synchronous_commit=off");
        for _ in 0..count {
            connections.waiting.push(Connection::open(&handle, &config, sender.clone())?);
        }
        Ok(connections)
    }

    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Ends half of the connections: some close their sockets silently, and the backends of the others are terminated.
    pub fn kill_half(&mut self, db: &mut Client) -> Result<()> {
        let half = self.waiting.split_off(self.waiting.len() / 2);
        for (place, connection) in half.into_iter().enumerate() {
            if place % 2 == 0 {
                connection.loops.abort();
                connection.socket.abort();
            } else {
                db.execute("SELECT pg_terminate_backend($1)", &[&connection.backend])?;
            }
        }
        Ok(())
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.runtime.take() {
            drop(stop);
            // A panic there has been reported already.
            drop(thread.join());
        }
    }
}

impl Connection {
    fn open(handle: &Handle, config: &Config, taken: Sender<Taken>) -> Result<Connection> {
        let config = config.clone();
        let opened = handle.block_on(async move {
            let (client, connection) = config.connect(NoTls).await?;
            let socket = task::spawn(async move {
                // A killed connection ends with an error.
                drop(connection.await);
            });
            let pid = client.query_one("SELECT pg_backend_pid()", &[]).await?;
            let (take, ack) = (client.prepare(TAKE).await?, client.prepare(ACK).await?);
            let loops = task::spawn(async move {
                while let Ok(found) = client.query_opt(&take, &[]).await {
                    let at = Instant::now();
                    let Some(task) = found.map(|row| row.get(0)) else { continue };
                    let acked = client.execute(&ack, &[&task]).await;
                    if acked.is_err() || taken.send(Taken { task, at }).is_err() {
                        break;
                    }
                }
            });
            Ok::<_, tokio_postgres::Error>(Connection { backend: pid.get(0), socket, loops })
        });
        Ok(opened?)
    }
}
