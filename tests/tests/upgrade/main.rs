//! Tables that become queues, change while in use, and become ordinary tables again: definitions, columns, keys,
//! indexes, dumps.

mod altered;
mod altered_midway;
mod bad_queues;
mod create;
mod defaults;
mod dumped;
mod enums;
mod install;
mod job_tables;
mod keys;
mod lacking;
mod names;
mod order;
mod owners;
mod restored;
mod switches;
mod switches_at_random;
mod tables;
mod times;
