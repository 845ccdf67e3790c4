//! Functions of floating-point numbers whose digits are the same on all machines, unlike those of the C library.
//!
//! Whether a filter has one bit more, or a centroid takes one more value, depends on the last digit. A replica that
//! decided otherwise would have other data.

const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Coefficients of the polynomial that approximates the logarithm, from fdlibm (Sun Microsystems, 1993).
const POLYNOMIAL: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];
/// 2⁵⁴, which makes a subnormal number a normal one.
const TWO_TO_54: f64 = 18_014_398_509_481_984.0;

/// The natural logarithm of a positive finite number, with an error below one unit in the last place (the algorithm of
/// fdlibm's `e_log.c`).
pub(crate) fn ln(x: f64) -> f64 {
    let (normal, shift) = if x < f64::MIN_POSITIVE { (x * TWO_TO_54, -54) } else { (x, 0) };
    let bits = normal.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023 + shift;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let f = mantissa - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * POLYNOMIAL.iter().rev().fold(0.0, |sum, coefficient| coefficient + z * sum);
    let half_square = 0.5 * f * f;
    let k = f64::from(exponent);
    k * LN_2_HIGH - ((half_square - (s * (half_square + r) + k * LN_2_LOW)) - f)
}

/// The power of a number.
pub(crate) fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right_to_the_last_place() {
        let mut number = 5e-324;
        while number < 1e300 {
            let (own, other) = (ln(number), number.ln());
            assert!((own - other).abs() <= other.abs() * f64::EPSILON, "{number}: {own} instead of {other}");
            number *= 1.037;
            if number < 1e-320 {
                number *= 2.0;
            }
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn powers() {
        assert_eq!((power(2.0, 10), power(0.5, 3), power(7.0, 0)), (1024.0, 0.125, 1.0));
        assert!((power(0.9, 100) - 0.9_f64.powi(100)).abs() < 1e-19);
    }
}
