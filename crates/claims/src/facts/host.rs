//! Hosts.

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::HostImage;
use api::views::{BareMetalHost, ConditionView, HostConsumer, ImageView, METAL3_GROUP, SecretView};
use kit::feed::Project;
use serde::{Deserialize, Serialize};

use super::{HardwareFacts, Texts};
use crate::parts::Part;

/// BareMetalHosts, with indexes of the claim that uses them and of others who keep them.
pub struct Hosts;

/// A BareMetalHost, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations, without the copy that kubectl keeps of the whole object.
    pub annotations: Texts,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Who uses it.
    pub consumer: Option<Consumer>,
    /// Whether it is to be switched on.
    pub online: bool,
    /// The image to deploy.
    pub image: Option<Image>,
    /// The deploy method to use instead of an image.
    pub custom_deploy: Option<Box<str>>,
    /// The Secret with the user data.
    pub user_data: Option<SecretRef>,
    /// The Secret with the network data.
    pub network_data: Option<SecretRef>,
    /// The Secret with the metadata.
    pub meta_data: Option<SecretRef>,
    /// Whether somebody else deploys it.
    pub externally_provisioned: bool,
    /// How its disks are cleaned.
    pub cleaning: Option<Box<str>>,
    /// Whether it cannot be switched off.
    pub disable_power_off: bool,
    /// The hardware address it boots from.
    pub boot_mac: Option<Box<str>>,
    /// The provisioning state; empty before the host was looked at.
    pub state: Box<str>,
    /// The operational status.
    pub operational: Box<str>,
    /// The class of its error.
    pub error: Option<Box<str>>,
    /// Whether there is an error message; the message itself may name what tenants must not see.
    pub error_message: bool,
    /// How often in a row it went wrong.
    pub error_count: i64,
    /// How often deploying failed.
    pub fail_count: i64,
    /// Whether it is switched on; unknown before it was asked.
    pub powered_on: Option<bool>,
    /// The image that is deployed: url and checksum.
    pub deployed: Option<Image>,
    /// The deploy method that was used.
    pub deployed_custom: Option<Box<str>>,
    /// What inspection found, where the host's own status says so.
    pub hardware: Option<Arc<HardwareFacts>>,
    /// The condition `Provisioned`.
    pub provisioned: Option<Mark>,
    /// The condition `AvailableForProvisioning`.
    pub available: Option<Mark>,
    /// The condition `Healthy`.
    pub healthy: Option<Mark>,
}

/// Who uses a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// API group, empty for core kinds.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid, empty when it is to be filled in.
    pub uid: Box<str>,
}

impl Consumer {
    /// The claim that uses the host, when it is a claim.
    #[must_use]
    pub fn claim(&self) -> Option<ObjectKey> {
        let claim = *self.group == *METAL3_GROUP && &*self.kind == "HostClaim";
        claim.then(|| ObjectKey::namespaced(self.namespace.clone(), self.name.clone()))
    }

    /// Whether the claim with this uid is meant: a reference without uid means whichever has the name.
    #[must_use]
    pub fn means(&self, uid: &str) -> bool {
        self.uid.is_empty() || *self.uid == *uid
    }
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub url: Box<str>,
    /// Its checksum, or where that is.
    pub checksum: Option<Box<str>>,
    /// How the checksum was made.
    pub checksum_type: Option<Box<str>>,
    /// Its format.
    pub format: Option<Box<str>>,
    /// The Secret with the credentials of a registry.
    pub oci_auth_secret: Option<Box<str>>,
}

/// A Secret by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRef {
    /// Its name.
    pub name: Box<str>,
    /// Its namespace; none means the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
}

/// A condition of a host, without its message, which may name what tenants must not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// The reason.
    pub reason: Box<str>,
}

