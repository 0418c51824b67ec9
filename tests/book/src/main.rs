//! README.md and docs/ as a book: `cargo run -p xqueue-book` writes it into target/book.

mod links;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use links::for_book;
use mdbook_core::book::{Book, BookItem, Chapter};
use mdbook_core::config::Config;
use mdbook_driver::MDBook;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

fn main() -> Result<()> {
    build(None)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the book into `target`, by default into the folder that book.toml names.
fn build(target: Option<&Path>) -> Result<()> {
    let mut config = Config::from_disk(root().join("book.toml"))?;
    if let Some(target) = target {
        config.build.build_dir = target.to_owned();
    }
    let mut book = MDBook::load_with_config(root(), config)?;
    book.with_preprocessor(Pages);
    book.build()
}

/// Turns pages of the repository into chapters: README.md comes first, links lead to chapters, and blocks keep only
/// their language.
struct Pages;

impl Preprocessor for Pages {
    fn name(&self) -> &str {
        "pages"
    }

    fn run(&self, context: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let readme = context.root.join("README.md");
        let text =
            std::fs::read_to_string(&readme).with_context(|| readme.display().to_string())?;
        let first =
            Chapter::new("xqueue", for_book(&text, Path::new("README.md")), "index.md", Vec::new());
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item
                && let Some(path) = &chapter.source_path
            {
                chapter.content = for_book(&chapter.content, &Path::new("docs").join(path));
            }
        });
        book.items.insert(0, BookItem::Chapter(first));
        Ok(book)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::links::resolved;

    /// Returns the values of an attribute in an HTML page.
    fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
        let start = format!(" {name}=\"");
        let parts: Vec<&str> = html.split(start.as_str()).skip(1).collect();
        parts.into_iter().filter_map(|rest| rest.split('"').next())
    }

    fn files_in(folder: &Path, found: &mut HashMap<PathBuf, String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files_in(&path, found);
            } else {
                let content = std::fs::read(&path).expect("a file");
                found.insert(path, String::from_utf8_lossy(&content).into_owned());
            }
        }
    }

    /// Asserts that each page has a chapter, that the book's links lead to its files and headings, and that the search
    /// knows a section.
    #[test]
    fn docs_make_a_book() {
        let folder = std::env::temp_dir().join(format!("xqueue-book-{}", std::process::id()));
        build(Some(&folder)).expect("the book is built");
        let mut files = HashMap::new();
        files_in(&folder, &mut files);
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        let mut broken = Vec::new();
        let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "html");
        for (path, html) in files.iter().filter(|(path, _)| is_page(path)) {
            let content =
                html.split_once("<main>").and_then(|(_, rest)| rest.split_once("</main>"));
            let Some((content, _)) = content else { continue };
            for link in attributes(content, "href").filter(|link| !link.starts_with("https://")) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
                let is_there = files.get(&resolved(&target)).is_some_and(|html| {
                    anchor.is_empty() || attributes(html, "id").any(|id| id == anchor)
                });
                if !is_there {
                    broken.push(format!("{}: {link}", path.display()));
                }
            }
        }
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        for name in
            ["index.html", "concepts.html", "reference/functions.html", "clients/python.html"]
        {
            assert!(files.contains_key(&folder.join(name)), "there is no {name}");
        }
        let mut indexes = files.iter().filter(|(path, _)| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("searchindex"))
        });
        let finds = |text: &str| text.contains("recipes.html#retries-with-dead-letters");
        assert!(indexes.any(|(_, text)| finds(text)), "the search does not find a recipe");
    }
}
