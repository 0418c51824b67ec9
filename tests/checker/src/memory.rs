//! Memory of the server's processes over their lifetimes.

use std::collections::{BTreeMap, HashMap};

/// The sizes of one process in kB.
struct Samples {
    kind: String,
    sizes: Vec<u64>,
}

#[derive(Default)]
pub struct Memory {
    /// Keyed by PID and start time, because PIDs are reused.
    processes: HashMap<(i32, String), Samples>,
}

/// A process that grows by more than this (kB) is leaking.
const GROWN: u64 = 32 * 1024;
/// A long-lived process also leaks if it grows by more than this (kB) from the second quarter of its life to the last.
const GROWS: u64 = 4 * 1024;
/// Number of samples from which a life counts as long.
const LONG: usize = 1000;
/// Number of first samples to ignore, during which a process allocates its working memory.
const WARM: usize = 5;

impl Samples {
    /// Returns the median of each quarter of its life.
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

    /// Returns the memory of the longest-observed process of each kind.
    pub fn lines(&self) -> Vec<String> {
        let mut longest: BTreeMap<&str, &Samples> = BTreeMap::new();
        for samples in self.processes.values() {
            let known = longest.entry(&samples.kind).or_insert(samples);
            if known.sizes.len() < samples.sizes.len() {
                *known = samples;
            }
        }
        longest.into_values().map(Samples::line).collect()
    }

    pub fn grown(&self) -> Vec<String> {
        self.processes.values().filter(|s| s.has_grown()).map(Samples::line).collect()
    }
}

/// Returns the memory in kB that a process does not share; None if the process has ended.
fn private_memory(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
