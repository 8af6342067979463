//! The election against API servers: the in-memory one and the real one behave alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kit::clock::Clock;
use kit::lease::{Candidate, Leadership, Settings, Standing, Terms, identity};
use kube::Api;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// One wins, renews, is shut down and releases; the other leads long before a term has passed.
async fn one_leads_and_hands_over(client: kube::Client, namespace: &str) {
    let clock = Clock::system();
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let mut tasks = JoinSet::new();
    let mut start = |host: &str| -> (Leadership, CancellationToken, String) {
        let me = identity(host, &clock);
        let terms = Terms::new(Duration::from_secs(12)).unwrap();
        let settings = Settings { namespace: namespace.into(), name: "kit-lease".into(), identity: me.clone(), terms };
        let (candidate, leadership) = Candidate::new(client.clone(), clock.clone(), settings);
        let stop = CancellationToken::new();
        tasks.spawn(candidate.run(stop.clone(), async {}));
        (leadership, stop, me)
    };
    let (first, stop_first, name_first) = start("first");
    until(&first, Standing::Leading).await;
    let won = leases.get("kit-lease").await.unwrap();
    let spec = won.spec.clone().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(name_first.as_str()));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(12), Some(0)));

    let (second, stop_second, name_second) = start("second");
    until(&second, Standing::Follower { holder: Some(name_first.clone()) }).await;
    let renewed = timeout(Duration::from_secs(10), async {
        loop {
            let lease = leases.get("kit-lease").await.unwrap();
            if lease.metadata.resource_version != won.metadata.resource_version {
                return lease.spec.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let renewed = renewed.await.expect("the leader renews");
    assert_eq!(renewed.holder_identity.as_deref(), Some(name_first.as_str()));
    assert!(renewed.renew_time > spec.renew_time && renewed.acquire_time == spec.acquire_time);
    assert!(first.leads() && !second.leads());

    stop_first.cancel();
    let asked = clock.instant();
    until(&second, Standing::Leading).await;
    let took = clock.instant() - asked;
    assert!(took < Duration::from_secs(4), "the next one led after {took:?}");
    assert!(!first.leads() && first.remaining().is_none());
    let spec = leases.get("kit-lease").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(name_second.as_str()));
    assert_eq!(spec.lease_transitions, Some(1));

    stop_second.cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let spec = leases.get("kit-lease").await.unwrap().spec.unwrap();
    assert_eq!((spec.holder_identity, spec.lease_duration_seconds), (None, Some(1)));
}

async fn until(leadership: &Leadership, wanted: Standing) {
    let mut standing = leadership.standing();
    let waiting = standing.wait_for(|now| *now == wanted);
    let found = timeout(Duration::from_secs(20), waiting).await;
    assert!(found.is_ok(), "{wanted:?} was not reached: {:?}", *leadership.standing().borrow());
}

#[tokio::test(start_paused = true)]
async fn leadership_is_won_renewed_and_handed_over_on_the_in_memory_server() {
    let server = sim::server::Server::new(1);
    server.namespace("suite");
    one_leads_and_hands_over(server.kube(), "suite").await;
}

#[tokio::test]
async fn leadership_is_won_renewed_and_handed_over_on_the_real_server() {
    let test = "leadership_is_won_renewed_and_handed_over_on_the_real_server";
    let Some(plane) = sim::plane::for_test(test) else { return };
    let client = plane.client().await.expect("a client of the real server");
    one_leads_and_hands_over(client, "default").await;
}
