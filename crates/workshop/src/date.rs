//! Dates, as they stand in names of files: `2026-11-30-143205`, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Now, as `2026-11-30-143205`.
pub fn stamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    stamp_of(since.unwrap_or_default().as_secs())
}

fn stamp_of(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / SECONDS_A_DAY);
    let second = seconds % SECONDS_A_DAY;
    format!(
        "{year:04}-{month:02}-{day:02}-{:02}{:02}{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a day, counted from 1970-01-01. Counts whole years and months off.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::stamp_of;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @SECONDS +%Y-%m-%d-%H%M%S` prints them.
        for (seconds, expected) in [
            (0, "1970-01-01-000000"),
            (951_782_399, "2000-02-28-235959"),
            (951_782_400, "2000-02-29-000000"),
            (1_796_049_125, "2026-11-30-143205"),
            (4_107_542_400, "2100-03-01-000000"),
        ] {
            assert_eq!(stamp_of(seconds), expected);
        }
    }
}
