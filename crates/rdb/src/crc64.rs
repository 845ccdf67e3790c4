//! The checksum of files and payloads: CRC-64 by Jones (polynomial 0xad93d23594c935a9, reflected, from 0, not inverted).
//!
//! Eight bytes at a time with eight tables ("slicing by 8", Kounavis and Berry 2005), of which each waits for the ones before.
//! So longer texts are read at several places at a time, and the checksums of these parts combined.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();

static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Parts that are read at a time, and the words of one.
const LANES: usize = 4;
const LANE_WORDS: usize = 512;
/// What as many bytes as a part has multiply a checksum by that they follow.
const LANE_POWER: u64 = power(8 * LANE_WORDS as u64);

/// The checksum of what `crc` is the checksum of (0: nothing), followed by `bytes`.
pub(crate) fn crc64(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (blocks, words) = words.as_chunks::<{ LANES * LANE_WORDS }>();
    for block in blocks {
        let mut sums = [0; LANES];
        sums[0] = crc;
        for at in 0..LANE_WORDS {
            for lane in 0..LANES {
                sums[lane] = with_word(sums[lane], block[lane * LANE_WORDS + at]);
            }
        }
        crc = sums.into_iter().reduce(|first, second| multiplied(first, LANE_POWER) ^ second).unwrap_or(crc);
    }
    crc = words.iter().fold(crc, |crc, word| with_word(crc, *word));
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

#[inline]
fn with_word(crc: u64, word: [u8; 8]) -> u64 {
    let mixed = (crc ^ u64::from_le_bytes(word)).to_le_bytes();
    (0..8).fold(0, |sum, index| sum ^ TABLES[7 - index][usize::from(mixed[index])])
}

/// The checksum of two pieces one after the other, of which these are the checksums; the second is so long.
pub(crate) fn combined(first: u64, second: u64, second_len: u64) -> u64 {
    multiplied(first, power(second_len)) ^ second
}

/// A checksum is a polynomial modulo that of the method; so many bytes behind it multiply it by x^8 each.
const fn power(mut bytes: u64) -> u64 {
    let (mut power, mut base) = (ONE, ONE >> 8);
    while bytes > 0 {
        if bytes & 1 != 0 {
            power = multiplied(power, base);
        }
        base = multiplied(base, base);
        bytes >>= 1;
    }
    power
}

/// The polynomial 1; that of x^63 is the lowest bit.
const ONE: u64 = 1 << 63;

const fn multiplied(mut one: u64, mut other: u64) -> u64 {
    let mut product = 0;
    while one != 0 {
        product ^= other & (one >> 63).wrapping_neg();
        other = other >> 1 ^ POLYNOMIAL & (other & 1).wrapping_neg();
        one <<= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let text: Vec<u8> = (0..40_000).map(|n| (n * n / 7) as u8).collect();
        let byte_by_byte = text.iter().fold(0, |crc, byte| crc64(crc, &[*byte]));
        for cut in [0, 1, 7, 8, 9, 500, 16_384, 20_003, 40_000] {
            assert_eq!(crc64(crc64(0, &text[..cut]), &text[cut..]), byte_by_byte);
            let parts = (crc64(0, &text[..cut]), crc64(0, &text[cut..]));
            assert_eq!(combined(parts.0, parts.1, (text.len() - cut) as u64), byte_by_byte);
        }
    }
}
