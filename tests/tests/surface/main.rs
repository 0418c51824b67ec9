//! What stands in sources and pages: it agrees with the catalogue, the links lead somewhere, the fence is closed.

mod amcheck;
mod declarations;
mod docs;
mod fence;
mod lists;
