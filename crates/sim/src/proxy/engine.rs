//! Decides what happens to a request. No input or output: facts go in, a plan comes out, so that the same seed and the
//! same requests always give the same plan.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::lines::Fault;
use super::recordings::{Recording, Recordings, Store};
use super::rules::{self, Action, Answer, Bucket, Match, Reset, Rule, RuleError, When};

/// How many hits are kept; older ones are counted as dropped.
pub const MAX_HITS: usize = 65_536;

/// One hit of one rule on one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// Running number of the hit since the proxy started, from 1.
    pub number: u64,
    /// The seed the proxy runs with.
    pub seed: u64,
    /// Name of the rule.
    pub rule: String,
    /// Name of its action.
    pub action: String,
    /// Running number of the request since the proxy started, from 1.
    pub request: u64,
    /// Which match of the rule this was, from 1 since the rule was loaded.
    #[serde(rename = "match")]
    pub nth: u64,
    /// Method of the request.
    pub method: String,
    /// Path of the request, without its query, which may hold credentials.
    pub path: String,
    /// Whether the fault took effect; a watch that ended before its nth line was hit, but nothing happened to it.
    pub landed: bool,
}

#[derive(Default)]
pub(super) struct HitLog {
    hits: VecDeque<Hit>,
    last: u64,
    pub(super) dropped: u64,
}

impl HitLog {
    pub(super) fn all(&self) -> Vec<Hit> {
        self.hits.iter().cloned().collect()
    }

    fn landed(&mut self, number: u64) {
        let Some(first) = self.hits.front().map(|hit| hit.number) else { return };
        let at = number.checked_sub(first).and_then(|n| usize::try_from(n).ok());
        if let Some(hit) = at.and_then(|at| self.hits.get_mut(at)) {
            hit.landed = true;
        }
    }
}

/// Marks one hit as having taken effect.
#[derive(Clone)]
pub(super) struct Ticket {
    log: Arc<Mutex<HitLog>>,
    number: u64,
}

impl Ticket {
    pub(super) fn landed(&self) {
        lock(&self.log).landed(self.number);
    }
}

/// A poisoned lock means that a test thread panicked; the counters behind it are still whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the rules may look at.
pub(super) struct Facts<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) user_agent: &'a str,
    /// Headers that choose the form of an answer, part of a recording's name.
    pub(super) form: &'a str,
    pub(super) body: &'a [u8],
}

impl Facts<'_> {
    fn is_watch(&self) -> bool {
        self.query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }

    fn fits(&self, m: &Match) -> bool {
        (m.methods.is_empty() || m.methods.iter().any(|method| method == self.method))
            && m.path.as_deref().is_none_or(|pattern| rules::fits(pattern, self.path))
            && m.query.as_deref().is_none_or(|text| self.query.contains(text))
            && m.watch.is_none_or(|watch| watch == self.is_watch())
            && m.user_agent.as_deref().is_none_or(|text| self.user_agent.contains(text))
            && m.body.as_deref().is_none_or(|text| self.body.windows(text.len()).any(|w| w == text.as_bytes()))
    }

    /// Under which name an answer is recorded; nothing when it is not a list as a whole.
    ///
    /// The revision is left out because a client that comes back asks for another one and means the same list. Later
    /// pages go to the server: their token names the revision of the first page.
    fn recording_key(&self) -> Option<String> {
        if self.method != "GET" || self.is_watch() || self.query.split('&').any(|pair| pair.starts_with("continue=")) {
            return None;
        }
        let kept: Vec<&str> = self
            .query
            .split('&')
            .filter(|pair| !pair.starts_with("resourceVersion=") && !pair.starts_with("resourceVersionMatch="))
            .collect();
        Some(format!("{}?{} {}", self.path, kept.join("&"), self.form))
    }
}

/// What is done with one request.
pub(super) struct Plan {
    pub(super) delay: Duration,
    pub(super) lines: Vec<(Fault, Ticket)>,
    pub(super) bytes_per_second: Option<u64>,
    pub(super) record: Recordings,
    pub(super) end: End,
}

/// Who answers a request.
pub(super) enum End {
    Forward,
    Answer(Answer),
    ResetBefore(Reset),
    ResetAfter(Reset, Ticket),
    Replay(Arc<Recording>),
}

/// Tokens of one rule's bucket.
struct Tokens {
    left: f64,
    at: Instant,
}