impl HostFacts {
    /// The facts of a host as received from a feed or a live read.
    #[must_use]
    pub fn of(host: BareMetalHost) -> Self {
        let BareMetalHost { metadata, spec, status } = host;
        let mark = |type_: &str| {
            let found = status.conditions.iter().find(|condition| condition.type_ == type_);
            found.map(|ConditionView { status, reason, .. }| Mark {
                status: status.as_str().into(),
                reason: reason.as_str().into(),
            })
        };
        let (provisioned, available, healthy) =
            (mark("Provisioned"), mark("AvailableForProvisioning"), mark("Healthy"));
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            labels: super::texts(metadata.labels, |_| true),
            annotations: super::texts(metadata.annotations, |key| key != super::LAST_APPLIED),
            deleting: metadata.deletion_timestamp.is_some(),
            // A reference that names nobody keeps nobody out.
            consumer: spec.consumer_ref.filter(|consumer| !consumer.name.is_empty()).map(Consumer::of),
            online: spec.online,
            image: spec.image.map(Image::of),
            custom_deploy: spec.custom_deploy.map(|deploy| deploy.method.into()),
            user_data: spec.user_data.and_then(SecretRef::of),
            network_data: spec.network_data.and_then(SecretRef::of),
            meta_data: spec.meta_data.and_then(SecretRef::of),
            externally_provisioned: spec.externally_provisioned,
            cleaning: spec.automated_cleaning_mode.map(Into::into),
            disable_power_off: spec.disable_power_off,
            boot_mac: spec.boot_mac_address.map(Into::into),
            state: status.provisioning.state.into(),
            operational: status.operational_status.into(),
            error: status.error_type.map(Into::into),
            error_message: status.error_message.is_some(),
            error_count: status.error_count,
            fail_count: status.provisioning_fail_count,
            powered_on: status.powered_on,
            deployed: status.provisioning.image.map(Image::of),
            deployed_custom: status.provisioning.custom_deploy.map(|deploy| deploy.method.into()),
            hardware: status.hardware.map(|details| Arc::new(HardwareFacts::of(details))),
            provisioned,
            available,
            healthy,
        }
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(|value| &**value)
    }

    /// Where the host finds one part of its data.
    #[must_use]
    pub fn data(&self, part: Part) -> Option<&SecretRef> {
        match part {
            Part::UserData => self.user_data.as_ref(),
            Part::MetaData => self.meta_data.as_ref(),
            Part::NetworkData => self.network_data.as_ref(),
            Part::Pull => None,
        }
    }

    /// Whether something runs on it, or is about to.
    #[must_use]
    pub fn is_deployed(&self) -> bool {
        self.image.is_some() || self.custom_deploy.is_some() || self.is_provisioned()
    }

    /// Whether something runs on it. Hosts of older operators say so by their state alone.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        match &self.provisioned {
            Some(mark) => &*mark.status == "True",
            None => matches!(&*self.state, "provisioned" | "externally provisioned"),
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(|value| &**value)
    }
}

impl Consumer {
    pub(crate) fn of(consumer: HostConsumer) -> Self {
        Self {
            group: consumer.group.into(),
            kind: consumer.kind.into(),
            namespace: consumer.namespace.into(),
            name: consumer.name.into(),
            uid: consumer.uid.into(),
        }
    }
}

impl Image {
    /// The image that a claim asks for, without the name of its secret, which means nothing where the host is.
    #[must_use]
    pub fn asked(image: &HostImage) -> Self {
        let text = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Into::into);
        Self {
            url: image.url.as_str().into(),
            checksum: text(&image.checksum),
            checksum_type: text(&image.checksum_type),
            format: text(&image.format),
            oci_auth_secret: None,
        }
    }

    /// Whether it is what a claim asks for, however the secret is called.
    #[must_use]
    pub fn deploys(&self, image: &HostImage) -> bool {
        Self { oci_auth_secret: None, ..self.clone() } == Self::asked(image)
    }

    /// The image as a host's spec holds it.
    #[must_use]
    pub fn body(&self) -> serde_json::Value {
        let mut body = serde_json::Map::new();
        let fields = [
            ("url", Some(&self.url)),
            ("checksum", self.checksum.as_ref()),
            ("checksumType", self.checksum_type.as_ref()),
            ("format", self.format.as_ref()),
            ("ociAuthSecretName", self.oci_auth_secret.as_ref()),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                body.insert(field.to_owned(), serde_json::Value::from(&**value));
            }
        }
        serde_json::Value::Object(body)
    }

    fn of(image: ImageView) -> Self {
        Self {
            url: image.url.into(),
            checksum: image.checksum.map(Into::into),
            checksum_type: image.checksum_type.map(Into::into),
            format: image.format.map(Into::into),
            oci_auth_secret: image.oci_auth_secret_name.map(Into::into),
        }
    }
}

impl SecretRef {
    fn of(secret: SecretView) -> Option<Self> {
        (!secret.name.is_empty())
            .then(|| Self { name: secret.name.into(), namespace: secret.namespace.map(Into::into) })
    }
}

impl Project for Hosts {
    type Source = BareMetalHost;
    type Slim = HostFacts;
    const INDEXES: &'static [&'static str] = &["claim", "keeper"];

    fn slim(source: BareMetalHost) -> HostFacts {
        HostFacts::of(source)
    }

    fn keys(index: usize, _: &ObjectKey, host: &HostFacts) -> Vec<Box<str>> {
        let Some(consumer) = &host.consumer else { return Vec::new() };
        let key = match (index, consumer.claim()) {
            (0, Some(claim)) => claim,
            (1, None) if consumer.namespace.is_empty() => ObjectKey::cluster_scoped(consumer.name.clone()),
            (1, None) => ObjectKey::namespaced(consumer.namespace.clone(), consumer.name.clone()),
            _ => return Vec::new(),
        };
        vec![key.to_string().into()]
    }
}
