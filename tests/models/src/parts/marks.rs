//! See the extension's `parts/marks`.

#[path = "../../../../src/parts/marks/candidate.rs"]
pub mod candidate;
#[path = "../../../../src/parts/marks/mark.rs"]
pub mod mark;
#[path = "../../../../src/parts/marks/ring.rs"]
pub mod ring;
#[path = "../../../../src/parts/marks/rings.rs"]
pub mod rings;
