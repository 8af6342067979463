use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::HostNic;
use api::reasons::machines::Reason;
use jiff::Timestamp;
use kit::feed::Version;
use kit::kinds::Kind;
use proptest::prelude::*;
use serde_json::json;

use super::super::facts::{
    DataClaimFacts, DataFacts, Head, HostClaimFacts, LeaseFacts, MachineFacts, MetalMachineFacts, Owner, TemplateFacts,
};
use super::super::names::{CLAIM_FINALIZER, DATA_FINALIZER, lease};
use super::super::pools::{PoolKind, pools};
use super::super::render::PoolAddress;
use super::decide::{Part, Step, decide};
use super::guard::guard;
use super::observe::{Lease, Progress, Snapshot};
use super::status::report;

fn kind(plural: &str) -> Kind {
    Kind { group: "g".into(), version: "v1".into(), kind: plural.into(), plural: plural.into() }
}

/// A model of the world around one data: what is there, and what each step makes of it.
#[derive(Clone, Debug)]
struct Model {
    deleting: bool,
    claim_gone: bool,
    finalizer: bool,
    template: bool,
    machine: bool,
    bound: bool,
    paused: bool,
    refs: (Option<Box<str>>, Option<Box<str>>),
    secrets: BTreeSet<Box<str>>,
    wishes: BTreeSet<Box<str>>,
    given: BTreeSet<Box<str>>,
    gone: bool,
}

impl Model {
    fn young() -> Self {
        Self {
            deleting: false,
            claim_gone: false,
            finalizer: true,
            template: true,
            machine: true,
            bound: true,
            paused: false,
            refs: (None, None),
            secrets: BTreeSet::new(),
            wishes: BTreeSet::new(),
            given: BTreeSet::new(),
            gone: false,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let key = ObjectKey::namespaced("team", "t-0");
        let head = |uid: &str, finalizers: &[&str], deleting| Head {
            uid: uid.into(),
            generation: 1,
            deleting,
            finalizers: finalizers.iter().map(|f| (*f).into()).collect(),
            ..Head::default()
        };
        let spec = serde_json::from_value(json!({
            "metaData": {"ipAddressesFromPool": [{"key": "ip", "name": "four"}], "fromHostInterfaces": [{"key": "m", "interface": "eth0"}]},
            "networkData": {"networks": {"ipv4": [{"id": "n", "link": "l", "ipAddressFromIPPool": "two"}]}},
        }))
        .unwrap();
        let template = TemplateFacts {
            head: head("tu", &[], false),
            owners: Vec::new(),
            spec,
            problem: None,
            status: Default::default(),
        };
        let names: &[&str] = if self.finalizer { &[DATA_FINALIZER] } else { &[] };
        let lease_of = |pool: &str| Lease {
            kind: kind("ipclaims"),
            key: ObjectKey::namespaced("team", lease("t-0", pool)),
            facts: Arc::new(LeaseFacts {
                head: head(pool, &[DATA_FINALIZER], false),
                data: Some(Owner { name: "t-0".into(), uid: "du".into() }),
                address: None,
                problem: None,
            }),
        };
        let mut s = Snapshot {
            key: key.clone(),
            now: Timestamp::UNIX_EPOCH,
            kind: kind("metal3datas"),
            data: Arc::new(DataFacts {
                head: head("du", names, self.deleting),
                labels: BTreeMap::new(),
                owner: Some(Owner { name: "m".into(), uid: "cu".into() }),
                index: 0,
                template: "t".into(),
                claim: "m".into(),
                meta: self.refs.0.clone(),
                network: self.refs.1.clone(),
                status: Default::default(),
            }),
            version: Version { uid: "du".into(), resource_version: "1".into() },
            claim: (!self.claim_gone).then(|| {
                Arc::new(DataClaimFacts {
                    head: head("cu", &[CLAIM_FINALIZER], self.deleting),
                    labels: BTreeMap::new(),
                    machine: Some(Owner { name: "m".into(), uid: "mu".into() }),
                    template: Some("t".into()),
                    status: Default::default(),
                })
            }),
            template: self.template.then(|| Arc::new(template)),
            metal: Some((
                ObjectKey::namespaced("team", "m"),
                Arc::new(MetalMachineFacts {
                    uid: "mu".into(),
                    kind: Some("baremetal".into()),
                    filter: None,
                    machine: Some(Owner { name: "machine".into(), uid: "xu".into() }),
                    labels: BTreeMap::new(),
                    annotations: BTreeMap::new(),
                }),
            )),
            machine: self.machine.then(|| {
                let machine = MachineFacts { uid: "xu".into(), labels: BTreeMap::new(), annotations: BTreeMap::new() };
                (ObjectKey::namespaced("team", "machine"), Arc::new(machine))
            }),
            host: Some(Arc::new(HostClaimFacts {
                machine: Some("mu".into()),
                deleting: false,
                bound: self.bound,
                host: Some("h".into()),
                metadata: Default::default(),
                nics: vec![HostNic { name: Some("eth0".into()), mac: Some("52:54:00:00:00:01".into()), ip: None }],
                boot_mac: None,
            })),
            pools: None,
            leases: self.wishes.iter().map(|pool| lease_of(pool)).collect(),
            has_meta: self.refs.0.as_ref().is_some_and(|name| self.secrets.contains(name)),
            has_network: self.refs.1.as_ref().is_some_and(|name| self.secrets.contains(name)),
            paused: self.paused,
        };
        let needed = s.template.as_ref().zip(s.objects()).map(|(t, objects)| pools(&t.spec, Some(&objects)));
        s.pools = needed.map(|needed| {
            let progress = |name: &str| match (self.wishes.contains(name), self.given.contains(name)) {
                (false, _) => Progress::Missing,
                (true, false) => Progress::Waiting(None),
                (true, true) => {
                    let address = format!("10.0.0.{}", name.len());
                    Progress::Given(PoolAddress { address: address.into(), prefix: 24, ..PoolAddress::default() })
                }
            };
            needed.map(|all| all.into_iter().map(|(name, kind)| (name.clone(), (kind, progress(&name)))).collect())
        });
        s
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Finalize => self.finalizer = true,
            Step::Refer { meta, network } => {
                self.refs = (meta.clone().or(self.refs.0.take()), network.clone().or(self.refs.1.take()));
            }
            Step::Wish { pool, .. } => {
                self.wishes.insert(pool.clone());
            }
            Step::Write { secret, .. } => {
                self.secrets.insert(secret.clone());
            }
            Step::Release { lease, .. } => {
                let pool = lease.name().strip_prefix("t-0-").unwrap();
                self.wishes.remove(pool);
            }
            Step::Unfinalize => {
                self.finalizer = false;
                self.gone = true;
            }
        }
    }

