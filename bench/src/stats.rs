//! Statistics over raw samples: no buckets, no dropped warm-up.

use serde::Serialize;

/// Median with the smallest and the largest value beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle sample, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// How many samples there were.
    pub samples: usize,
}

/// Percentiles of raw samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of the samples are at or below this.
    pub p50: f64,
    /// 95 of 100 samples are at or below this.
    pub p95: f64,
    /// 99 of 100 samples are at or below this.
    pub p99: f64,
    /// The largest sample.
    pub max: f64,
    /// How many samples there were.
    pub samples: usize,
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut v: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    v.sort_by(f64::total_cmp);
    v
}

/// The spread of the finite samples, or nothing when there are none.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let v = sorted(values);
    let (min, max) = (*v.first()?, *v.last()?);
    let upper = *v.get(v.len() / 2)?;
    let median = if v.len() % 2 == 1 { upper } else { (v.get(v.len() / 2 - 1)? + upper) / 2.0 };
    Some(Spread { median, min, max, samples: v.len() })
}

/// The smallest sample that is not below the given share (0 to 1) of all samples (nearest rank).
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let v = sorted(values);
    let rank = (share.clamp(0.0, 1.0) * v.len() as f64).ceil() as usize;
    v.get(rank.max(1) - 1).copied()
}

/// The usual percentiles, or nothing without samples.
pub fn percentiles(values: &[f64]) -> Option<Percentiles> {
    Some(Percentiles {
        p50: percentile(values, 0.5)?,
        p95: percentile(values, 0.95)?,
        p99: percentile(values, 0.99)?,
        max: percentile(values, 1.0)?,
        samples: sorted(values).len(),
    })
}

/// Ratio of the first to the second of each pair; a pair with a missing or zero second side gives none.
pub fn ratios(pairs: &[(Option<f64>, Option<f64>)]) -> Vec<f64> {
    pairs
        .iter()
        .filter_map(|(a, b)| match (a, b) {
            (Some(a), Some(b)) if *b != 0.0 => Some(a / b),
            _ => None,
        })
        .filter(|r| r.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        let s = spread(&[9.0, 1.0, 5.0]).unwrap();
        assert_eq!((s.median, s.min, s.max, s.samples), (5.0, 1.0, 9.0, 3));
        assert_eq!(spread(&[4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(spread(&[7.0]).unwrap().median, 7.0);
    }

    #[test]
    fn no_sample_gives_no_figure() {
        assert_eq!(spread(&[]), None);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentiles(&[f64::NAN]), None);
    }

    #[test]
    fn percentiles_are_samples_and_never_interpolated() {
        let v: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let p = percentiles(&v).unwrap();
        assert_eq!((p.p50, p.p95, p.p99, p.max, p.samples), (500.0, 950.0, 990.0, 1000.0, 1000));
        assert_eq!(percentile(&[3.0, 8.0], 0.51), Some(8.0));
        assert_eq!(percentile(&[3.0, 8.0], 0.0), Some(3.0));
    }

    #[test]
    fn ratios_are_taken_within_a_pair_and_skip_what_was_not_measured() {
        let r = ratios(&[(Some(1.0), Some(2.0)), (None, Some(2.0)), (Some(9.0), Some(3.0)), (Some(1.0), Some(0.0))]);
        assert_eq!(r, vec![0.5, 3.0]);
    }
}
