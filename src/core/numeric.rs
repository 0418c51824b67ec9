//! Positions of numerics, by the form in which the server stores them.
//!
//! The form is a header, a weight and digits of base 10000, all of 16 bits. Small numbers have their weight in the
//! header. pg_upgrade keeps the form, so all majors share it.
//!
//! A position is made of the weight and the first eight digits: at least 29 decimal digits. The rest is rounded down,
//! so the least number at a position has these digits and no others.

use crate::position::Position;

const BASE: Position = 10_000;
const DIGITS: u32 = 8;
/// The least number made of the first digits: the first digit is never 0.
const LEAST_DIGITS: Position = BASE.pow(DIGITS - 1);
/// Number of positions of a weight.
const STEP: Position = BASE.pow(DIGITS);
/// The least weight in a position; numbers nearer to 0 are rounded down to it, or to 0. The server stores at most 16383
/// decimal digits after the point, and eight digits of this weight need fewer.
const LEAST_WEIGHT: i32 = -2_000;

const ZERO: Position = 1 << 127;
const INFINITY: Position = 3 << 126;
const NAN: Position = 7 << 125;

/// A number in the form in which the server stores it.
pub struct Stored(Vec<u8>);

impl Stored {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Flags of headers.
const LONG_NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SPECIAL: u16 = 0xc000;
const SPECIAL_NAN: u16 = 0xc000;
const SPECIAL_INFINITY: u16 = 0xd000;
const SPECIAL_MINUS_INFINITY: u16 = 0xf000;

/// Returns the position of a number in its stored form.
pub fn of_stored(stored: &[u8]) -> Position {
    let mut words = stored.chunks_exact(2).map(|word| u16::from_ne_bytes([word[0], word[1]]));
    let header = words.next().unwrap_or(SHORT);
    let (is_negative, weight) = match header & SPECIAL {
        SPECIAL if header & SPECIAL_MINUS_INFINITY == SPECIAL_MINUS_INFINITY => return 0,
        SPECIAL if header & SPECIAL_MINUS_INFINITY == SPECIAL_INFINITY => return INFINITY,
        SPECIAL => return NAN,
        // A signed number of seven bits.
        SHORT => (header & SHORT_NEGATIVE != 0, (header << 9) as i16 >> 9),
        _ => (header & LONG_NEGATIVE != 0, words.next().unwrap_or(0) as i16),
    };
    let mut digits = 0;
    for _ in 0..DIGITS {
        digits = digits * BASE + Position::from(words.next().unwrap_or(0));
    }
    if digits == 0 {
        return ZERO;
    }
    let is_cut = words.any(|digit| digit != 0);
    match (i32::from(weight).checked_sub(LEAST_WEIGHT), is_negative) {
        (Some(weight @ 0..), false) => ZERO + magnitude(weight, digits),
        (Some(weight @ 0..), true) => ZERO - magnitude(weight, digits + Position::from(is_cut)),
        (_, false) => ZERO,
        (_, true) => ZERO - magnitude(0, LEAST_DIGITS),
    }
}

fn magnitude(weight: i32, digits: Position) -> Position {
    let magnitude = weight as Position * STEP + digits;
    // Digits that were rounded up can be those of the next weight.
    if magnitude.is_multiple_of(STEP) { magnitude + LEAST_DIGITS } else { magnitude }
}

/// Returns the least number at a position or behind it.
pub fn to_stored(position: Position) -> Stored {
    let (magnitude, is_negative) = (position.abs_diff(ZERO), position < ZERO);
    let weight = (magnitude / STEP) as i32 + LEAST_WEIGHT;
    let words = match i16::try_from(weight) {
        _ if position == ZERO => vec![SHORT],
        Ok(weight) => finite(is_negative, weight, (magnitude % STEP).max(LEAST_DIGITS)),
        Err(_) if is_negative => vec![SPECIAL_MINUS_INFINITY],
        Err(_) if position <= INFINITY => vec![SPECIAL_INFINITY],
        Err(_) => vec![SPECIAL_NAN],
    };
    Stored(words.into_iter().flat_map(u16::to_ne_bytes).collect())
}

fn finite(is_negative: bool, weight: i16, mut rest: Position) -> Vec<u16> {
    let mut digits = Vec::new();
    for _ in 0..DIGITS {
        if !rest.is_multiple_of(BASE) || !digits.is_empty() {
            digits.push((rest % BASE) as u16);
        }
        rest /= BASE;
    }
    let after_point = (digits.len() as i32 - 1 - i32::from(weight)).max(0);
    let sign = if is_negative { LONG_NEGATIVE } else { 0 };
    let header = sign | (after_point as u16 * 4);
    [header, weight as u16].into_iter().chain(digits.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::cmp::Ordering;

    #[derive(Clone, Debug, PartialEq)]
    enum Numeric {
        MinusInfinity,
        /// Whether it is negative, its weight, its digits without leading and trailing zeros, and digits to show.
        Finite(bool, i16, Vec<u16>, u16),
        Infinity,
        Nan,
    }
    use Numeric::*;

    impl Numeric {
        fn zero() -> Numeric {
            Finite(false, 0, vec![], 0)
        }

        fn stored(&self) -> Vec<u8> {
            let words = match self {
                MinusInfinity => vec![0xf000],
                Infinity => vec![0xd000],
                Nan => vec![0xc000],
                // As the server does.
                Finite(negative, weight @ -64..=63, digits, shown @ 0..64) => {
                    let sign = if *negative { 0x2000 } else { 0 };
                    let header = 0x8000 | sign | shown << 7 | *weight as u16 & 0x7f;
                    [&[header], &digits[..]].concat()
                }
                Finite(negative, weight, digits, shown) => {
                    let sign = if *negative { 0x4000 } else { 0 };
                    [&[sign | shown, *weight as u16], &digits[..]].concat()
                }
            };
            words.into_iter().flat_map(u16::to_ne_bytes).collect()
        }

        fn read(stored: &[u8]) -> Numeric {
            let words: Vec<u16> =
                stored.chunks(2).map(|word| u16::from_ne_bytes([word[0], word[1]])).collect();
            match words[0] {
                0xf000 => MinusInfinity,
                0xd000 => Infinity,
                0xc000 => Nan,
                0x8000 => Numeric::zero(),
                header => {
                    let digits = words[2..].to_vec();
                    assert!(digits[0] > 0 && digits[digits.len() - 1] > 0, "{digits:?}");
                    Finite(header & 0x4000 != 0, words[1] as i16, digits, header & 0x3fff)
                }
            }
        }

        fn position(&self) -> Position {
            of_stored(&self.stored())
        }

        fn class(&self) -> i8 {
            match self {
                MinusInfinity => -2,
                Finite(_, _, digits, _) if digits.is_empty() => 0,
                Finite(negative, ..) => {
                    if *negative {
                        -1
                    } else {
                        1
                    }
                }
                Infinity => 2,
                Nan => 3,
            }
        }
    }

    fn compare(one: &Numeric, other: &Numeric) -> Ordering {
        one.class().cmp(&other.class()).then_with(|| match (one, other) {
            (Finite(negative, weight, digits, _), Finite(_, weights, others, _)) => {
                let order = weight.cmp(weights).then_with(|| digits.cmp(others));
                if *negative { order.reverse() } else { order }
            }
            _ => Ordering::Equal,
        })
    }

    /// Numbers that often share their first digits, and the extremes.
    fn numbers() -> impl Strategy<Value = Numeric> {
        let weights = vec![-4096, -2001, -2000, -65, -64, -1, 0, 1, 63, 64, 32766, 32767];
        let digits = prop::collection::vec(select(vec![0, 1, 5000, 9999]), 0..12);
        let shared = select(vec![vec![], vec![9999; 7], vec![1; 8], vec![1, 0, 0, 0, 0, 0, 0]]);
        let finite = (any::<bool>(), select(weights), shared, digits, 0..70u16).prop_map(
            |(negative, weight, shared, digits, shown)| {
                let mut digits = [shared, digits].concat();
                digits.truncate(1 + digits.iter().rposition(|digit| *digit > 0).unwrap_or(0));
                if digits.first().is_none_or(|first| *first == 0) {
                    return Finite(false, 0, vec![], shown);
                }
                Finite(negative, weight, digits, shown)
            },
        );
        prop_oneof![20 => finite, 1 => select(vec![MinusInfinity, Infinity, Nan])]
    }

    proptest! {
        #[test]
        fn positions_keep_the_order_and_hide_nothing(one in numbers(), other in numbers()) {
            let [at, of_other] = [&one, &other].map(Numeric::position);
            prop_assert!(at < crate::position::LAST);
            if compare(&one, &other) != Ordering::Greater {
                prop_assert!(at <= of_other);
            }
            if compare(&one, &other) == Ordering::Equal {
                prop_assert_eq!(at, of_other);
            }
            for start in [at, at + 1, at.saturating_sub(1), at >> 64 << 64] {
                let least = Numeric::read(to_stored(start).bytes());
                prop_assert!(start > of_other || compare(&least, &other) != Ordering::Greater);
            }
            // A scan begins at the position itself, unless no finite number is that small.
            let least = Numeric::read(to_stored(at).bytes());
            prop_assert!(least.position() == at || least == MinusInfinity);
        }

        #[test]
        fn numbers_of_up_to_29_digits_have_their_own_positions(
            (one, other) in (any::<i64>(), any::<i64>()), near in any::<bool>()
        ) {
            let other = if near { one.saturating_add(1) } else { other };
            let [at, of_other] = [one, other].map(|number| integer(number).position());
            prop_assert_eq!(one.cmp(&other), at.cmp(&of_other));
        }
    }

    fn integer(number: i64) -> Numeric {
        let (mut rest, mut digits) = (number.unsigned_abs(), vec![]);
        while rest > 0 {
            digits.insert(0, (rest % 10_000) as u16);
            rest /= 10_000;
        }
        let weight = (digits.len() as i16 - 1).max(0);
        digits.truncate(digits.iter().rposition(|digit| *digit > 0).map_or(0, |last| last + 1));
        Finite(number < 0, weight, digits, 0)
    }

    #[test]
    fn the_scale_makes_no_difference() {
        let one = |shown| Finite(false, 0, vec![1], shown).position();
        assert_eq!(one(0), one(1));
        assert_eq!(one(0), one(500));
        assert_eq!(Finite(false, 0, vec![], 3).position(), ZERO);
    }
}
