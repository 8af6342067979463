//! The port on the wire: which parameters each call has and where its answer is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::call::{Call, Caller, Repeat};
use super::read::{self, Item};
use crate::port::{
    Account, AccountQuery, AffinityGroup, AffinityGroupQuery, Answer, Capabilities, CloudStack, Deploy, DiskOffering,
    DiskOfferingId, Domain, Job, JobId, MachineQuery, Network, NetworkQuery, OfferingQuery, Owner, Pick,
    ServiceOffering, ServiceOfferingId, Started, Tags, Template, TemplateQuery, User, VirtualMachine, VirtualMachineId,
    Zone, ZoneId,
};

/// One server, called as one user; clones share everything.
#[derive(Clone)]
pub struct Client {
    pub(super) caller: Caller,
}

/// Adds whose things are meant.
fn owned(call: Call, owner: &Owner) -> Call {
    let call = call.maybe("domainid", owner.domain.as_ref()).maybe("account", owner.account.as_ref());
    call.maybe("projectid", owner.project.as_ref())
}

/// Adds which one is meant; `by` is the parameter that takes a name.
fn picked<I: ToString>(call: Call, pick: Option<&Pick<I>>, by: &'static str) -> Call {
    match pick {
        None => call,
        Some(Pick::Id(id)) => call.with("id", id.to_string()),
        Some(Pick::Name(name)) => call.with(by, name),
    }
}

/// Only what has exactly the name that was asked for, where the server also gives what contains it.
fn exactly<T, I>(found: Vec<T>, pick: Option<&Pick<I>>, name: impl Fn(&T) -> &str) -> Vec<T> {
    match pick {
        Some(Pick::Name(wanted)) => found.into_iter().filter(|one| name(one) == wanted).collect(),
        _ => found,
    }
}

/// Adds a map, numbered as the server wants it.
fn tagged(mut call: Call, tags: &Tags) -> Call {
    for (at, (key, value)) in tags.iter().enumerate() {
        call = call.with(format!("tags[{at}].key"), key).with(format!("tags[{at}].value"), value);
    }
    call
}

fn job_id(item: Item<'_>) -> Result<JobId, String> {
    item.need_id("jobid")
}

impl Client {
    /// The host and port of the server.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.caller.host
    }

    async fn power(&self, call: Call) -> Answer<JobId> {
        self.caller.one(call, job_id).await
    }
}

impl CloudStack for Client {
    async fn list_capabilities(&self) -> Answer<Capabilities> {
        self.caller.one(Call::read("listCapabilities"), read::capabilities).await
    }

    async fn list_zones(&self, pick: Option<&Pick<ZoneId>>) -> Answer<Vec<Zone>> {
        let call = picked(Call::read("listZones"), pick, "name");
        let found = self.caller.list(call, "zone", read::zone).await?;
        Ok(exactly(found, pick, |zone| &zone.name))
    }

    async fn list_domains(&self, name: Option<&str>) -> Answer<Vec<Domain>> {
        let call = Call::read("listDomains").maybe("name", name).with("listall", true);
        let found = self.caller.list(call, "domain", read::domain).await?;
        Ok(found.into_iter().filter(|domain| name.is_none_or(|name| domain.name == name)).collect())
    }

    async fn list_accounts(&self, query: &AccountQuery) -> Answer<Vec<Account>> {
        let call = Call::read("listAccounts").maybe("name", query.name.as_ref());
        let call = call.maybe("domainid", query.domain.as_ref()).with("listall", true);
        let found = self.caller.list(call, "account", read::account).await?;
        Ok(found.into_iter().filter(|one| query.name.as_ref().is_none_or(|name| one.name == *name)).collect())
    }

    async fn list_users(&self) -> Answer<Vec<User>> {
        self.caller.list(Call::read("listUsers"), "user", read::user).await
    }

