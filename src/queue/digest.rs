//! Hashes of values, equal where SQL says that the values are.

use crate::server::relation::ColumnType;
use crate::server::value::Value;
use crate::server::{operators, shared_memory, types};
use pgrx::pg_sys::Oid;
use std::hash::{DefaultHasher, Hasher};

/// The hash of a label with the server's secret, so that no user finds two labels of the same hash, which would share a
/// mark.
pub(super) fn keyed(label: Value, column: &ColumnType) -> u64 {
    let [secret, seed] = shared_memory::secret();
    combined([secret, part(label, column.collation, seed)].into_iter())
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
fn combined(parts: impl Iterator<Item = u64>) -> u64 {
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
