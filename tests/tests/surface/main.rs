//! Sources and pages: they agree with the catalogue, links lead somewhere, the fence is closed.

mod amcheck;
mod declarations;
mod docs;
mod fence;
mod lists;
