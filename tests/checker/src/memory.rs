//! Memory of the server's processes over their lives.

use std::collections::HashMap;

/// Samples of one process.
struct Samples {
    kind: String,
    first: u64,
    last: u64,
    greatest: u64,
    count: u32,
}

#[derive(Default)]
pub struct Memory {
    /// By PID and start, as PIDs come again.
    processes: HashMap<(i32, String), Samples>,
}

/// A process that has grown by so much, in kB, is not flat.
const FLAT: u64 = 32 * 1024;
/// What a process needs is allocated by then: the first samples do not count.
const WARM: u32 = 5;

impl Memory {
    pub fn sample(&mut self, pid: i32, start: &str, kind: &str) {
        let Some(size) = private_memory(pid) else { return };
        let samples = self.processes.entry((pid, start.to_owned())).or_insert_with(|| Samples {
            kind: kind.to_owned(),
            first: size,
            last: size,
            greatest: size,
            count: 0,
        });
        samples.count += 1;
        samples.last = size;
        samples.greatest = samples.greatest.max(size);
        if samples.count <= WARM {
            samples.first = size;
        }
    }

    /// Of each kind the process that was seen most often, and how its memory went.
    pub fn lines(&self) -> Vec<String> {
        let mut longest: Vec<&Samples> = Vec::new();
        for samples in self.processes.values() {
            match longest.iter_mut().find(|other| other.kind == samples.kind) {
                Some(other) if other.count < samples.count => *other = samples,
                Some(_) => {}
                None => longest.push(samples),
            }
        }
        longest.sort_by_key(|samples| samples.kind.clone());
        let line = |s: &&Samples| {
            format!(
                "{}: {} kB, in the end {} kB, at most {} kB, over {} samples",
                s.kind, s.first, s.last, s.greatest, s.count
            )
        };
        longest.iter().map(line).collect()
    }

    pub fn grown(&self) -> Vec<String> {
        let has_grown = |s: &&Samples| s.last > s.first + FLAT;
        let line = |s: &Samples| format!("{}: {} kB to {} kB", s.kind, s.first, s.last);
        self.processes.values().filter(has_grown).map(line).collect()
    }
}

/// In kB; without what it shares with others. None: the process is gone.
fn private_memory(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
