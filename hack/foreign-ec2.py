"""Drives the EC2 simulator with boto3 and holds its answers against the service's published model.

Three things nobody of this project wrote agree here on the wire protocol: the request writer, the answer reader, and the
model with the names of all parameters and elements. Run by hack/foreign-ec2, which sets endpoint and keys.
"""

import base64
import datetime
import time
import xml.etree.ElementTree as ElementTree

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

CONFIG = Config(retries={"max_attempts": 0}, parameter_validation=False)
ZONE = "us-east-1a"
checks = 0


def check(what, holds):
    global checks
    checks += 1
    if not holds:
        raise SystemExit(f"foreign-ec2: failed: {what}")


def code_of(call, **parameters):
    """The error code of a call; empty when it succeeds."""
    try:
        call(**parameters)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return ""


def local(tag):
    return tag.rsplit("}", 1)[-1]


def strangers(element, shape, path):
    """Elements of an answer that the model does not know."""
    found = []
    if shape.type_name == "structure":
        known = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        for child in element:
            name = local(child.tag)
            if name in known:
                found += strangers(child, known[name], f"{path}/{name}")
            elif not (path.count("/") == 0 and name in ("requestId", "return")):
                found.append(f"{path}/{name}")
    elif shape.type_name == "list":
        item = shape.member.serialization.get("name", "item")
        for child in element:
            if local(child.tag) != item:
                found.append(f"{path}/{local(child.tag)}")
            else:
                found += strangers(child, shape.member, f"{path}/{item}")
    elif len(element):
        found.append(f"{path} has elements")
    return found


def watch(client, seen):
    """Compares every answer with the model before boto3 reads it."""

    def compare(response_dict, operation_model, **_):
        if response_dict["status_code"] == 200 and operation_model.output_shape is not None:
            root = ElementTree.fromstring(response_dict["body"])
            unknown = strangers(root, operation_model.output_shape, operation_model.name)
            check(f"unknown elements {unknown}", not unknown)
            seen.add(operation_model.name)

    client.meta.events.register("before-parse.ec2.*", compare)


def dummies(shape, depth=0):
    """Values for a parameter, one for each leaf below it."""
    kind = shape.type_name
    if kind == "structure":
        if depth > 3:
            return []
        return [{name: value} for name, member in shape.members.items() for value in dummies(member, depth + 1)]
    if kind == "list":
        return [[value] for value in dummies(shape.member, depth + 1)]
    if kind in ("integer", "long"):
        return [5]
    if kind == "boolean":
        return [True]
    if kind == "timestamp":
        return [datetime.datetime(2030, 1, 1)]
    return [shape.enum[0] if getattr(shape, "enum", None) else "x"]


def every_known_parameter_is_known(client, bases):
    """The simulator may refuse a parameter for its value, but not as unknown."""
    for operation, base in bases.items():
        model = client.meta.service_model.operation_model(operation)
        method = "".join(f"_{c.lower()}" if c.isupper() else c for c in operation).lstrip("_")
        for name, member in model.input_shape.members.items():
            for value in dummies(member):
                code = code_of(getattr(client, method), **{**base, name: value})
                check(f"{operation} {name}={value}: {code}", code != "UnknownParameter")
        print(f"  {operation}: {len(model.input_shape.members)} parameters")


