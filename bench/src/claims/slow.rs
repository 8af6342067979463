//! The slowest of some claims, and where their time went: to the server, request by request, or to whoever sent them.

use serde::Serialize;

use super::stamps::Seen;
use crate::audit::Request;

/// A claim that waited long.
#[derive(Debug, PartialEq, Serialize)]
pub struct Slow {
    /// Namespace and name.
    pub claim: String,
    /// Milliseconds until it was associated.
    pub ms: f64,
    /// Milliseconds until its host showed that it is the claim's.
    pub host_ms: Option<f64>,
    /// Milliseconds in which the server was at work on the requests below.
    pub server_ms: f64,
    /// What the process under test asked about the claim and its host until then, in the order of the answers.
    pub requests: Vec<Asked>,
}

/// One of its requests.
#[derive(Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Verb and resource.
    pub what: String,
    /// Milliseconds from the claim until the server got it.
    pub after_ms: f64,
    /// Milliseconds until it was answered.
    pub took_ms: f64,
    /// The answer's status code.
    pub code: u16,
}

impl Asked {
    /// `patch hosts at 3.1 took 12.0`, and the code unless it is a good one.
    pub fn text(&self) -> String {
        let code = if (200..300).contains(&self.code) { String::new() } else { format!(" ({})", self.code) };
        format!("{} at {:.1} took {:.1}{code}", self.what, self.after_ms, self.took_ms)
    }
}

/// The slowest `most` of the claims whose key passes.
pub fn slowest(seen: &Seen, requests: &[Request], wanted: impl Fn(&str) -> bool, most: usize) -> Vec<Slow> {
    let span = |(claim, bound): (&String, &i64)| Some((*bound - *seen.born.get(claim)?, claim.clone()));
    let mut all: Vec<(i64, String)> = seen.bound.iter().filter(|(claim, _)| wanted(claim)).filter_map(span).collect();
    all.sort_by(|a, b| b.cmp(a));
    all.into_iter().take(most).filter_map(|(_, claim)| slow(seen, requests, claim)).collect()
}

fn slow(seen: &Seen, requests: &[Request], claim: String) -> Option<Slow> {
    let (born, bound) = (*seen.born.get(&claim)?, *seen.bound.get(&claim)?);
    let taken = seen.taken(&claim);
    let host = taken.map(|(host, _)| host);
    // A claim may show a moment after the answer to the request that made it is on its way.
    let meant = |request: &&Request| {
        let begun = request.at_us - request.took_us;
        request.of_subject()
            && request.at_us >= born
            && begun <= bound
            && (is_about(&request.path, "hostclaims", &claim)
                || host.is_some_and(|host| is_about(&request.path, "baremetalhosts", host)))
    };
    let ms = |us: i64| us as f64 / 1e3;
    let mut found: Vec<&Request> = requests.iter().filter(meant).collect();
    found.sort_by_key(|request| request.at_us);
    let spans = found.iter().map(|request| (request.at_us - request.took_us, request.at_us)).collect();
    let what = |request: &Request| {
        let (kind, part) = request.what.split_once('/').unwrap_or((&request.what, ""));
        let part = if part.is_empty() { String::new() } else { format!("/{part}") };
        format!("{} {}{part}", request.verb, kind.split('.').next().unwrap_or_default())
    };
    let asked = |request: &&Request| Asked {
        what: what(request),
        after_ms: ms(request.at_us - request.took_us - born),
        took_ms: ms(request.took_us),
        code: request.code,
    };
    Some(Slow {
        ms: ms(bound - born),
        host_ms: taken.map(|(_, at)| ms(at - born)),
        server_ms: ms(covered(spans, born, bound)),
        requests: found.iter().map(asked).collect(),
        claim,
    })
}