impl Tokens {
    /// Takes a token, or says how long until there is one.
    fn take(&mut self, bucket: &Bucket, now: Instant) -> Result<(), Duration> {
        let back = now.saturating_duration_since(self.at).as_secs_f64() * bucket.rate;
        self.left = (self.left + back).min(f64::from(bucket.burst));
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            Ok(())
        } else {
            Err(Duration::from_secs_f64((1.0 - self.left) / bucket.rate))
        }
    }
}

/// A rule with its own counters.
struct Active {
    rule: Rule,
    matches: u64,
    store: Option<Arc<Mutex<Store>>>,
    tokens: Option<Tokens>,
}

impl Active {
    fn new(rule: Rule, now: Instant) -> Self {
        let store = match &rule.action {
            Action::Replay(replay) => Some(Arc::new(Mutex::new(Store::new(replay)))),
            _ => None,
        };
        let tokens = match &rule.action {
            Action::Bucket(bucket) => Some(Tokens { left: f64::from(bucket.burst), at: now }),
            _ => None,
        };
        Self { rule, matches: 0, store, tokens }
    }
}

/// All rules and counters of one proxy.
pub(super) struct Engine {
    seed: u64,
    requests: u64,
    active: Vec<Active>,
    log: Arc<Mutex<HitLog>>,
}

impl Engine {
    pub(super) fn new(seed: u64, log: Arc<Mutex<HitLog>>) -> Self {
        Self { seed, requests: 0, active: Vec::new(), log }
    }

    /// Takes the rules if all of them are sound; their counters, buckets and recordings start anew.
    pub(super) fn set(&mut self, rules: Vec<Rule>, now: Instant) -> Result<(), RuleError> {
        rules::check(&rules)?;
        self.active = rules.into_iter().map(|rule| Active::new(rule, now)).collect();
        Ok(())
    }

