//! Tries endpoints while their clusters wait: that nobody answers is only known once it has lasted, and no worker waits for
//! that.

use std::sync::Arc;

use api::key::ObjectKey;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kit::clock::Clock;
use kit::manager::{Manager, Stage};
use kit::queue::{Priority, Work};
use tokio::sync::mpsc;

use crate::endpoint::HostPort;
use crate::memory::{Ground, Memories, Tried};
use crate::probe::{Probe, Probed, in_use, ports};

/// So many endpoints are tried at the same time, each at one or two ports.
const AT_ONCE: usize = 128;

/// An endpoint that is to be tried for a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) cluster: ObjectKey,
    pub(crate) endpoint: HostPort,
    pub(crate) tried: Tried,
}

/// Tries what is asked for, remembers what was found, and wakes whoever asked.
pub(crate) fn follow(
    manager: &Manager,
    mut asked: mpsc::UnboundedReceiver<Asked>,
    probe: Arc<dyn Probe>,
    memories: Arc<Memories>,
    work: &Arc<Work<ObjectKey>>,
) {
    let (clock, work): (Clock, _) = (manager.clock().clone(), Arc::clone(work));
    manager.spawn(Stage::Decide, "clusters endpoints", |stop| async move {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(one) = asked.recv(), if running.len() < AT_ONCE => running.push(found(Arc::clone(&probe), one)),
                Some((one, ground)) = running.next(), if !running.is_empty() => {
                    memories.tried(&one.cluster, &one.tried, ground, clock.instant());
                    work.add_now(one.cluster, Priority::Urgent);
                }
            }
        }
    });
}

/// What is at an endpoint, at all its ports together.
async fn found(probe: Arc<dyn Probe>, asked: Asked) -> (Asked, Ground) {
    let (endpoint, kube_vip) = (&asked.endpoint, asked.tried.1);
    let probes = ports(kube_vip, endpoint.port()).into_iter().map(|port| probe.probe(&endpoint.host, port));
    let found = futures::future::join_all(probes).await;
    let ground = if in_use(kube_vip, &found) {
        Ground::Taken
    } else if found.contains(&Probed::NoAddress) {
        Ground::Unresolved
    } else {
        Ground::Free
    };
    (asked, ground)
}
