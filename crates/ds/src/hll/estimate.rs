//! Estimates the cardinality from the registers: Ertl's improved raw estimator, which needs no tables and no bias correction.

use super::{REGISTER_VALUES, REGISTERS, RUN_BITS};

/// The limit of the correction factor for many registers, 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Estimated number of different elements, where `histogram[value]` registers have each value.
pub(super) fn cardinality(histogram: &[usize; REGISTER_VALUES]) -> u64 {
    let registers = REGISTERS as f64;
    let saturated = histogram[RUN_BITS as usize + 1] as f64;
    let mut sum = registers * tau((registers - saturated) / registers);
    for &count in histogram[1..=RUN_BITS as usize].iter().rev() {
        sum = (sum + count as f64) * 0.5;
    }
    sum += registers * sigma(histogram[0] as f64 / registers);
    let estimate = (ALPHA * registers * registers / sum).round();
    // The estimate is infinite only for registers that no element can produce; C's conversion then gives this value.
    if estimate.is_finite() { estimate as u64 } else { i64::MIN as u64 }
}

/// The contribution of registers that are zero.
fn sigma(x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (x, 1.0, x);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// The contribution of registers that cannot rise.
fn tau(x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (x, 1.0, 1.0 - x);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root).powi(2) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}
