//! The body of `GET /bytes/N`: byte `i` is `i mod 251`.
//!
//! 251 is a prime, so that the pattern never falls in step with a buffer, a page or a segment: a
//! hole, a repetition or two swapped pieces show at their first byte.

/// The pattern repeats after so many bytes.
pub const PERIOD: u64 = 251;

/// How often [`TABLE`] holds the pattern. 32 times are 8,032 bytes: copies are long enough for the
/// cost of a call not to show, and the table fits into a first-level cache (often 32 KiB).
const REPEATS: usize = 32;

static TABLE: [u8; PERIOD as usize * REPEATS] = {
    let mut table = [0; PERIOD as usize * REPEATS];
    let mut i = 0;
    while i < table.len() {
        table[i] = (i % PERIOD as usize) as u8;
        i += 1;
    }
    table
};

/// The byte at position `i`.
#[must_use]
pub const fn byte_at(i: u64) -> u8 {
    (i % PERIOD) as u8
}

/// Appends the `len` bytes of the pattern that start at position `from`.
pub fn append(out: &mut Vec<u8>, from: u64, len: usize) {
    out.reserve(len);
    let mut start = (from % PERIOD) as usize;
    let mut left = len;
    while left > 0 {
        let piece = left.min(TABLE.len() - start);
        out.extend_from_slice(&TABLE[start..start + piece]);
        left -= piece;
        // The table's length is a multiple of the period.
        start = 0;
    }
}

/// Compares `bytes`, received from position `from` on, with the pattern. Returns the position in
/// the body (not in `bytes`) of the first byte that differs, or nothing when all are right.
#[must_use]
pub fn first_difference(from: u64, bytes: &[u8]) -> Option<u64> {
    let mut start = (from % PERIOD) as usize;
    let mut done = 0;
    while done < bytes.len() {
        let piece = (bytes.len() - done).min(TABLE.len() - start);
        let (got, want) = (&bytes[done..done + piece], &TABLE[start..start + piece]);
        if got != want {
            let i = got.iter().zip(want).position(|(got, want)| got != want);
            return i.map(|i| from + (done + i) as u64);
        }
        done += piece;
        start = 0;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_and_many_lengths_follow_the_definition() {
        for from in 0..PERIOD {
            for len in [0, 1, 250, 251, 252, 8032, 8033, 17_000] {
                let mut out = b"before".to_vec();
                append(&mut out, from, len);
                assert_eq!(&out[..6], b"before");
                let body = &out[6..];
                assert_eq!(body.len(), len);
                let right = (from..).map(|i| (i % 251) as u8);
                assert!(body.iter().copied().eq(right.take(len)), "{from} {len}");
                assert_eq!(first_difference(from, body), None);
            }
        }
    }

    #[test]
    fn positions_above_four_gibibytes_are_right() {
        for from in [u64::from(u32::MAX) - 3, 1 << 32, (1 << 40) + 17] {
            let mut out = Vec::new();
            append(&mut out, from, 9000);
            for (i, byte) in out.iter().enumerate() {
                assert_eq!(u64::from(*byte), (from + i as u64) % 251);
            }
        }
    }

    #[test]
    fn the_first_wrong_byte_is_found_where_it_is() {
        for wrong in [0, 1, 250, 251, 8031, 8032, 19_999] {
            let mut out = Vec::new();
            append(&mut out, 1000, 20_000);
            out[wrong] ^= 1;
            assert_eq!(first_difference(1000, &out), Some(1000 + wrong as u64));
        }
    }
}
