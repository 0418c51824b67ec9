//! Hashes of keys, used to report the ends of tasks.

use crate::queue::digest::part;
use crate::queue::handle::Queue;
use crate::server::row::Row;
use crate::server::shared_memory;
use crate::server::value::Value;
use std::hash::{DefaultHasher, Hasher};

impl Queue {
    /// Returns the hash of a task's key, used to report its end. The hash is keyed with the server's secret, so that
    /// users cannot find another key with the same hash.
    pub fn key_hash<'m>(&self, key: impl Iterator<Item = Option<Value<'m>>>) -> u64 {
        let secret = shared_memory::secret();
        let mut hasher = DefaultHasher::new();
        secret.into_iter().for_each(|half| hasher.write_u64(half));
        for (value, column) in key.zip(&self.key) {
            let part = value.map_or(0, |value| part(value, column.collation, secret[0]));
            hasher.write_u64(part);
        }
        hasher.finish()
    }

    /// Returns the key hash of a row.
    pub fn key_hash_of(&self, row: &impl Row) -> u64 {
        self.key_hash(self.key.iter().map(|key| row.value(key.number)))
    }

    /// Returns whether a reported end can belong to a different task, or to a task that the caller is not allowed to
    /// see.
    pub fn has_vague_ends(&self) -> bool {
        self.has_row_security || !self.tells_keys
    }
}
