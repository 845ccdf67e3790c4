//! The sparse form: runs of registers with the same value, in order.
//!
//! ```text
//! 00llllll           1 to 64 zeros
//! 01llllll llllllll  1 to 16384 zeros
//! 1vvvvvll           1 to 4 times a value from 1 to 32
//! ```
//!
//! Lengths and values are stored minus one. If the second byte of the last run is missing, it is read as zero.

use smallvec::SmallVec;

use super::{Corrupt, HEADER_BYTES, REGISTERS};

const VALUE_MAX: u8 = 32;
const VALUE_RUN_MAX: usize = 4;
const SHORT_ZEROS_MAX: usize = 64;
/// Number of runs, from the one before a changed run on, that are checked for neighbours to be merged.
const MERGED_RUNS: usize = 5;

/// A run of registers with the same value.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterRun {
    pub(super) value: u8,
    pub(super) length: usize,
    /// Its encoded length.
    bytes: usize,
}

impl RegisterRun {
    fn at(bytes: &[u8], at: usize) -> RegisterRun {
        let first = bytes[at];
        let low = usize::from(first & 0x3f);
        match first >> 6 {
            0 => RegisterRun { value: 0, length: low + 1, bytes: 1 },
            1 => {
                let second = bytes.get(at + 1).copied().unwrap_or(0);
                RegisterRun { value: 0, length: (low << 8 | usize::from(second)) + 1, bytes: 2 }
            }
            _ => RegisterRun { value: (first >> 2 & 0x1f) + 1, length: usize::from(first & 3) + 1, bytes: 1 },
        }
    }

    fn all(bytes: &[u8]) -> impl Iterator<Item = RegisterRun> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let run = (at < bytes.len()).then(|| RegisterRun::at(bytes, at))?;
            at += run.bytes;
            Some(run)
        })
    }
}

/// Outcome of raising a register.
pub(super) enum Raised {
    /// Whether the register was raised.
    Done(bool),
    /// The sparse form cannot represent the value or would become too long.
    TooLarge,
}

/// Calls `visit` with every run. Fails if the runs do not cover all registers exactly.
pub(super) fn each_run(bytes: &[u8], mut visit: impl FnMut(RegisterRun)) -> Result<(), Corrupt> {
    let mut covered = 0;
    for run in RegisterRun::all(bytes) {
        covered += run.length;
        if covered > REGISTERS {
            return Err(Corrupt);
        }
        visit(run);
    }
    if covered == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Appends a run of zeros, unless its length is 0.
pub(super) fn write_zeros(length: usize, out: &mut impl Extend<u8>) {
    match length {
        0 => {}
        1..=SHORT_ZEROS_MAX => out.extend([(length - 1) as u8]),
        _ => out.extend([0x40 | ((length - 1) >> 8) as u8, (length - 1) as u8]),
    }
}

fn write_values(value: u8, length: usize, out: &mut impl Extend<u8>) {
    if length > 0 {
        out.extend([0x80 | (value - 1) << 2 | (length - 1) as u8]);
    }
}

/// Raises a register of `hll`, which includes the header, to `value`. Fails if the runs do not reach it.
pub(super) fn raise(hll: &mut Vec<u8>, index: usize, value: u8, bytes_max: u64) -> Result<Raised, Corrupt> {
    if value > VALUE_MAX {
        return Ok(Raised::TooLarge);
    }
    let (mut at, mut before, mut first) = (HEADER_BYTES, HEADER_BYTES, 0);
    let run = loop {
        if at >= hll.len() {
            return Err(Corrupt);
        }
        let run = RegisterRun::at(hll, at);
        if index < first + run.length {
            break run;
        }
        (before, first) = (at, first + run.length);
        at += run.bytes;
    };
    if run.value >= value {
        return Ok(Raised::Done(false));
    }
    let mut parts: SmallVec<[u8; 8]> = SmallVec::new();
    let (left, right) = (index - first, first + run.length - 1 - index);
    let write_rest = |length, parts: &mut _| match run.value {
        0 => write_zeros(length, parts),
        value => write_values(value, length, parts),
    };
    write_rest(left, &mut parts);
    write_values(value, 1, &mut parts);
    write_rest(right, &mut parts);
    if parts.len() > run.bytes && (hll.len() + parts.len() - run.bytes) as u64 > bytes_max {
        return Ok(Raised::TooLarge);
    }
    let end = (at + run.bytes).min(hll.len());
    hll.splice(at..end, parts);
    merge_neighbours(hll, before);
    Ok(Raised::Done(true))
}

/// Merges neighbouring runs of the same value, starting with the run at `at`.
fn merge_neighbours(hll: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED_RUNS {
        let Some(run) = (at < hll.len()).then(|| RegisterRun::at(hll, at)) else { return };
        let next = (at + run.bytes < hll.len()).then(|| RegisterRun::at(hll, at + run.bytes));
        match next {
            Some(next)
                if run.value > 0 && run.value == next.value && run.length + next.length <= VALUE_RUN_MAX =>
            {
                let mut merged: SmallVec<[u8; 1]> = SmallVec::new();
                write_values(run.value, run.length + next.length, &mut merged);
                hll.splice(at..at + 2, merged);
            }
            _ => at += run.bytes,
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> String {
    let shown = RegisterRun::all(bytes).map(|run| match run {
        RegisterRun { value: 0, length, bytes: 1 } => format!("z:{length}"),
        RegisterRun { value: 0, length, .. } => format!("Z:{length}"),
        RegisterRun { value, length, .. } => format!("v:{value},{length}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}
