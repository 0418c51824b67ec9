//! Hashes of keys, under which the ends of tasks are reported.

use crate::queue::digest::part;
use crate::queue::handle::Queue;
use crate::server::row::Row;
use crate::server::shared_memory;
use crate::server::value::Value;
use std::hash::{DefaultHasher, Hasher};

impl Queue {
    /// Returns the hash of a task's key, under which its end is reported. The server's secret keeps users from
    /// finding another key with the same hash.
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

    /// Returns the same for a row.
    pub fn key_hash_of(&self, row: &impl Row) -> u64 {
        self.key_hash(self.key.iter().map(|key| row.value(key.number)))
    }

    /// Returns whether the end that is reported of a task may be another's, or of one that the caller may not see.
    pub fn has_vague_ends(&self) -> bool {
        self.has_row_security || !self.tells_keys
    }
}
