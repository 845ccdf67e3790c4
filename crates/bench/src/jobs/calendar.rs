//! Dates, as the names of statistics contain them.

/// A minute in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
}

impl Moment {
    /// The minute that contains a time in seconds since 1970 (Hinnant: chrono-compatible low-level date
    /// algorithms).
    pub(crate) fn of(unix_s: u64) -> Moment {
        // Years start in March, so that the leap day is the last day. Eras of 400 years are all alike.
        let days = unix_s / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Moment {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: unix_s / 3600 % 24,
            minute: unix_s / 60 % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |unix_s, year, month, day, hour, minute| {
            assert_eq!(Moment::of(unix_s), Moment { year, month, day, hour, minute });
        };
        check(0, 1970, 1, 1, 0, 0);
        check(951_782_399, 2000, 2, 28, 23, 59);
        check(951_782_400, 2000, 2, 29, 0, 0);
        check(1_709_164_800, 2024, 2, 29, 0, 0);
        check(1_709_251_200, 2024, 3, 1, 0, 0);
        check(1_735_689_599, 2024, 12, 31, 23, 59);
        check(4_102_444_800, 2100, 1, 1, 0, 0);
    }
}
