//! The input: this machine's documentation, and as many of its other text files as requested.

use std::collections::HashSet;
use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use indicatif::HumanCount;
use walkdir::{DirEntry, WalkDir};

use crate::Result;

const DOCUMENTATION: &str = "/usr/share/doc";
const OTHERS: [&str; 4] = ["/usr/share", "/usr/lib", "/usr/include", "/usr/local"];

/// A file as it was when the tour began.
#[derive(Clone, PartialEq)]
pub struct Input {
    pub path: String,
    pub size: i64,
    pub modified: SystemTime,
}

impl Input {
    /// Returns None if the file no longer exists, or its name is not UTF-8.
    pub fn at(path: &Path) -> Option<Input> {
        let metadata = path.metadata().ok()?;
        Some(Input {
            path: path.to_str()?.to_owned(),
            size: metadata.len().try_into().ok()?,
            modified: metadata.modified().ok()?,
        })
    }

    pub fn has_changed(&self) -> bool {
        Input::at(Path::new(&self.path)).as_ref() != Some(self)
    }
}

/// Returns up to `wanted` files, by path.
pub fn find(wanted: usize) -> Result<Vec<Input>> {
    let documentation =
        walk(Path::new(DOCUMENTATION)).filter(|entry| File::open(entry.path()).is_ok());
    let others =
        others().into_iter().flat_map(|folder| walk(&folder)).filter(|entry| is_text(entry.path()));
    let mut seen = HashSet::new();
    let mut files: Vec<Input> = documentation
        .chain(others)
        .filter_map(|entry| Input::at(entry.path()))
        .filter(|file| seen.insert(file.path.clone()))
        .take(wanted)
        .collect();
    if files.is_empty() {
        return Err("this machine has no text files to work on".into());
    }
    if files.len() < wanted {
        let found = HumanCount(files.len() as u64);
        eprintln!("tour: this machine has only {found} text files; they will do");
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Returns the folders of Rust and its crates, for machines with little documentation.
fn others() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let tools = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")].map(|(variable, folder)| {
        env::var_os(variable).map(PathBuf::from).or(home.as_ref().map(|home| home.join(folder)))
    });
    OTHERS.map(PathBuf::from).into_iter().chain(tools.into_iter().flatten()).collect()
}

/// Returns the regular files below a folder, without unreadable ones.
fn walk(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
    entries.filter_map(|entry| entry.ok()).filter(|entry| entry.file_type().is_file())
}

/// Returns true if the file begins without a NUL byte, the test that git and grep use for text.
fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1024).read_to_end(&mut start));
    read.is_ok() && !start.contains(&0)
}
