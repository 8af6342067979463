//! The way of one request: who sent it, what shall go wrong, is there a token left, what does it do.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::super::calls::{self, Call, Quirks, sts};
use super::super::catalogue::regions::Region;
use super::super::wire::form;
use super::super::wire::params::Fields;
use super::super::wire::refusal::Refusal;
use super::super::wire::sigv4::{Authorization, Signed};
use super::super::wire::xml::Xml;
use super::World;
use super::buckets::{request_limit, resource_limit};
use super::faults::{Subject, What};
use super::identity::{Caller, Service};
use super::log::Entry;
use super::time::earlier;
use crate::edge::Answers;
pub use crate::edge::{Reply, Request};

const EC2_NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";
const EC2_VERSION: &str = "2016-11-15";
const STS_NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
const STS_VERSION: &str = "2011-06-15";

/// What is known of a request while it is handled; the log wants it whatever happens.
#[derive(Default)]
struct Known {
    service: Option<Service>,
    action: String,
    region: String,
    access_key: String,
    account: String,
    parameters: BTreeMap<String, String>,
    scripted: bool,
}

/// How a request ended before it became bytes.
enum Outcome {
    Done(String),
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
        let request_id = self.rng.uid();
        let mut known = Known::default();
        let mut delay = Duration::ZERO;
        let outcome = self.outcome(now, signing, request, &request_id, &mut known, &mut delay);
        let (status, code, reply) = match outcome {
            Ok(Outcome::Done(body)) => {
                (200, String::new(), Some((200, "text/xml;charset=UTF-8".to_owned(), body.into_bytes())))
            }
            Ok(Outcome::Raw { status, content_type, body }) => {
                (status, "Raw".to_owned(), Some((status, content_type, body)))
            }
            Ok(Outcome::Cut) => (0, "Cut".to_owned(), None),
            Err(refusal) => {
                let body = refused(known.service, &refusal, &request_id);
                let reply = (refusal.status, "text/xml;charset=UTF-8".to_owned(), body.into_bytes());
                (refusal.status, refusal.code, Some(reply))
            }
        };
        self.log.add(Entry {
            number: 0,
            at: now,
            service: known.service.map(|service| service.as_str().to_owned()).unwrap_or_default(),
            action: known.action,
            region: known.region,
            account: known.account,
            access_key: known.access_key,
            user_agent: request.header("user-agent").unwrap_or_default().to_owned(),
            parameters: known.parameters,
            status,
            code,
            request_id: request_id.clone(),
            scripted: known.scripted,
        });
        match reply {
            None => Reply::Cut { delay },
            Some((status, content_type, body)) => {
                let headers = vec![("content-type", content_type), ("x-amzn-requestid", request_id)];
                Reply::Answer { status, headers, body, delay }
            }
        }
    }

    fn outcome(
        &mut self,
        now: Timestamp,
        signing: Timestamp,
        request: &Request,
        request_id: &str,
        known: &mut Known,
        delay: &mut Duration,
    ) -> Result<Outcome, Refusal> {
        let pairs = parameters(request)?;
        known.parameters = pairs.iter().cloned().collect();
        known.action = known.parameters.get("Action").cloned().unwrap_or_default();
        let caller = self.authenticate(now, signing, request, known)?;
        let service = known.service.unwrap_or(Service::Ec2);
        let mut fields = Fields::new(pairs)?;
        if fields.text("Action")?.is_none_or(|action| action.is_empty()) {
            return Err(Refusal::bad("MissingAction", "The request is missing an action or a required parameter."));
        }
        let version = fields.text("Version")?.unwrap_or_default();
        let (wanted, name) = match service {
            Service::Ec2 => (EC2_VERSION, "AmazonEC2"),
            Service::Sts => (STS_VERSION, "AWSSecurityTokenService"),
        };
        if version != wanted {
            let text = format!("The requested version ({version}) of service {name} does not exist");
            return Err(Refusal::bad("NoSuchVersion", text));
        }
        let subject = self.subject(known, now);
        let faults = self.script.hit(&subject);
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
                What::EmptyPage => quirks.empty_page = true,
                What::RepeatToken => quirks.repeat_token = true,
                What::EmptyToken => quirks.empty_token = true,
                What::Partial(most) => quirks.partial = Some(most),
                What::RefuseItems { id, code, message } => quirks.refuse_items.push((id, code, message)),
            }
        }
        let body = match (service, caller) {
            (Service::Sts, caller) => self.sts(known, fields, caller.as_ref(), now, request_id)?,
            (Service::Ec2, Some(caller)) => self.ec2(known, fields, &caller, now, request_id, &subject, quirks)?,
            (Service::Ec2, None) => return Err(Refusal::missing("AWSAccessKeyId")),
        };
        match refuse_after {
            _ if cut_after => Ok(Outcome::Cut),
            Some(refusal) => Err(refusal),
            None => Ok(Outcome::Done(body)),
        }
    }

    fn authenticate(
        &mut self,
        now: Timestamp,
        signing: Timestamp,
        request: &Request,
        known: &mut Known,
    ) -> Result<Option<Caller>, Refusal> {
        let Some(header) = request.header("authorization") else {
            // Only the exchange of a web identity needs no signature, and only its version tells the service.
            if known.parameters.get("Version").is_some_and(|version| version == STS_VERSION) {
                known.service = Some(Service::Sts);
            }
            return Ok(None);
        };
        let authorization = Authorization::parse(header)?;
        known.region = authorization.region.clone();
        known.access_key = authorization.access_key.clone();
        let service = match authorization.service.as_str() {
            "ec2" => Service::Ec2,
            "sts" => Service::Sts,
            other => {
                let text = format!("Credential should be scoped to correct service, not to {other}");
                return Err(Refusal::new(403, "SignatureDoesNotMatch", text));
            }
        };
        known.service = Some(service);
        let signed = Signed {
            method: &request.method,
            path: &request.path,
            query: &request.query,
            headers: &request.headers,
            body: &request.body,
        };
        let skew = self.settings.max_skew;
        let caller = self.identities.verify(&authorization, service, &signed, signing, now, skew)?;
        known.account = caller.account.clone();
        if Region::find(&authorization.region).is_none() {
            let text = format!("Credential should be scoped to a valid region, not to {}", authorization.region);
            return Err(Refusal::new(401, "AuthFailure", text));
        }
        Ok(Some(caller))
    }

    /// What a call is about, as far as its parameters tell before they are checked.
    fn subject(&mut self, known: &Known, now: Timestamp) -> Subject {
        let text = |name: &str| known.parameters.get(name).cloned();
        let subnet = text("SubnetId").or_else(|| text("NetworkInterface.1.SubnetId"));
        let zone = text("AvailabilityZone").or_else(|| text("Placement.AvailabilityZone"));
        let zone = zone.or_else(|| {
            let place = self.place(&known.account, &known.region, now)?;
            let by_id = text("AvailabilityZoneId").and_then(|id| place.region.zone_of_id(&id));
            by_id.or_else(|| Some(place.subnets.get(&subnet?)?.zone.clone()))
        });
        let kind = text("InstanceType").or_else(|| text("InstanceFamily"));
        Subject { operation: known.action.clone(), zone, kind }
    }

    fn sts(
        &mut self,
        known: &Known,
        fields: Fields,
        caller: Option<&Caller>,
        now: Timestamp,
        request_id: &str,
    ) -> Result<String, Refusal> {
        let mut result = Ok(());
        let body = Xml::document(&format!("{}Response", known.action), STS_NAMESPACE, |xml| {
            result = sts::answer(self, &known.action, fields, caller, now, xml);
            xml.node("ResponseMetadata", |xml| xml.text("RequestId", request_id));
        });
        result.map(|()| body)
    }

    #[expect(clippy::too_many_arguments, reason = "one call site: everything a call is made of")]
    fn ec2(
        &mut self,
        known: &Known,
        fields: Fields,
        caller: &Caller,
        now: Timestamp,
        request_id: &str,
        subject: &Subject,
        quirks: Quirks,
    ) -> Result<String, Refusal> {
        let action = known.action.as_str();
        let handler = calls::find(action).ok_or_else(|| {
            Refusal::bad("InvalidAction", format!("The action {action} is not valid for this web service."))
        })?;
        // A read may show the world as it was a while ago.
        let lag = self.settings.lag;
        let lag = if self.settings.wobble {
            let nanos = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
            Duration::from_nanos(self.rng.below(nanos))
        } else {
            lag
        };
        self.place(&caller.account, &known.region, now);
        let place = self.places.get_mut(&(caller.account.clone(), known.region.clone()));
        let place = place.ok_or_else(|| Refusal::new(401, "AuthFailure", "There is no such region"))?;
        let throttle = self.settings.throttle;
        let narrow = |name: &&String| {
            *name == "MaxResults"
                || *name == "NextToken"
                || name.starts_with("Filter.")
                || name.starts_with("InstanceId.")
        };
        let broad = !known.parameters.keys().any(|name| narrow(&name));
        let bucket = if broad && action == "DescribeInstances" { "DescribeInstances (all)" } else { action };
        if !place.buckets.take(bucket, request_limit(action, broad), 1, throttle, now) {
            return Err(Refusal::throttled());
        }
        if let Some(limit) = resource_limit(action) {
            let listed = known.parameters.keys().filter(|name| name.starts_with("InstanceId.")).count();
            let wanted = known.parameters.get("MaxCount").and_then(|n| n.parse().ok()).or(u32::try_from(listed).ok());
            let name = format!("{action} (resources)");
            if !place.buckets.take(&name, limit, wanted.unwrap_or(1), throttle, now) {
                return Err(Refusal::throttled());
            }
        }
        let mut call = Call {
            action,
            now,
            view: earlier(now, lag),
            place,
            settings: &self.settings,
            types: &self.types,
            script: &self.script,
            rng: &mut self.rng,
            fields,
            raw: &known.parameters,
            subject,
            quirks,
        };
        let mut result = calls::check_modelled(&call);
        let body = Xml::document(&format!("{action}Response"), EC2_NAMESPACE, |xml| {
            xml.text("requestId", request_id);
            if result.is_ok() {
                result = handler(&mut call, xml);
            }
        });
        result.map(|()| body)
    }
}

