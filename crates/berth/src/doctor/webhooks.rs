//! The registration of the admission webhooks, and the certificates by which the API server believes them.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kit::certs::{Bundle, Facts, SelfSignedOptions, Validity};
use kit::class::chain;
use kit::clock::Clock;
use kit::secret::Secret as Kept;
use kube::{Api, Client};

use super::operator::Operator;
use super::{Check, some};

const NAME: &str = "certificates";
/// What is renewed in time never comes this close to its end, unless its whole life is short.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// Where cert-manager names the Certificate that a Secret is made for.
const CERTIFICATE: &str = "cert-manager.io/certificate-name";

/// Whether the webhooks are registered, and whether their certificates are good.
pub async fn all(client: &Client, operator: &Operator) -> Vec<Check> {
    let (registered, hooks) = registered(client).await;
    let stored = stored(client, operator).await;
    let certificates = certificates(&authorities(&hooks), &stored, Clock::system().now());
    std::iter::once(registered).chain(certificates).collect()
}

/// The registration, and how each webhook is called.
async fn registered(client: &Client) -> (Check, Vec<(String, WebhookClientConfig)>) {
    let fix = "berth webhooks | kubectl apply -f -   (the chart does this and fills in the certificate authority)";
    let checks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let defaults: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let (checks, defaults) = match (checks.get_opt("berth").await, defaults.get_opt("berth").await) {
        (Ok(checks), Ok(defaults)) => (checks, defaults),
        (Err(error), _) | (_, Err(error)) => {
            return (Check::warn("webhooks", format!("cannot be read: {}", chain(&error)), fix), Vec::new());
        }
    };
    let missing = match (&checks, &defaults) {
        (Some(_), Some(_)) => None,
        (None, None) => Some("none: mistakes show up as conditions only, after the fact"),
        (None, Some(_)) => Some("those that check objects are missing"),
        (Some(_), None) => Some("those that fill in defaults are missing"),
    };
    let checks = checks.and_then(|found| found.webhooks).into_iter().flatten();
    let defaults = defaults.and_then(|found| found.webhooks).into_iter().flatten();
    let checks = checks.map(|hook| (hook.name, hook.client_config));
    let hooks: Vec<(String, WebhookClientConfig)> =
        checks.chain(defaults.map(|hook| (hook.name, hook.client_config))).collect();
    if let Some(missing) = missing {
        return (Check::warn("webhooks", missing, fix), hooks);
    }
    let untrusted = hooks.iter().filter(|(_, config)| config.ca_bundle.as_ref().is_none_or(|b| b.0.is_empty()));
    let names: BTreeSet<&str> = untrusted.map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        let fix = "start Berth with --webhook-self-signed, or let cert-manager inject the authority";
        return (Check::fail("webhooks", format!("no certificate authority in: {}", names.join(", ")), fix), hooks);
    }
    (Check::ok("webhooks", format!("{} registered, each with a certificate authority", hooks.len())), hooks)
}

/// What the API server trusts, each bundle once; that one has none, the check of the registration tells.
fn authorities(hooks: &[(String, WebhookClientConfig)]) -> BTreeSet<String> {
    let bundles = hooks.iter().filter_map(|(_, config)| config.ca_bundle.as_ref());
    bundles
        .filter(|bundle| !bundle.0.is_empty())
        .map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned())
        .collect()
}

/// Who renews what is served.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Keeper {
    /// Berth itself.
    Berth,
    /// cert-manager, by the Certificate of this name.
    Manager(String),
    /// Whoever brought the Secret.
    Somebody,
}

/// The Secret with what is served.
enum Stored {
    /// There is none.
    Nowhere,
    /// The pods wait for it.
    Missing(String),
    /// It cannot be read.
    Hidden(String),
    /// It is there.
    There { namespace: String, name: String, keeper: Keeper, leaf: String, key: Kept<String> },
}

async fn stored(client: &Client, operator: &Operator) -> Stored {
    let namespace = operator.namespace.clone();
    let own = SelfSignedOptions::for_service(&operator.flags.webhook_service, &namespace).secret;
    let name = operator.mounted.clone().unwrap_or(own);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    match secrets.get_opt(&name).await {
        Ok(Some(secret)) => {
            let manager = secret.metadata.annotations.as_ref().and_then(|notes| notes.get(CERTIFICATE)).cloned();
            let keeper = match (&operator.mounted, manager) {
                (_, Some(certificate)) => Keeper::Manager(certificate),
                (None, None) => Keeper::Berth,
                (Some(_), None) => Keeper::Somebody,
            };
            let data = secret.data.unwrap_or_default();
            let text = |key: &str| data.get(key).map(|value| String::from_utf8_lossy(&value.0).into_owned());
            let [leaf, key] = ["tls.crt", "tls.key"].map(|key| text(key).unwrap_or_default());
            Stored::There { namespace, name, keeper, leaf, key: key.into() }
        }
        Ok(None) if operator.mounted.is_some() => {
            Stored::Missing(format!("Secret {namespace}/{name}, which the pods mount, is not there"))
        }
        Ok(None) => Stored::Nowhere,
        Err(error) => Stored::Hidden(format!("Secret {namespace}/{name} cannot be read: {}", chain(&error))),
    }
}

