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

    /// Returns the values of an attribute in an HTML page.
    fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
        let start = format!(" {name}=\"");
        let parts: Vec<&str> = html.split(start.as_str()).skip(1).collect();
        parts.into_iter().filter_map(|rest| rest.split('"').next())
    }

    fn pages_in(folder: &Path, found: &mut HashMap<PathBuf, String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pages_in(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = std::fs::read_to_string(&path).expect("a page");
                found.insert(path.canonicalize().expect("its path"), text);
            }
        }
    }

    /// Returns the script that holds the index of the book's search.
    fn search_index(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).expect("the book");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        let is_index = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("searchindex"))
        };
        std::fs::read_to_string(paths.find(is_index).expect("an index")).expect("its text")
    }

    /// Asserts that each page has a chapter, that the book's links lead to its files and headings, and that the search
    /// knows a section.
    #[test]
    fn docs_make_a_book() {
        let folder = std::env::temp_dir().join(format!("xqueue-book-{}", std::process::id()));
        build(Some(&folder)).expect("the book is built");
        let mut pages = HashMap::new();
        pages_in(&folder, &mut pages);
        let mut broken = Vec::new();
        for (path, html) in &pages {
            let content =
                html.split_once("<main>").and_then(|(_, rest)| rest.split_once("</main>"));
            let Some((content, _)) = content else { continue };
            for link in attributes(content, "href").filter(|link| !link.starts_with("https://")) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
                let there = target.canonicalize().is_ok_and(|target| {
                    anchor.is_empty()
                        || pages
                            .get(&target)
                            .is_some_and(|html| attributes(html, "id").any(|id| id == anchor))
                });
                if !there {
                    broken.push(format!("{}: {link}", path.display()));
                }
            }
        }
        let has = |name: &str| pages.contains_key(&folder.canonicalize().expect("it").join(name));
        let lacking =
            ["index.html", "concepts.html", "reference/functions.html", "clients/python.html"]
                .into_iter()
                .filter(|name| !has(name))
                .collect::<Vec<_>>();
        let finds = search_index(&folder).contains("recipes.html#retries-with-dead-letters");
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        assert!(finds, "the search does not find a recipe");
        assert!(lacking.is_empty() && broken.is_empty(), "{lacking:?}\n{}", broken.join("\n"));
    }
}
