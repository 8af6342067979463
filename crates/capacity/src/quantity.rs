//! Kubernetes quantities, compared exactly: `64Gi`, `65536Mi` and `68719476736` are the same.

/// A quantity in billionths, rounded up as Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// A whole number.
    #[must_use]
    pub fn whole(number: u64) -> Self {
        Self(i128::from(number) * NANO)
    }

    /// That many MiB, in bytes.
    #[must_use]
    pub fn mebibytes(number: u64) -> Self {
        Self(i128::from(number) * (1 << 20) * NANO)
    }

    /// Reads a quantity; `None` when it is none, or larger than any the cluster could mean.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at_checked(end)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let mut digits: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let (times, tens) = factor(suffix)?;
        // value = digits * times * 10^(tens - fraction digits), kept in billionths.
        let tens = tens.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        let scaled = digits.checked_mul(times)?;
        let nanos = if scaled == 0 {
            0
        } else if tens >= 0 {
            scaled.checked_mul(10_i128.checked_pow(tens.unsigned_abs())?)?
        } else {
            match 10_i128.checked_pow(tens.unsigned_abs()) {
                Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
                None => 1,
            }
        };
        Some(Self(if negative { -nanos } else { nanos }))
    }

    /// In thousandths, rounded up; `None` below zero and beyond reason.
    #[must_use]
    pub fn thousandths(self) -> Option<u64> {
        u64::try_from(ceiling(self.0, NANO / 1000)?).ok()
    }

    /// In whole units, rounded up; `None` below zero and beyond reason.
    #[must_use]
    pub fn units(self) -> Option<u64> {
        u64::try_from(ceiling(self.0, NANO)?).ok()
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

fn ceiling(nanos: i128, unit: i128) -> Option<i128> {
    (nanos >= 0).then(|| nanos / unit + i128::from(nanos % unit != 0))
}

/// A suffix as a factor and a power of ten.
fn factor(suffix: &str) -> Option<(i128, i32)> {
    let found = match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (1, exponent.parse().ok()?)
        }
    };
    Some(found)
}

/// A whole number that is not negative, without a unit, as cluster-autoscaler reads counts.
#[must_use]
pub fn count(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn equal_amounts_are_equal_however_they_are_spelled() {
        for same in [
            &["64Gi", "65536Mi", "68719476736", "67108864Ki", "68719476736000m"][..],
            &["4", "4000m", "+4", "4.0", "4e0", "0.004k", "4000000u", "4000000000n", "40e-1"],
            &["1.5Gi", "1536Mi"],
            &["100G", "100000M", "1e11"],
            &["0", "0Gi", "0.0", "-0"],
        ] {
            assert!(same.iter().all(|text| read(text) == read(same[0])), "{same:?}");
        }
        assert_eq!(read("16384Mi"), Quantity::mebibytes(16384));
        assert_ne!(read("100G"), read("100Gi"));
        assert!(read("-1").is_negative() && read("0").is_zero());
        assert_eq!(read("1e-20"), read("1n"), "what is too small is rounded up, as Kubernetes does");
    }

    #[test]
    fn what_is_no_quantity_is_told_apart() {
        for bad in ["", "G", "1 Gi", "8GB", "1..2", ".", "1e", "1e1000", "0x10", "1,5", "٣", "Ki", "--1", "1Gi "] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
        assert_eq!(Quantity::parse(&"9".repeat(60)), None);
        for bad in ["", "13Mi", "-1", "1.0", " 1", "+", "99999999999999999999999"] {
            assert_eq!(count(bad), None, "{bad}");
        }
        assert_eq!(count("004"), Some(4));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,12}[a-zA-Z]{0,3}[0-9]{0,3}") {
            let _ = (Quantity::parse(&text), count(&text));
        }

        #[test]
        fn mebibytes_are_what_they_say(n in 0u64..1_000_000_000_000) {
            prop_assert_eq!(read(&format!("{n}Mi")), Quantity::mebibytes(n));
            prop_assert_eq!(read(&format!("{n}")), Quantity::whole(n));
        }
    }
}
