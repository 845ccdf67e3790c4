//! Natural numbers of any size, with only the operations that exact decimal conversion of a long double needs.
//!
//! Little-endian 64-bit limbs without leading zero limbs; zero has no limbs. Numbers of everyday size stay on the
//! stack. Callers bound the sizes: nothing here grows beyond what they request.

use smallvec::SmallVec;
use std::cmp::Ordering;

/// The largest powers of ten and of five that fit in a limb, with their exponents.
const TEN_CHUNK: (u32, u64) = (19, 10_000_000_000_000_000_000);
const FIVE_CHUNK: (u32, u64) = (27, 7_450_580_596_923_828_125);

#[derive(Clone)]
pub(super) struct Natural {
    limbs: SmallVec<[u64; 6]>,
}

impl Natural {
    pub(super) fn from_u64(value: u64) -> Self {
        let mut limbs = SmallVec::new();
        if value != 0 {
            limbs.push(value);
        }
        Self { limbs }
    }

    /// The number with these ASCII digits, most significant first.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Self {
        let mut number = Self::from_u64(0);
        let (mut chunk, mut scale) = (0, 1);
        for digit in digits {
            chunk = chunk * 10 + u64::from(digit - b'0');
            scale *= 10;
            if scale == TEN_CHUNK.1 {
                number.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        number.multiply_add(scale, chunk);
        number
    }

    pub(super) fn power_of_five(exponent: u32) -> Self {
        let mut number = Self::from_u64(1);
        number.multiply_power_of_five(exponent);
        number
    }

    pub(super) fn multiply_power_of_five(&mut self, exponent: u32) {
        for _ in 0..exponent / FIVE_CHUNK.0 {
            self.multiply_add(FIVE_CHUNK.1, 0);
        }
        self.multiply_add(5_u64.pow(exponent % FIVE_CHUNK.0), 0);
    }

    /// `self × factor + addend`.
    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry != 0 {
            self.limbs.push(carry);
        }
    }

    pub(super) fn bit_length(&self) -> u32 {
        match self.limbs.last() {
            Some(top) => self.limbs.len() as u32 * 64 - top.leading_zeros(),
            None => 0,
        }
    }

    pub(super) fn shift_left(&mut self, bits: u32) {
        let bit_shift = bits % 64;
        if bit_shift != 0 {
            self.multiply_add(1 << bit_shift, 0);
        }
        let zeros = SmallVec::<[u64; 6]>::from_elem(0, (bits / 64) as usize);
        self.limbs.insert_from_slice(0, &zeros);
    }

    /// The upper 128 bits, the number of bits below them, and whether any of those is set.
    pub(super) fn top_bits(&self) -> (u128, u32, bool) {
        let low = |limb: usize| u128::from(self.limbs.get(limb).copied().unwrap_or(0));
        let shift = self.bit_length().saturating_sub(128);
        let (first, bit_shift) = ((shift / 64) as usize, shift % 64);
        let mut top = low(first) >> bit_shift | low(first + 1) << (64 - bit_shift);
        if bit_shift != 0 {
            top |= low(first + 2) << (128 - bit_shift);
        }
        let lost = self.limbs[..first].iter().any(|&limb| limb != 0)
            || (bit_shift != 0 && low(first) & ((1 << bit_shift) - 1) != 0);
        (top, shift, lost)
    }

    /// The quotient to at least 65 significant bits: `(q, shift, inexact)` such that `self / divisor` is `q × 2^shift`,
    /// or above it by less than one unit of q if `inexact`.
    pub(super) fn divide(mut self, mut divisor: Self) -> (u128, i64, bool) {
        let quotient_bits = 66;
        let scale = i64::from(quotient_bits + divisor.bit_length()) - i64::from(self.bit_length());
        if let (&[dividend], &[divisor]) = (&self.limbs[..], &divisor.limbs[..])
            && divisor >> 61 == 0
        {
            let (dividend, divisor) = (u128::from(dividend) << scale, u128::from(divisor));
            return (dividend / divisor, -scale, dividend % divisor != 0);
        }
        // One quotient bit per iteration: the scaled divisor stays, and the remainder is shifted left.
        let up = quotient_bits + u32::try_from(-scale).unwrap_or(0);
        divisor.shift_left(up);
        self.shift_left(u32::try_from(scale).unwrap_or(0));
        let mut quotient = 0;
        for _ in 0..=quotient_bits {
            quotient <<= 1;
            if self.compare(&divisor) != Ordering::Less {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.multiply_add(2, 0);
        }
        (quotient, -scale, !self.limbs.is_empty())
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }

    /// `self - other`, which must not be negative.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let subtrahend = other.limbs.get(index).copied().unwrap_or(0);
            let (difference, first) = limb.overflowing_sub(subtrahend);
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = first || second;
        }
        debug_assert!(!borrow, "subtract: the difference is negative");
        self.drop_leading_zeros();
    }

    fn drop_leading_zeros(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// Appends the decimal digits.
    pub(super) fn write_decimal(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        while !self.limbs.is_empty() {
            let mut remainder = 0;
            for limb in self.limbs.iter_mut().rev() {
                let value = u128::from(remainder) << 64 | u128::from(*limb);
                *limb = (value / u128::from(TEN_CHUNK.1)) as u64;
                remainder = (value % u128::from(TEN_CHUNK.1)) as u64;
            }
            self.drop_leading_zeros();
            chunks.push(remainder);
        }
        let first = chunks.pop().unwrap_or(0);
        out.extend_from_slice(format!("{first}").as_bytes());
        for chunk in chunks.iter().rev() {
            out.extend_from_slice(format!("{chunk:019}").as_bytes());
        }
    }
}
