//! The calls rooms make, in domain types, without a word about how they travel.
//!
//! The network half implements this trait on the real wire protocol; a model in a property test implements it on a map.
//! Lists come back whole: paging is the implementation's business, and a failure on any page is a failure.

mod catalogue;
mod ids;
mod machine;
mod place;

use std::future::Future;

pub use catalogue::{
    AffinityGroup, AffinityGroupQuery, DiskOffering, OfferingQuery, ServiceOffering, Template, TemplateQuery,
};
pub use ids::{
    AccountId, AffinityGroupId, DiskOfferingId, DomainId, IdError, JobId, NetworkId, ProjectId, ServiceOfferingId,
    TemplateId, UserId, VirtualMachineId, ZoneId,
};
pub use machine::{
    Capabilities, DataDisk, Deploy, Job, JobFailure, JobStatus, MachineQuery, MachineState, Nic, Started, Tags,
    USER_DATA, VirtualMachine,
};
pub use place::{
    Account, AccountQuery, AccountState, AllocationState, Domain, Network, NetworkQuery, NetworkType, Owner, Pick,
    User, Zone,
};

use crate::errors::Error;

/// What a call gives.
pub type Answer<T> = Result<T, Error>;

/// One CloudStack server as the rooms see it, called as one user.
pub trait CloudStack: Send + Sync {
    /// Says what the server is; needs no right but to be known.
    fn list_capabilities(&self) -> impl Future<Output = Answer<Capabilities>> + Send;

    /// Lists zones.
    fn list_zones(&self, pick: Option<&Pick<ZoneId>>) -> impl Future<Output = Answer<Vec<Zone>>> + Send;

    /// Lists domains at any depth whose last part is exactly this name. Normal users may not.
    fn list_domains(&self, name: Option<&str>) -> impl Future<Output = Answer<Vec<Domain>>> + Send;

    /// Lists accounts.
    fn list_accounts(&self, query: &AccountQuery) -> impl Future<Output = Answer<Vec<Account>>> + Send;

    /// Lists the users that the caller may see without asking for more; to a normal user, those of its own account.
    fn list_users(&self) -> impl Future<Output = Answer<Vec<User>>> + Send;

    /// Says who calls. Normal users may not ask.
    fn caller(&self) -> impl Future<Output = Answer<User>> + Send;

    /// Lists networks.
    fn list_networks(&self, query: &NetworkQuery) -> impl Future<Output = Answer<Vec<Network>>> + Send;

    /// Lists templates that the caller can deploy.
    fn list_templates(&self, query: &TemplateQuery) -> impl Future<Output = Answer<Vec<Template>>> + Send;

    /// Lists compute offerings.
    fn list_service_offerings(
        &self,
        query: &OfferingQuery<ServiceOfferingId>,
    ) -> impl Future<Output = Answer<Vec<ServiceOffering>>> + Send;

    /// Lists disk offerings.
    fn list_disk_offerings(
        &self,
        query: &OfferingQuery<DiskOfferingId>,
    ) -> impl Future<Output = Answer<Vec<DiskOffering>>> + Send;

    /// Lists affinity groups.
    fn list_affinity_groups(
        &self,
        query: &AffinityGroupQuery,
    ) -> impl Future<Output = Answer<Vec<AffinityGroup>>> + Send;

    /// Lists virtual machines, of all accounts that the caller may see.
    fn list_virtual_machines(&self, query: &MachineQuery) -> impl Future<Output = Answer<Vec<VirtualMachine>>> + Send;

    /// Makes a virtual machine. Never repeated by itself: see [`crate::jobs::deploy_once`].
    fn deploy_virtual_machine(&self, request: &Deploy) -> impl Future<Output = Answer<Started>> + Send;

    /// Starts a stopped virtual machine.
    fn start_virtual_machine(&self, id: &VirtualMachineId) -> impl Future<Output = Answer<JobId>> + Send;

    /// Stops a virtual machine; `forced` does not wait for the guest.
    fn stop_virtual_machine(&self, id: &VirtualMachineId, forced: bool) -> impl Future<Output = Answer<JobId>> + Send;

    /// Restarts a virtual machine; `forced` does not wait for the guest.
    fn reboot_virtual_machine(&self, id: &VirtualMachineId, forced: bool)
    -> impl Future<Output = Answer<JobId>> + Send;

    /// Throws a virtual machine away; `expunge` for good, disks included.
    fn destroy_virtual_machine(
        &self,
        id: &VirtualMachineId,
        expunge: bool,
    ) -> impl Future<Output = Answer<JobId>> + Send;

    /// Sets tags on a virtual machine.
    fn tag_virtual_machine(&self, id: &VirtualMachineId, tags: &Tags) -> impl Future<Output = Answer<JobId>> + Send;

    /// Takes tags of these keys off a virtual machine, whatever their values.
    fn untag_virtual_machine(
        &self,
        id: &VirtualMachineId,
        keys: &[String],
    ) -> impl Future<Output = Answer<JobId>> + Send;

    /// Says how far a job is. Servers forget jobs after a day or so; then it is *not found*.
    fn query_job(&self, id: &JobId) -> impl Future<Output = Answer<Job>> + Send;
}
