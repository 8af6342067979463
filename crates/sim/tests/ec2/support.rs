//! A signing client without sockets, and a world to point it at.

use std::time::Duration;

use jiff::Timestamp;
use sim::ec2::wire::form;
use sim::ec2::wire::sigv4::{Authorization, Signed};
use sim::ec2::world::World;
use sim::ec2::world::engine::{Reply, Request};
use sim::ec2::world::settings::{Settings, Throttle};
use sim::ec2::world::time::later;

pub const ACCOUNT: &str = "123456789012";
pub const KEY: &str = "AKIATEST";
pub const SECRET: &str = "secret";
pub const REGION: &str = "us-east-1";
pub const ZONE: &str = "us-east-1a";

/// Whose name requests are signed in.
#[derive(Clone, Debug)]
pub struct Signer {
    pub access_key: String,
    pub secret: String,
    pub session: Option<String>,
    pub region: String,
    pub service: String,
}

impl Default for Signer {
    fn default() -> Self {
        Self {
            access_key: KEY.into(),
            secret: SECRET.into(),
            session: None,
            region: REGION.into(),
            service: "ec2".into(),
        }
    }
}

impl Signer {
    pub fn to(service: &str) -> Self {
        Self { service: service.into(), ..Self::default() }
    }

    /// A signed request with a form body.
    pub fn form(&self, body: &str, at: Timestamp) -> Request {
        let mut request = Request {
            method: "POST".into(),
            path: "/".into(),
            query: String::new(),
            headers: vec![
                ("content-type".into(), "application/x-www-form-urlencoded; charset=utf-8".into()),
                ("host".into(), "ec2.test".into()),
            ],
            body: body.as_bytes().to_vec(),
        };
        self.sign(&mut request, at);
        request
    }

    /// Signs a request as it is.
    pub fn sign(&self, request: &mut Request, at: Timestamp) {
        let time = at.strftime("%Y%m%dT%H%M%SZ").to_string();
        request.headers.push(("x-amz-date".into(), time.clone()));
        if let Some(session) = &self.session {
            request.headers.push(("x-amz-security-token".into(), session.clone()));
        }
        request.headers.sort();
        let names: Vec<String> = request.headers.iter().map(|(name, _)| name.clone()).collect();
        let mut authorization = Authorization {
            access_key: self.access_key.clone(),
            date: time[..8].into(),
            region: self.region.clone(),
            service: self.service.clone(),
            headers: names,
            signature: String::new(),
        };
        let signed = Signed {
            method: &request.method,
            path: &request.path,
            query: &request.query,
            headers: &request.headers,
            body: &request.body,
        };
        authorization.signature = authorization.expected(&self.secret, &time, &signed);
        let header = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}/{}/{}/aws4_request, SignedHeaders={}, Signature={}",
            authorization.access_key,
            authorization.date,
            authorization.region,
            authorization.service,
            authorization.headers.join(";"),
            authorization.signature
        );
        request.headers.push(("authorization".into(), header));
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn of(reply: Reply) -> Self {
        match reply {
            Reply::Answer { status, body, .. } => Self { status, body: String::from_utf8(body).unwrap() },
            Reply::Cut { .. } => Self { status: 0, body: String::new() },
        }
    }

    /// The texts of all elements of a name.
    pub fn all(&self, name: &str) -> Vec<String> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        self.body.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).map(str::to_owned).collect()
    }

    pub fn one(&self, name: &str) -> String {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "one {name} in {}", self.body);
        all.into_iter().next().unwrap()
    }

    pub fn code(&self) -> String {
        self.all("Code").into_iter().next().unwrap_or_default()
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 200, "{}", self.body);
        self
    }

    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.body);
        self
    }
}

/// A world, its time, and a client.
pub struct Bench {
    pub world: World,
    pub now: Timestamp,
    pub signer: Signer,
}

impl Bench {
    /// Without request limits and with room for many hosts; other settings as they ship.
    pub fn new() -> Self {
        let settings = Settings { host_quota: 1_000, throttle: Throttle::Off, ..Settings::default() };
        Self::with(settings)
    }

    pub fn with(settings: Settings) -> Self {
        let world = World::new(settings, ACCOUNT, KEY, SECRET, 7);
        Self { world, now: "2026-01-01T00:00:00Z".parse().unwrap(), signer: Signer::default() }
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = later(self.now, Duration::from_secs(seconds));
    }

    pub fn send(&mut self, request: &Request) -> Answer {
        Answer::of(self.world.handle(self.now, self.now, request))
    }

    /// Sends parameters written as `A=1&B=2`, with action and version put before them.
    pub fn call(&mut self, action: &str, parameters: &str) -> Answer {
        let version = if self.signer.service == "sts" { "2011-06-15" } else { "2016-11-15" };
        let body = format!("Action={action}&Version={version}&{parameters}");
        let request = self.signer.form(&body, self.now);
        self.send(&request)
    }

    pub fn allocate(&mut self, parameters: &str) -> String {
        let zone =
            if parameters.contains("AvailabilityZone") { String::new() } else { format!("AvailabilityZone={ZONE}&") };
        let answer = self.call("AllocateHosts", &format!("{zone}Quantity=1&AutoPlacement=off&{parameters}")).ok();
        answer.one("item")
    }

    /// A host that is ready.
    pub fn host(&mut self, kind: &str) -> String {
        let id = self.allocate(&format!("InstanceType={kind}"));
        self.pass(2);
        id
    }

    pub fn subnet(&mut self, zone: &str) -> String {
        self.world.place(ACCOUNT, REGION, self.now).unwrap().subnet_of(zone, false).unwrap().id.clone()
    }

    pub fn image(&mut self, architecture: &str) -> String {
        self.world.place(ACCOUNT, REGION, self.now).unwrap().image_of(architecture).unwrap().id.clone()
    }

    /// Parameters of a launch on a host.
    pub fn on(&mut self, host: &str, kind: &str) -> String {
        let architecture = self.world.find_type(kind).unwrap().architectures[0].clone();
        let (image, subnet) = (self.image(&architecture), self.subnet(ZONE));
        format!(
            "ImageId={image}&InstanceType={kind}&MinCount=1&MaxCount=1&SubnetId={subnet}&Placement.Tenancy=host&Placement.HostId={host}&Placement.Affinity=host"
        )
    }

    pub fn launch(&mut self, host: &str, kind: &str) -> String {
        let parameters = self.on(host, kind);
        self.call("RunInstances", &parameters).ok().one("instanceId")
    }

    pub fn host_state(&mut self, id: &str) -> String {
        self.call("DescribeHosts", &format!("HostId.1={id}")).ok().one("state")
    }

    pub fn release(&mut self, id: &str) -> Answer {
        self.call("ReleaseHosts", &format!("HostId.1={id}")).ok()
    }
}

pub fn encode(text: &str) -> String {
    form::encode(text)
}
