//! The way of one request: who sent it, what shall go wrong, what does it do.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::{Map, Value};

use super::World;
use super::faults::What;
use super::log::Entry;
use super::things::Account;
use crate::cloudstack::calls::{self, Call, Quirks};
use crate::cloudstack::wire::commands;
use crate::cloudstack::wire::params::Params;
use crate::cloudstack::wire::refusal::Refusal;
use crate::cloudstack::wire::sign;
use crate::edge::Answers;
pub use crate::edge::{Reply, Request};
use crate::percent::decode;

/// Where the API is.
pub const PATH: &str = "/client/api";

const JSON: &str = "application/json;charset=utf-8";

/// What is known of a request while it is handled; the log wants it whatever happens.
#[derive(Default)]
struct Known {
    command: String,
    caller: String,
    parameters: BTreeMap<String, String>,
    scripted: bool,
    /// Whether the answer can be wrapped in the command's own name.
    listed: bool,
}

/// How a request ended before it became bytes.
enum Outcome {
    Done(Map<String, Value>),
    Raw { status: u16, content_type: String, body: Vec<u8> },
    Cut,
}

impl Answers for World {
    fn handle(&mut self, now: Timestamp, signing: Timestamp, request: &Request) -> Reply {
        Self::handle(self, now, signing, request)
    }
}

impl World {
    /// Handles one request. `now` is the world's time, `signing` the time clients sign with.
    pub fn handle(&mut self, now: Timestamp, signing: Timestamp, request: &Request) -> Reply {
        let mut known = Known::default();
        let mut delay = Duration::ZERO;
        let outcome = if request.path == PATH {
            self.outcome(now, signing, request, &mut known, &mut delay)
        } else {
            let body = b"<html><body><h1>404 Not Found</h1></body></html>".to_vec();
            Ok(Outcome::Raw { status: 404, content_type: "text/html".to_owned(), body })
        };
        let wrapped = |known: &Known, said: Map<String, Value>| {
            let key = if known.listed {
                format!("{}response", known.command.to_lowercase())
            } else {
                "errorresponse".to_owned()
            };
            Value::from_iter([(key, Value::Object(said))]).to_string().into_bytes()
        };
        let (status, refusal, reply) = match outcome {
            Ok(Outcome::Done(said)) => (200, String::new(), Some((JSON.to_owned(), wrapped(&known, said)))),
            Ok(Outcome::Raw { status, content_type, body }) => (status, "raw".to_owned(), Some((content_type, body))),
            Ok(Outcome::Cut) => (0, "cut".to_owned(), None),
            Err(refusal) => {
                let body = wrapped(&known, refusal.body());
                (refusal.code, refusal.text, Some((JSON.to_owned(), body)))
            }
        };
        self.log.add(Entry {
            number: 0,
            at: now,
            method: request.method.clone(),
            command: known.command,
            caller: known.caller,
            user_agent: request.header("user-agent").unwrap_or_default().to_owned(),
            parameters: known.parameters,
            status,
            refusal,
            scripted: known.scripted,
        });
        match reply {
            None => Reply::Cut { delay },
            Some((content_type, body)) => {
                let mut headers = vec![("content-type", content_type)];
                // The server's own time, by which clients notice that theirs is off.
                if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&signing) {
                    headers.push(("date", date));
                }
                Reply::Answer { status, headers, body, delay }
            }
        }
    }

    fn outcome(
        &mut self,
        now: Timestamp,
        signing: Timestamp,
        request: &Request,
        known: &mut Known,
        delay: &mut Duration,
    ) -> Result<Outcome, Refusal> {
        let pairs = pairs(request)?;
        known.parameters = pairs.iter().cloned().collect();
        let get =
            |name: &str| pairs.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
        known.command = get("command").unwrap_or_default().to_owned();
        let command = commands::find(&known.command);
        known.listed = command.is_some();
        let caller = self.authenticate(signing, &pairs).ok_or_else(Refusal::credentials)?;
        known.caller = format!("{}@{}", caller.name, caller.domain);
        // A command nobody has is answered as a wrong signature is.
        let command = command.ok_or_else(Refusal::credentials)?;
        command.name.clone_into(&mut known.command);
        if get("response") != Some("json") {
            return Err(Refusal::parameter("the simulator answers in JSON only: send response=json"));
        }
        let faults = self.script.hit(command.name);
        known.scripted = !faults.is_empty();
        let mut quirks = Quirks::default();
        let (mut refuse_after, mut cut_after) = (None, false);
        for fault in faults {
            match fault {
                What::Refuse(refusal) => return Err(refusal),
                What::CutBefore => return Ok(Outcome::Cut),
                What::Raw { status, content_type, body } => return Ok(Outcome::Raw { status, content_type, body }),
                What::Delay(by) => *delay += by,
                What::RefuseAfter(refusal) => refuse_after = Some(refusal),
                What::CutAfter => cut_after = true,
                What::RepeatPage => quirks.repeat_page = true,
                What::NoCount => quirks.no_count = true,
                What::FailJob { code, text } => quirks.fail_job = Some((code, text)),
                What::HangJob => quirks.hang_job = true,
            }
        }
        if !self.has_turn(&caller, now) {
            return Err(Refusal::throttled());
        }
        if !calls::may(caller.role, command.name) {
            return Err(Refusal::role(command.name));
        }
        let params = Params::new(command, &pairs)?;
        let call = Call { now, caller, params, quirks, is_get: request.method == "GET" };
        let said = calls::answer(self, call)?;
        match refuse_after {
            _ if cut_after => Ok(Outcome::Cut),
            Some(refusal) => Err(refusal),
            None => Ok(Outcome::Done(said)),
        }
    }

    fn authenticate(&self, signing: Timestamp, pairs: &[(String, String)]) -> Option<Account> {
        let get =
            |name: &str| pairs.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
        let key = get("apikey")?;
        let account = self.accounts.iter().find(|account| account.api_key == key)?;
        let timely = sign::timely(get("signatureversion"), get("expires"), signing, self.settings.enforce_expiry);
        let signed = sign::holds(&account.secret_key, pairs, get("signature")?);
        (timely && signed && account.state == "enabled").then(|| account.clone())
    }

    /// Counts a request against the second it falls into.
    fn has_turn(&mut self, caller: &Account, now: Timestamp) -> bool {
        let Some(limit) = self.settings.request_limit else { return true };
        let window = self.windows.entry(caller.id.clone()).or_insert((now, 0));
        if now.duration_since(window.0).as_secs() >= 1 {
            *window = (now, 0);
        }
        window.1 += 1;
        window.1 <= limit
    }
}

/// The parameters of the query and, of a form, those of the body.
fn pairs(request: &Request) -> Result<Vec<(String, String)>, Refusal> {
    let broken = || Refusal::new(430, Some(9999), "the parameters cannot be decoded");
    let body = match request.method.as_str() {
        "POST" => {
            let kind = request.header("content-type").unwrap_or_default();
            if !kind.starts_with("application/x-www-form-urlencoded") {
                return Err(Refusal::new(430, Some(9999), format!("a form has another content type than {kind:?}")));
            }
            std::str::from_utf8(&request.body).map_err(|_| broken())?
        }
        "GET" => "",
        _ => return Err(Refusal::new(405, Some(9999), "only GET and POST are allowed")),
    };
    let parts = [request.query.as_str(), body].into_iter().flat_map(|text| text.split('&'));
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decode(name)?, decode(value)?))
    };
    parts.filter(|part| !part.is_empty()).map(|part| pair(part).ok_or_else(broken)).collect()
}