/// Whether what is served is believed, and for how long. Nothing where nothing is served.
fn certificates(authorities: &BTreeSet<String>, stored: &Stored, now: Timestamp) -> Option<Check> {
    let (leaf, key, secret, fix) = match stored {
        // Where nothing is registered nothing has to be believed, whether or not it may be seen.
        Stored::Nowhere | Stored::Hidden(_) if authorities.is_empty() => return None,
        Stored::Nowhere => ("", "", String::new(), "look at whoever registered the webhooks".to_owned()),
        Stored::Missing(why) => return Some(Check::fail(NAME, why.clone(), "bring it: no pod starts without it")),
        Stored::Hidden(why) => return Some(Check::warn(NAME, why.clone(), "run the doctor with more rights")),
        Stored::There { namespace, name, keeper, leaf, key } => {
            let secret = format!("Secret {namespace}/{name}");
            (leaf.as_str(), key.expose().as_str(), secret.clone(), keeper.fix(namespace, &secret))
        }
    };
    let seen = |ca: &str| {
        let (ca, leaf) = (ca.to_owned(), leaf.to_owned());
        Facts::read(&Bundle { ca, ca_key: String::new().into(), leaf, leaf_key: key.to_owned().into() })
    };
    // Whoever trusts several authorities is served as long as one of them is good.
    let trusted: Vec<Facts> = authorities.iter().map(|ca| seen(ca)).collect();
    let ends = trusted.iter().map(|facts| facts.cas.iter().copied().max_by_key(|ca| ca.not_after));
    let Some(ends) = ends.collect::<Option<Vec<Validity>>>() else {
        return Some(Check::fail(NAME, "what the webhooks trust is no certificate authority", fix));
    };
    let authority = || "the authority that the webhooks trust".to_owned();
    let mut dates: Vec<(String, Validity)> = ends.into_iter().map(|end| (authority(), end)).collect();
    if let Stored::There { keeper, .. } = stored {
        let Some(own) = seen("").leaf else {
            return Some(Check::fail(NAME, format!("{secret} holds no certificate with its key"), fix));
        };
        // Of a chain only the authority at its end is known, so nothing is concluded from its first certificate.
        let alone = leaf.matches("BEGIN CERTIFICATE").count() == 1;
        if alone && trusted.iter().any(|facts| facts.leaf.as_ref().is_some_and(|leaf| leaf.issuer.is_none())) {
            let found = format!("the certificate in {secret} is not of an authority that the webhooks trust");
            return Some(match keeper {
                Keeper::Berth => Check::fail(NAME, found, fix),
                Keeper::Manager(_) | Keeper::Somebody => Check::warn(NAME, found, fix),
            });
        }
        dates.push((format!("the certificate in {secret}"), own.validity));
    }
    let told = |(what, validity): &(String, Validity), word: &str| format!("{what} {word} {:.0}", validity.not_after);
    let over: Vec<String> =
        dates.iter().filter(|(_, v)| v.not_after <= now).map(|date| told(date, "expired at")).collect();
    if !over.is_empty() {
        return Some(Check::fail(NAME, some(&over), fix));
    }
    let near = dates.iter().filter(|(_, validity)| is_near(*validity, now));
    let near: Vec<String> = near.map(|date| told(date, "expires at")).collect();
    if !near.is_empty() {
        return Some(Check::warn(NAME, some(&near), fix));
    }
    let next = dates.iter().min_by_key(|(_, validity)| validity.not_after)?;
    let renewed = match stored {
        Stored::There { keeper, .. } => keeper.renews(),
        Stored::Nowhere | Stored::Missing(_) | Stored::Hidden(_) => "",
    };
    Some(Check::ok(NAME, format!("{}{renewed}", told(next, "is good until"))))
}

fn is_near(validity: Validity, now: Timestamp) -> bool {
    validity.remaining(now) < SOON.min(validity.length() / 4)
}

