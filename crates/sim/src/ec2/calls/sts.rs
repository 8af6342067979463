//! The token service: who am I, and who may I become.

use std::time::Duration;

use jiff::Timestamp;

use super::super::wire::params::Fields;
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::World;
use super::super::world::identity::{Caller, Session};
use super::super::world::time::written;

/// Answers an operation; `caller` is nobody for unsigned requests.
pub(crate) fn answer(
    world: &mut World,
    action: &str,
    fields: Fields,
    caller: Option<&Caller>,
    now: Timestamp,
    xml: &mut Xml,
) -> Result<(), Refusal> {
    match (action, caller) {
        ("GetCallerIdentity", Some(caller)) => {
            fields.finish()?;
            xml.node("GetCallerIdentityResult", |xml| {
                xml.text("Arn", &caller.arn);
                xml.text("UserId", &caller.user_id);
                xml.text("Account", &caller.account);
            });
            Ok(())
        }
        ("AssumeRole", Some(caller)) => assume(world, fields, caller, now, xml),
        ("AssumeRoleWithWebIdentity", _) => web_identity(world, fields, now, xml),
        ("GetCallerIdentity" | "AssumeRole", None) => {
            Err(Refusal::new(403, "MissingAuthenticationToken", "Request is missing Authentication Token"))
        }
        _ => Err(Refusal::bad("InvalidAction", format!("Could not find operation {action} for version 2011-06-15"))),
    }
}

fn invalid(name: &str, value: &str, rule: &str) -> Refusal {
    let text = format!("1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: {rule}");
    Refusal::bad("ValidationError", text)
}

/// Role, session name and length, which both ways into a role need.
fn common(fields: &mut Fields) -> Result<(String, String, Duration), Refusal> {
    let missing = |name: &str| invalid(name, "null", "Member must not be null");
    let role = fields.text("RoleArn")?.ok_or_else(|| missing("roleArn"))?;
    let parts: Vec<&str> = role.splitn(6, ':').collect();
    let named = matches!(parts.as_slice(), ["arn", _, "iam", "", account, rest]
        if account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit()) && rest.starts_with("role/") && rest.len() > 5);
    if !named {
        return Err(Refusal::bad("ValidationError", format!("{role} is invalid")));
    }
    let name = fields.text("RoleSessionName")?.ok_or_else(|| missing("roleSessionName"))?;
    let fits =
        (2..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+=,.@-".contains(&b));
    if !fits {
        return Err(invalid(
            "roleSessionName",
            &name,
            "Member must satisfy regular expression pattern: [\\w+=,.@-]{2,64}",
        ));
    }
    let seconds = match fields.text("DurationSeconds")? {
        None => 3_600,
        Some(text) => match text.parse::<u64>() {
            Ok(n) if (900..=43_200).contains(&n) => n,
            _ => return Err(invalid("durationSeconds", &text, "Member must have value between 900 and 43200")),
        },
    };
    Ok((role, name, Duration::from_secs(seconds)))
}

/// Session policies only narrow what a session may do; the simulator has no policies, so they are read and set aside.
fn policies(fields: &mut Fields) -> Result<(), Refusal> {
    if let Some(policy) = fields.text("Policy")?
        && serde_json::from_str::<serde_json::Value>(&policy).is_err()
    {
        return Err(Refusal::bad("MalformedPolicyDocument", "The policy is not in the valid JSON format."));
    }
    for mut arn in list(fields, "PolicyArns")? {
        arn.required("arn")?;
        arn.finish()?;
    }
    Ok(())
}

/// Lists of this service have `member` between their name and the number.
fn list(fields: &mut Fields, name: &str) -> Result<Vec<Fields>, Refusal> {
    let mut outer = fields.group(name)?;
    let list = outer.groups("member")?;
    outer.finish()?;
    Ok(list)
}

fn assume(
    world: &mut World,
    mut fields: Fields,
    caller: &Caller,
    now: Timestamp,
    xml: &mut Xml,
) -> Result<(), Refusal> {
    let (role, name, duration) = common(&mut fields)?;
    policies(&mut fields)?;
    let external = fields.text("ExternalId")?;
    let mut tags = Vec::new();
    for mut tag in list(&mut fields, "Tags")? {
        tags.push((tag.required("Key")?, tag.text("Value")?));
        tag.finish()?;
    }
    fields.finish()?;
    let denied = || {
        let text = format!("User: {} is not authorized to perform: sts:AssumeRole on resource: {role}", caller.arn);
        Refusal::new(403, "AccessDenied", text)
    };
    let known = world.identities.roles.get(&role).filter(|known| !known.closed).ok_or_else(denied)?;
    if known.external_id != external {
        return Err(denied());
    }
    if caller.arn.contains(":assumed-role/") && duration > Duration::from_secs(3_600) {
        let text = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.";
        return Err(Refusal::bad("ValidationError", text));
    }
    let session = world.identities.open(&role, &name, duration, now, &mut world.rng);
    xml.node("AssumeRoleResult", |xml| write_session(xml, &session));
    Ok(())
}

fn web_identity(world: &mut World, mut fields: Fields, now: Timestamp, xml: &mut Xml) -> Result<(), Refusal> {
    let (role, name, duration) = common(&mut fields)?;
    policies(&mut fields)?;
    let token = fields.text("WebIdentityToken")?.filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| invalid("webIdentityToken", "null", "Member must not be null"))?;
    fields.text("ProviderId")?;
    fields.finish()?;
    if !world.identities.roles.values().any(|known| known.web_tokens.contains(&token)) {
        return Err(Refusal::bad("InvalidIdentityToken", "The web identity token could not be validated"));
    }
    let allowed = world.identities.roles.get(&role).is_some_and(|known| known.web_tokens.contains(&token));
    if !allowed {
        return Err(Refusal::new(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"));
    }
    let session = world.identities.open(&role, &name, duration, now, &mut world.rng);
    xml.node("AssumeRoleWithWebIdentityResult", |xml| {
        write_session(xml, &session);
        xml.text("SubjectFromWebIdentityToken", "system:serviceaccount:berth-system:berth");
        xml.text("Audience", "sts.amazonaws.com");
        xml.text("Provider", "arn:aws:iam::123456789012:oidc-provider/simulator");
    });
    Ok(())
}

fn write_session(xml: &mut Xml, session: &Session) {
    xml.node("Credentials", |xml| {
        xml.text("AccessKeyId", &session.access_key);
        xml.text("SecretAccessKey", &session.secret);
        xml.text("SessionToken", &session.token);
        xml.text("Expiration", written(session.expires));
    });
    xml.node("AssumedRoleUser", |xml| {
        xml.text("AssumedRoleId", &session.caller.user_id);
        xml.text("Arn", &session.caller.arn);
    });
}
