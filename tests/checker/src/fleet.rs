//! The processes of the clients, and their logs.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::client::LASTING;
use crate::event::Event;
use crate::history::History;

pub struct Fleet {
    folder: PathBuf,
    random: StdRng,
    children: Vec<Child>,
    logs: Vec<Reader>,
}

/// The position up to which a log has been read.
struct Reader {
    client: u32,
    path: PathBuf,
    offset: u64,
}

impl Fleet {
    pub fn start(folder: &Path, clients: u32, seed: u64) -> Fleet {
        let random = StdRng::seed_from_u64(seed ^ 0xF1EE7);
        let mut fleet =
            Fleet { folder: folder.to_owned(), random, children: Vec::new(), logs: Vec::new() };
        // The first log is for the checker's own puts.
        fleet.new_log();
        for slot in 0..clients {
            let child = fleet.spawn(slot);
            fleet.children.push(child);
        }
        fleet
    }

    pub fn own_log(&self) -> PathBuf {
        self.logs[0].path.clone()
    }

    /// Returns the file that names the folder of the server's socket.
    pub fn address(folder: &Path) -> PathBuf {
        folder.join("address")
    }

    fn new_log(&mut self) -> (u32, PathBuf) {
        let client = u32::try_from(self.logs.len()).expect("fewer clients than that");
        let path = self.folder.join(format!("client-{client}.log"));
        self.logs.push(Reader { client, path: path.clone(), offset: 0 });
        (client, path)
    }

    fn spawn(&mut self, slot: u32) -> Child {
        let (id, log) = self.new_log();
        let program = std::env::current_exe().expect("this program has a path");
        Command::new(program)
            .arg("client")
            .args([Fleet::address(&self.folder), log])
            .args([id.to_string(), slot.to_string(), self.random.random::<u64>().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a client starts")
    }

    /// Sends SIGKILL to a client and starts another in its slot.
    pub fn kill_one(&mut self) {
        let others = self.children.len() - 1;
        let slot = (LASTING + 1 + self.random.random_range(0..others)) % self.children.len();
        let child = &mut self.children[slot];
        child.kill().expect("it can be killed");
        child.wait().expect("it is dead");
        self.children[slot] = self.spawn(slot as u32);
    }

    /// Returns the number of clients that have ended by themselves, which means that they panicked.
    pub fn dead(&mut self) -> usize {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        self.children.iter_mut().filter_map(|c| ended(c).then_some(())).count()
    }

    /// Ends all clients. Returns the number of clients that failed or did not end within a minute.
    pub fn stop(&mut self) -> usize {
        let begun = Instant::now();
        self.children.iter_mut().for_each(|child| drop(child.stdin.take()));
        let mut bad = 0;
        for mut child in std::mem::take(&mut self.children) {
            let status = loop {
                match child.try_wait() {
                    Ok(None) if begun.elapsed() < Duration::from_secs(60) => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    other => break other.ok().flatten(),
                }
            };
            if !status.is_some_and(|status| status.success()) {
                bad += 1;
                // It can be dead already.
                drop(child.kill());
                drop(child.wait());
            }
        }
        bad
    }

    /// Adds the events that the clients have logged since the last call.
    pub fn read(&mut self, history: &mut History) {
        for log in &mut self.logs {
            let Ok(mut file) = File::open(&log.path) else { continue };
            file.seek(SeekFrom::Start(log.offset)).expect("the log can be read");
            let mut reader = BufReader::new(file);
            let mut line = String::new();
            while reader.read_line(&mut line).expect("the log is text") > 0 {
                let Some(event) = Event::parse(&line) else { break };
                history.add(log.client, &event);
                log.offset += line.len() as u64;
                line.clear();
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // They can be dead already.
        self.children.iter_mut().for_each(|child| drop((child.kill(), child.wait())));
    }
}