    pub(super) fn rules(&self) -> Vec<Rule> {
        self.active.iter().map(|active| active.rule.clone()).collect()
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether any rule wants to see the start of the request body.
    pub(super) fn looks_at_bodies(&self) -> bool {
        self.active.iter().any(|active| active.rule.matches.body.is_some())
    }

    /// What happens to this request; counts it.
    pub(super) fn plan(&mut self, facts: &Facts<'_>, now: Instant) -> Plan {
        self.requests += 1;
        let mut plan = Plan {
            delay: Duration::ZERO,
            lines: Vec::new(),
            bytes_per_second: None,
            record: Vec::new(),
            end: End::Forward,
        };
        let (seed, request, log) = (self.seed, self.requests, &self.log);
        for active in self.active.iter_mut().filter(|active| facts.fits(&active.rule.matches)) {
            active.matches += 1;
            let nth = active.matches;
            let chosen = chosen(&active.rule.when, seed, &active.rule.name, nth);
            let hit = |landed: bool| record_hit(log, seed, &active.rule, request, nth, facts, landed);
            if let (Action::Replay(replay), Some(store)) = (&active.rule.action, &active.store) {
                let Some(key) = facts.recording_key() else { continue };
                let old = if chosen { lock(store).get(&key, replay.back) } else { None };
                match old {
                    Some(recording) => {
                        hit(true);
                        plan.end = End::Replay(recording);
                        return plan;
                    }
                    None => plan.record.push((store.clone(), key)),
                }
                continue;
            }
            if !chosen {
                continue;
            }
            let line_fault = match &active.rule.action {
                Action::Delay(delay) => {
                    hit(true);
                    let more = draw(seed, &active.rule.name, nth, 1) % (delay.jitter_ms + 1);
                    plan.delay += Duration::from_millis(delay.ms + more);
                    continue;
                }
                Action::SlowBody(slow) => {
                    hit(true);
                    let pace = slow.bytes_per_second;
                    plan.bytes_per_second = Some(plan.bytes_per_second.map_or(pace, |other| other.min(pace)));
                    continue;
                }
                Action::Bucket(bucket) => {
                    let Some(Err(wait)) = active.tokens.as_mut().map(|tokens| tokens.take(bucket, now)) else {
                        continue;
                    };
                    hit(true);
                    plan.end = End::Answer(refusal(bucket, wait));
                    return plan;
                }
                Action::Answer(answer) => {
                    hit(true);
                    plan.end = End::Answer(answer.clone());
                    return plan;
                }
                Action::ResetBefore(reset) => {
                    hit(true);
                    plan.end = End::ResetBefore(reset.clone());
                    return plan;
                }
                Action::ResetAfter(reset) => {
                    plan.end = End::ResetAfter(reset.clone(), hit(false));
                    return plan;
                }
                Action::Replay(_) => continue,
                Action::CutWatch(cut) => Fault::Cut { after: cut.after, abrupt: cut.abrupt },
                Action::Gone(gone) => Fault::Gone { after: gone.after },
                Action::HalfLine(cut) => Fault::Half { after: cut.after, abrupt: cut.abrupt },
                Action::DuplicateLine(line) => Fault::Duplicate { line: line.line },
                Action::SwapLines(line) => Fault::Swap { line: line.line },
                Action::DropLine(line) => Fault::Drop { line: line.line },
                Action::OnlyBookmarks(_) => Fault::OnlyBookmarks,
            };
            plan.lines.push((line_fault, hit(false)));
        }
        plan
    }
}

fn record_hit(
    log: &Arc<Mutex<HitLog>>,
    seed: u64,
    rule: &Rule,
    request: u64,
    nth: u64,
    facts: &Facts<'_>,
    landed: bool,
) -> Ticket {
    let mut hits = lock(log);
    hits.last += 1;
    let number = hits.last;
    let action = rule.action.name();
    tracing::info!(
        hit = number,
        seed,
        rule = rule.name,
        action,
        request,
        nth,
        method = facts.method,
        path = facts.path,
        "rule hit"
    );
    hits.hits.push_back(Hit {
        number,
        seed,
        rule: rule.name.clone(),
        action: action.to_owned(),
        request,
        nth,
        method: facts.method.to_owned(),
        path: facts.path.to_owned(),
        landed,
    });
    if hits.hits.len() > MAX_HITS {
        hits.hits.pop_front();
        hits.dropped += 1;
    }
    Ticket { log: log.clone(), number }
}

fn chosen(when: &When, seed: u64, name: &str, nth: u64) -> bool {
    when.nth.is_none_or(|n| nth == n)
        && when.every.is_none_or(|n| nth.is_multiple_of(n))
        && when.first.is_none_or(|n| nth <= n)
        && when.probability.is_none_or(|p| unit(draw(seed, name, nth, 0)) < p)
}

/// A number that depends on the seed, the rule and the number of its match, and on nothing else: requests that other
/// rules look at do not shift it.
fn draw(seed: u64, name: &str, nth: u64, purpose: u64) -> u64 {
    let name = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mix(mix(mix(seed ^ name).wrapping_add(nth)).wrapping_add(purpose))
}

/// The finaliser of splitmix64, which spreads neighbouring numbers over the whole range.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The upper 53 bits as a fraction in [0, 1), the most a double holds exactly.
fn unit(number: u64) -> f64 {
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

fn refusal(bucket: &Bucket, wait: Duration) -> Answer {
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
    let body = match &bucket.body {
        Value::Null => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too many requests (refused by the fault proxy)", "reason": "TooManyRequests",
            "details": {"retryAfterSeconds": seconds}, "code": bucket.status
        }),
        given => given.clone(),
    };
    let headers = [("retry-after".to_owned(), seconds.to_string())].into();
    Answer { status: bucket.status, headers, body, size: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts<'a>(method: &'a str, path: &'a str, query: &'a str) -> Facts<'a> {
        Facts { method, path, query, user_agent: "berth/0.1", form: "", body: b"Action=RunInstances&X=1" }
    }

    fn engine(seed: u64, document: &str) -> Engine {
        let mut engine = Engine::new(seed, Arc::default());
        engine.set(rules::parse(document).unwrap(), Instant::now()).unwrap();
        engine
    }

    fn hit_matches(engine: &Engine) -> Vec<u64> {
        lock(&engine.log).all().iter().map(|hit| hit.nth).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn exact_every_and_first_count_matches_of_their_own_rule() {
        for (when, wanted) in [
            (r#"{"nth":3}"#, vec![3]),
            (r#"{"every":3}"#, vec![3, 6, 9]),
            (r#"{"first":2}"#, vec![1, 2]),
            (r#"{"probability":0}"#, vec![]),
            (r#"{"first":3,"probability":1}"#, vec![1, 2, 3]),
        ] {
            let mut engine = engine(
                1,
                &format!(
                    r#"[{{"name":"a","match":{{"methods":["GET"]}},"when":{when},"action":{{"delay":{{"ms":1}}}}}}]"#
                ),
            );
            for _ in 0..10 {
                engine.plan(&facts("GET", "/a", ""), Instant::now());
                engine.plan(&facts("PUT", "/a", ""), Instant::now());
            }
            assert_eq!(hit_matches(&engine), wanted, "{when}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_condition_of_a_match_must_hold() {
        for (condition, wanted) in [
            (r#"{"methods":["PUT","GET"]}"#, true),
            (r#"{"methods":["PUT"]}"#, false),
            (r#"{"path":"/api/*/pods"}"#, true),
            (r#"{"path":"/api/*/pods","methods":["PUT"]}"#, false),
            (r#"{"query":"limit=5"}"#, true),
            (r#"{"query":"limit=6"}"#, false),
            (r#"{"watch":true}"#, true),
            (r#"{"watch":false}"#, false),
            (r#"{"user_agent":"berth"}"#, true),
            (r#"{"user_agent":"kubectl"}"#, false),
            (r#"{"body":"Action=RunInstances"}"#, true),
            (r#"{"body":"Action=Describe"}"#, false),
        ] {
            let mut engine =
                engine(1, &format!(r#"[{{"name":"a","match":{condition},"action":{{"delay":{{"ms":1}}}}}}]"#));
            engine.plan(&facts("GET", "/api/v1/pods", "limit=500&watch=true"), Instant::now());
            assert_eq!(!hit_matches(&engine).is_empty(), wanted, "{condition}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_decides_hides_the_request_from_later_rules() {
        let mut engine = engine(
            1,
            r#"[{"name":"wait","action":{"delay":{"ms":5}}},
                {"name":"refuse","when":{"nth":2},"action":{"answer":{"status":500}}},
                {"name":"late","action":{"delay":{"ms":7}}}]"#,
        );
        let first = engine.plan(&facts("GET", "/", ""), Instant::now());
        assert_eq!(first.delay, Duration::from_millis(12));
        let second = engine.plan(&facts("GET", "/", ""), Instant::now());
        assert_eq!(second.delay, Duration::from_millis(5));
        assert!(matches!(second.end, End::Answer(answer) if answer.status == 500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut engine = engine(1, r#"[{"name":"b","action":{"bucket":{"rate":0.5,"burst":2}}}]"#);
        let mut refused = |now: Instant| match engine.plan(&facts("GET", "/", ""), now).end {
            End::Answer(answer) => Some((answer.status, answer.headers["retry-after"].clone())),
            _ => None,
        };
        let start = Instant::now();
        assert_eq!(refused(start), None);
        assert_eq!(refused(start), None);
        assert_eq!(refused(start), Some((429, "2".to_owned())));
        assert_eq!(refused(start + Duration::from_millis(1900)), Some((429, "1".to_owned())));
        assert_eq!(refused(start + Duration::from_secs(2)), None);
        assert_eq!(refused(start + Duration::from_secs(2)), Some((429, "2".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unsound_set_changes_nothing() {
        let mut engine = engine(1, r#"[{"name":"a","when":{"nth":2},"action":{"delay":{"ms":1}}}]"#);
        engine.plan(&facts("GET", "/", ""), Instant::now());
        let before = engine.rules();
        let mut bad = before.clone();
        bad[0].when.nth = Some(0);
        assert_eq!(engine.set(bad, Instant::now()).unwrap_err().field, "rules[0].when.nth");
        assert_eq!(engine.rules(), before);
        engine.plan(&facts("GET", "/", ""), Instant::now());
        assert_eq!(hit_matches(&engine), vec![2], "the counters must have survived");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn the_same_seed_and_requests_give_the_same_hits(
            seed in any::<u64>(), paths in proptest::collection::vec(0usize..4, 1..60), p in 0.0f64..1.0
        ) {
            let document = format!(
                r#"[{{"name":"x","when":{{"probability":{p}}},"action":{{"delay":{{"ms":1,"jitter_ms":50}}}}}},
                    {{"name":"y","match":{{"path":"/1"}},"when":{{"probability":0.5}},"action":{{"reset_before":{{}}}}}}]"#
            );
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _inside = runtime.enter();
            let run = || {
                let mut engine = engine(seed, &document);
                let delays: Vec<Duration> = paths
                    .iter()
                    .map(|path| engine.plan(&facts("GET", ["/0", "/1", "/2", "/3"][*path], ""), Instant::now()).delay)
                    .collect();
                (delays, lock(&engine.log).all())
            };
            prop_assert_eq!(run(), run());
        }
    }

    #[test]
    fn another_seed_gives_other_hits_at_about_the_asked_rate() {
        let hits = |seed: u64| -> Vec<u64> { (1..=2000).filter(|n| unit(draw(seed, "rule", *n, 0)) < 0.25).collect() };
        assert_ne!(hits(1), hits(2));
        for seed in 0..20 {
            let count = hits(seed).len();
            assert!((400..=600).contains(&count), "seed {seed}: {count} of 2000 at 0.25");
        }
    }
}
