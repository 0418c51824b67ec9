//! Counters of a queue in shared memory: counters by tube, rates, and the texts that are shown with them.

pub mod rates;
pub mod shown;
pub mod tubes;