    async fn caller(&self) -> Answer<User> {
        let call = Call::read("getUser").with("userapikey", self.caller.profile.api_key.expose());
        let user = |item: Item<'_>| {
            let user = item.0.get("user").and_then(serde_json::Value::as_object);
            read::user(Item(user.ok_or("there is no user")?))
        };
        self.caller.one(call, user).await
    }

    async fn list_networks(&self, query: &NetworkQuery) -> Answer<Vec<Network>> {
        let call = owned(Call::read("listNetworks").maybe("zoneid", query.zone.as_ref()), &query.owner);
        // Only servers from 4.22 on take a name here; all take a word that the name contains.
        let call = picked(call, query.pick.as_ref(), "keyword");
        let found = self.caller.list(call, "network", read::network).await?;
        Ok(exactly(found, query.pick.as_ref(), |network| &network.name))
    }

    async fn list_templates(&self, query: &TemplateQuery) -> Answer<Vec<Template>> {
        let call = Call::read("listTemplates").with("templatefilter", "executable").with("zoneid", &query.zone);
        let call = picked(owned(call, &query.owner), query.pick.as_ref(), "name");
        let found = self.caller.list(call, "template", read::template).await?;
        Ok(exactly(found, query.pick.as_ref(), |template| &template.name))
    }

    async fn list_service_offerings(&self, query: &OfferingQuery<ServiceOfferingId>) -> Answer<Vec<ServiceOffering>> {
        let call = Call::read("listServiceOfferings").maybe("zoneid", query.zone.as_ref());
        let call = picked(call, query.pick.as_ref(), "name");
        let found = self.caller.list(call, "serviceoffering", read::service_offering).await?;
        Ok(exactly(found, query.pick.as_ref(), |offering| &offering.name))
    }

    async fn list_disk_offerings(&self, query: &OfferingQuery<DiskOfferingId>) -> Answer<Vec<DiskOffering>> {
        let call = Call::read("listDiskOfferings").maybe("zoneid", query.zone.as_ref());
        let call = picked(call, query.pick.as_ref(), "name");
        let found = self.caller.list(call, "diskoffering", read::disk_offering).await?;
        Ok(exactly(found, query.pick.as_ref(), |offering| &offering.name))
    }

    async fn list_affinity_groups(&self, query: &AffinityGroupQuery) -> Answer<Vec<AffinityGroup>> {
        let call = owned(Call::read("listAffinityGroups"), &query.owner);
        let call = picked(call, query.pick.as_ref(), "name");
        let found = self.caller.list(call, "affinitygroup", read::affinity_group).await?;
        Ok(exactly(found, query.pick.as_ref(), |group| &group.name))
    }

    async fn list_virtual_machines(&self, query: &MachineQuery) -> Answer<Vec<VirtualMachine>> {
        let call = Call::read("listVirtualMachines").with("listall", true).maybe("zoneid", query.zone.as_ref());
        // A name finds every machine whose name contains it.
        let call = picked(owned(call, &query.owner), query.pick.as_ref(), "name");
        let found = self.caller.list(tagged(call, &query.tags), "virtualmachine", read::virtual_machine).await?;
        Ok(exactly(found, query.pick.as_ref(), |machine| &machine.name))
    }

    async fn deploy_virtual_machine(&self, request: &Deploy) -> Answer<Started> {
        let call = Call::change("deployVirtualMachine")
            .with("zoneid", &request.zone)
            .with("serviceofferingid", &request.offering)
            .with("templateid", &request.template)
            .with("name", &request.name)
            .with("displayname", &request.name)
            .list("networkids", &request.networks)
            .list("affinitygroupids", &request.affinity_groups)
            .maybe("diskofferingid", request.disk.as_ref().map(|disk| &disk.offering))
            .maybe("size", request.disk.as_ref().and_then(|disk| disk.size_gb))
            .maybe("userdata", request.user_data.as_ref().map(|data| STANDARD.encode(data.expose())));
        let call = if request.start { call } else { call.with("startvm", false) };
        self.caller.one(owned(call, &request.owner), read::started).await
    }

    async fn start_virtual_machine(&self, id: &VirtualMachineId) -> Answer<JobId> {
        self.power(Call::change("startVirtualMachine").with("id", id)).await
    }

    async fn stop_virtual_machine(&self, id: &VirtualMachineId, forced: bool) -> Answer<JobId> {
        let call = Call::change("stopVirtualMachine").with("id", id);
        self.power(if forced { call.with("forced", true) } else { call }).await
    }

    async fn reboot_virtual_machine(&self, id: &VirtualMachineId, forced: bool) -> Answer<JobId> {
        let call = Call::change("rebootVirtualMachine").with("id", id);
        self.power(if forced { call.with("forced", true) } else { call }).await
    }

    async fn destroy_virtual_machine(&self, id: &VirtualMachineId, expunge: bool) -> Answer<JobId> {
        let call = Call::change("destroyVirtualMachine").with("id", id).urgent();
        self.power(if expunge { call.with("expunge", true) } else { call }).await
    }

    async fn tag_virtual_machine(&self, id: &VirtualMachineId, tags: &Tags) -> Answer<JobId> {
        let call = Call::change("createTags").with("resourcetype", "UserVm").with("resourceids", id);
        self.power(tagged(call, tags)).await
    }

    async fn untag_virtual_machine(&self, id: &VirtualMachineId, keys: &[String]) -> Answer<JobId> {
        let mut call = Call::change("deleteTags").with("resourcetype", "UserVm").with("resourceids", id);
        // Taking away what is not there changes nothing.
        call.repeat = Repeat::Safe;
        for (at, key) in keys.iter().enumerate() {
            call = call.with(format!("tags[{at}].key"), key);
        }
        self.power(call).await
    }

    async fn query_job(&self, id: &JobId) -> Answer<Job> {
        self.caller.one(Call::read("queryAsyncJobResult").with("jobid", id), read::job).await
    }
}
