//! Rows of a list: chosen, ordered and counted, for people, programs and spreadsheets; and the same again while it changes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::Usage;
use crate::cli::{Output, duration};
use crate::explain::rendered;
use crate::screen::{self, Screen};

/// Looking more often would cost the API server more than it shows.
const SHORTEST: Duration = Duration::from_secs(1);
/// To the upper left corner, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";
/// What the name of a label stands behind where a column is expected.
const LABEL: &str = "label:";

/// A row as the flags below see it.
pub trait Cells {
    /// The names of its columns, in order.
    const COLUMNS: &'static [&'static str];

    /// What it has in each column, in the same order; empty where it has nothing.
    fn cells(&self) -> Vec<String>;

    /// Its labels, each as `key=value`; none where rows have no labels.
    fn labels(&self) -> Option<&[String]> {
        None
    }
}

/// Whether the same is shown again.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct WatchOptions {
    /// Look again and again, every 2s or as often as given, and show what has changed until Ctrl-C
    #[arg(short, long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = duration)]
    pub watch: Option<Duration>,
}

/// How rows are chosen, ordered, counted and printed.
#[derive(Args, Clone, Debug)]
pub struct RowOptions {
    /// Only rows with this in a column, as COLUMN=VALUE, or without it, COLUMN!=VALUE, or with it as a part, COLUMN~VALUE;
    /// repeatable, and all must hold
    #[arg(long, value_name = "COLUMN=VALUE", value_parser = filter)]
    pub filter: Vec<Filter>,
    /// Order by this column, or by -COLUMN the other way around; several separated by commas
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', allow_hyphen_values = true, value_parser = column)]
    pub sort: Vec<String>,
    /// Count rows by this column instead of listing them; several separated by commas
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = column)]
    pub by: Vec<String>,
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Form,
    #[command(flatten)]
    pub watch: WatchOptions,
}

/// Forms of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For programs: stable and versioned.
    Json,
    /// For spreadsheets: every column, with its name in the first line.
    Csv,
}

/// What a row must have, or must not have, in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    column: String,
    test: Test,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Is,
    IsNot,
    Holds,
}

/// The name of a column, which may be written as it stands in the heading; that of a label is taken as it is.
fn column(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(if text.starts_with(LABEL) { text.to_owned() } else { text.to_lowercase() })
}

/// Reads `COLUMN=VALUE`, `COLUMN!=VALUE` or `COLUMN~VALUE`.
fn filter(text: &str) -> Result<Filter, String> {
    let wrong = || format!("`{text}` is no filter such as state=free, state!=free or name~rack1");
    let at = text.find(['=', '~', '!']).filter(|at| *at > 0).ok_or_else(wrong)?;
    let (name, rest) = text.split_at(at);
    let signs = [("!=", Test::IsNot), ("=", Test::Is), ("~", Test::Holds)];
    let found = signs.into_iter().find_map(|(sign, test)| Some((test, rest.strip_prefix(sign)?)));
    let (test, value) = found.ok_or_else(wrong)?;
    let Ok(column) = column(name);
    Ok(Filter { column, test, value: value.to_owned() })
}

/// What a row has in a column or label, if there is such a column.
fn value<T: Cells>(row: &T, column: &str) -> Option<String> {
    if let Some(label) = column.strip_prefix(LABEL) {
        let held = row.labels()?.iter().filter_map(|held| held.split_once('='));
        return Some(
            held.into_iter().find(|(key, _)| *key == label).map(|(_, value)| value.to_owned()).unwrap_or_default(),
        );
    }
    row.cells().into_iter().nth(place::<T>(column)?)
}

/// Where a column stands. The tenant of an object is its namespace, unless the list knows better.
fn place<T: Cells>(column: &str) -> Option<usize> {
    let named = |wanted: &str| T::COLUMNS.iter().position(|name| *name == wanted);
    named(column).or_else(|| named("namespace").filter(|_| column == "tenant"))
}

/// Numbers by their size, everything else by its letters.
fn order(left: &str, right: &str) -> Ordering {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    }
}

/// How often each combination of values is there.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Counts<'a> {
    /// The kind of the list that was counted.
    of: &'static str,
    /// The columns.
    by: &'a [String],
    /// All together.
    total: usize,
    /// The most frequent first.
    items: Vec<Count>,
}

/// How often these values are there.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Count {
    values: BTreeMap<String, String>,
    count: usize,
}

impl RowOptions {
    /// The rows that are wanted, in the order that is wanted.
    ///
    /// # Errors
    /// When a column is named that the list does not have.
    pub fn choose<T: Cells>(&self, mut rows: Vec<T>, labelled: bool) -> Result<Vec<T>, Usage> {
        let named = |flag: &str, column: &str| -> Result<(), Usage> {
            let known = place::<T>(column).is_some() || (labelled && column.starts_with(LABEL));
            let more = if labelled { format!(", and {LABEL}NAME for a label") } else { String::new() };
            let why = || format!("{flag}: there is no column `{column}`; there are {}{more}", T::COLUMNS.join(", "));
            if known { Ok(()) } else { Err(Usage(why())) }
        };
        self.filter.iter().try_for_each(|filter| named("--filter", &filter.column))?;
        self.sort.iter().try_for_each(|column| named("--sort", column.trim_start_matches('-')))?;
        self.by.iter().try_for_each(|column| named("--by", column))?;
        rows.retain(|row| {
            self.filter.iter().all(|filter| {
                let held = value(row, &filter.column).unwrap_or_default();
                match filter.test {
                    Test::Is => held == filter.value,
                    Test::IsNot => held != filter.value,
                    Test::Holds => held.contains(&filter.value),
                }
            })
        });
        rows.sort_by(|left, right| {
            let by = |column: &String| {
                let (name, turned) = column.strip_prefix('-').map_or((column.as_str(), false), |name| (name, true));
                let found = order(&value(left, name).unwrap_or_default(), &value(right, name).unwrap_or_default());
                if turned { found.reverse() } else { found }
            };
            self.sort.iter().map(by).find(|found| found.is_ne()).unwrap_or(Ordering::Equal)
        });
        Ok(rows)
    }

