//! Figures for people, and text from elsewhere made safe for a terminal.

use std::fmt::Write;

/// Any bytes as printable ASCII, escaped as in redis-cli, with at most `letters_max` characters. So a text can neither
/// move the cursor, nor change colours or the direction of writing, and each character is one column wide.
pub(crate) fn shown(bytes: &[u8], letters_max: usize) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if text.len() > letters_max {
            break;
        }
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => _ = write!(text, "\\x{byte:02x}"),
        }
    }
    cut(text, letters_max)
}

/// ASCII text with at most `letters_max` characters. A shortened text ends with dots.
pub(crate) fn cut(mut text: String, letters_max: usize) -> String {
    if text.len() > letters_max {
        text.truncate(letters_max.saturating_sub(3));
        text.push_str(&"..."[..letters_max.min(3)]);
    }
    text
}

/// A duration in its largest unit.
pub(crate) fn age(ms: Option<u64>) -> String {
    const UNITS: [(&str, u64, u64); 4] =
        [("s", 1_000, 120), ("min", 60_000, 120), ("h", 3_600_000, 48), ("d", 86_400_000, u64::MAX)];
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 1_000 => format!("{ms} ms"),
        Some(ms) if ms < 10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        Some(ms) => {
            let of_unit = UNITS.iter().find(|(_, unit_ms, max)| ms / unit_ms < *max);
            let (name, unit_ms, _) = of_unit.unwrap_or(&UNITS[UNITS.len() - 1]);
            format!("{} {name}", ms / unit_ms)
        }
    }
}

/// A number with separated thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per second.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{small:.2}"),
        medium if medium < 1_000.0 => format!("{medium:.1}"),
        large => count(large as u64),
    }
}

/// A number of bytes in its largest unit.
pub(crate) fn bytes(number: u64) -> String {
    let mut amount = number as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // An amount that would be rounded to 1024 is shown in the next unit.
    while amount >= 1023.5 {
        let Some(next) = units.next() else { break };
        (amount, unit) = (amount / 1024.0, next);
    }
    if unit == "B" || amount >= 99.95 { format!("{amount:.0} {unit}") } else { format!("{amount:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_is_harmless() {
        for (bytes, expected) in [
            (&b"queue:default"[..], "queue:default"),
            (b"a\x1b[31m\r\n\t\x07\x7f\\", "a\\x1b[31m\\r\\n\\t\\x07\\x7f\\\\"),
            ("\u{202e}\u{e9}".as_bytes(), "\\xe2\\x80\\xae\\xc3\\xa9"),
            (b"\xff\0\x9b", "\\xff\\x00\\x9b"),
        ] {
            assert_eq!(shown(bytes, 1000), expected);
        }
        assert_eq!(shown(b"abcdef", 6), "abcdef");
        assert_eq!(shown(b"abcdefg", 6), "abc...");
        assert_eq!(shown(b"abcdefg", 2), "..");
        assert_eq!(shown(b"abcdefg", 0), "");
        assert_eq!(shown(&[0; 1_000_000], 10).len(), 10);
    }

    #[test]
    fn ages_have_their_largest_unit() {
        for (ms, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (9_999, "9.9 s"),
            (10_000, "10 s"),
            (119_999, "119 s"),
            (180_000, "3 min"),
            (7_199_999, "119 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 d"),
            (u64::MAX, "213503982334 d"),
        ] {
            assert_eq!(age(Some(ms)), expected);
        }
        assert_eq!(age(None), "-");
    }

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), expected);
        }
        for (per_s, expected) in [
            (0.0, "0"),
            (0.2, "0.20"),
            (51.34, "51.3"),
            (4_211.7, "4,211"),
            (1e300, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(rate(per_s), expected);
        }
        for (number, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (410_112, "400 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), expected);
        }
    }
}
