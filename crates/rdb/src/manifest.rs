//! The manifest of a snapshot in Darter's own format: lists its parts.
//!
//! ```text
//! DARTER-SNAPSHOT 1
//! id 0000019a8b7c6d5e
//! part 0 65580
//! part 2 1290
//! crc64 5f3c9a0b1d2e4f60
//! ```
//!
//! A part has a number and a length in bytes; numbers ascend. The checksum covers everything before its line.

use crate::crc64::crc64;
use crate::error::{Error, Why};

/// The first bytes of a manifest. No other file begins with them.
pub const MANIFEST_MAGIC: &[u8] = b"DARTER-SNAPSHOT ";
/// The most bytes of a manifest.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;

const HEAD: &str = "DARTER-SNAPSHOT 1\n";
const CHECKSUM_LINE_BYTES: usize = "crc64 \n".len() + 16;

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The id of the snapshot. Each has another one.
    pub id: u64,
    /// The number and length of each part, sorted by number.
    pub parts: Vec<(u32, u64)>,
}

impl Manifest {
    /// The text of the manifest.
    pub fn encode(&self) -> String {
        let parts: String =
            self.parts.iter().map(|(number, bytes)| format!("part {number} {bytes}\n")).collect();
        let text = format!("{HEAD}id {:016x}\n{parts}", self.id);
        let checksum = crc64(0, text.as_bytes());
        format!("{text}crc64 {checksum:016x}\n")
    }

    /// Parses the text of a manifest.
    pub fn decode(text: &[u8]) -> Result<Manifest, Error> {
        let error = |offset: usize, why| Error { offset: offset as u64, why };
        if !text.starts_with(HEAD.as_bytes()) {
            let is_short = HEAD.as_bytes().starts_with(text);
            return Err(if is_short { error(text.len(), Why::Truncated) } else { error(0, Why::Version) });
        }
        let at = text.len().saturating_sub(CHECKSUM_LINE_BYTES).max(HEAD.len());
        let (checked, last) = text.split_at(at);
        if !last.starts_with(b"crc64 ") || !last.ends_with(b"\n") {
            return Err(error(text.len(), Why::Truncated));
        }
        if last != format!("crc64 {:016x}\n", crc64(0, checked)).as_bytes() {
            return Err(error(at, Why::Checksum));
        }
        let (mut id, mut parts) = (None, Vec::new());
        let mut offset = HEAD.len();
        for line in checked[HEAD.len()..].split_inclusive(|byte| *byte == b'\n') {
            let words: Vec<&str> = str::from_utf8(line).unwrap_or_default().trim_end().split(' ').collect();
            let is_understood = match words[..] {
                ["id", number] if id.is_none() => {
                    id = u64::from_str_radix(number, 16).ok();
                    id.is_some()
                }
                ["part", number, bytes] => match (number.parse(), bytes.parse()) {
                    (Ok(number), Ok(bytes)) if parts.last().is_none_or(|(last, _)| *last < number) => {
                        parts.push((number, bytes));
                        true
                    }
                    _ => false,
                },
                _ => false,
            };
            if !is_understood {
                return Err(error(offset, Why::Corrupt("not a line of a manifest")));
            }
            offset += line.len();
        }
        let manifest = Manifest { id: id.unwrap_or_default(), parts };
        // Catches every other deviation.
        if manifest.encode().as_bytes() != text {
            return Err(error(HEAD.len(), Why::Corrupt("a manifest that is not in canonical form")));
        }
        Ok(manifest)
    }
}
