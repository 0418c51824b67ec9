//! Memory of the server's processes over their lives.

use std::collections::HashMap;

/// The sizes of one process in kB.
struct Samples {
    kind: String,
    sizes: Vec<u64>,
}

#[derive(Default)]
pub struct Memory {
    /// By PID and start, as PIDs come again.
    processes: HashMap<(i32, String), Samples>,
}

/// A process that has grown by so much, in kB, is not flat.
const GROWN: u64 = 32 * 1024;
/// Nor is one that lives for long and has grown by so much from the second quarter of its life to the last.
const GROWS: u64 = 4 * 1024;
/// So many samples are a long life.
const LONG: usize = 1000;
/// What a process needs is allocated by then: the first samples do not count.
const WARM: usize = 5;

impl Samples {
    /// The median of each quarter of its life.
    fn quarters(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|quarter| {
            let range = self.sizes.len() * quarter / 4..self.sizes.len() * (quarter + 1) / 4;
            let mut sizes = self.sizes[range].to_vec();
            sizes.sort_unstable();
            sizes.get(sizes.len() / 2).copied().unwrap_or_default()
        })
    }

    fn first(&self) -> u64 {
        self.sizes[self.sizes.len().min(WARM) - 1]
    }

    fn last(&self) -> u64 {
        self.sizes[self.sizes.len() - 1]
    }

    fn has_grown(&self) -> bool {
        let [_, second, _, fourth] = self.quarters();
        let grows = self.sizes.len() >= LONG && fourth > second + GROWS;
        grows || self.last() > self.first() + GROWN
    }

    fn line(&self) -> String {
        let quarters = self.quarters().map(|size| size.to_string()).join(", ");
        let most = self.sizes.iter().max().copied().unwrap_or_default();
        format!(
            "{}: {} kB, by quarters {quarters}, in the end {}, at most {most}, over {} samples",
            self.kind,
            self.first(),
            self.last(),
            self.sizes.len()
        )
    }
}

impl Memory {
    pub fn sample(&mut self, pid: i32, start: &str, kind: &str) {
        let Some(size) = private_memory(pid) else { return };
        let new = || Samples { kind: kind.to_owned(), sizes: vec![] };
        self.processes.entry((pid, start.to_owned())).or_insert_with(new).sizes.push(size);
    }

    /// Of each kind the process that was seen most often, and how its memory went.
    pub fn lines(&self) -> Vec<String> {
        let mut longest: Vec<&Samples> = Vec::new();
        for samples in self.processes.values() {
            match longest.iter_mut().find(|other| other.kind == samples.kind) {
                Some(other) if other.sizes.len() < samples.sizes.len() => *other = samples,
                Some(_) => {}
                None => longest.push(samples),
            }
        }
        longest.sort_by_key(|samples| samples.kind.clone());
        longest.into_iter().map(Samples::line).collect()
    }

    pub fn grown(&self) -> Vec<String> {
        self.processes.values().filter(|s| s.has_grown()).map(Samples::line).collect()
    }
}

/// In kB; without what it shares with others. None: the process is gone.
fn private_memory(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
