"""Drives the CloudStack simulator with the Python client `cs`, unchanged. Run by hack/foreign-cloudstack, which sets
endpoint and keys."""

import base64
import os
from importlib.metadata import version

from cs import CloudStack, CloudStackApiException

# Not "~": Python leaves it as it is before it signs, and a server does not.
ODD = "a + b * c (é&=)"
checks = 0


def check(what, holds):
    global checks
    checks += 1
    if not holds:
        raise SystemExit(f"foreign-cloudstack: failed: {what}")


def refused(call, **parameters):
    """Code and inner code of a refusal; nothing when the call succeeds."""
    try:
        call(**parameters)
    except CloudStackApiException as error:
        return error.error["errorcode"], error.error.get("cserrorcode")
    return None


def client(method="get", **changes):
    options = {
        "endpoint": os.environ["CLOUDSTACK_ENDPOINT"],
        "key": os.environ["CLOUDSTACK_KEY"],
        "secret": os.environ["CLOUDSTACK_SECRET"],
        "method": method,
        "poll_interval": 0.05,
    }
    return CloudStack(**{**options, **changes})


def lists(cs):
    zones = cs.listZones()
    check("zones", zones["count"] == 3 and [zone["name"] for zone in zones["zone"]][:2] == ["zone-1", "zone-2"])
    check("nothing found", cs.listZones(name="nowhere (*+é&=) x") == {})
    check("pages", len(cs.listZones(fetch_list=True)) == 3)
    check("a page", len(cs.listZones(page=2, pagesize=2)["zone"]) == 1 and cs.listZones(page=2, pagesize=2)["count"] == 3)
    check("too large a page", refused(cs.listZones, page=1, pagesize=501) == (431, 4350))
    check("no such id", refused(cs.listZones, id="nope") == (431, 9999))
    check("no filter", refused(cs.listTemplates) == (431, 9999))
    check("no such command", refused(cs.noSuchCommand) == (401, None))
    check("version", cs.listCapabilities()["capability"]["cloudstackversion"].startswith("4."))


def life_of_a_machine(cs, name):
    zone = cs.listZones(name="zone-1")["zone"][0]["id"]
    template = cs.listTemplates(templatefilter="executable", zoneid=zone, name="kube-1.31")["template"][0]["id"]
    offering = cs.listServiceOfferings(name="Small Instance")["serviceoffering"][0]["id"]
    network = cs.listNetworks(zoneid=zone, keyword="shared")["network"][0]["id"]
    deploy = {
        "zoneid": zone,
        "templateid": template,
        "serviceofferingid": offering,
        "networkids": [network],
        "name": name,
        "displayname": ODD,
        "userdata": base64.b64encode(b"#cloud-config\n").decode(),
    }
    started = cs.deployVirtualMachine(**deploy)
    check("id and job at once", set(started) == {"id", "jobid"})
    made = cs.deployVirtualMachine(**{**deploy, "name": f"{name}-waited"}, fetch_result=True)["virtualmachine"]
    check("it runs", made["state"] == "Running" and made["displayname"] == ODD)
    check("a name is taken", refused(cs.deployVirtualMachine, **deploy) == (431, 4350))
    tags = [{"key": "claim-uid", "value": "1 2"}]
    cs.createTags(resourceids=made["id"], resourcetype="UserVm", tags=tags, fetch_result=True)
    found = cs.listVirtualMachines(tags=tags, listall="true")["virtualmachine"]
    check("found by its tag", [machine["id"] for machine in found] == [made["id"]])
    stopped = cs.stopVirtualMachine(id=made["id"], forced="true", fetch_result=True)["virtualmachine"]
    check("it stops", stopped["state"] == "Stopped")
    for machine in (started, made):
        cs.destroyVirtualMachine(id=machine["id"], expunge="true", fetch_result=True)
        check("gone", refused(cs.listVirtualMachines, id=machine["id"]) == (431, 9999))
        check("still gone", refused(cs.destroyVirtualMachine, id=machine["id"], expunge="true") == (431, 4350))


def credentials():
    check("a wrong secret", refused(client(secret="wrong").listZones) == (401, None))
    check("nobody", refused(client(key="nobody").listZones) == (401, None))
    check("a late request", refused(client().listZones, signatureVersion="3", expires="2020-01-01T00:00:00+0000") == (401, None))
    user = client(key="user-key", secret="user-secret")
    check("a normal user", refused(user.listDomains) is not None and refused(user.listDomains)[0] == 432)
    check("its own things", user.listUsers()["user"][0]["account"] == "user")


for method in ("get", "post"):
    lists(client(method))
    life_of_a_machine(client(method), f"vm-{method}")
credentials()
print(f"foreign-cloudstack: cs {version('cs')} and the simulator agree, {checks} checks")