fn parameters(request: &Request) -> Result<Vec<(String, String)>, Refusal> {
    let malformed = |text: &str| Refusal::bad("MalformedQueryString", text.to_owned());
    if request.path != "/" {
        return Err(Refusal::new(404, "InvalidAction", "The path must be /"));
    }
    match request.method.as_str() {
        "GET" if request.body.is_empty() => form::pairs(&request.query),
        "POST" => {
            let kind = request.header("content-type").unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim();
            if kind != "application/x-www-form-urlencoded" {
                return Err(malformed("The content type must be application/x-www-form-urlencoded"));
            }
            if !request.query.is_empty() {
                return Err(malformed("Parameters must be in the body, not in the query"));
            }
            let text = std::str::from_utf8(&request.body).map_err(|_| malformed("The body is not UTF-8"))?;
            form::pairs(text)
        }
        _ => Err(Refusal::new(405, "InvalidAction", "The method must be GET without a body, or POST")),
    }
}

/// The two services write errors differently.
fn refused(service: Option<Service>, refusal: &Refusal, request_id: &str) -> String {
    let error = |xml: &mut Xml| {
        xml.text("Code", &refusal.code);
        xml.text("Message", &refusal.message);
    };
    match service {
        Some(Service::Sts) => Xml::document("ErrorResponse", STS_NAMESPACE, |xml| {
            xml.node("Error", |xml| {
                xml.text("Type", if refusal.status < 500 { "Sender" } else { "Receiver" });
                error(xml);
            });
            xml.text("RequestId", request_id);
        }),
        _ => Xml::bare("Response", |xml| {
            xml.node("Errors", |xml| xml.node("Error", error));
            xml.text("RequestID", request_id);
        }),
    }
}
