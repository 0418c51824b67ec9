//! UUIDs of version 7 (RFC 9562). They begin with a clock, so that keys rise, and end with random bits, so that keys
//! are unique.

/// Milliseconds take 48 bits; 12 bits after them divide each into 4096 steps, like in PostgreSQL 18.
const FRACTION_BITS: u32 = 12;

/// The clock of one process, in steps of 1/4096 ms since 1970. It never returns a step twice, even if the system time
/// is set back.
#[derive(Clone, Copy)]
pub struct Clock {
    last: u64,
}

impl Clock {
    pub const BEGINNING: Clock = Clock { last: 0 };

    /// Returns the clock after its next step, and the UUID of that step. `now`: nanoseconds since 1970.
    #[must_use]
    pub fn step(self, now: u128, random: [u8; 16]) -> (Clock, [u8; 16]) {
        let now = u64::try_from((now << FRACTION_BITS) / 1_000_000).unwrap_or(u64::MAX);
        let last = now.max(self.last.saturating_add(1));
        (Clock { last }, uuid(last, random))
    }
}

fn uuid(step: u64, random: [u8; 16]) -> [u8; 16] {
    let mut uuid = random;
    let milliseconds = (step >> FRACTION_BITS).to_be_bytes();
    let fraction = (step & ((1 << FRACTION_BITS) - 1)) as u16;
    uuid[..6].copy_from_slice(&milliseconds[2..]);
    uuid[6..8].copy_from_slice(&(0x7000 | fraction).to_be_bytes());
    uuid[8] = 0x80 | (uuid[8] & 0x3f);
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of RFC 9562, appendix A.6: 2022-02-22 14:22:22 in New York.
    #[test]
    fn milliseconds_version_and_variant_stand_where_the_standard_puts_them() {
        let random = [0xff; 16];
        let (_, uuid) = Clock::BEGINNING.step(1_645_557_742_000_000_000, random);
        assert_eq!(uuid[..8], [0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x70, 0x00]);
        assert_eq!(uuid[8..], [0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        let (_, half_later) = Clock::BEGINNING.step(1_645_557_742_000_500_000, random);
        assert_eq!(half_later[..8], [0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x78, 0x00]);
    }

    proptest! {
        #[test]
        fn they_rise_whatever_the_clock_does(times in prop::collection::vec(0..1u128 << 62, 2..50)) {
            let mut clock = Clock::BEGINNING;
            let mut before = [0; 16];
            for (n, time) in times.into_iter().enumerate() {
                let (after, uuid) = clock.step(time, [0xff - n as u8; 16]);
                prop_assert!(uuid > before);
                (clock, before) = (after, uuid);
            }
        }
    }
}
