//! Reads metrics that a process serves: the text form of Prometheus and of OpenMetrics.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of a sample.
pub type Labels = BTreeMap<String, String>;

/// One line of an exposition.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// With its suffix, as `berth_room_passes_total`.
    pub name: String,
    /// By name.
    pub labels: Labels,
    /// The value; counters and gauges alike.
    pub value: f64,
}

/// Everything that was served at one moment, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Reads a text. Comments and lines that cannot be read are passed over: one bad line must not hide all others.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(sample).collect())
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what another process served.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The samples of one name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// The values that a label has in the samples of one name.
    #[must_use]
    pub fn values<'a>(&'a self, name: &'a str, label: &str) -> BTreeSet<&'a str> {
        self.named(name).filter_map(|sample| sample.labels.get(label).map(String::as_str)).collect()
    }

    /// The sum of the samples of one name whose labels `takes` takes; nothing when there are none.
    #[must_use]
    pub fn sum(&self, name: &str, takes: impl Fn(&Labels) -> bool) -> Option<f64> {
        let mut found = self.named(name).filter(|sample| takes(&sample.labels)).map(|sample| sample.value).peekable();
        found.peek().is_some().then(|| found.sum())
    }

    /// The histogram of one name, all those added up whose labels `takes` takes.
    #[must_use]
    pub fn histogram(&self, name: &str, takes: impl Fn(&Labels) -> bool) -> Histogram {
        let mut bounds: Vec<(f64, f64)> = Vec::new();
        for sample in self.named(&format!("{name}_bucket")).filter(|sample| takes(&sample.labels)) {
            let Some(bound) = sample.labels.get("le").and_then(|bound| number(bound)) else { continue };
            match bounds.iter_mut().find(|(known, _)| known.total_cmp(&bound).is_eq()) {
                Some((_, count)) => *count += sample.value,
                None => bounds.push((bound, sample.value)),
            }
        }
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sum = self.sum(&format!("{name}_sum"), &takes).unwrap_or_default();
        let count = self.sum(&format!("{name}_count"), &takes).unwrap_or_default();
        Histogram { bounds, sum, count }
    }

    /// How much every sample grew since an earlier moment. One that is smaller than before was counted from 0 anew.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut known: BTreeMap<(&str, &Labels), f64> = BTreeMap::new();
        for sample in &before.0 {
            known.insert((&sample.name, &sample.labels), sample.value);
        }
        let grown = self.0.iter().map(|sample| {
            let before = known.get(&(sample.name.as_str(), &sample.labels)).copied().unwrap_or_default();
            let value = if sample.value < before { sample.value } else { sample.value - before };
            Sample { value, ..sample.clone() }
        });
        Self(grown.collect())
    }
}

/// How often which values were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds in ascending order, each with how many values were not above it.
    pub bounds: Vec<(f64, f64)>,
    /// All values added up.
    pub sum: f64,
    /// How many.
    pub count: f64,
}

impl Histogram {
    /// The mean; nothing when there are no values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// The value that the share `q` of all is not above, as far as the bounds tell: linear in between, and the largest
    /// finite bound for what lies above it.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let all = self.bounds.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let wanted = q.clamp(0.0, 1.0) * all;
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, count) in &self.bounds {
            if !bound.is_finite() {
                return Some(low);
            }
            if *count >= wanted && *count > below {
                return Some(low + (bound - low) * ((wanted - below) / (count - below)).max(0.0));
            }
            (low, below) = (*bound, *count);
        }
        Some(low)
    }
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

/// `name{label="value",…} value`, with a time or an exemplar behind it that nobody asks for.
fn sample(line: &str) -> Option<Sample> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Labels::new(), rest),
    };
    let value = number(rest.split_whitespace().next()?)?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// The labels up to the closing brace, and what follows it.
fn labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut found = Labels::new();
    loop {
        text = text.trim_start_matches([',', ' ', '\t']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((found, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = quoted(rest.trim_start().strip_prefix('"')?)?;
        found.insert(name.trim().to_owned(), value);
        text = rest;
    }
}

/// A value up to its closing quote, without escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_values_are_read_and_nonsense_is_passed_over() {
        let text = "# TYPE a counter\na_total{x=\"1 2\",y=\"q\\\"} \\\\ \\n\"} 2 1700000000 # {id=\"7\"} 1\n\
                    a_total{x=\"3\", } 3.5\na_total_more 9\nb -Inf\n{} 3\nc{x=\"open 1\nd many\n\n# EOF\n";
        let samples = Samples::parse(text);
        assert_eq!(samples.sum("a_total", |_| true), Some(5.5));
        assert_eq!(samples.sum("a_total", |labels| labels.get("x").is_some_and(|x| x == "3")), Some(3.5));
        assert_eq!(samples.sum("a_total", |labels| labels.get("y").is_some_and(|y| y == "q\"} \\ \n")), Some(2.0));
        assert_eq!(samples.sum("b", |_| true), Some(f64::NEG_INFINITY));
        assert_eq!((samples.sum("c", |_| true), samples.sum("d", |_| true)), (None, None));
        assert_eq!(samples.values("a_total", "x"), BTreeSet::from(["1 2", "3"]));
    }

    #[test]
    fn what_the_registry_writes_is_read() {
        let metrics = super::super::Metrics::new();
        metrics.build_info(&[("version", "1.2.3")]);
        let samples = Samples::parse(&metrics.encode());
        assert_eq!(samples.values("berth_build_info", "version"), BTreeSet::from(["1.2.3"]));
        assert!(samples.sum("process_resident_memory_bytes", |_| true).is_some_and(|bytes| bytes > 0.0));
    }

    #[test]
    fn growth_is_told_also_over_a_restart() {
        let before = Samples::parse("a 5\nb{x=\"1\"} 9\n");
        let after = Samples::parse("a 7\nb{x=\"1\"} 2\nb{x=\"2\"} 1\n");
        assert_eq!(after.since(&before), Samples::parse("a 2\nb{x=\"1\"} 2\nb{x=\"2\"} 1\n"));
    }

    #[test]
    fn quantiles_lie_between_their_bounds() {
        let text =
            "h_bucket{le=\"0.1\"} 50\nh_bucket{le=\"1.0\"} 90\nh_bucket{le=\"+Inf\"} 100\nh_sum 30\nh_count 100\n";
        let histogram = Samples::parse(text).histogram("h", |_| true);
        assert_eq!(histogram.mean(), Some(0.3));
        assert_eq!(histogram.quantile(0.5), Some(0.1));
        assert_eq!(histogram.quantile(0.7), Some(0.55));
        assert_eq!(histogram.quantile(0.99), Some(1.0), "above the last bound nothing more is known");
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().mean(), None);
    }
}
