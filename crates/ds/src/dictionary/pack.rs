//! Packing: copies are found with an index of runs of four bytes, after trying where the last copy would continue.
//!
//! Where no copy is found, all following digits are skipped at once, because members differ in ids, times and
//! numbers. A copy found after them is extended backwards, so little is lost where they do not differ.

use super::{
    COPY_LONG, COPY_MAX, COPY_MIN, Dictionary, FAR, GO_ON, HEX, HEX_DIGITS, HEX_MAX, NEAR, NUMERIC,
    NUMERIC_DIGITS, NUMERIC_MAX, RAW, RAW_MAX, UUID, UUID_HYPHENS, UUID_LEN, first_run, place_of,
};

/// If the last copy continues for at least this length, no other copy is considered.
const GOOD_ENOUGH: usize = 12;
/// Minimum lengths of near and far copies: the bytes of the operation, plus the cost of interrupting the one before it.
const NEAR_MIN: usize = 4;
const FAR_MIN: usize = 5;
/// Bits of a run of four bytes beyond the shortest copy.
const BITS_BEYOND_COPY_MIN: u32 = u32::BITS - 8 * COPY_MIN as u32;
/// Minimum number of digits that is worth an operation of its own.
const DIGITS_MIN: usize = 5;

/// The value of each byte as a hexadecimal digit and as a numeric one.
static DIGITS: [Digit; 256] = digits();

#[derive(Clone, Copy)]
struct Digit {
    hex: u8,
    numeric: u8,
}

/// Stands for the value of a byte that is not a digit.
const NO_DIGIT: u8 = u8::MAX;

const fn digits() -> [Digit; 256] {
    let mut digits = [Digit { hex: NO_DIGIT, numeric: NO_DIGIT }; 256];
    let mut value = 0;
    while value < 16 {
        digits[HEX_DIGITS[value] as usize].hex = value as u8;
        digits[NUMERIC_DIGITS[value] as usize].numeric = value as u8;
        value += 1;
    }
    digits
}

fn hex(byte: u8) -> u8 {
    DIGITS[usize::from(byte)].hex
}

fn numeric(byte: u8) -> u8 {
    DIGITS[usize::from(byte)].numeric
}

/// Whether the byte is a digit of either kind.
fn is_digit(byte: u8) -> bool {
    let Digit { hex, numeric } = DIGITS[usize::from(byte)];
    hex & numeric != NO_DIGIT
}

/// A copy from the dictionary.
#[derive(Clone, Copy)]
struct Copy {
    from: usize,
    len: usize,
}

impl Dictionary {
    /// Appends the packed form of `plain` to `out`. It may be longer than `plain`, by at most one byte in 64.
    pub fn pack(&self, plain: &[u8], out: &mut Vec<u8>) {
        // Start of the bytes to be output before the next copy.
        let mut given = 0;
        let mut at = 0;
        // Offset in the dictionary at which the last copy would continue, minus the offset in `plain`.
        let mut shift = 0_usize;
        while at < plain.len() {
            let Some(copy) = self.find(plain, at, shift) else {
                at += plain[at..].iter().take_while(|&&byte| is_digit(byte)).count().max(1);
                continue;
            };
            let back = common_end(&plain[given..at], &self.text[..copy.from]);
            let copy = Copy { from: copy.from - back, len: (copy.len + back).min(COPY_MAX) };
            at -= back;
            give(&plain[given..at], out);
            push_copy(copy, at.wrapping_add(shift), out);
            shift = copy.from.wrapping_sub(at);
            at += copy.len;
            given = at;
        }
        give(&plain[given..], out);
    }

    /// Finds a copy for the text at `at`.
    #[inline]
    fn find(&self, plain: &[u8], at: usize, shift: usize) -> Option<Copy> {
        let rest = &plain[at..];
        let run = first_run(rest)?;
        let expected = at.wrapping_add(shift);
        let mut found = Copy { from: expected, len: 0 };
        if let Some(text) = self.text.get(expected..)
            && first_run(text).is_some_and(|other| (other ^ run) << BITS_BEYOND_COPY_MIN == 0)
        {
            found.len = common(rest, text);
        }
        if found.len < GOOD_ENOUGH
            && let Some(from) = usize::from(self.places[place_of(run)]).checked_sub(1)
            && first_run(&self.text[from..]) == Some(run)
        {
            let len = common(rest, &self.text[from..]);
            let min = if is_near(from, expected) { NEAR_MIN } else { FAR_MIN };
            if len >= min && len > found.len + 2 {
                found = Copy { from, len };
            }
        }
        (found.len > 0).then_some(found)
    }
}

