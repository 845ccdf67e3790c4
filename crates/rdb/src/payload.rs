//! What `DUMP` answers: type and value, then the version and a checksum of all of it.

use crate::crc64::crc64;
use crate::{VERSION, VERSION_MAX};

/// Adds version and checksum to type and value.
pub fn seal_payload(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&(VERSION as u16).to_le_bytes());
    payload.extend_from_slice(&crc64(0, payload).to_le_bytes());
}

/// Type and value of `payload`, if version and checksum are right.
pub fn open_payload(payload: &[u8]) -> Option<&[u8]> {
    let (checked, checksum) = payload.split_last_chunk()?;
    let (value, version) = checked.split_last_chunk()?;
    let is_known = u32::from(u16::from_le_bytes(*version)) <= VERSION_MAX;
    (is_known && crc64(0, checked) == u64::from_le_bytes(*checksum)).then_some(value)
}
