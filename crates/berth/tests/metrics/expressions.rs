//! Expressions of alerts and dashboards ask for what is exported.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Kind, Labels, exported, told, word};

/// Labels that Prometheus gives every series of a target.
const TARGET: [&str; 2] = ["job", "instance"];
/// The functions, operators and keywords that expressions use.
const WORDS: [&str; 16] = [
    "sum",
    "max",
    "min",
    "count",
    "absent",
    "rate",
    "increase",
    "histogram_quantile",
    "avg_over_time",
    "time",
    "by",
    "on",
    "group_left",
    "and",
    "unless",
    "or",
];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text,
    Sign(char),
}

/// The parts of an expression, without what Grafana puts in and without ranges and numbers.
fn tokens(expression: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), expression);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                tokens.push(Token::Text);
                rest[1..].find('"').expect("a string ends") + 2
            }
            '[' => rest.find(']').expect("a range ends") + 1,
            '$' => 1 + word(&rest[1..]).len(),
            '0'..='9' => rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len()),
            'a'..='z' | 'A'..='Z' | '_' => {
                tokens.push(Token::Word(word(rest).to_owned()));
                word(rest).len()
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Sign(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
}

/// The tokens up to the sign that closes what the one at `open` opens.
fn enclosed(tokens: &[Token], open: usize) -> &[Token] {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('(' | '{') => depth += 1,
            Token::Sign(')' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[open + 1..at];
        }
    }
    panic!("something stays open: {tokens:?}")
}

fn words_of(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None }).collect()
}

/// The values that an expression compares labels with, each behind its label; without what Grafana puts in.
pub fn values(expression: &str) -> Vec<(String, String)> {
    let (mut found, mut parts) = (Vec::new(), expression.split('"'));
    while let (Some(before), Some(text)) = (parts.next(), parts.next()) {
        let label = before.trim_end_matches(['=', '~', '!']);
        let start = label.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        let values = text.split('|').filter(|value| !value.is_empty() && !value.starts_with('$'));
        found.extend(values.map(|value| (label[start..].to_owned(), value.to_owned())));
    }
    found
}

/// What expressions may ask for: every series by name, with the kind of its metric and its labels.
pub struct Series(BTreeMap<String, (Kind, Labels, String)>);

impl Series {
    pub fn of_the_code() -> Self {
        let (exported, told) = (exported(), told());
        let mut all = BTreeMap::new();
        for (name, found) in exported {
            let mut labels = told.get(&name).unwrap_or_else(|| panic!("{name} is not told")).1.clone();
            labels.extend(TARGET.map(str::to_owned));
            if found.kind == Kind::Histogram {
                for end in ["_sum", "_count"] {
                    all.insert(format!("{name}{end}"), (found.kind, labels.clone(), name.clone()));
                }
                labels.insert("le".to_owned());
                all.insert(format!("{name}_bucket"), (found.kind, labels, name));
            } else {
                all.insert(name.clone(), (found.kind, labels, name));
            }
        }
        Self(all)
    }

    fn among<'t>(&self, tokens: &'t [Token]) -> Vec<&'t str> {
        words_of(tokens).into_iter().filter(|word| self.0.contains_key(*word)).collect()
    }

    /// Checks an expression; returns the metrics it uses and the labels of what it gives.
    pub fn check(&self, expression: &str) -> Result<(BTreeSet<String>, Labels), String> {
        let tokens = tokens(expression);
        let (mut used, mut kept, mut all) = (BTreeSet::new(), Labels::new(), Labels::new());
        let mut grouped = false;
        let mut at = 0;
        while at < tokens.len() {
            let Token::Word(word) = &tokens[at] else {
                at += 1;
                continue;
            };
            let opens = |at: usize, sign: char| tokens.get(at) == Some(&Token::Sign(sign));
            if let Some((_, labels, metric)) = self.0.get(word) {
                used.insert(metric.clone());
                all.extend(labels.iter().cloned());
                if opens(at + 1, '{') {
                    let matchers = enclosed(&tokens, at + 1);
                    if let Some(wrong) = words_of(matchers).into_iter().find(|label| !labels.contains(*label)) {
                        return Err(format!("{word} has no label {wrong}"));
                    }
                    at += matchers.len() + 2;
                }
            } else if word == "by" || word == "on" {
                let labels = enclosed(&tokens, at + 1);
                let after = at + 1 + labels.len() + 2;
                // What is put together is in the parentheses that follow; of what is joined, all before counts.
                let about = if word == "by" { enclosed(&tokens, after) } else { &tokens[..] };
                for label in words_of(labels) {
                    let known = self.among(about).into_iter().any(|name| self.0[name].1.contains(label));
                    if !known {
                        return Err(format!("nothing in {word} ({label}) has such a label"));
                    }
                    if word == "by" {
                        kept.insert(label.to_owned());
                    }
                }
                grouped = grouped || word == "by";
                at = after - 1;
            } else if ["rate", "increase"].contains(&word.as_str()) {
                let about = self.among(enclosed(&tokens, at + 1));
                if let Some(gauge) = about.into_iter().find(|name| matches!(self.0[*name].0, Kind::Gauge | Kind::Info))
                {
                    return Err(format!("{word} of {gauge}, which is a gauge"));
                }
            } else if !WORDS.contains(&word.as_str()) {
                return Err(format!("{word} is neither exported nor a function"));
            }
            at += 1;
        }
        if used.is_empty() {
            return Err("asks for nothing".to_owned());
        }
        Ok((used, if grouped { kept } else { all }))
    }
}

#[test]
fn values_are_found_behind_their_labels() {
    let found = values(r#"a{job=~"$job", room!~"hosts|hosts-claims", code=""} or b{state="waiting"} > 0"#);
    let found: Vec<_> = found.iter().map(|(label, value)| format!("{label} {value}")).collect();
    assert_eq!(found, ["room hosts", "room hosts-claims", "state waiting"]);
}

#[test]
fn a_wrong_expression_is_noticed() {
    let series = Series::of_the_code();
    let check = |expression: &str| series.check(expression).map(|(used, labels)| (used.len(), labels.len()));
    assert_eq!(
        check(r#"sum by (room) (rate(berth_room_passes_total{job=~"$job", outcome="failed"}[5m])) > 0"#),
        Ok((1, 1))
    );
    assert_eq!(
        check("histogram_quantile(0.9, sum by (le, room) (rate(berth_room_pass_seconds_bucket[$__range])))"),
        Ok((1, 2))
    );
    for wrong in [
        "sum(rate(berth_room_passes[5m]))",
        "sum by (class) (rate(berth_room_passes_total[5m]))",
        r#"berth_room_passes_total{cluster="a"}"#,
        "berth_room_pass_seconds",
        "sum by (le) (rate(berth_room_pass_seconds_count[5m]))",
        "rate(berth_room_queue_busy[5m])",
        "summ(berth_run_ready)",
        "time()",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
