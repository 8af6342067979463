//! Small pieces for tests.

use std::net::IpAddr;

use api::own::{AWSMachineSpec, AWSMachineStatus};
use aws::port::{
    Affinity, Architecture, Host, HostShape, HostState, HostedInstance, Image, Instance, InstanceInterface,
    InstanceState, MetadataOptions, Tags, Tenancy,
};
use jiff::Timestamp;

use crate::facts::MachineFacts;
use crate::journal::{Allocation, AllocationId, Journal, Terms};
use crate::request::Recipe;

pub(crate) fn instance(id: &str) -> Instance {
    let interface = InstanceInterface {
        id: Some("eni-0000000a".parse().unwrap()),
        device_index: Some(0),
        private_dns: Some("ip-10-0-0-1.ec2.internal".to_owned()),
        private_ip: Some(IpAddr::from([10, 0, 0, 1])),
        ..InstanceInterface::default()
    };
    Instance {
        id: id.parse().unwrap(),
        state: InstanceState::Running,
        state_reason: None,
        instance_type: "m5.large".to_owned(),
        image: None,
        zone: Some("us-west-2a".parse().unwrap()),
        host: None,
        tenancy: None,
        affinity: None,
        host_resource_group_arn: None,
        subnet: Some("subnet-0000000a".parse().unwrap()),
        vpc: None,
        client_token: None,
        launched: None,
        lifecycle: None,
        private_dns: None,
        private_ip: None,
        public_dns: None,
        public_ip: None,
        interfaces: vec![interface],
        volumes: Vec::new(),
        security_groups: Vec::new(),
        metadata: MetadataOptions::default(),
        tags: Tags::new(),
    }
}

pub(crate) fn host(id: &str) -> Host {
    Host {
        id: id.parse().unwrap(),
        state: HostState::Available,
        zone: Some("us-west-2a".parse().unwrap()),
        instance_type: Some("m5.large".to_owned()),
        instance_family: None,
        client_token: None,
        allocated: None,
        released: None,
        room: Vec::new(),
        free_vcpus: None,
        instances: Vec::new(),
        auto_placement: None,
        recovery: None,
        maintenance: None,
        reservation: None,
        owner: None,
        in_resource_group: false,
        tags: Tags::new(),
    }
}

pub(crate) fn hosted(id: &str) -> HostedInstance {
    HostedInstance { id: id.parse().unwrap(), instance_type: "m5.large".to_owned(), owner: None }
}

pub(crate) fn image() -> Image {
    Image {
        id: "ami-0000000a".parse().unwrap(),
        name: None,
        owner: None,
        state: "available".to_owned(),
        architecture: Some(Architecture::X86_64),
        created: None,
        platform: None,
        platform_details: None,
        root_device: Some("/dev/xvda".to_owned()),
        root_size: Some(8),
        virtualization: None,
        tags: Tags::new(),
    }
}

pub(crate) fn recipe() -> Recipe {
    Recipe {
        image: "ami-0000000a".parse().unwrap(),
        instance_type: "m5.large".parse().unwrap(),
        block_devices: Vec::new(),
        groups: vec!["sg-0000000a".parse().unwrap()],
        key_name: None,
        profile: None,
        public_ip: None,
        metadata: MetadataOptions::default(),
        user_data: b"data".to_vec().into(),
        tenancy: Some(Tenancy::Host),
        affinity: Some(Affinity::Host),
        tags: Tags::new(),
    }
}

pub(crate) fn terms() -> Terms {
    Terms {
        zone: "us-west-2a".parse().unwrap(),
        subnet: "subnet-0000000a".parse().unwrap(),
        shape: HostShape::Type("m5.large".parse().unwrap()),
        quantity: 1,
        recovery: None,
        maintenance: None,
        tags: Tags::new(),
    }
}

pub(crate) fn allocation() -> Allocation {
    let at: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
    Allocation::intend(AllocationId::of(1, 2), None, terms(), at).unwrap()
}

pub(crate) fn machine() -> MachineFacts {
    MachineFacts {
        uid: "uid".into(),
        generation: 1,
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        deleted_at: None,
        finalizers: Vec::new(),
        finalizer: api::names::hosts::MACHINE_FINALIZER,
        cluster: Some("c".into()),
        filter: None,
        owner: Some("m".into()),
        annotations: std::collections::BTreeMap::new(),
        spec: AWSMachineSpec { instance_type: "m5.large".to_owned(), ..AWSMachineSpec::default() },
        problem: None,
        status: AWSMachineStatus::default(),
        journal: Ok(Journal::default()),
    }
}
