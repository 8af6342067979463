//! Machines and the jobs that change them; one machine per name, whatever gets lost.

use std::collections::BTreeSet;
use std::time::Duration;

use cloudstack::errors::Kind;
use cloudstack::jobs::{Deployed, JobError, Patience, deploy_once, finish};
use cloudstack::port::{
    CloudStack, DataDisk, Job, JobStatus, MachineQuery, MachineState, OfferingQuery, Pick, Tags, VirtualMachineId,
};
use kit::clock::Clock;
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::world::machine::State;

use crate::support::{by_name, client, client_as, deploy, ground, named, world};

const QUICK: Patience =
    Patience { deadline: Duration::from_secs(20), first: Duration::from_millis(5), longest: Duration::from_millis(20) };

fn machine(job: &Job) -> &cloudstack::port::VirtualMachine {
    match &job.status {
        JobStatus::Done(Some(machine)) => machine,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_machine_lives_from_deploy_to_expunge() {
    let sim = world().await;
    let (client, clock) = (client(&sim), Clock::system());
    let ground = ground(&client).await;
    let disks = OfferingQuery { zone: None, pick: named("Custom") };
    let disk = client.list_disk_offerings(&disks).await.unwrap().remove(0);
    let mut request = deploy(&ground, "vm-1");
    request.disk = Some(DataDisk { offering: disk.id, size_gb: Some(50) });
    request.user_data = Some(b"#cloud-config canary ~*+%".to_vec().into());
    let Deployed::Started(started) = deploy_once(&client, &request).await.unwrap() else { panic!("it was there") };
    let job = finish(&client, &started.job, QUICK, &clock).await.unwrap();
    let made = machine(&job);
    assert_eq!((&made.id, &made.state, made.name.as_str()), (&started.id, &MachineState::Running, "vm-1"));
    assert!(made.nics[0].default && made.nics[0].address.is_some());
    assert_eq!(sim.machines()[0].user_data, b"#cloud-config canary ~*+%");
    assert!(!format!("{:?}", sim.log()).contains("canary"));

    let tags = Tags::from([("claim-uid".to_owned(), "ü 1".to_owned())]);
    finish(&client, &client.tag_virtual_machine(&started.id, &tags).await.unwrap(), QUICK, &clock).await.unwrap();
    let query = MachineQuery { tags: tags.clone(), ..MachineQuery::default() };
    assert_eq!(client.list_virtual_machines(&query).await.unwrap()[0].tags, tags);
    let again = client.tag_virtual_machine(&started.id, &tags).await.unwrap();
    assert!(matches!(finish(&client, &again, QUICK, &clock).await, Err(JobError::Failed(_))), "a tag is set once");
    assert!(sim.leaks("claim-uid", &BTreeSet::from(["ü 1".to_owned()])).is_empty());
    assert_eq!(sim.leaks("claim-uid", &BTreeSet::new()).len(), 1);
    let untag = client.untag_virtual_machine(&started.id, &["claim-uid".to_owned()]).await.unwrap();
    finish(&client, &untag, QUICK, &clock).await.unwrap();

    let stop = client.stop_virtual_machine(&started.id, true).await.unwrap();
    assert_eq!(machine(&finish(&client, &stop, QUICK, &clock).await.unwrap()).state, MachineState::Stopped);
    let reboot = client.reboot_virtual_machine(&started.id, false).await.unwrap();
    assert!(matches!(finish(&client, &reboot, QUICK, &clock).await, Err(JobError::Failed(_))), "it does not run");
    let start = client.start_virtual_machine(&started.id).await.unwrap();
    assert_eq!(machine(&finish(&client, &start, QUICK, &clock).await.unwrap()).state, MachineState::Running);
    let destroy = client.destroy_virtual_machine(&started.id, true).await.unwrap();
    let job = finish(&client, &destroy, QUICK, &clock).await.unwrap();
    assert_eq!(job.status, JobStatus::Done(None));
    assert_eq!(sim.machines()[0].state, State::Gone);
    let error = client.destroy_virtual_machine(&started.id, true).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error:?}");
    let by_id = MachineQuery { pick: Some(Pick::Id(started.id)), ..MachineQuery::default() };
    assert_eq!(client.list_virtual_machines(&by_id).await.unwrap_err().kind(), Kind::NotFound);
    assert!(client.list_virtual_machines(&by_name("vm-1")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lost_answer_never_costs_a_second_machine() {
    let sim = world().await;
    let client = client(&sim);
    let ground = ground(&client).await;
    for (name, fault) in [
        ("vm-cut", What::CutAfter),
        ("vm-refused", What::RefuseAfter(sim::cloudstack::wire::refusal::Refusal::new(530, None, "later"))),
    ] {
        sim.clear_log();
        sim.script(Fault::on("deployVirtualMachine", fault));
        let deployed = deploy_once(&client, &deploy(&ground, name)).await.unwrap();
        let Deployed::Found(found) = deployed else { panic!("{deployed:?}") };
        assert_eq!((found.name.as_str(), sim.calls("deployVirtualMachine")), (name, 1), "it is never sent twice");
        assert!(matches!(deploy_once(&client, &deploy(&ground, name)).await.unwrap(), Deployed::Found(_)));
        assert_eq!(sim.machines().iter().filter(|machine| machine.name == name).count(), 1);
    }
    // Before it had an effect: nothing was made, and the next attempt makes it.
    sim.script(Fault::on("deployVirtualMachine", What::CutBefore));
    assert!(deploy_once(&client, &deploy(&ground, "vm-early")).await.unwrap_err().maybe_done());
    assert!(matches!(deploy_once(&client, &deploy(&ground, "vm-early")).await.unwrap(), Deployed::Started(_)));
    // A name that contains another is not that other.
    assert!(matches!(deploy_once(&client, &deploy(&ground, "vm")).await.unwrap(), Deployed::Started(_)));
    let error = client.deploy_virtual_machine(&deploy(&ground, "vm")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Duplicate);
}

#[tokio::test]
async fn a_failed_job_says_why_and_leaves_its_machine_behind() {
    let sim = world().await;
    sim.settings(|settings| settings.hosts = 1);
    let (client, clock) = (client(&sim), Clock::system());
    let ground = ground(&client).await;
    sim.with(|world, _| {
        let id = "11111111-1111-4111-a111-111111111111".to_owned();
        world.groups.push(sim::cloudstack::world::things::AffinityGroup {
            id,
            name: "apart".to_owned(),
            kind: "host anti-affinity".to_owned(),
            account: "admin".to_owned(),
            domain: "ROOT".to_owned(),
        });
    });
    let groups = client.list_affinity_groups(&Default::default()).await.unwrap();
    assert_eq!(groups[0].kind, "host anti-affinity");
    let mut request = deploy(&ground, "vm-1");
    request.affinity_groups = vec![groups[0].id.clone()];
    let first = client.deploy_virtual_machine(&request).await.unwrap();
    let made = finish(&client, &first.job, QUICK, &clock).await.unwrap();
    assert_eq!(machine(&made).affinity_groups, request.affinity_groups);
    request.name = "vm-2".to_owned();
    let second = client.deploy_virtual_machine(&request).await.unwrap();
    let Err(JobError::Failed(failure)) = finish(&client, &second.job, QUICK, &clock).await else { panic!("it fits") };
    assert_eq!((failure.code, failure.kind()), (533, Kind::Capacity));
    assert!(failure.text.contains("affinity groups"), "{failure}");
    let left = client.list_virtual_machines(&by_name("vm-2")).await.unwrap();
    assert_eq!((left.len(), &left[0].state), (1, &MachineState::Error));
    let destroy = client.destroy_virtual_machine(&second.id, true).await.unwrap();
    finish(&client, &destroy, QUICK, &clock).await.unwrap();
    assert!(client.list_virtual_machines(&by_name("vm-2")).await.unwrap().is_empty());
}

#[tokio::test]
async fn jobs_that_hang_are_late_forgotten_ones_say_so_and_troubles_on_the_way_are_borne() {
    let sim = world().await;
    let (client, clock) = (client(&sim), Clock::system());
    let ground = ground(&client).await;
    sim.script(Fault::on("deployVirtualMachine", What::HangJob));
    let started = client.deploy_virtual_machine(&deploy(&ground, "vm-1")).await.unwrap();
    let short = Patience { deadline: Duration::from_millis(100), ..QUICK };
    assert_eq!(finish(&client, &started.job, short, &clock).await, Err(JobError::Late(short.deadline)));
    sim.forget_jobs();
    assert_eq!(finish(&client, &started.job, QUICK, &clock).await, Err(JobError::Forgotten));
    let started = client.deploy_virtual_machine(&deploy(&ground, "vm-2")).await.unwrap();
    sim.script(Fault::refuse("queryAsyncJobResult", 503, "starting").times(6));
    sim.script(Fault::on("queryAsyncJobResult", What::CutBefore).times(2));
    let job = finish(&client, &started.job, QUICK, &clock).await.unwrap();
    assert_eq!(machine(&job).state, MachineState::Running);
    sim.script(Fault::on("stopVirtualMachine", What::FailJob { code: 530, text: "agent\nlost".to_owned() }));
    let stop = client.stop_virtual_machine(&started.id, false).await.unwrap();
    let error = finish(&client, &stop, QUICK, &clock).await.unwrap_err();
    assert_eq!(kit::class::chain(&error), "the job failed: agent lost (error 530)");
}

#[tokio::test]
async fn limits_mistakes_and_rights_have_their_kinds() {
    let sim = world().await;
    let client = client(&sim);
    let ground = ground(&client).await;
    let mut long = deploy(&ground, "vm-1");
    long.user_data = Some(vec![b'x'; cloudstack::port::USER_DATA + 1].into());
    assert_eq!(client.deploy_virtual_machine(&long).await.unwrap_err().kind(), Kind::BadRequest);
    long.user_data = Some(vec![b'x'; cloudstack::port::USER_DATA].into());
    client.deploy_virtual_machine(&long).await.unwrap();
    let bad = client.deploy_virtual_machine(&deploy(&ground, "not a host name")).await.unwrap_err();
    assert_eq!(bad.kind(), Kind::BadRequest);
    sim.settings(|settings| settings.machine_quota = 1);
    assert_eq!(client.deploy_virtual_machine(&deploy(&ground, "vm-2")).await.unwrap_err().kind(), Kind::Quota);
    let user = client_as(&sim, "user");
    let theirs: VirtualMachineId = sim.machines()[0].id.parse().unwrap();
    assert_eq!(user.stop_virtual_machine(&theirs, true).await.unwrap_err().kind(), Kind::NotPermitted);
    assert!(user.list_virtual_machines(&MachineQuery::default()).await.unwrap().is_empty());
}
