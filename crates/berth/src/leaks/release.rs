//! Giving hosts back that are nobody's, with a person's consent.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Read, Write};

use anyhow::anyhow;
use api::names::HostId;
use aws::port::Ec2;
use kit::clock::Clock;
use kube::Client;
use serde::Serialize;

use super::{LeaksOptions, Look, Place, Row, Whose, leaks_screen, look, unseen_screen};
use crate::cli::Output;
use crate::explain::print;
use crate::screen::{self, Screen};
use crate::{Code, Usage};

/// Letters of an answer that are read.
const MOST_TYPED: u64 = 64;

/// Hosts that are given back in one call.
const MOST: usize = 100;

/// What became of a host.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The host.
    pub host: String,
    /// Its region.
    pub region: String,
    /// Whether EC2 took it back.
    pub released: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What proved that it was nobody's.
    pub proof: Vec<String>,
}

/// What became of all.
#[derive(Serialize)]
pub(super) struct Outcomes<'a> {
    pub(super) items: &'a [Outcome],
}

/// Shows, asks, looks once more, and releases what is still nobody's.
pub async fn release(
    client: &Client,
    options: &LeaksOptions,
    clock: &Clock,
    seen: Look,
    rows: &[Row],
) -> anyhow::Result<()> {
    let found: BTreeSet<&str> =
        rows.iter().filter(|row| row.whose == Whose::Nobody).map(|row| row.host.as_str()).collect();
    let (stdin, text) = (std::io::stdin(), options.output.output == Output::Text);
    // What a person is shown and asked is no part of what a program reads.
    let mut out: Box<dyn Write> = if text { Box::new(std::io::stdout()) } else { Box::new(std::io::stderr()) };
    let (asks, person) = (!found.is_empty() && !options.yes, stdin.is_terminal());
    if text || (asks && person) {
        let screen = Screen::standard_output();
        let shown = leaks_screen(screen, rows, true) + &unseen_screen(screen, &seen.unseen);
        out.write_all(shown.as_bytes())?;
    }
    if asks && !confirmed(found.len(), person, &mut stdin.lock(), &mut out)? {
        return Err(anyhow!("nothing was released"));
    }
    let outcomes = if found.is_empty() { Vec::new() } else { again(client, options, clock, &found).await? };
    match options.output.output {
        Output::Json => print(Output::Json, "ReleaseList", &Outcomes { items: &outcomes }, |_| String::new())?,
        Output::Text => {
            std::io::stdout().write_all(outcomes_screen(Screen::standard_output(), &outcomes).as_bytes())?;
        }
    }
    // Whoever relies on the exit code must learn that something is still paid for.
    if outcomes.iter().all(|outcome| outcome.released) { Ok(()) } else { Err(Code(1).into()) }
}

/// What became of each, and of all.
pub(super) fn outcomes_screen(screen: Screen, outcomes: &[Outcome]) -> String {
    let mut out: String = outcomes.iter().map(|outcome| screen::text(screen, &outcome.words())).collect();
    let kept = outcomes.iter().filter(|outcome| !outcome.released).count();
    if kept > 0 {
        let words = format!(
            "{kept} of {} not released: as far as EC2 still shows them, they go on costing money",
            outcomes.len()
        );
        out += &screen::text(screen, &words);
    }
    out
}

impl Outcome {
    fn words(&self) -> String {
        match &self.why {
            None => format!("released {} in {}", self.host, self.region),
            Some(why) => format!("not released {} in {}: {why}", self.host, self.region),
        }
    }
}

/// Asks, where there is somebody to ask; nothing but the whole word is consent.
pub(super) fn confirmed(
    count: usize,
    person: bool,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    if !person {
        return Err(Usage("--release asks before it releases: answer at a terminal, or give --yes".to_owned()).into());
    }
    let hosts = if count == 1 { "this host" } else { "these hosts" };
    write!(out, "\nRelease {hosts}? A host that is released cannot be brought back. Type yes: ")?;
    out.flush()?;
    let mut answer = String::new();
    input.take(MOST_TYPED).read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Reads everything anew: only what was nobody's then and is nobody's now is released.
async fn again(
    client: &Client,
    options: &LeaksOptions,
    clock: &Clock,
    found: &BTreeSet<&str>,
) -> anyhow::Result<Vec<Outcome>> {
    let live = look(client, &options.aws, clock).await?;
    let now = clock.now();
    let mut outcomes = Vec::new();
    let mut missing: BTreeSet<&str> = found.clone();
    for place in &live.places {
        let rows = live.books.rows(place.region.as_str(), &place.hosts, now);
        let (still, kept): (Vec<Row>, Vec<Row>) = rows
            .into_iter()
            .filter(|row| found.contains(row.host.as_str()))
            .inspect(|row| {
                missing.remove(row.host.as_str());
            })
            .partition(|row| row.whose == Whose::Nobody);
        outcomes.extend(kept.into_iter().map(|row| Outcome {
            host: row.host,
            region: row.region,
            released: false,
            why: Some(format!("looked at once more, {}", row.note)),
            proof: Vec::new(),
        }));
        outcomes.extend(give_back(place, &still).await);
    }
    outcomes.extend(missing.into_iter().map(|host| Outcome {
        host: host.to_owned(),
        region: "its region".to_owned(),
        released: false,
        why: Some("looked at once more, EC2 does not show it".to_owned()),
        proof: Vec::new(),
    }));
    Ok(outcomes)
}

async fn give_back(place: &Place, rows: &[Row]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for rows in rows.chunks(MOST) {
        outcomes.extend(give_back_some(place, rows).await);
    }
    outcomes
}

async fn give_back_some(place: &Place, rows: &[Row]) -> Vec<Outcome> {
    let ids: Vec<HostId> = rows.iter().filter_map(|row| row.host.parse().ok()).collect();
    let answer = place.ec2.release_hosts(&ids).await;
    let why = |host: &str| match &answer {
        Err(error) => Some(kit::class::chain(error)),
        Ok(judged) => match ids.iter().find(|id| id.as_str() == host).and_then(|id| judged.verdict(id)) {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(format!("{}: {}", error.code, error.message)),
            None => Some("EC2 says nothing about it".to_owned()),
        },
    };
    rows.iter()
        .map(|row| {
            let why = why(&row.host);
            let (host, region) = (row.host.clone(), row.region.clone());
            Outcome { host, region, released: why.is_none(), why, proof: row.proof.clone() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_of_a_person_is_consent() {
        let ask = |count, person, typed: &str| {
            let mut out = Vec::new();
            let answer = confirmed(count, person, &mut typed.as_bytes(), &mut out);
            (answer.map_err(|error| error.to_string()), String::from_utf8(out).unwrap())
        };
        let (answer, question) = ask(1, true, "yes\n");
        assert_eq!(answer, Ok(true));
        assert!(question.contains("Release this host? A host that is released cannot be brought back."), "{question}");
        assert!(ask(2, true, "yes\n").1.contains("Release these hosts?"));
        for typed in ["", "\n", "y\n", "YES\n", "no\n", "yes please\n", &"yes".repeat(1_000_000)] {
            assert_eq!(ask(1, true, typed).0, Ok(false), "{typed:.20}");
        }
        let (answer, question) = ask(1, false, "yes\n");
        assert!(answer.unwrap_err().contains("--yes") && question.is_empty(), "nobody is asked who is not there");
    }
}
