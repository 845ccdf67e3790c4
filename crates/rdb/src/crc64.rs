//! The checksum of files and payloads: CRC-64 by Jones (polynomial 0xad93d23594c935a9, reflected, from 0, not
//! inverted).

use crc_fast::CrcAlgorithm::Crc64Redis;
use crc_fast::{Digest, checksum_combine};

/// Continues the checksum `crc` (0 at the beginning) with `bytes`.
pub(crate) fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new_with_init_state(Crc64Redis, crc);
    digest.update(bytes);
    digest.finalize()
}

/// The checksum of two pieces together, from the checksums of each and the length of the second.
pub(crate) fn combined(first: u64, second: u64, second_len: u64) -> u64 {
    checksum_combine(Crc64Redis, first, second, second_len)
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
