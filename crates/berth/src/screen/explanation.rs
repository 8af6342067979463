//! An explanation, from the answer to what can be done about it.

use std::collections::BTreeMap;

use kit::explain::{Candidate, Explanation, Fact, Need};

use super::{Screen, columns, plain, wrap};

/// Candidates that can be used are shown up to this many.
const FIT: usize = 20;

/// How candidates of a kind are spoken of.
struct Words {
    /// What those are called that can be used.
    fit: &'static str,
    /// What those are called that can be used and are not shown.
    more: &'static str,
    /// What those are called that cannot be used and are not shown.
    more_missed: &'static str,
    /// Candidates that cannot be used are shown up to this many, the nearest misses first.
    missed: usize,
    /// Whether they are of several kinds, and how much is left of each matters.
    counted: bool,
}

const POOLS: Words = Words {
    fit: "pools can be asked",
    more: "more can be asked",
    more_missed: "more cannot be asked",
    missed: 10,
    counted: true,
};

const HOSTS: Words =
    Words { fit: "hosts fit", more: "more fit", more_missed: "more do not fit", missed: 40, counted: false };

impl Words {
    fn of(candidates: &[Candidate]) -> &'static Self {
        let hosts = candidates.iter().all(|candidate| candidate.object.kind == "BareMetalHost");
        if hosts { &HOSTS } else { &POOLS }
    }
}

/// Draws an explanation.
pub fn explanation(screen: Screen, told: &Explanation) -> String {
    let mut out = String::new();
    out += &format!("{} {}\n", told.object.kind, screen.heading(&told.object.path()));
    screen.paragraph(&mut out, &format!("{} ", screen.mark(told.level)), "  ", 2, &told.summary);
    if !told.facts.is_empty() {
        out.push('\n');
        facts(screen, &mut out, 2, &told.facts);
    }
    for need in &told.needs {
        out.push('\n');
        one_need(screen, &mut out, need);
    }
    if !told.next.is_empty() {
        out += &format!("\n{}\n", screen.heading("What Berth does next"));
        for next in &told.next {
            screen.paragraph(&mut out, "  ", "    ", 4, &format!("{}: {}", next.by, next.what));
        }
    }
    if !told.fixes.is_empty() {
        out += &format!("\n{}\n", screen.heading("What you can do"));
        for fix in &told.fixes {
            screen.paragraph(&mut out, "  → ", "    ", 4, &fix.what);
            // Never wrapped: it is there to be copied.
            out.extend(fix.command.iter().map(|command| format!("    {}\n", plain(command))));
        }
    }
    if !told.unseen.is_empty() {
        out += &format!("\n{}\n", screen.heading("What could not be seen"));
        for unseen in &told.unseen {
            screen.paragraph(&mut out, "  ! ", "    ", 4, unseen);
        }
    }
    out
}

fn one_need(screen: Screen, out: &mut String, need: &Need) {
    let required = if need.required { "" } else { ", not required" };
    let reason = need.reason.map(|reason| format!("({reason}{required})")).unwrap_or_default();
    let beside = screen.width.is_none_or(|width| 2 + columns(&need.name) + 1 + columns(&reason) <= width);
    let gap = if beside { " " } else { "\n  " };
    let head = format!("{} {}{gap}{reason}", screen.mark(need.level), screen.heading(&need.name));
    *out += &format!("{}\n", head.trim_end());
    screen.paragraph(out, "  ", "  ", 2, &need.sentence);
    facts(screen, out, 2, &need.facts);
    candidates(screen, out, &need.candidates);
}

fn facts(screen: Screen, out: &mut String, indent: usize, facts: &[Fact]) {
    let width = facts.iter().map(|fact| columns(fact.name)).max().unwrap_or_default();
    for fact in facts {
        let first = format!("{:indent$}{:width$}  ", "", fact.name);
        let rest = " ".repeat(indent + width + 2);
        screen.paragraph(out, &first, &rest, indent + width + 2, &fact.value);
    }
}

fn candidates(screen: Screen, out: &mut String, all: &[Candidate]) {
    if all.is_empty() {
        return;
    }
    let (fit, missed): (Vec<&Candidate>, Vec<&Candidate>) = all.iter().partition(|candidate| candidate.rank.is_some());
    let words = Words::of(all);
    let shown = fit.iter().take(FIT).chain(missed.iter().take(words.missed));
    let shown: Vec<Row> = shown.map(|candidate| Row::of(candidate, words)).collect();
    *out += &format!("  {} of {} {}\n", fit.len(), all.len(), words.fit);
    let widest = |part: fn(&Row) -> &str| shown.iter().map(|row| columns(part(row))).max().unwrap_or_default();
    let (rank, name, left) = (widest(|r| &r.rank), widest(|r| &r.name), widest(|r| &r.left));
    let gap = if left > 0 { "  " } else { "" };
    let indent = 4 + rank + 2 + name + 2 + left + gap.len();
    // One form for all rows, so that the eye finds the same thing at the same place.
    let beside = shown.iter().all(|row| screen.has_room(indent, &row.detail));
    for row in &shown {
        if beside {
            let first = format!("    {:>rank$}  {:name$}  {:>left$}{gap}", row.rank, row.name, row.left);
            row.detail(screen, out, &first, indent);
        } else {
            let indent = 4 + rank + 2;
            *out += &format!("    {:>rank$}  {}\n", row.rank, row.name);
            let rest = " ".repeat(indent);
            if !row.left.is_empty() {
                screen.paragraph(out, &rest, &rest, indent, &row.left);
            }
            row.detail(screen, out, &rest, indent);
        }
    }
    more(screen, out, fit.get(FIT..).unwrap_or_default(), words.more);
    more(screen, out, missed.get(words.missed..).unwrap_or_default(), words.more_missed);
}

/// Says how many rows are left out, and on which criterion they fail.
fn more(screen: Screen, out: &mut String, hidden: &[&Candidate], what: &str) {
    if hidden.is_empty() {
        return;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for fails in hidden.iter().filter_map(|candidate| candidate.fails) {
        *counts.entry(fails).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(fails, count)| format!("{count} on {fails}")).collect();
    let counts = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
    screen.paragraph(out, "    ", "    ", 4, &format!("{} {what}{counts}", hidden.len()));
}

/// A candidate as text.
struct Row {
    rank: String,
    name: String,
    left: String,
    fails: Option<&'static str>,
    detail: String,
}

impl Row {
    fn of(candidate: &Candidate, words: &Words) -> Self {
        let left = match (candidate.free, candidate.total) {
            _ if !words.counted => String::new(),
            (Some(free), Some(total)) => format!("{free} of {total} free"),
            _ => "not counted".to_owned(),
        };
        let (kind, path) = (&candidate.object.kind, candidate.object.path());
        let detail = plain(&candidate.detail);
        Self {
            rank: candidate.rank.map_or_else(|| "✗".to_owned(), |rank| rank.to_string()),
            name: if words.counted { format!("{kind}/{path}") } else { path },
            left,
            fails: candidate.fails,
            detail: candidate.fails.map_or_else(|| detail.clone(), |fails| format!("{fails}: {detail}")),
        }
    }

    fn detail(&self, screen: Screen, out: &mut String, first: &str, indent: usize) {
        let room = screen.width.map(|width| width.saturating_sub(indent).max(1));
        let code = if self.fails.is_some() { "31" } else { "32" };
        for (number, line) in wrap(&self.detail, room).iter().enumerate() {
            let lead = if number == 0 { first.to_owned() } else { " ".repeat(indent) };
            out.push_str(&format!("{lead}{}\n", screen.paint(code, line)));
        }
    }
}
