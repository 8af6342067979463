//! Templates, data claims and data.

use api::key::ObjectKey;
use api::own::metal3::{
    Metal3DataClaimSpec, Metal3DataClaimStatus, Metal3DataSpec, Metal3DataStatus, Metal3DataTemplateSpec,
    Metal3DataTemplateStatus,
};
use api::raw;
use api::views::INFRASTRUCTURE_GROUP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::feed::Project;

use super::super::names::{CLAIM_FINALIZER, CLAIM_KIND, DATA_FINALIZER, MACHINE_KIND, TEMPLATE_FINALIZER, beside};
use super::super::render::Texts;
use super::{Head, Owner, local, owner, read};

/// Metal3DataTemplates.
pub struct Templates;

/// A Metal3DataTemplate, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateFacts {
    /// Its metadata.
    pub head: Head,
    /// Its owners as stored.
    pub owners: Vec<OwnerReference>,
    /// Its spec; the default when it cannot be read.
    pub spec: Metal3DataTemplateSpec,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
    /// Its status as stored.
    pub status: Metal3DataTemplateStatus,
}

impl TemplateFacts {
    /// Whether it is ours to keep.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.head.has(TEMPLATE_FINALIZER)
    }

    /// Whether whoever has data of it finds the same in both: all but what we tell on it ourselves.
    #[must_use]
    pub fn rules_like(&self, other: &Self) -> bool {
        (&self.head, &self.owners, &self.spec, &self.problem)
            == (&other.head, &other.owners, &other.spec, &other.problem)
    }

    /// The cluster it belongs to, by its spec or its label.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        let named = Some(self.spec.cluster_name.as_str()).filter(|name| !name.is_empty());
        named.or(self.head.cluster.as_deref())
    }
}

impl Project for Templates {
    type Source = raw::Metal3DataTemplate;
    type Slim = TemplateFacts;
    const INDEXES: &'static [&'static str] = &["cluster"];

    fn slim(source: Self::Source) -> TemplateFacts {
        let head = Head::of(&source.metadata);
        let (spec, problem) = match serde_json::from_value(source.spec) {
            Ok(spec) => (spec, None),
            Err(error) => (Metal3DataTemplateSpec::default(), Some(format!("spec: {error}").into())),
        };
        let owners = source.metadata.owner_references.unwrap_or_default();
        TemplateFacts { head, owners, spec, problem, status: read(source.status) }
    }

    fn keys(_: usize, key: &ObjectKey, template: &TemplateFacts) -> Vec<Box<str>> {
        template.cluster().map(|name| beside(key, name).to_string().into()).into_iter().collect()
    }
}

/// Metal3DataClaims.
pub struct DataClaims;

/// A Metal3DataClaim, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct DataClaimFacts {
    /// Its metadata.
    pub head: Head,
    /// Its labels, which its data gets.
    pub labels: Texts,
    /// The machine it was made for.
    pub machine: Option<Owner>,
    /// The template, when it is one of the same namespace.
    pub template: Option<Box<str>>,
    /// Its status as stored.
    pub status: Metal3DataClaimStatus,
}

impl DataClaimFacts {
    /// Whether it is ours to keep.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.head.has(CLAIM_FINALIZER)
    }

    /// The name of the data that was chosen for it.
    #[must_use]
    pub fn chosen(&self) -> Option<&str> {
        self.status.rendered_data.as_ref().map(|data| data.name.as_str()).filter(|name| !name.is_empty())
    }
}

impl Project for DataClaims {
    type Source = raw::Metal3DataClaim;
    type Slim = DataClaimFacts;
    const INDEXES: &'static [&'static str] = &["template", "machine", "cluster"];

    fn slim(source: Self::Source) -> DataClaimFacts {
        let spec: Metal3DataClaimSpec = read(source.spec);
        DataClaimFacts {
            head: Head::of(&source.metadata),
            machine: owner(&source.metadata, INFRASTRUCTURE_GROUP, MACHINE_KIND),
            template: local(&spec.template, source.metadata.namespace.as_deref()),
            labels: source.metadata.labels.unwrap_or_default(),
            status: read(source.status),
        }
    }

    fn keys(index: usize, key: &ObjectKey, claim: &DataClaimFacts) -> Vec<Box<str>> {
        let name = match index {
            0 => claim.template.as_deref(),
            1 => claim.machine.as_ref().map(|machine| &*machine.name),
            _ => claim.head.cluster.as_deref(),
        };
        name.map(|name| beside(key, name).to_string().into()).into_iter().collect()
    }
}

/// Metal3Datas.
pub struct Datas;

/// A Metal3Data, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct DataFacts {
    /// Its metadata.
    pub head: Head,
    /// Its labels, which the wishes for addresses get.
    pub labels: Texts,
    /// The data claim it belongs to, by owner reference.
    pub owner: Option<Owner>,
    /// Its number.
    pub index: i32,
    /// The name of its template.
    pub template: Box<str>,
    /// The name of its data claim.
    pub claim: Box<str>,
    /// The name of the Secret for metadata.
    pub meta: Option<Box<str>>,
    /// The name of the Secret for network data.
    pub network: Option<Box<str>>,
    /// Its status as stored.
    pub status: Metal3DataStatus,
}

impl DataFacts {
    /// Whether it is ours to keep.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.head.has(DATA_FINALIZER)
    }

    /// Whether it is the data of this incarnation of a data claim. An owner reference may be missing, as after a restore;
    /// one that names another incarnation speaks of a claim that is gone.
    #[must_use]
    pub fn belongs_to(&self, name: &str, uid: &str) -> bool {
        &*self.claim == name && self.owner.as_ref().is_none_or(|owner| &*owner.uid == uid)
    }

    /// The facts of data as received from a feed or a live read.
    #[must_use]
    pub fn of(source: raw::Metal3Data) -> Self {
        let spec: Metal3DataSpec = read(source.spec);
        let secret = |reference: Option<api::own::SecretReference>| -> Option<Box<str>> {
            reference.and_then(|secret| secret.name).filter(|name| !name.is_empty()).map(Into::into)
        };
        Self {
            head: Head::of(&source.metadata),
            owner: owner(&source.metadata, INFRASTRUCTURE_GROUP, CLAIM_KIND),
            labels: source.metadata.labels.unwrap_or_default(),
            index: spec.index,
            template: spec.template.name.into(),
            claim: spec.claim.name.into(),
            meta: secret(spec.meta_data),
            network: secret(spec.network_data),
            status: read(source.status),
        }
    }
}

impl Project for Datas {
    type Source = raw::Metal3Data;
    type Slim = DataFacts;
    const INDEXES: &'static [&'static str] = &["template", "claim", "secret", "cluster"];

    fn slim(source: Self::Source) -> DataFacts {
        DataFacts::of(source)
    }

    fn keys(index: usize, key: &ObjectKey, data: &DataFacts) -> Vec<Box<str>> {
        let names: Vec<&str> = match index {
            0 => vec![&data.template],
            1 => vec![&data.claim],
            2 => [&data.meta, &data.network].into_iter().filter_map(|secret| secret.as_deref()).collect(),
            _ => data.head.cluster.as_deref().into_iter().collect(),
        };
        names.into_iter().filter(|name| !name.is_empty()).map(|name| beside(key, name).to_string().into()).collect()
    }
}
