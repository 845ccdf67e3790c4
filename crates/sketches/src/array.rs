//! Large arrays of bytes that begin as zeros.

/// The most bytes that the arrays of one sketch take together: as many as a string may have. A sketch that would need
/// more is refused before anything is allocated.
pub const BYTES_MAX: u64 = (4 << 30) - (1 << 20);
/// A filter that says that it has more items is not read. None gets there by adding.
pub(crate) const ITEMS_MAX: u64 = 1 << 62;
/// Smaller arrays are allocated without asking whether that is possible.
const CERTAIN_BYTES_MAX: usize = 1 << 20;

/// Why a sketch cannot be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateError {
    /// Its parameters contradict each other or make no sense.
    Invalid,
    /// It would take more than [`BYTES_MAX`], or more than the machine has.
    TooLarge,
}

/// `count` cells of `cell_bytes` each, all zero.
pub(crate) fn zeroed(count: u64, cell_bytes: u64) -> Result<Vec<u8>, CreateError> {
    let bytes = count.checked_mul(cell_bytes).filter(|bytes| *bytes <= BYTES_MAX);
    let bytes = bytes.ok_or(CreateError::TooLarge)? as usize;
    if bytes <= CERTAIN_BYTES_MAX {
        return Ok(vec![0; bytes]);
    }
    let mut array = Vec::new();
    array.try_reserve_exact(bytes).map_err(|_| CreateError::TooLarge)?;
    array.resize(bytes, 0);
    Ok(array)
}

/// The number at `at`.
#[inline]
pub(crate) fn u32_at(array: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array[at..at + 4].try_into().expect("these are four bytes"))
}

/// Replaces the number at `at`.
#[inline]
pub(crate) fn put_u32(array: &mut [u8], at: usize, number: u32) {
    array[at..at + 4].copy_from_slice(&number.to_le_bytes());
}
