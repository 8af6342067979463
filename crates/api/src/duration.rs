//! Durations as users of Kubernetes write them: `10m0s`, `1.5h`, `300ms`.

/// The longest time that Cluster API takes.
const LONGEST: i64 = i32::MAX as i64;

/// Whole seconds of a duration, rounded down, between the longest time that Cluster API takes and its negative.
#[must_use]
pub fn seconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (number, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && part.is_empty()) || whole.len() > 15 || part.len() > 15 || part.contains('.') {
            return None;
        }
        let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
        nanos += digits(whole)? * scale;
        nanos += digits(part)? * scale / 10_i128.pow(u32::try_from(part.len()).ok()?);
        rest = after;
    }
    let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(LONGEST).min(LONGEST);
    // Less than a second below nothing is still below nothing.
    if sign < 0 && nanos > 0 { Some((-seconds).min(-1)) } else { Some(seconds) }
}

/// Seconds as Go writes them: `1h0m0s`, `10m0s`, `45s`.
#[must_use]
pub fn text(seconds: i64) -> String {
    let (sign, whole) = if seconds < 0 { ("-", seconds.unsigned_abs()) } else { ("", seconds.unsigned_abs()) };
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{sign}{seconds}s"),
        (0, minutes, seconds) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, wanted) in [
            ("10m0s", Some(600)),
            ("5m", Some(300)),
            ("1h30m", Some(5400)),
            ("1.5h", Some(5400)),
            ("300ms", Some(0)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("-1s", Some(-1)),
            ("-1ms", Some(-1)),
            ("1000000h", Some(LONGEST)),
            ("99999999999999999999h", None),
            ("", None),
            ("10", None),
            ("m", None),
            ("10x", None),
            ("1.2.3s", None),
            (".s", None),
            ("1h ", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (number, wanted) in
            [(0, "0s"), (45, "45s"), (600, "10m0s"), (3600, "1h0m0s"), (5461, "1h31m1s"), (-90, "-1m30s")]
        {
            assert_eq!(text(number), wanted);
            assert_eq!(seconds(wanted), Some(number));
        }
    }
}