    /// The rows in the form that is wanted, or how many there are.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn render<T: Cells>(
        &self,
        kind: &'static str,
        rows: &[T],
        document: &impl Serialize,
        text: impl FnOnce(Screen) -> String,
    ) -> anyhow::Result<String> {
        if !self.by.is_empty() {
            return self.counted(kind, rows);
        }
        match self.output {
            Form::Csv => Ok(csv(T::COLUMNS.iter().map(|name| (*name).to_owned()), rows.iter().map(Cells::cells))),
            Form::Json => rendered(Output::Json, kind, document, text),
            Form::Text => rendered(Output::Text, kind, document, text),
        }
    }

    fn counted<T: Cells>(&self, kind: &'static str, rows: &[T]) -> anyhow::Result<String> {
        let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for row in rows {
            let values = self.by.iter().map(|column| value(row, column).unwrap_or_default()).collect();
            *counts.entry(values).or_default() += 1;
        }
        let mut counts: Vec<(Vec<String>, usize)> = counts.into_iter().collect();
        counts.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        if self.output == Form::Csv {
            let heading = self.by.iter().cloned().chain(["count".to_owned()]);
            let lines = counts.into_iter().map(|(values, count)| [values, vec![count.to_string()]].concat());
            return Ok(csv(heading, lines));
        }
        let items = counts.iter().map(|(values, count)| Count {
            values: self.by.iter().cloned().zip(values.iter().cloned()).collect(),
            count: *count,
        });
        let document = Counts { of: kind, by: &self.by, total: rows.len(), items: items.collect() };
        let output = if self.output == Form::Json { Output::Json } else { Output::Text };
        rendered(output, "CountList", &document, |screen| counts_screen(screen, &self.by, &counts))
    }
}

fn counts_screen(screen: Screen, by: &[String], counts: &[(Vec<String>, usize)]) -> String {
    let names: Vec<String> = by.iter().map(|column| column.trim_start_matches(LABEL).to_uppercase()).collect();
    let heading: Vec<&str> = names.iter().map(String::as_str).chain(["COUNT"]).collect();
    let line = |(values, count): &(Vec<String>, usize)| {
        let cells = values.iter().map(|value| screen::cell(Some(value)));
        cells.chain([count.to_string()]).collect::<Vec<String>>()
    };
    screen::grid(screen, &heading, &counts.iter().map(line).collect::<Vec<_>>())
}

/// Lines of values as RFC 4180 has them, with the line ends of this system.
fn csv(heading: impl Iterator<Item = String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let quoted = |value: &String| {
        let value = screen::plain(value);
        // A spreadsheet would take what begins so for a formula, and others write into these values.
        let value = if value.starts_with(['=', '+', '@', '\t']) { format!("'{value}") } else { value };
        if value.contains([',', '"']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
    };
    let lines = std::iter::once(heading.collect::<Vec<_>>()).chain(rows);
    lines.map(|line| line.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect()
}

/// Shows what is found, once, or again and again whenever it has changed.
///
/// # Errors
/// When nothing can be found or shown.
pub async fn shown(watch: WatchOptions, look: impl AsyncFn() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let Some(interval) = watch.watch else {
        return Ok(out.write_all(Box::pin(look()).await?.as_bytes())?);
    };
    if interval < SHORTEST {
        return Err(Usage("--watch: must be at least 1s".to_owned()).into());
    }
    let terminal = out.is_terminal();
    follow(&mut out, terminal, interval, tokio::signal::ctrl_c(), look).await
}

async fn follow(
    out: &mut impl Write,
    terminal: bool,
    interval: Duration,
    stop: impl Future<Output = std::io::Result<()>>,
    look: impl AsyncFn() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let mut stop = pin!(stop);
    let mut next = Box::pin(look()).await?;
    let mut before = None;
    loop {
        if before.as_ref() != Some(&next) {
            let lead = match (terminal, &before) {
                (true, _) => CLEAR,
                (false, None) => "",
                (false, Some(_)) => "\n",
            };
            write!(out, "{lead}{next}")?;
            out.flush()?;
            before = Some(next);
        }
        tokio::select! {
            ended = &mut stop => return Ok(ended?),
            () = tokio::time::sleep(interval) => {}
        }
        let looked = tokio::select! {
            ended = &mut stop => return Ok(ended?),
            looked = Box::pin(look()) => looked,
        };
        next = match looked {
            // A server that restarts is worth waiting for where somebody looks; a program must not take the words for a list.
            Err(error) if terminal => screen::text(Screen::standard_output(), &format!("not seen: {error:#}")),
            looked => looked?,
        };
    }
}

#[cfg(test)]
mod tests;
