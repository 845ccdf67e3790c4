//! The dense form: registers of six bits, packed from the lowest bit of each byte up.

use super::REGISTERS;

const REGISTER_BITS: usize = 6;
const REGISTER_MASK: u16 = (1 << REGISTER_BITS) - 1;
/// Size of all registers.
pub(super) const BYTES: usize = REGISTERS * REGISTER_BITS / 8;

/// Offset of the first of the two bytes that contain a register, both bytes (the second is 0 at the end), and the
/// register's shift in them.
fn window(bytes: &[u8], index: usize) -> (usize, u16, usize) {
    let at = index * REGISTER_BITS / 8;
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (at, u16::from_le_bytes([bytes[at], next]), index * REGISTER_BITS % 8)
}

pub(super) fn get(bytes: &[u8], index: usize) -> u8 {
    let (_, window, shift) = window(bytes, index);
    (window >> shift & REGISTER_MASK) as u8
}

pub(super) fn set(bytes: &mut [u8], index: usize, value: u8) {
    let (at, window, shift) = window(bytes, index);
    let window = window & !(REGISTER_MASK << shift) | u16::from(value) << shift;
    let [low, high] = window.to_le_bytes();
    bytes[at] = low;
    if let Some(next) = bytes.get_mut(at + 1) {
        *next = high;
    }
}

/// All registers, in order.
pub(super) fn values(bytes: &[u8]) -> impl Iterator<Item = u8> {
    // Four registers fill three bytes.
    let (groups, _) = bytes.as_chunks::<3>();
    groups.iter().flat_map(|&[low, middle, high]| {
        let group = u32::from_le_bytes([low, middle, high, 0]);
        [0, 6, 12, 18].map(|shift| (group >> shift) as u8 & REGISTER_MASK as u8)
    })
}
