//! What a queue is, without any PostgreSQL: states, options, definitions.

pub mod definition;
pub mod options;
pub mod status;
