//! STS: who we are, and becoming someone else.

use jiff::Timestamp;
use kit::secret::Secret;

use super::call::{Call, Caller, Repeat, Said};
use super::wire::{Form, Node};
use crate::errors::Cause;
use crate::port::{Answer, AssumeRole, AssumeRoleWithWebIdentity, CallerIdentity, Credentials, Keys};

pub(crate) async fn get_caller_identity(sts: &Caller) -> Answer<CallerIdentity> {
    const OPERATION: &str = "GetCallerIdentity";
    let said = sts.call(&Call::read(OPERATION, Form::new())).await?;
    let read = || {
        let result = said.document.root().child("GetCallerIdentityResult")?;
        let (account, arn) = (result.get("Account")?.parse().ok()?, result.get("Arn")?.to_owned());
        Some(CallerIdentity { account, arn })
    };
    read().ok_or_else(|| malformed(sts, OPERATION, &said, "it does not say who calls"))
}

pub(crate) async fn assume_role(sts: &Caller, request: &AssumeRole) -> Answer<Credentials> {
    const OPERATION: &str = "AssumeRole";
    let mut form = Form::new()
        .with("RoleArn", &request.role)
        .with("RoleSessionName", &request.session_name)
        .maybe("DurationSeconds", request.duration_seconds)
        .maybe("ExternalId", request.external_id.as_ref())
        .maybe("Policy", request.inline_policy.as_ref());
    for (at, arn) in request.policy_arns.iter().enumerate() {
        form = form.with(&format!("PolicyArns.member.{}.arn", at + 1), arn);
    }
    let said = sts.call(&Call::change(OPERATION, form, Repeat::Safe)).await?;
    let read = credentials(said.document.root().child("AssumeRoleResult"));
    let mut given = read.ok_or_else(|| malformed(sts, OPERATION, &said, "it holds no credentials"))?;
    given.account = Some(request.role.account().clone());
    Ok(given)
}

pub(crate) async fn assume_role_with_web_identity(
    sts: &Caller,
    request: &AssumeRoleWithWebIdentity,
) -> Answer<Credentials> {
    const OPERATION: &str = "AssumeRoleWithWebIdentity";
    let form = Form::new()
        .with("RoleArn", &request.role)
        .with("RoleSessionName", &request.session_name)
        .with("WebIdentityToken", request.token.expose())
        .maybe("DurationSeconds", request.duration_seconds);
    let said = sts.call(&Call::change(OPERATION, form, Repeat::Safe)).await?;
    let read = credentials(said.document.root().child("AssumeRoleWithWebIdentityResult"));
    let mut given = read.ok_or_else(|| malformed(sts, OPERATION, &said, "it holds no credentials"))?;
    given.account = Some(request.role.account().clone());
    Ok(given)
}

fn malformed(sts: &Caller, operation: &'static str, said: &Said, detail: &str) -> crate::errors::Error {
    sts.error(operation, Cause::Malformed { detail: detail.to_owned() }).with_request_id(said.request_id.clone())
}

fn credentials(result: Option<Node<'_>>) -> Option<Credentials> {
    let node = result?.child("Credentials")?;
    let expires: Timestamp = node.get("Expiration")?.parse().ok()?;
    let keys = Keys {
        id: node.get("AccessKeyId")?.to_owned(),
        secret: Secret::new(node.get("SecretAccessKey")?.to_owned()),
        session: Some(Secret::new(node.get("SessionToken")?.to_owned())),
    };
    Some(Credentials { keys, expires: Some(expires), account: None })
}

/// Reads a tree as every answer there is; gives how many things were found.
#[cfg(feature = "fuzz")]
pub(crate) fn read_everything(root: Node<'_>) -> usize {
    let results = ["AssumeRoleResult", "AssumeRoleWithWebIdentityResult"];
    results.iter().filter(|name| credentials(root.child(name)).is_some()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::wire::Document;

    #[test]
    fn credentials_are_read_from_the_documented_shape_and_not_shown() {
        let text = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><AssumedRoleUser><AssumedRoleId>ARO123EXAMPLE123:s</AssumedRoleId><Arn>arn:aws:sts::123456789012:assumed-role/demo/s</Arn></AssumedRoleUser><Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId><SecretAccessKey>canary</SecretAccessKey><SessionToken>canary</SessionToken><Expiration>2019-11-09T13:34:41Z</Expiration></Credentials><PackedPolicySize>6</PackedPolicySize></AssumeRoleResult><ResponseMetadata><RequestId>c6104cbe</RequestId></ResponseMetadata></AssumeRoleResponse>";
        let document = Document::parse(text.as_bytes()).unwrap();
        let found = credentials(document.root().child("AssumeRoleResult")).unwrap();
        assert_eq!(found.keys.id, "ASIAIOSFODNN7EXAMPLE");
        assert_eq!(found.expires.unwrap().to_string(), "2019-11-09T13:34:41Z");
        assert_eq!(found.keys.session.as_ref().unwrap().expose(), "canary");
        assert!(!format!("{found:?}").contains("canary"));
        let without = text.replace("<SessionToken>canary</SessionToken>", "");
        let document = Document::parse(without.as_bytes()).unwrap();
        assert_eq!(credentials(document.root().child("AssumeRoleResult")), None);
    }
}
