//! Hashes of values: equal if the values are equal in SQL.

use crate::server::relation::ColumnType;
use crate::server::value::Value;
use crate::server::{operators, shared_memory, types};
use pgrx::pg_sys::Oid;
use std::hash::Hasher;
#[allow(deprecated, reason = "SipHash-2-4 for good: what it gives is stored in indexes")]
use std::hash::SipHasher;

/// The key of a hash; it keeps users from predicting hashes.
pub type Secret = [u64; 2];

/// Returns the sub-queue of a label; tasks without a label share one. The server's own hash with a secret seed is not
/// sufficient: equal integers collide for every seed, and a single hash reveals the seed.
pub fn subqueue(label: Option<Value>, collation: Oid, secret: Secret) -> u64 {
    let mut hasher = sip_hasher(secret);
    let Some(label) = label else { return hasher.finish() };
    hasher.write_u8(1);
    match types::base_type(label.type_oid()) {
        types::UUID => hasher.write(&label.to_uuid()),
        types::TEXT | types::VARCHAR if !operators::tells_by_rules(collation) => {
            label.with_text(|text| hasher.write(text));
        }
        _ => hasher.write_u64(part(label, collation, secret[0])),
    }
    hasher.finish()
}

/// Returns the hash of a label, keyed with the server's secret. Users therefore cannot find two labels with the same
/// hash, which would share a mark.
pub(super) fn keyed(label: Value, column: &ColumnType) -> u64 {
    let [secret, seed] = shared_memory::secret();
    combined([secret, part(label, column.collation, seed)].into_iter())
}

/// Returns a hash that is equal for values equal in SQL, even if their texts differ. A type without a hash function is
/// hashed by its text.
pub(super) fn part(value: Value, collation: Oid, seed: u64) -> u64 {
    let of_text = |text: &str| {
        let mut hasher = sip_hasher([seed, 0]);
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

/// Trims the trailing zeros of a number's text. The server's hash of a number cannot be used, because it ignores the
/// sign.
fn canonical(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[allow(deprecated, reason = "as above")]
fn sip_hasher([low, high]: Secret) -> SipHasher {
    SipHasher::new_with_keys(low, high)
}

/// Combines hashes. Never returns 0 or 1, which stand for no tube and no label.
fn combined(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(FNV_BASIS, |hash, part| (hash.rotate_left(23) ^ part).wrapping_mul(FNV_PRIME)).max(2)
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::{canonical, sip_hasher};
    use std::hash::Hasher;

    /// The example published by the authors of SipHash.
    #[test]
    fn the_hash_in_indexes_stays_the_same() {
        let mut hasher = sip_hasher([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        (0..15).for_each(|byte| hasher.write_u8(byte));
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

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
