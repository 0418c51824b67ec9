//! Tests the documentation: README.md and docs/**/*.md.
//!
//! - A block ```` ```sql ```` is run. The blocks of a page run in its order, in one psql session and a fresh database.
//! - A block ```` ```output ```` right after it is the output of psql; `…` stands for any text and, alone on a line,
//!   for any lines. Without such a block, the statements must only not fail.
//! - A block ```` ```sql no-run: REASON ```` is shown and not run; so is a block of another language with a reason.
//! - A block ```` ```python from FILE ```` shows lines of a file. They must be in the file; indentation does not count.
//! - A sentence has at most 35 words, and none of the phrases in `words.rs`.
//! - Links to pages, headings and files must lead somewhere, and so must paths and names of tests in `code`.
//!
//! Each function returns the defects found, one per line, with page and line.

mod compare;
mod links;
mod page;
mod run;
mod words;

pub use links::{broken_links, broken_mentions, headings, linked_pages};
pub use page::{Block, Kind, Page};
pub use run::{failures, printed_in};
pub use words::hard_sentences;
