//! Checks that links of pages, and paths in code spans, lead to something in the repository.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::page::Page;

/// Folders whose files are named with their path.
const FOLDERS: [&str; 5] = ["docs/", "pgrx-embed/", "sql/", "src/", "tests/"];
/// Folders whose files are named without it. Each area has a folder of its own in `AREAS`.
const AREAS: &str = "tests/tests";
const REGRESS: &str = "tests/pg_regress/sql";

/// Returns the links that lead to no file, or to no heading of a page.
pub fn broken_links(root: &Path, pages: &[Page]) -> Vec<String> {
    let anchors: HashMap<&Path, HashSet<String>> =
        pages.iter().map(|page| (page.path.as_path(), anchors(page))).collect();
    let mut broken = Vec::new();
    for page in pages {
        for (line, target) in
            page.prose.iter().flat_map(|(n, line)| links(line).map(move |l| (n, l)))
        {
            if !is_there(root, &anchors, &page.path, &target) {
                broken.push(format!("{}:{line}: {target} leads nowhere", page.path.display()));
            }
        }
    }
    broken
}

fn is_there(
    root: &Path,
    anchors: &HashMap<&Path, HashSet<String>>,
    page: &Path,
    target: &str,
) -> bool {
    if target.starts_with("https://") {
        return true;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => page.to_owned(),
        path => resolved(&page.with_file_name(path)),
    };
    match anchor {
        "" => root.join(path).exists(),
        anchor => anchors.get(path.as_path()).is_some_and(|known| known.contains(anchor)),
    }
}

fn resolved(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if result.pop() => {}
            part => result.push(part),
        }
    }
    result
}

/// Returns the paths, from the root, of the pages that a page links to.
pub fn linked_pages(page: &Page) -> BTreeSet<PathBuf> {
    let targets = page.prose.iter().flat_map(|(_, line)| links(line));
    let paths = targets.filter(|target| !target.starts_with("https://")).filter_map(|target| {
        let path = target.split('#').next().filter(|path| path.ends_with(".md"))?;
        Some(resolved(&page.path.with_file_name(path)))
    });
    paths.collect()
}

/// Returns the targets of `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = String> {
    let line = without_code(line);
    let targets: Vec<String> = line
        .split("](")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap_or_default().to_owned())
        .collect();
    targets.into_iter()
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Returns the text of the headings of a level, without markup.
pub fn headings(page: &Page, level: usize) -> impl Iterator<Item = String> {
    let mark = format!("{} ", "#".repeat(level));
    page.prose.iter().filter_map(move |(_, line)| {
        line.strip_prefix(&mark).map(|title| title.replace('`', "").trim().to_owned())
    })
}

/// Returns the anchors that GitHub makes of headings.
fn anchors(page: &Page) -> HashSet<String> {
    let mut known = HashSet::new();
    let titles = page.prose.iter().filter(|(_, line)| line.starts_with('#'));
    for title in titles.map(|(_, line)| line.trim_start_matches('#').trim()) {
        let name: String = title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let numbered = (1..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !known.contains(name));
        known.extend(free);
    }
    known
}

/// Returns paths and names of tests in code spans that do not exist.
pub fn broken_mentions(root: &Path, page: &Page) -> Vec<String> {
    let (tests, mut broken) = (names_of_tests(root), Vec::new());
    for (number, line) in &page.prose {
        for span in line.split('`').skip(1).step_by(2) {
            let name = span.split([' ', ':']).next().unwrap_or_default();
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let exists = if FOLDERS.iter().any(|folder| name.starts_with(folder)) {
                root.join(name).exists()
            } else if is_plain && (name.ends_with(".rs") || name.ends_with(".sql")) {
                tests.contains(name)
            } else {
                continue;
            };
            if is_plain && !exists {
                broken.push(format!("{}:{number}: there is no {name}", page.path.display()));
            }
        }
    }
    broken
}

fn names_of_tests(root: &Path) -> HashSet<String> {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries(root.join(AREAS)).map(|area| area.path());
    let files = folders.chain([root.join(REGRESS)]).flat_map(entries);
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn page(path: &str, text: &str) -> Page {
        Page::parse(Path::new(path), text)
    }

    #[track_caller]
    fn assert_links(text: &str, broken: &[&str]) {
        let here = page("docs/x/here.md", text);
        let other = page("docs/other.md", "# `put` and: that\n## Twice\n## Twice\n");
        let found = broken_links(Path::new(ROOT), &[here, other]);
        let found: Vec<_> = found.iter().map(|line| line.split(' ').nth(1).unwrap_or("")).collect();
        assert_eq!(found, broken, "{text}");
    }

    #[test]
    fn dead_links_are_found() {
        assert_links("# Here\n[a](#here) [b](../other.md#put-and-that) [c](../../LICENSE)", &[]);
        assert_links("[a](../other.md#twice-1) [b](https://example.org/x#y) `[c](nowhere)`", &[]);
        assert_links("[a](#there) [b](other.md)", &["#there", "other.md"]);
        assert_links(
            "[a](../other.md#puts) [b](../../LICENCE)",
            &["../other.md#puts", "../../LICENCE"],
        );
        assert_links(
            "[a](../other.md#twice-2) | [b](http://x)",
            &["../other.md#twice-2", "http://x"],
        );
    }

    #[test]
    fn mentions_of_nothing_are_found() {
        let find = |text: &str| broken_mentions(Path::new(ROOT), &page("README.md", text)).len();
        assert_eq!(
            find("`tests/tests/surface/docs.rs`, `docs.rs`, `pgrx-embed/test --pg 18`, `a.b`"),
            0
        );
        assert_eq!(find("`tests/tests/dogs.rs`"), 1);
        assert_eq!(find("`dogs.rs` and `docs/dogs.md`"), 2);
    }
}
