//! A page of Markdown, split into the parts to check: fenced blocks, and the text between them.

use std::path::{Path, PathBuf};

/// Languages of blocks that are not run or compared.
const OTHER_LANGUAGES: [&str; 15] = [
    "sh", "python", "js", "rust", "go", "prisma", "perl", "php", "java", "ruby", "csharp",
    "elixir", "conf", "text", "json",
];
const NO_RUN: &str = "no-run:";
const FROM: &str = "from ";

#[derive(Debug, PartialEq)]
pub enum Kind {
    /// SQL that is run, and the output that the page shows for it.
    Sql {
        output: Option<Vec<String>>,
    },
    Unrun,
    /// An excerpt of a file of the repository; the tests run that file.
    Excerpt {
        of: PathBuf,
    },
    Other,
}

#[derive(Debug)]
pub struct Block {
    /// The line of its first fence, counted from 1.
    pub line: usize,
    pub kind: Kind,
    pub text: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Page {
    /// The path from the root of the repository.
    pub path: PathBuf,
    pub blocks: Vec<Block>,
    /// The lines outside of blocks, with their numbers.
    pub prose: Vec<(usize, String)>,
    /// Errors in the markup of the blocks.
    pub defects: Vec<String>,
}

impl Page {
    pub fn read(root: &Path, path: &Path) -> Page {
        let text = std::fs::read_to_string(root.join(path))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Page::parse(path, &text)
    }

    /// Returns README.md and every page under docs/, ordered by name.
    pub fn all(root: &Path) -> Vec<Page> {
        let mut paths = vec![PathBuf::from("README.md")];
        let mut folders = vec![PathBuf::from("docs")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(root.join(&folder)).expect("a folder of pages") {
                let path = folder.join(entry.expect("an entry").file_name());
                if root.join(&path).is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    paths.push(path);
                }
            }
        }
        paths.sort();
        paths.iter().map(|path| Page::read(root, path)).collect()
    }

    pub fn parse(path: &Path, text: &str) -> Page {
        let mut page = Page { path: path.to_owned(), ..Page::default() };
        let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
        while let Some((number, line)) = lines.next() {
            let Some((indent, language)) = fence(line) else {
                page.prose.push((number, line.to_owned()));
                continue;
            };
            let mut body = Vec::new();
            let is_closed = lines.by_ref().any(|(_, line)| {
                let is_end = fence(line).is_some_and(|(_, language)| language.is_empty());
                if !is_end {
                    body.push(line.get(indent..).unwrap_or_default().to_owned());
                }
                is_end
            });
            if !is_closed {
                page.defect(number, "the block does not end");
            }
            page.add(number, language, body);
        }
        page
    }

    pub fn defect(&mut self, line: usize, what: &str) {
        self.defects.push(format!("{}:{line}: {what}", self.path.display()));
    }

    fn add(&mut self, line: usize, language: &str, text: Vec<String>) {
        let kind = match language.split_once(' ').unwrap_or((language, "")) {
            ("output", "") => return self.add_output(line, text),
            ("sql", "") => {
                if !ends_statement(&text) {
                    self.defect(line, "the last statement does not end with a semicolon");
                }
                Kind::Sql { output: None }
            }
            ("sql", reason) => {
                if !is_reason(reason) {
                    self.defect(line, "sql that is not run needs a reason: ```sql no-run: REASON");
                }
                Kind::Unrun
            }
            (name, "") if OTHER_LANGUAGES.contains(&name) => {
                // This runner ignores shell commands, even with statements in them.
                if !["python", "sh"].contains(&name) && text.iter().any(|line| is_call(line)) {
                    self.defect(line, "sql that is not run is marked ```sql no-run: REASON");
                }
                Kind::Other
            }
            (name, from) if OTHER_LANGUAGES.contains(&name) && from.starts_with(FROM) => {
                Kind::Excerpt { of: from[FROM.len()..].into() }
            }
            (name, reason) if OTHER_LANGUAGES.contains(&name) && is_reason(reason) => Kind::Unrun,
            ("", _) => return self.defect(line, "the block has no language"),
            _ => return self.defect(line, &format!("the language {language:?} is unknown")),
        };
        self.blocks.push(Block { line, kind, text });
    }

    /// Adds the output to the block before it. Only blank lines are allowed between them.
    fn add_output(&mut self, line: usize, text: Vec<String>) {
        let between = |block: &Block| {
            let end = block.line + block.text.len() + 1;
            self.prose.iter().all(|(n, line)| *n < end || line.trim().is_empty())
        };
        if self.blocks.last().is_some_and(between)
            && let Some(Block { kind: Kind::Sql { output: output @ None }, .. }) =
                self.blocks.last_mut()
        {
            *output = Some(text);
        } else {
            self.defect(line, "output without a block that is run right before it");
        }
    }
}

/// Returns whether the words after a language say why the block is not run.
fn is_reason(words: &str) -> bool {
    words.strip_prefix(NO_RUN).is_some_and(|reason| !reason.trim().is_empty())
}

/// Returns the indentation and the language of a fence.
fn fence(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start();
    rest.strip_prefix("```").map(|language| (line.len() - rest.len(), language.trim()))
}

fn is_call(line: &str) -> bool {
    ["SELECT ", "CALL "].iter().any(|word| line.contains(word)) && line.contains("xqueue.")
}

/// Returns whether the block ends its last statement; psql would join an unfinished one to the next block.
fn ends_statement(text: &[String]) -> bool {
    let code = text.iter().map(|line| line.split("--").next().unwrap_or_default().trim());
    let mut filled = code.filter(|line| !line.is_empty());
    filled.next_back().is_some_and(|line| line.ends_with(';') || line.contains('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_defect(text: &str, expected: &str) {
        let defects = Page::parse(Path::new("page.md"), text).defects;
        assert!(defects.len() == 1 && defects[0].contains(expected), "{text}: {defects:?}");
    }

    #[test]
    fn what_would_go_unchecked_is_a_defect() {
        assert_defect("```\nx\n```\n", "has no language");
        assert_defect("```sqll\nSELECT 1;\n```\n", "is unknown");
        assert_defect("```sql no-run\nSELECT 1;\n```\n", "needs a reason");
        assert_defect("```sql no-run: \nSELECT 1;\n```\n", "needs a reason");
        assert_defect("```go no-run:\nx\n```\n", "is unknown");
        assert_defect("```text\nSELECT xqueue.take('jobs');\n```\n", "sql that is not run");
        assert_defect("```sql\nSELECT 1\n```\n", "semicolon");
        assert_defect("```sql\nSELECT 1; -- one\nSELECT 2 -- two;\n```\n", "semicolon");
        assert_defect("```sql\nSELECT 1;\n", "does not end");
        assert_defect("```output\n1\n```\n", "output without a block");
        let lost = "output without a block";
        assert_defect("```sql\nSELECT 1;\n```\ntext\n```output\n1\n```\n", lost);
        assert_defect("```sql no-run: x\ny\n```\n```output\n1\n```\n", lost);
        assert_defect("```sql\nSELECT 1;\n```\n```output\n1\n```\n```output\n1\n```\n", lost);
    }
}
