//! Rewrites links of the repository's pages for the book.

use std::path::{Component, Path, PathBuf};

/// Returns the text of a page as a chapter. Links to pages lead to chapters, and links to other files of the repository
/// become plain text. Fenced blocks keep only their language. `page` is the page's path from the root.
pub fn for_book(text: &str, page: &Path) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            return if is_code { line.to_owned() } else { with_links(line, page) };
        };
        is_code = !is_code;
        let indent = &line[..line.len() - line.trim_start().len()];
        let language = match language.split_whitespace().next() {
            Some("output") => "text",
            other => other.unwrap_or_default(),
        };
        format!("{indent}```{language}")
    });
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// Rewrites the links of a line to their targets in the book.
fn with_links(line: &str, page: &Path) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some(end) = rest.find("](") {
        let Some(length) = rest[end..].find(')') else { break };
        let target = &rest[end + 2..end + length];
        let start = rest[..end].rfind('[').unwrap_or(end);
        match target_in_book(target, page) {
            _ if start == end => result.push_str(&rest[..=end + length]),
            Some(target) => result.push_str(&format!("{}]({target})", &rest[..end])),
            None => result.push_str(&format!("{}{}", &rest[..start], &rest[start + 1..end])),
        }
        rest = &rest[end + length + 1..];
    }
    result + rest
}

/// Returns a link's target in the book, or None if the book lacks it.
fn target_in_book(target: &str, page: &Path) -> Option<String> {
    if target.starts_with("https://") || target.starts_with('#') {
        return Some(target.to_owned());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = resolved(&page.with_file_name(file));
    let chapter = match file.strip_prefix("docs") {
        Ok(list) if list == Path::new("SUMMARY.md") || list.starts_with("dev") => return None,
        Ok(chapter) => chapter.to_owned(),
        Err(_) if file == Path::new("README.md") => "index.md".into(),
        Err(_) => return None,
    };
    let here = page.strip_prefix("docs").unwrap_or(Path::new("index.md"));
    let up = "../".repeat(here.components().count() - 1);
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    Some(format!("{up}{}{anchor}", chapter.display()))
}

/// Resolves the `..` of a path.
pub fn resolved(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if result.pop() => {}
            part => result.push(part),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_becomes(page: &str, text: &str, expected: &str) {
        assert_eq!(for_book(text, Path::new(page)), format!("{expected}\n"));
    }

    #[test]
    fn docs_links_lead_to_chapters() {
        assert_becomes(
            "README.md",
            "[a](docs/b.md#c), [d](LICENSE), [e](docs/SUMMARY.md)",
            "[a](b.md#c), d, e",
        );
        assert_becomes(
            "docs/a.md",
            "[b](../README.md#c) [`d`](../src/d.rs)",
            "[b](index.md#c) `d`",
        );
        assert_becomes(
            "docs/r/a.md",
            "[b](../b.md) [c](c.md) [d](#d)",
            "[b](../b.md) [c](../r/c.md) [d](#d)",
        );
        assert_becomes("docs/a.md", "[b](https://example.org/b)", "[b](https://example.org/b)");
        assert_becomes("docs/a.md", "no](link", "no](link");
    }

    #[test]
    fn docs_blocks_name_their_language() {
        assert_becomes("a.md", "```sql no-run: why\n[a](b)\n```", "```sql\n[a](b)\n```");
        assert_becomes("a.md", "  ```output\n  1\n  ```", "  ```text\n  1\n  ```");
    }
}