/// Whether a path is about one object, given as `namespace/name`.
fn is_about(path: &str, plural: &str, key: &str) -> bool {
    let Some((namespace, name)) = key.split_once('/') else { return false };
    let path = path.split('?').next().unwrap_or_default();
    let Some((_, rest)) = path.split_once(&format!("/namespaces/{namespace}/{plural}/")) else { return false };
    rest == name || rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
}

/// How much of a time these spans cover, those that overlap counted once.
fn covered(mut spans: Vec<(i64, i64)>, from: i64, to: i64) -> i64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, from);
    for (begin, end) in spans {
        let (begin, end) = (begin.max(reached), end.min(to));
        sum += (end - begin).max(0);
        reached = reached.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Stamp;

    fn stamp(at_us: i64, event: &str, key: &str, conditions: &[&str], shown: &[&str]) -> Stamp {
        let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect();
        let (event, key) = (event.to_owned(), key.to_owned());
        Stamp { at_us, event, key, version: String::new(), conditions: texts(conditions), shown: texts(shown) }
    }

    fn request(verb: &str, path: &str, what: &str, from: i64, to: i64) -> Request {
        Request {
            id: format!("{from}"),
            verb: verb.to_owned(),
            agent: "berth/0.1".to_owned(),
            what: what.to_owned(),
            path: path.to_owned(),
            internal: false,
            at_us: to,
            took_us: to - from,
            code: 200,
        }
    }

    #[test]
    fn the_slowest_come_first_each_with_its_own_requests() {
        let mut seen = Seen::default();
        for (key, born, bound) in
            [("t/a", 1_000, 9_000), ("t/ab", 1_000, 31_000), ("t/c", 1_000, 2_000), ("x/a", 0, 99_000)]
        {
            seen.claim(&stamp(born, "ADDED", key, &[], &[""]));
            seen.claim(&stamp(bound, "MODIFIED", key, &["Associated"], &[""]));
        }
        seen.host(&stamp(21_000, "MODIFIED", "i/h1", &[], &["t", "ab"]));
        let claims = "/apis/metal3.io/v1alpha1/namespaces/t/hostclaims";
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/i/baremetalhosts";
        let status = "hostclaims.metal3.io/status";
        let mut all = vec![
            request("patch", &format!("{claims}/ab/status?force=true"), status, 3_000, 5_000),
            request("patch", &format!("{hosts}/h1"), "baremetalhosts.metal3.io", 11_000, 21_000),
            request("patch", &format!("{claims}/ab/status"), status, 22_000, 41_000),
            request("patch", &format!("{claims}/a/status"), status, 3_000, 5_000),
            request("patch", &format!("{hosts}/h2"), "baremetalhosts.metal3.io", 3_000, 5_000),
            request("patch", &format!("{claims}/ab/status"), status, 32_000, 33_000),
        ];
        all.push(Request { agent: "berth-bench-driver".to_owned(), ..all[0].clone() });
        let found = slowest(&seen, &all, |key| key.starts_with("t/"), 2);
        assert_eq!(found.iter().map(|slow| slow.claim.as_str()).collect::<Vec<_>>(), ["t/ab", "t/a"]);
        let first = &found[0];
        assert_eq!((first.ms, first.host_ms, first.server_ms), (30.0, Some(20.0), 2.0 + 10.0 + 9.0));
        let texts: Vec<String> = first.requests.iter().map(Asked::text).collect();
        assert_eq!(
            texts,
            [
                "patch hostclaims/status at 2.0 took 2.0",
                "patch baremetalhosts at 10.0 took 10.0",
                "patch hostclaims/status at 21.0 took 19.0"
            ]
        );
        assert_eq!((found[1].host_ms, found[1].requests.len()), (None, 1));
    }

    #[test]
    fn time_that_several_requests_share_counts_once() {
        assert_eq!(covered(vec![(0, 10), (5, 20), (6, 7), (40, 90)], 2, 50), 18 + 10);
        assert_eq!(covered(vec![], 0, 10), 0);
    }
}
