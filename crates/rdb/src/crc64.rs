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
        }
    }
}
