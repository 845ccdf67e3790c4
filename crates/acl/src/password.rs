//! Hashes of passwords, which are never stored in another form.

use sha2::{Digest, Sha256};

const HEX_DIGITS: usize = 64;

/// The SHA-256 of a password in lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasswordHash([u8; HEX_DIGITS]);

impl PasswordHash {
    /// The hash of `password`.
    pub fn of(password: &[u8]) -> Self {
        let mut digits = [0; HEX_DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(Sha256::digest(password)) {
            pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        PasswordHash(digits)
    }

    /// Reads a hash as rules have it; `None` if the text is not a hash.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.iter().all(is_digit).then(|| text.try_into().ok()).flatten().map(PasswordHash)
    }

    /// The hexadecimal digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares two hashes in constant time.
    pub fn matches(&self, other: &PasswordHash) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |bits, (a, b)| bits | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha_256() {
        let hash = PasswordHash::of(b"p");
        let text = b"148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940";
        assert_eq!(hash.as_bytes(), text);
        assert_eq!(PasswordHash::parse(text), Some(hash.clone()));
        assert!(hash.matches(&PasswordHash::of(b"p")) && !hash.matches(&PasswordHash::of(b"q")));
        for bad in [&text[1..], &text.to_ascii_uppercase(), &[b'g'; 64], &[b'a'; 65]] {
            assert_eq!(PasswordHash::parse(bad), None);
        }
    }
}