def life_of_a_host(ec2):
    tags = [{"ResourceType": "dedicated-host", "Tags": [{"Key": "owner", "Value": "a/b c+d=é"}]}]
    ask = {
        "AvailabilityZone": ZONE,
        "InstanceType": "m5.large",
        "Quantity": 1,
        "AutoPlacement": "off",
        "ClientToken": "t1",
        "TagSpecifications": tags,
    }
    host = ec2.allocate_hosts(**ask)["HostIds"][0]
    check("one token, one host", ec2.allocate_hosts(**ask)["HostIds"] == [host])
    check("mismatch", code_of(ec2.allocate_hosts, **{**ask, "Quantity": 2}) == "IdempotentParameterMismatch")
    other = ec2.allocate_hosts(**{**ask, "AvailabilityZone": "us-east-1b"})["HostIds"][0]
    check("tokens are zonal", other != host)
    found = ec2.describe_hosts(Filters=[{"Name": "client-token", "Values": ["t1"]}])["Hosts"]
    check("found by token", {h["HostId"] for h in found} == {host, other})
    first = next(h for h in found if h["HostId"] == host)
    check("tags", first["Tags"] == [{"Key": "owner", "Value": "a/b c+d=é"}])
    check("type", first["HostProperties"]["InstanceType"] == "m5.large" and "InstanceFamily" not in first["HostProperties"])
    check("capacity", first["AvailableCapacity"]["AvailableInstanceCapacity"][0]["TotalCapacity"] == 48)
    for _ in range(100):
        if ec2.describe_hosts(HostIds=[host])["Hosts"][0]["State"] == "available":
            break
        time.sleep(0.1)
    image = ec2.describe_images(Owners=["self"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"][0]
    subnet = ec2.describe_subnets(
        Filters=[{"Name": "availability-zone", "Values": [ZONE]}, {"Name": "map-public-ip-on-launch", "Values": ["false"]}]
    )["Subnets"][0]
    group = ec2.describe_security_groups(GroupNames=["node"])["SecurityGroups"][0]
    launch = {
        "ImageId": image["ImageId"],
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": "r1",
        "KeyName": "default",
        "UserData": base64.b64encode(b"#cloud-config\n").decode(),
        "Placement": {"Tenancy": "host", "HostId": host, "Affinity": "host"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnet["SubnetId"], "Groups": [group["GroupId"]]}],
        "BlockDeviceMappings": [{"DeviceName": image["RootDeviceName"], "Ebs": {"VolumeSize": 20, "VolumeType": "gp3"}}],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "IamInstanceProfile": {"Name": "nodes"},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "x"}]}],
    }
    check("dry run", code_of(ec2.run_instances, DryRun=True, **launch) == "DryRunOperation")
    instance = ec2.run_instances(**launch)["Instances"][0]
    check("placed", instance["Placement"]["HostId"] == host and instance["Placement"]["Affinity"] == "host")
    check("one token, one instance", ec2.run_instances(**launch)["Instances"][0]["InstanceId"] == instance["InstanceId"])
    refused = ec2.release_hosts(HostIds=[host, "h-00000000000000000"])["Unsuccessful"]
    codes = [item["Error"]["Code"] for item in refused]
    check("refused by item", codes == ["Client.InvalidHost.Occupied", "Client.InvalidHostID.NotFound"])
    listed = ec2.describe_instances(Filters=[{"Name": "host-id", "Values": [host]}])["Reservations"][0]["Instances"]
    check("found on its host", [i["InstanceId"] for i in listed] == [instance["InstanceId"]])
    check("volume", ec2.describe_volumes()["Volumes"][0]["Size"] == 20)
    nic = ec2.describe_network_interfaces()["NetworkInterfaces"][0]["NetworkInterfaceId"]
    ec2.modify_network_interface_attribute(NetworkInterfaceId=nic, Groups=[group["GroupId"]])
    options = ec2.modify_instance_metadata_options(InstanceId=instance["InstanceId"], HttpPutResponseHopLimit=3)
    check("metadata options", options["InstanceMetadataOptions"]["HttpPutResponseHopLimit"] == 3)
    ec2.create_tags(Resources=[host], Tags=[{"Key": "k", "Value": "v"}])
    tags = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [host]}])["Tags"]
    check("tagged", {t["Key"] for t in tags} == {"owner", "k"})
    ec2.delete_tags(Resources=[host], Tags=[{"Key": "k"}])
    check("changed", ec2.modify_hosts(HostIds=[host], HostRecovery="on")["Successful"] == [host])
    ending = ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])["TerminatingInstances"][0]
    check("ending", ending["CurrentState"]["Name"] == "shutting-down")
    check("released", ec2.release_hosts(HostIds=[other])["Successful"] == [other])
    check("reservations", ec2.describe_host_reservations()["HostReservationSet"] == [])
    return host, instance["InstanceId"], nic, launch