    /// What others do: pools give addresses.
    fn others(&mut self) {
        self.given = self.wishes.clone();
    }

    fn run(&mut self) -> usize {
        for round in 0..40 {
            let s = self.snapshot();
            let plan = decide(&s).steps;
            guard(&s, &plan).unwrap();
            let before = (plan.is_empty(), self.given == self.wishes);
            if self.gone || before == (true, true) {
                return round;
            }
            for step in &plan {
                self.apply(step);
            }
            self.others();
        }
        panic!("it never comes to rest: {self:?}");
    }
}

#[test]
fn addresses_come_first_then_both_documents_and_then_there_is_rest() {
    let mut model = Model::young();
    model.run();
    let secrets: Vec<&str> = model.secrets.iter().map(|name| &**name).collect();
    assert_eq!(secrets, ["m-metadata", "m-networkdata"]);
    let s = model.snapshot();
    assert!(decide(&s).ready);
    let told = report(&s, None).unwrap();
    assert_eq!((told.next.ready, told.verdicts[0].reason), (Some(true), Reason::DataRendered.as_str()));
    model.deleting = true;
    model.run();
    assert!(model.gone && model.wishes.is_empty());
}

#[test]
fn a_secret_that_is_lost_is_rendered_again_and_the_machine_keeps_its_data() {
    let mut model = Model::young();
    model.run();
    let mut s = model.snapshot();
    let text = |s: &Snapshot| {
        let steps = decide(s).steps;
        steps.into_iter().find_map(|step| match step {
            Step::Write { part: Part::Meta, text, .. } => Some(text),
            _ => None,
        })
    };
    s.has_meta = false;
    let first = text(&s).unwrap();
    assert!(first.0.contains("\"ip\": \"10.0.0.4\""), "{}", first.0);
    assert_eq!(format!("{first:?}"), format!("{} bytes", first.0.len()), "what is in it is not for logs");
    let mut stored = (*s.data).clone();
    stored.status.ready = Some(true);
    s.data = Arc::new(stored);
    assert_eq!(report(&s, None).unwrap().next.ready, Some(true));
    assert_eq!(text(&s), Some(first));
}

