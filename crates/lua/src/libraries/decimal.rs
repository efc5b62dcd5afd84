//! Numbers as C's `%.*g` writes them, which scripts and readers of their output expect.

/// `number` with at most `digits` significant ones (at least 1), in the shorter of both notations,
/// without zeros at the end.
pub fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.into();
    }
    let digits = digits.max(1);
    // Whole numbers that have all their digits are most of what there is.
    if number.fract() == 0.0 && number.abs() < 10_f64.powi(digits.min(15) as i32) && !is_negative_zero(number)
    {
        return (number as i64).to_string();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{number:.decimals$}")).into()
}

fn is_negative_zero(number: f64) -> bool {
    number == 0.0 && number.is_sign_negative()
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_are_written_as_in_c() {
        let cases: [(f64, usize, &str); 14] = [
            (0.0, 17, "0"),
            (-0.0, 14, "-0"),
            (3.0, 17, "3"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e22, 17, "1e+22"),
            (100_000_000_000_000.0, 14, "1e+14"),
            (12_345_678_901_234_567_890.0, 14, "1.2345678901235e+19"),
            (123_456.0, 14, "123456"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (9.999_999_999_999_99, 3, "10"),
            (1.5, 1, "2"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ];
        for (number, digits, expected) in cases {
            assert_eq!(general(number, digits), expected);
        }
    }
}
