//! Hashes of keys and labels, equal where SQL says that the values are.

use crate::queue::handle::Queue;
use crate::server::row::Row;
use crate::server::value::Value;
use crate::server::{operators, shared_memory, types};
use pgrx::pg_sys::Oid;
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

/// Returns a hash of a value that is equal for values equal in SQL, whatever their text; of a type without a hash, one of the text.
pub(super) fn part(value: Value, collation: Oid, seed: u64) -> u64 {
    let of_text = |text: &str| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write(text.as_bytes());
        hasher.finish()
    };
    if let Some(number) = value.try_integer() {
        return number as u64;
    }
    if let Some(image) = operators::image(value) {
        return image;
    }
    if types::base_type(value.type_oid()) == types::NUMERIC {
        return of_text(canonical(&value.shown()));
    }
    operators::hash(value, collation, seed).unwrap_or_else(|| of_text(&value.shown()))
}

/// The text of a number without the zeros that make no difference: the server's hash leaves out its sign.
fn canonical(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// Combines hashes; never 0 or 1, which stand for no tube and no label.
pub(super) fn combined(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(FNV_BASIS, |hash, part| (hash.rotate_left(23) ^ part).wrapping_mul(FNV_PRIME)).max(2)
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn equal_numbers_have_one_text() {
        for (number, text) in [
            ("5", "5"),
            ("5.00", "5"),
            ("-5.10", "-5.1"),
            ("500", "500"),
            ("0.000", "0"),
            ("NaN", "NaN"),
            ("-Infinity", "-Infinity"),
        ] {
            assert_eq!(canonical(number), text);
        }
    }
}