impl Keeper {
    /// How it comes to a new one.
    fn renews(&self) -> &'static str {
        match self {
            Self::Berth => "; Berth renews it",
            Self::Manager(_) => "; cert-manager renews it",
            Self::Somebody => "",
        }
    }

    /// What to do when it does not.
    fn fix(&self, namespace: &str, secret: &str) -> String {
        match self {
            Self::Berth => {
                format!(
                    "kubectl logs -n {namespace} deployment/berth   (Berth renews it, and says there why it cannot)"
                )
            }
            Self::Manager(name) => {
                format!("kubectl describe certificate -n {namespace} {name}   (cert-manager renews it)")
            }
            Self::Somebody => format!(
                "put a new pair into {secret}, which pods take within minutes, and its authority into certificates.caBundle of the chart"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kit::certs::{Action, build};

    use super::super::Level;
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn at(days: i64) -> Timestamp {
        let begin: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        Timestamp::from_second(begin.as_second() + days * DAY).unwrap()
    }

    /// An authority with a certificate that it signed, as Berth makes them.
    fn made() -> Bundle {
        let names = BTreeSet::from(["berth-webhook.berth-system.svc".to_owned()]);
        build(&Action::Create { reason: "a test" }, None, &names, at(0)).unwrap().unwrap()
    }

    fn there(bundle: &Bundle, keeper: Keeper) -> Stored {
        let (leaf, key) = (bundle.leaf.clone(), bundle.leaf_key.clone());
        Stored::There { namespace: "berth-system".to_owned(), name: "certs".to_owned(), keeper, leaf, key }
    }

    fn judged(authority: &str, stored: &Stored, days: i64) -> Check {
        certificates(&BTreeSet::from([authority.to_owned()]), stored, at(days)).unwrap()
    }

    #[test]
    fn a_certificate_is_good_then_near_its_end_and_then_over() {
        let made = made();
        let stored = there(&made, Keeper::Berth);
        let good = judged(&made.ca, &stored, 1);
        assert_eq!(good.level, Level::Ok);
        assert!(
            good.found.starts_with("the certificate in Secret berth-system/certs is good until 2026-04-0"),
            "{good:?}"
        );
        assert!(good.found.ends_with("; Berth renews it"), "{good:?}");
        let near = judged(&made.ca, &stored, 80);
        assert_eq!(near.level, Level::Warning);
        assert!(near.found.contains("expires at 2026-04-0"), "{near:?}");
        assert!(near.fix.unwrap().starts_with("kubectl logs -n berth-system deployment/berth"));
        let over = judged(&made.ca, &there(&made, Keeper::Manager("berth-webhook".to_owned())), 91);
        assert_eq!(over.level, Level::Failure);
        assert!(over.found.contains("expired at 2026-04-0"), "{over:?}");
        assert!(over.fix.unwrap().starts_with("kubectl describe certificate -n berth-system berth-webhook"));
        let lost = judged(&made.ca, &stored, 3651);
        assert!(lost.found.contains("the authority that the webhooks trust expired at 2035-12-"), "{lost:?}");
    }

    #[test]
    fn a_certificate_of_an_authority_that_nobody_trusts_is_worth_nothing() {
        let (ours, theirs) = (made(), made());
        let check = judged(&theirs.ca, &there(&ours, Keeper::Berth), 1);
        assert_eq!(check.level, Level::Failure);
        assert!(check.found.contains("is not of an authority that the webhooks trust"), "{check:?}");
        let both = format!("{}{}", theirs.ca, ours.ca);
        assert_eq!(judged(&both, &there(&ours, Keeper::Somebody), 1).level, Level::Ok, "one of two is enough");
        let torn = Bundle { leaf_key: theirs.leaf_key.clone(), ..ours.clone() };
        assert!(
            judged(&ours.ca, &there(&torn, Keeper::Somebody), 1).found.contains("holds no certificate with its key")
        );
        assert!(judged("no PEM", &there(&ours, Keeper::Somebody), 1).found.contains("is no certificate authority"));
    }

    #[test]
    fn without_a_secret_only_what_is_trusted_is_judged_and_keys_are_never_told() {
        let made = made();
        assert_eq!(certificates(&BTreeSet::new(), &Stored::Nowhere, at(0)), None);
        assert_eq!(certificates(&BTreeSet::new(), &Stored::Hidden("you may not".to_owned()), at(0)), None);
        let check = judged(&made.ca, &Stored::Nowhere, 1);
        assert_eq!(
            (check.level, check.found.starts_with("the authority that the webhooks trust is good until")),
            (Level::Ok, true)
        );
        assert_eq!(judged(&made.ca, &Stored::Hidden("you may not".to_owned()), 1).level, Level::Warning);
        let told = format!("{:?}", judged(&made.ca, &there(&made, Keeper::Berth), 1));
        let secret = made.leaf_key.expose().lines().nth(1).unwrap();
        assert!(!told.contains(secret), "{told}");
    }
}
