//! Counters of a queue as shared memory keeps them: by tube, as rates, and the texts that are shown with them.

pub mod rates;
pub mod shown;
pub mod tubes;