def listings(ec2):
    pages = list(ec2.get_paginator("describe_instance_types").paginate())
    names = [kind["InstanceType"] for page in pages for kind in page["InstanceTypes"]]
    check("pages of a hundred", len(pages) == -(-len(names) // 100) and len(names) > 1300 and len(set(names)) == len(names))
    offers = [o for p in ec2.get_paginator("describe_instance_type_offerings").paginate() for o in p["InstanceTypeOfferings"]]
    check("every type is offered", {offer["InstanceType"] for offer in offers} == set(names))
    check("unknown type", code_of(ec2.describe_instance_types, InstanceTypes=["m5.xlrage"]) == "InvalidInstanceType")
    kind = ec2.describe_instance_types(InstanceTypes=["g6f.large"])["InstanceTypes"][0]
    check("part of a GPU", kind["GpuInfo"]["Gpus"][0]["LogicalGpuCount"] == 1 and kind["GpuInfo"]["Gpus"][0]["Count"] == 0)
    ec2.allocate_hosts(AvailabilityZone=ZONE, InstanceFamily="c5", Quantity=12, AutoPlacement="off")
    found = [h for p in ec2.get_paginator("describe_hosts").paginate(PaginationConfig={"PageSize": 5}) for h in p["Hosts"]]
    check("paged hosts", len({host["HostId"] for host in found}) == len(found) >= 12)
    check("regions", len(ec2.describe_regions()["Regions"]) < len(ec2.describe_regions(AllRegions=True)["Regions"]))
    check("zones", len(ec2.describe_availability_zones()["AvailabilityZones"]) == 6)
    check("networks", len(ec2.describe_vpcs()["Vpcs"]) == len(ec2.describe_dhcp_options()["DhcpOptions"]) == 1)


def credentials():
    def client(service, **keys):
        return boto3.client(service, config=CONFIG, **keys)

    sts = client("sts")
    check("identity", sts.get_caller_identity()["Account"] == "123456789012")
    wrong = {"aws_access_key_id": "AKIASIMULATOR0000001", "aws_secret_access_key": "wrong"}
    nobody = {"aws_access_key_id": "AKIANOBODY", "aws_secret_access_key": "wrong"}
    check("wrong secret, EC2", code_of(client("ec2", **wrong).describe_hosts) == "AuthFailure")
    check("wrong secret, STS", code_of(client("sts", **wrong).get_caller_identity) == "SignatureDoesNotMatch")
    check("nobody, STS", code_of(client("sts", **nobody).get_caller_identity) == "InvalidClientTokenId")
    role = {"RoleArn": "arn:aws:iam::123456789012:role/x", "RoleSessionName": "berth"}
    check("no such role", code_of(sts.assume_role, **role) == "AccessDenied")
    web = code_of(sts.assume_role_with_web_identity, WebIdentityToken="token", **role)
    check("no such token", web == "InvalidIdentityToken")


def main():
    ec2 = boto3.client("ec2", config=CONFIG)
    seen = set()
    watch(ec2, seen)
    host, instance, nic, launch = life_of_a_host(ec2)
    listings(ec2)
    credentials()
    bases = {
        "AllocateHosts": {"AvailabilityZone": ZONE, "InstanceType": "r5.large", "Quantity": 1},
        "DescribeHosts": {},
        "ReleaseHosts": {"HostIds": [host]},
        "ModifyHosts": {"HostIds": [host]},
        "DescribeHostReservations": {},
        "RunInstances": {key: launch[key] for key in ("ImageId", "InstanceType", "MinCount", "MaxCount")} | {"DryRun": True},
        "TerminateInstances": {"InstanceIds": [instance]},
        "DescribeInstances": {},
        "ModifyInstanceMetadataOptions": {"InstanceId": instance},
        "DescribeVolumes": {},
        "DescribeNetworkInterfaces": {},
        "ModifyNetworkInterfaceAttribute": {"NetworkInterfaceId": nic},
        "DescribeInstanceTypes": {},
        "DescribeInstanceTypeOfferings": {},
        "DescribeRegions": {},
        "DescribeAvailabilityZones": {},
        "DescribeImages": {},
        "DescribeSubnets": {},
        "DescribeSecurityGroups": {},
        "DescribeVpcs": {},
        "DescribeDhcpOptions": {},
        "CreateTags": {"Resources": [host], "Tags": [{"Key": "k", "Value": "v"}]},
        "DeleteTags": {"Resources": [host], "Tags": [{"Key": "k"}]},
        "DescribeTags": {},
    }
    every_known_parameter_is_known(ec2, bases)
    # Operations without an answer of their own cannot be compared.
    silent = {"CreateTags", "DeleteTags", "ModifyNetworkInterfaceAttribute"}
    check(f"never compared: {set(bases) - silent - seen}", set(bases) - silent <= seen)
    print(f"foreign-ec2: boto3 {boto3.__version__} and the simulator agree, {checks} checks")


main()
