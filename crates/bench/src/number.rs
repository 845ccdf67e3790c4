//! Formats numbers for display.

/// With commas between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// With three significant digits: `1,234`, `12.3`, `0.123`.
pub(crate) fn rounded(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => "–".to_owned(),
        size if size >= 100.0 => grouped(number.round() as u64),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        size if size > 0.0 => format!("{number:.3}"),
        _ => "0".to_owned(),
    }
}

/// `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut size = count as f64;
    for unit in ["B", "KiB", "MiB"] {
        if size < 1024.0 {
            return format!("{} {unit}", rounded(size));
        }
        size /= 1024.0;
    }
    format!("{} GiB", rounded(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_can_read_them() {
        let numbers: Vec<String> = [0, 7, 999, 1000, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(numbers, ["0", "7", "999", "1,000", "1,234,567"]);
        let numbers: Vec<String> = [0.0, 0.1234, 1.234, 12.34, 123.4, 12345.6, f64::NAN].map(rounded).into();
        assert_eq!(numbers, ["0", "0.123", "1.23", "12.3", "123", "12,346", "–"]);
        assert_eq!([bytes(10), bytes(1536), bytes(3 << 30)], ["10.0 B", "1.50 KiB", "3.00 GiB"]);
    }
}
