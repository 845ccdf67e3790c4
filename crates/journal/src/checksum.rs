//! The checksum of frames and manifests: CRC-64 by Jones, as in Redis' dump format.

use crc_fast::CrcAlgorithm::Crc64Redis;

/// The checksum of `bytes`.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(Crc64Redis, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
