//! Manifests as users of the Cluster API provider for AWS write them.

use serde_json::{Value, json};

/// Specs that hold, together, every field of the provider; some exclude each other.
pub fn every_field() -> Vec<(&'static str, Value)> {
    let volume = |device: &str| {
        json!({"deviceName": device, "size": 120, "type": "io2", "iops": 4000, "encrypted": true,
            "encryptionKey": "arn:aws:kms:us-west-2:123456789012:key/4f1a"})
    };
    let filters = |name: &str| json!([{"name": name, "values": ["blue", "green"]}]);
    vec![
        (
            "a-worker-with-everything",
            json!({
                "providerID": "aws:///us-west-2a/i-0123456789abcdef0", "instanceID": "i-0123456789abcdef0",
                "instanceType": "m6i.8xlarge", "ami": {"id": "ami-0123456789abcdef0", "eksLookupType": "AmazonLinux2023GPU"},
                "imageLookupFormat": "capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*", "imageLookupOrg": "258751437250",
                "imageLookupBaseOS": "ubuntu-24.04",
                "additionalTags": {"CostCenter": "42", "kubernetes.io/cluster/blue": "owned", "empty": ""},
                "iamInstanceProfile": "nodes.cluster-api-provider-aws.sigs.k8s.io", "publicIP": false,
                "additionalSecurityGroups": [{"id": "sg-0123456789abcdef0"}, {"filters": filters("tag:Name")}],
                "subnet": {"id": "subnet-0123456789abcdef0", "filters": filters("tag:tier")},
                "securityGroupOverrides": {"node": "sg-1", "controlplane": "sg-2", "lb": "sg-3", "bastion": "sg-4",
                    "apiserver-lb": "sg-5", "node-eks-additional": "sg-6"},
                "sshKeyName": "", "rootVolume": {"size": 80, "type": "gp3", "throughput": 250, "iops": 3000},
                "nonRootVolumes": [volume("/dev/sdb"), {"deviceName": "/dev/sdc", "size": 8, "type": "gp3", "throughput": 125}],
                "networkInterfaces": ["eni-0123456789abcdef0", "eni-0123456789abcdef1"], "networkInterfaceType": "efa",
                "uncompressedUserData": true,
                "cloudInit": {"insecureSkipSecretsManager": false, "secretCount": 2, "secretPrefix": "aws.cluster.x-k8s.io/x",
                    "secureSecretsBackend": "ssm-parameter-store"},
                "spotMarketOptions": {"maxPrice": "0.20"}, "placementGroupName": "pg", "placementGroupPartition": 7,
                "tenancy": "dedicated", "privateDnsName": {"enableResourceNameDnsAAAARecord": true,
                    "enableResourceNameDnsARecord": false, "hostnameType": "resource-name"},
                "capacityReservationPreference": "Open", "marketType": "Spot",
                "instanceMetadataOptions": {"httpEndpoint": "enabled", "httpProtocolIpv6": "enabled",
                    "httpPutResponseHopLimit": 2, "httpTokens": "required", "instanceMetadataTags": "enabled"},
                "elasticIpPool": {"publicIpv4Pool": "ipv4pool-ec2-0123456789abcdef0", "publicIpv4PoolFallbackOrder": "amazon-pool"},
                "cpuOptions": {"confidentialCompute": "AMDEncryptedVirtualizationNestedPaging", "nestedVirtualization": "enabled"},
                "assignPrimaryIPv6": "enabled", "hostAffinity": "default",
            }),
        ),
        (
            "ignition",
            json!({
                "instanceType": "t3.large", "ami": {"id": "ami-0123456789abcdef0"},
                "ignition": {"version": "3.4", "storageType": "UnencryptedUserData",
                    "proxy": {"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128", "noProxy": ["10.0.0.0/8"]},
                    "tls": {"certificateAuthorities": ["https://ca.example/ca.pem"]}},
                "capacityReservationId": "cr-0123456789abcdef0", "marketType": "CapacityBlock",
                "capacityReservationPreference": "",
            }),
        ),
        (
            "a-named-host",
            json!({
                "instanceType": "m5.metal", "ami": {"id": "ami-0123456789abcdef0"}, "tenancy": "host",
                "hostID": "h-0123456789abcdef0", "hostAffinity": "host", "sshKeyName": "ops",
            }),
        ),
        (
            "an-allocated-host",
            json!({
                "instanceType": "m5.metal", "ami": {"id": "ami-0123456789abcdef0"}, "tenancy": "host", "hostAffinity": "host",
                "dynamicHostAllocation": {"tags": {"CostCenter": "42"}},
            }),
        ),
    ]
}

/// A status with every field of the provider's.
pub fn every_status_field() -> Value {
    json!({
        "ready": true, "interruptible": false, "instanceState": "running", "failureReason": "CreateError",
        "failureMessage": "no image", "dedicatedHost": {"id": "h-0123456789abcdef0"},
        "addresses": [{"type": "InternalDNS", "address": "ip-10-0-0-1.ec2.internal"}, {"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [
            {"type": "InstanceReady", "status": "False", "severity": "Error", "reason": "InstanceStopped", "message": "stopped",
                "lastTransitionTime": "2026-01-02T03:04:05Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"},
        ],
    })
}

/// The template that the feature was first asked for with.
pub fn founding() -> Value {
    json!({
        "instanceType": "m5.large", "ami": {"id": "ami-0123456789abcdef0"},
        "dynamicHostAllocation": {"instanceFamily": "m5", "instanceType": "m5.large", "availabilityZone": "us-west-2a",
            "quantity": 1, "autoRelease": true, "tags": {"Environment": "production", "Team": "platform"}},
    })
}
