//! The checksum of files and payloads: CRC-64 by Jones (polynomial 0xad93d23594c935a9, reflected, from 0, not inverted).
//!
//! Eight bytes at a time with eight tables ("slicing by 8", Kounavis and Berry 2005).

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

/// The checksum of what `crc` is the checksum of (0: nothing), followed by `bytes`.
pub(crate) fn crc64(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        crc = (0..8).fold(0, |sum, index| sum ^ TABLES[7 - index][usize::from(mixed[index])]);
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

/// The checksum of two pieces one after the other, of which these are the checksums; the second is so long.
pub(crate) fn combined(first: u64, second: u64, second_len: u64) -> u64 {
    // A checksum is a polynomial modulo that of the method; so many bytes behind it multiply it by x^8 each.
    let (mut power, mut base, mut left) = (ONE, ONE >> 8, second_len);
    while left > 0 {
        if left & 1 != 0 {
            power = multiplied(power, base);
        }
        base = multiplied(base, base);
        left >>= 1;
    }
    multiplied(first, power) ^ second
}

/// The polynomial 1; that of x^63 is the lowest bit.
const ONE: u64 = 1 << 63;

fn multiplied(one: u64, mut other: u64) -> u64 {
    let mut product = 0;
    for bit in (0..u64::BITS).rev() {
        if one >> bit & 1 != 0 {
            product ^= other;
        }
        other = if other & 1 == 0 { other >> 1 } else { other >> 1 ^ POLYNOMIAL };
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let text: Vec<u8> = (0..1000).map(|n| (n * 7) as u8).collect();
        let byte_by_byte = text.iter().fold(0, |crc, byte| crc64(crc, &[*byte]));
        for cut in [0, 1, 7, 8, 9, 500, 1000] {
            assert_eq!(crc64(crc64(0, &text[..cut]), &text[cut..]), byte_by_byte);
            let parts = (crc64(0, &text[..cut]), crc64(0, &text[cut..]));
            assert_eq!(combined(parts.0, parts.1, (text.len() - cut) as u64), byte_by_byte);
        }
    }
}
