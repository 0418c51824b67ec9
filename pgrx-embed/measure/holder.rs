//! A process that works for a while, takes a task and then idles until it is killed.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::{Result, database};

const TAKE_MANY: &str = "SELECT id FROM xqueue.take(NULL::measure.held, count => 100)";
const ACK_MANY: &str = "SELECT count(*) FROM xqueue.ack(NULL::measure.held, $1::bigint[])";
const TAKE: &str = "SELECT pg_backend_pid(), id FROM xqueue.take(NULL::measure.held)";

/// Runs in the process: takes and acks `before` tasks, takes another one, prints its backend and task in one line, and
/// waits for the end of its input.
pub fn hold(before: u32) -> Result<()> {
    let mut db = database::connect("xqueue measure holder")?;
    let mut acked = 0;
    while acked < before {
        let rows = db.query(TAKE_MANY, &[])?;
        if rows.is_empty() {
            return Err(format!("there were {acked} tasks, not {before}").into());
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        db.execute(ACK_MANY, &[&ids])?;
        acked += ids.len() as u32;
    }
    let row = db.query_one(TAKE, &[])?;
    println!("{} {}", row.get::<_, i32>(0), row.get::<_, i64>(1));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The process from its parent's side.
pub struct Holder {
    child: Child,
    pub backend: i32,
    pub task: i64,
}

impl Holder {
    pub fn start(before: u32) -> Result<Holder> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["holder", &before.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let mut holder = Holder { child, backend: 0, task: 0 };
        let (backend, task) =
            line.trim().split_once(' ').ok_or("a holder ended before it held a task")?;
        (holder.backend, holder.task) = (backend.parse()?, task.parse()?);
        Ok(holder)
    }

    /// Sends SIGKILL: the process can tell neither us nor the server.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It can be dead already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
