//! The files of the repository.

use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// Returns the text files below a folder of the repository, with their texts.
pub fn texts(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut folders, mut texts) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                texts.push((path, text));
            }
        }
    }
    texts
}

/// Returns the sources of Rust below a folder of the repository, with their texts.
pub fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut sources = texts(folder);
    sources.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    sources
}