#[test]
fn nothing_is_rendered_or_wished_for_before_the_host_is_there() {
    let model = Model { bound: false, ..Model::young() };
    let mut running = model.clone();
    running.run();
    assert!(running.wishes.is_empty() && running.secrets.is_empty());
    assert_eq!(decide(&running.snapshot()).reason, Reason::WaitingForHost);
    let mut alone = Model { machine: false, ..Model::young() };
    alone.run();
    assert_eq!(decide(&alone.snapshot()).reason, Reason::WaitingForMachineOwner);
    let mut orphan = Model { template: false, ..Model::young() };
    orphan.run();
    let told = decide(&orphan.snapshot());
    assert!(told.faulty && told.reason == Reason::TemplateMissing);
}

#[test]
fn data_that_somebody_deletes_stays_while_its_machine_needs_it() {
    let mut model = Model::young();
    model.run();
    let mut s = model.snapshot();
    let mut data = (*s.data).clone();
    data.head.deleting = true;
    s.data = Arc::new(data);
    let told = decide(&s);
    assert!(told.steps.is_empty() && told.reason == Reason::DataInUse);
}

#[test]
fn a_pool_that_refuses_and_a_name_that_is_taken_are_told() {
    let mut model = Model::young();
    model.run();
    let mut s = model.snapshot();
    (s.has_meta, s.has_network) = (false, false);
    let metal = PoolKind { group: "ipam.metal3.io".into(), kind: "IPPool".into() };
    let with = |progress: Progress| {
        let mut s = s.clone();
        s.pools = Some(Ok(BTreeMap::from([("four".into(), (metal.clone(), progress))])));
        let told = decide(&s);
        (told.reason, told.message, told.faulty)
    };
    let refused = with(Progress::Waiting(Some("Exhausted IP Pools".into())));
    assert_eq!(refused, (Reason::AddressRefused, "four: Exhausted IP Pools".to_owned(), true));
    assert_eq!(with(Progress::Taken).0, Reason::AddressNameTaken);
    assert_eq!(with(Progress::Waiting(None)).0, Reason::WaitingForAddresses);
}

prop_compose! {
    fn any_model()(
        flags in proptest::array::uniform7(any::<bool>()),
        refs in any::<(bool, bool)>(),
        secrets in proptest::collection::btree_set(prop_oneof![Just("m-metadata"), Just("m-networkdata")], 0..3),
        wishes in proptest::collection::btree_set(prop_oneof![Just("four"), Just("two")], 0..3),
    ) -> Model {
        let [deleting, claim_gone, finalizer, template, machine, bound, paused] = flags;
        let wishes: BTreeSet<Box<str>> = wishes.into_iter().map(Into::into).collect();
        Model {
            deleting, claim_gone, finalizer, template, machine, bound, paused,
            refs: (refs.0.then(|| "m-metadata".into()), refs.1.then(|| "m-networkdata".into())),
            secrets: secrets.into_iter().map(Into::into).collect(),
            given: BTreeSet::new(),
            wishes,
            gone: false,
        }
    }
}

proptest! {
    /// Safe, total, converging and quiet, wherever it begins; dropping the rest of any plan changes nothing of the end.
    #[test]
    fn any_world_comes_to_the_same_rest(model in any_model(), cut in 0usize..3) {
        let mut calm = model.clone();
        calm.run();
        let mut broken = model;
        for _ in 0..3 {
            let s = broken.snapshot();
            let plan = decide(&s).steps;
            prop_assert!(guard(&s, &plan).is_ok());
            for step in plan.iter().take(cut) {
                broken.apply(step);
            }
            if broken.gone {
                break;
            }
        }
        broken.run();
        prop_assert_eq!(&broken.secrets, &calm.secrets);
        prop_assert_eq!(&broken.wishes, &calm.wishes);
        prop_assert_eq!(broken.gone, calm.gone);
        if !calm.gone {
            prop_assert!(decide(&calm.snapshot()).steps.is_empty());
        }
    }
}
