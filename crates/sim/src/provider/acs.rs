//! The calls of the provider to a CloudStack, signed as the published clients do it, over plain HTTP on this machine.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::strtime;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cloudstack::wire::sign;
use crate::percent::encode;
use crate::plane::PlaneError;
use crate::time::later;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a signature holds.
const VALID: Duration = Duration::from_secs(600);
/// The longest answer that is read.
const LONGEST: u64 = 8 * 1024 * 1024;

/// A CloudStack and who calls it.
pub(super) struct Acs {
    url: String,
    key: String,
    secret: String,
}

impl Acs {
    /// What a credentials secret says.
    pub(super) fn of(secret: &DynamicObject) -> Result<Self, PlaneError> {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let read = |key: &str| {
            let held = secret.data.pointer(&format!("/data/{key}")).and_then(Value::as_str);
            let bytes = held.and_then(|held| STANDARD.decode(held).ok());
            bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| PlaneError::Bad {
                doing: format!("reading the secret {name}"),
                why: format!("{key} is missing"),
            })
        };
        Ok(Self { url: read("api-url")?, key: read("api-key")?, secret: read("secret-key")? })
    }

    /// Calls a command and returns what is inside of the answer.
    pub(super) async fn call(&self, command: &str, parameters: &[(&str, &str)]) -> Result<Value, PlaneError> {
        let doing = format!("calling {command}");
        let bad = |why: String| PlaneError::Bad { doing: doing.clone(), why };
        let expires = strtime::format("%Y-%m-%dT%H:%M:%S+0000", later(Timestamp::now(), VALID));
        let expires = expires.map_err(|why| bad(why.to_string()))?;
        let standing = [
            ("command", command),
            ("apiKey", self.key.as_str()),
            ("response", "json"),
            ("signatureVersion", "3"),
            ("expires", expires.as_str()),
        ];
        let mut pairs: Vec<(String, String)> =
            standing.iter().chain(parameters).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        pairs.push(("signature".to_owned(), sign::signature(&self.secret, &pairs)));
        let form: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let answered = tokio::time::timeout(PATIENCE, self.post(&form.join("&"))).await;
        let (status, body) = answered
            .map_err(|_| bad("no answer in time".to_owned()))?
            .map_err(|source| PlaneError::Io { doing: doing.clone(), source })?;
        let answer: Value = serde_json::from_str(&body).map_err(|why| bad(format!("{status}: {why}")))?;
        let inside = answer.as_object().and_then(|fields| fields.values().next()).cloned().unwrap_or_default();
        if status != 200 {
            let text = inside.get("errortext").and_then(Value::as_str).unwrap_or(&body);
            return Err(bad(format!("{status}: {text}")));
        }
        Ok(inside)
    }

    /// The id of the only thing in a list that has this name; what is given by its id needs no list.
    pub(super) async fn id(
        &self,
        (command, noun): (&str, &str),
        parameters: &[(&str, &str)],
        wanted: &Value,
    ) -> Result<String, PlaneError> {
        let say = |key: &str| wanted.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(id) = say("id") {
            return Ok(id.to_owned());
        }
        let name = say("name").unwrap_or_default();
        let found = self.call(command, parameters).await?;
        let found = found.get(noun).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut ids = found.iter().filter(|one| one.get("name").and_then(Value::as_str) == Some(name));
        let id = ids.next().and_then(|one| one.get("id")).and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| PlaneError::Bad {
            doing: format!("calling {command}"),
            why: format!("there is no {noun} {name}"),
        })
    }

    async fn post(&self, form: &str) -> std::io::Result<(u16, String)> {
        let other = |why: &str| std::io::Error::other(format!("{}: {why}", self.url));
        let rest = self.url.strip_prefix("http://").ok_or_else(|| other("only plain HTTP is played"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut stream = tokio::net::TcpStream::connect(host).await?;
        let head = format!(
            "POST /{path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: played-provider\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            form.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(form.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.take(LONGEST).read_to_end(&mut bytes).await?;
        let text = String::from_utf8_lossy(&bytes);
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        status.map(|status| (status, body)).ok_or_else(|| other("not an HTTP answer"))
    }
}
