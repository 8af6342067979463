//! What a scenario with a command of its own prints: one JSON document, and tables for people and for the book.

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::budget::Budget;
use crate::ceiling::Ceiling;
use crate::proc::Processors;
use crate::report::{commit, short};
use crate::stage::{Common, Stage};
use crate::stats::{Percentiles, spread};

/// The figures of one scenario.
pub trait Figures: Serialize {
    /// The version of the document's shape.
    const SCHEMA: &'static str;

    /// The tables.
    fn sheets(&self) -> Vec<Sheet>;

    /// The bars.
    fn budgets(&self) -> Vec<Budget>;
}

/// One table.
#[derive(Debug)]
pub struct Sheet {
    /// Its heading.
    pub header: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// An empty table with this heading.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|&text| text.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut shown = Table::new();
        shown.load_style(presets::UTF8_BORDERS_ONLY).set_header(&self.header);
        for row in &self.rows {
            shown.add_row(row);
        }
        shown.to_string()
    }

    /// For a page of the book.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
        };
        let rule = format!("|{}\n", "---|".repeat(self.header.len()));
        line(&self.header) + &rule + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

/// Percentiles as cells: p50, p95, p99, max, samples.
pub fn cells(p: Option<Percentiles>) -> [String; 5] {
    match p {
        Some(p) => [short(p.p50), short(p.p95), short(p.p99), short(p.max), p.samples.to_string()],
        None => std::array::from_fn(|_| "-".to_owned()),
    }
}

/// A figure that may be missing.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), short)
}

/// One run, whole.
#[derive(Debug, Serialize)]
pub struct Document<F> {
    schema: &'static str,
    date: String,
    commit: Option<String>,
    cores: usize,
    /// The command as it was given.
    command: String,
    /// How long the run took.
    seconds: f64,
    load_average: f64,
    /// Processor time that the machine wanted during the run and others on the same hardware had, in percent.
    stolen_percent: Option<f64>,
    /// Whether the machine was busy with something else: not to be used as a figure.
    pub disturbed: bool,
    /// W before and after.
    ceilings: Vec<Ceiling>,
    /// The figures of the scenario.
    #[serde(flatten)]
    pub figures: F,
    /// The bars.
    pub budgets: Vec<Budget>,
    /// What is wrong at the end.
    pub oracle: Vec<String>,
}

impl<F: Figures> Document<F> {
    /// Puts a run together.
    pub fn new(stage: &Stage<'_>, ceilings: Vec<Ceiling>, figures: F, mut oracle: Vec<String>) -> Self {
        oracle.truncate(20);
        Self {
            schema: F::SCHEMA,
            date: jiff::Timestamp::now().to_string(),
            commit: commit(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            command: command(),
            seconds: stage.seconds(),
            load_average: stage.load.0,
            stolen_percent: Processors::now().ok().map(|now| now.stolen_percent(stage.processors)),
            disturbed: stage.load.1,
            ceilings,
            budgets: figures.budgets(),
            figures,
            oracle,
        }
    }

    fn ceiling_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&["W, requests a second", "median", "min", "max"]);
        type Rate = fn(&Ceiling) -> f64;
        let rows: [(&str, Rate); 4] = [
            ("create", |c| c.create.per_second),
            ("patch metadata", |c| c.patch_metadata.per_second),
            ("patch status", |c| c.patch_status.per_second),
            ("get", |c| c.get.per_second),
        ];
        for (name, of) in rows {
            if let Some(s) = spread(&self.ceilings.iter().map(of).collect::<Vec<_>>()) {
                sheet.row(vec![name.to_owned(), short(s.median), short(s.min), short(s.max)]);
            }
        }
        sheet
    }

    fn all_sheets(&self) -> Vec<Sheet> {
        let mut bars = Sheet::new(&["budget", "measured", "bar", ""]);
        bars.rows = self.budgets.iter().map(Budget::row).collect();
        let mut all = vec![self.ceiling_sheet()];
        all.extend(self.figures.sheets());
        all.push(bars);
        all.retain(|sheet| !sheet.rows.is_empty());
        all
    }

    fn verdict(&self) -> String {
        let mut out = String::new();
        if self.disturbed {
            out += &format!("DISTURBED load average {:.2}: do not use these figures\n", self.load_average);
        }
        if let Some(percent) = self.stolen_percent {
            out += &format!("others on the same hardware had {percent:.1} % of the processor time that was wanted\n");
        }
        for wrong in &self.oracle {
            out += &format!("WRONG {wrong}\n");
        }
        out + if self.oracle.is_empty() { "oracle: passed\n" } else { "oracle: FAILED; this run counts as a failure\n" }
    }

    /// The tables for people.
    pub fn tables(&self) -> String {
        let title = format!("\n{}, commit {}, {}\n", F::SCHEMA, self.commit.as_deref().unwrap_or("unknown"), self.date);
        let sheets = self.all_sheets().iter().map(|sheet| format!("\n{}\n", sheet.text())).collect::<String>();
        title + &sheets + &self.verdict()
    }

    /// The same for a page of the book.
    pub fn markdown(&self) -> String {
        let title = format!(
            "Commit {}, {}, {} cores shared with the API server, {} s, made by `{}`.\n",
            self.commit.as_deref().unwrap_or("unknown"),
            self.date.split('T').next().unwrap_or_default(),
            self.cores,
            short(self.seconds),
            self.command,
        );
        let sheets = self.all_sheets().iter().map(|sheet| format!("\n{}", sheet.markdown())).collect::<String>();
        title + &sheets + "\n" + &self.verdict()
    }

    /// Prints and writes everything; the exit code.
    pub fn publish(&self, args: &Common) -> Result<u8> {
        eprint!("{}", self.tables());
        if let Some(path) = &args.markdown {
            std::fs::write(path, self.markdown()).with_context(|| format!("writing {}", path.display()))?;
        }
        let text = serde_json::to_string_pretty(self).context("writing the document")? + "\n";
        match &args.out {
            Some(path) => std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?,
            None => print!("{text}"),
        }
        Ok(match self {
            document if !document.oracle.is_empty() => 1,
            document if args.gate && document.budgets.iter().any(|budget| !budget.pass) => 1,
            document if document.disturbed && !args.allow_disturbed => 3,
            _ => 0,
        })
    }
}

/// The command line of this process.
pub fn command() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_valid_markdown() {
        let mut sheet = Sheet::new(&["what", "p99"]);
        sheet.row(vec!["a|b".to_owned(), "1".to_owned()]);
        assert_eq!(sheet.markdown(), "| what | p99 |\n|---|---|\n| a\\|b | 1 |\n");
        assert!(sheet.text().contains("a|b"));
    }
}
