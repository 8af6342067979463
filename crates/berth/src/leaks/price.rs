//! What hosts that are nobody's have cost, at prices that whoever asks gives: which price an account pays is not guessed.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::Serialize;

use super::Row;

/// Millionths of a dollar, of which prices are made up.
const DOLLAR: u64 = 1_000_000;
const HOUR: u64 = 3_600;

/// What an hour of a host of a type costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    kind: String,
    millionths: u64,
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is no price such as m5.metal=4.608, in dollars for an hour");
        let (kind, amount) = text.split_once('=').ok_or_else(form)?;
        let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = (1..=6).contains(&whole.len()) && part.len() <= 6 && digits(whole) && digits(part);
        if kind.is_empty() || !fits || amount.ends_with('.') {
            return Err(form());
        }
        let millionths = format!("{whole}{part:0<6}").parse().map_err(|_| form())?;
        Ok(Self { kind: kind.to_owned(), millionths })
    }
}

/// What a host has cost since it was allocated, as an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// All of it, in dollars.
    pub usd: String,
    /// What an hour costs, in dollars.
    pub usd_per_hour: String,
    #[serde(skip)]
    millionths: u64,
}

/// The same row with what the host has cost, where its price and its age are known.
pub fn priced(row: Row, prices: &[Price]) -> Row {
    let price = prices.iter().find(|price| Some(&price.kind) == row.kind.as_ref());
    let seconds = row.age_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let cost = price.zip(seconds).map(|(price, seconds)| {
        let millionths = price.millionths.saturating_mul(seconds) / HOUR;
        let hour = format!("{}.{:06}", price.millionths / DOLLAR, price.millionths % DOLLAR);
        let usd_per_hour = hour.trim_end_matches('0').trim_end_matches('.').to_owned();
        Cost { usd: dollars(millionths), usd_per_hour, millionths }
    });
    Row { cost, ..row }
}

/// Dollars and cents.
fn dollars(millionths: u64) -> String {
    let cents = millionths.saturating_add(DOLLAR / 200) / (DOLLAR / 100);
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// A time in hours, as hosts are paid for.
pub fn hours(seconds: i64) -> String {
    let tenths = seconds.max(0).saturating_mul(10).saturating_add(1_800) / 3_600;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// How long some hosts together were paid for, and what they have cost as far as prices are known.
pub fn together<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> String {
    let seconds: i64 = rows.clone().filter_map(|row| row.age_seconds).sum();
    let known: Vec<u64> = rows.clone().filter_map(|row| Some(row.cost.as_ref()?.millionths)).collect();
    let least = if rows.clone().all(|row| row.age_seconds.is_some()) { "" } else { "at least " };
    let paid = format!("together paid for {least}{} hours", hours(seconds));
    if known.is_empty() {
        return format!("{paid}; what that costs is told with --price TYPE=USD");
    }
    let all = known.iter().fold(0u64, |all, one| all.saturating_add(*one));
    let (mut dear, mut blank) = (BTreeSet::new(), false);
    for row in rows.filter(|row| row.cost.is_none()) {
        match (&row.kind, row.age_seconds) {
            (Some(kind), Some(_)) => drop(dear.insert(kind.as_str())),
            // No price could tell what it has cost.
            _ => blank = true,
        }
    }
    let dear = dear.into_iter().collect::<Vec<_>>().join(", ");
    let mut without = Vec::new();
    without.extend((!dear.is_empty()).then(|| format!(" without {dear}, whose price was not given")));
    without.extend(blank.then(|| " without those of which type or age is not known".to_owned()));
    format!("{paid}, about {} USD{}", dollars(all), without.join(", and"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_a_type_and_dollars() {
        for (text, millionths) in
            [("m5.metal=4.608", 4_608_000), ("mac2=0.65", 650_000), ("a=7", 7_000_000), ("a=0.000001", 1)]
        {
            assert_eq!(text.parse::<Price>().unwrap().millionths, millionths, "{text}");
        }
        for bad in [
            "",
            "m5",
            "=1",
            "m5=",
            "m5=.5",
            "m5=1.",
            "m5=-1",
            "m5=1e3",
            "m5=1,5",
            "m5=1.0000001",
            "m5=1000000",
            "m5= 1",
        ] {
            assert!(bad.parse::<Price>().unwrap_err().contains("m5.metal=4.608"), "{bad}");
        }
    }

    #[test]
    fn hours_and_dollars_are_rounded_to_what_people_read() {
        assert_eq!([0, 1_799, 12_600, 360_180].map(hours), ["0.0", "0.5", "3.5", "100.1"]);
        assert_eq!([0, 4_999, 5_000, 16_128_000].map(dollars), ["0.00", "0.00", "0.01", "16.13"]);
    }
}
