//! Promises of the queues before this one, and bugs found in them and here.

mod predecessors;
mod regressions;
