//! See the extension's `parts/marks`.

#[path = "../../../../src/parts/marks/mark.rs"]
pub mod mark;