/// Length of the common prefix of two texts.
#[inline]
fn common(left: &[u8], right: &[u8]) -> usize {
    let mut len = 0;
    while let (Some(left), Some(right)) = (left[len..].first_chunk(), right[len..].first_chunk()) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return len + differing.trailing_zeros() as usize / 8;
        }
        len += size_of::<u64>();
    }
    len + left[len..].iter().zip(&right[len..]).take_while(|(left, right)| left == right).count()
}

/// Length of the common suffix of two texts.
#[inline]
fn common_end(left: &[u8], right: &[u8]) -> usize {
    left.iter().rev().zip(right.iter().rev()).take_while(|(left, right)| left == right).count()
}

fn is_near(from: usize, expected: usize) -> bool {
    i8::try_from(from.wrapping_sub(expected).cast_signed()).is_ok()
}

fn push_copy(copy: Copy, expected: usize, out: &mut Vec<u8>) {
    let length = copy.len.min(COPY_LONG) - COPY_MIN;
    let distance = copy.from.wrapping_sub(expected).cast_signed();
    if distance == 0 {
        out.push(GO_ON | length as u8);
    } else if let Ok(distance) = i8::try_from(distance) {
        out.extend([NEAR | length as u8, distance.cast_unsigned()]);
    } else {
        let [low, high] = (copy.from as u16).to_le_bytes();
        out.extend([FAR | length as u8, low, high]);
    }
    if let Some(more) = copy.len.checked_sub(COPY_LONG) {
        out.push(more as u8);
    }
}

/// Outputs bytes that are not in the dictionary.
fn give(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut at, mut raw) = (0, 0);
    while let Some(&first) = bytes.get(at) {
        if !is_digit(first) {
            at += 1;
            continue;
        }
        let rest = &bytes[at..];
        let hex_len = digit_count(rest, HEX_MAX, hex);
        if hex_len == UUID_HYPHENS[0]
            && let Some(uuid) = rest.first_chunk().and_then(uuid_value)
        {
            push_raw(&bytes[raw..at], out);
            out.push(UUID);
            out.extend_from_slice(&uuid);
            at += UUID_LEN;
            raw = at;
            continue;
        }
        let numeric_len = digit_count(rest, NUMERIC_MAX, numeric);
        let len = hex_len.max(numeric_len);
        if len >= DIGITS_MIN {
            push_raw(&bytes[raw..at], out);
            if hex_len >= numeric_len {
                push_digits(HEX, &rest[..len], hex, out);
            } else {
                push_digits(NUMERIC, &rest[..len], numeric, out);
            }
            raw = at + len;
        }
        at += len;
    }
    push_raw(&bytes[raw..], out);
}

fn push_raw(bytes: &[u8], out: &mut Vec<u8>) {
    for bytes in bytes.chunks(RAW_MAX) {
        out.push(RAW | (bytes.len() - 1) as u8);
        out.extend_from_slice(bytes);
    }
}

#[inline]
fn digit_count(bytes: &[u8], max: usize, value: fn(u8) -> u8) -> usize {
    bytes.iter().take(max).take_while(|byte| value(**byte) != NO_DIGIT).count()
}

fn push_digits(operation: u8, digits: &[u8], value: fn(u8) -> u8, out: &mut Vec<u8>) {
    let mut bytes = [0; HEX_MAX / 2];
    let (pairs, odd) = digits.as_chunks::<2>();
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(*high) << 4 | value(*low);
    }
    if let [odd] = odd {
        bytes[pairs.len()] = value(*odd) << 4;
    }
    out.push(operation + (digits.len() - 1) as u8);
    out.extend_from_slice(&bytes[..digits.len().div_ceil(2)]);
}

/// The bytes of a UUID in its usual form; `None` if it is not one.
fn uuid_value(text: &[u8; UUID_LEN]) -> Option<[u8; 16]> {
    if UUID_HYPHENS.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut digits = text.iter().enumerate().filter(|(at, _)| !UUID_HYPHENS.contains(at));
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        let mut next = || digits.next().map(|(_, digit)| hex(*digit)).filter(|&value| value != NO_DIGIT);
        *byte = next()? << 4 | next()?;
    }
    Some(uuid)
}
