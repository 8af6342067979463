//! The ways to clouds, which all rooms of a process share.

use std::sync::OnceLock;

use aws::net::{Aws, Meter, Options};
use cloudstack::net::{Meter as AcsMeter, Options as AcsOptions, Reach, Timing};
use kit::manager::Manager;

use crate::cli::RunOptions;

/// The clients of AWS of this process. There is one set of them: request limits are an account's, whichever room calls, and
/// figures are registered once.
pub fn aws(manager: &Manager, options: &RunOptions) -> Aws {
    static SHARED: OnceLock<Aws> = OnceLock::new();
    let agent = concat!("berth/", env!("CARGO_PKG_VERSION"));
    let make = || {
        let options = Options { paces: options.hosts.aws_rate.clone(), ..Options::new(agent) };
        Aws::new(options, manager.clock().clone(), Meter::new(manager.metrics()))
    };
    SHARED.get_or_init(make).clone()
}

/// The clients of CloudStack of this process; there is one set of them for the same reasons.
pub fn acs(manager: &Manager, options: &RunOptions) -> Reach {
    static SHARED: OnceLock<Reach> = OnceLock::new();
    let (own, agent) = (&options.clusters, concat!("berth/", env!("CARGO_PKG_VERSION")));
    let make = || {
        let mut settings = AcsOptions::new(agent);
        settings.timing = Timing::of(own.acs_timeout);
        settings.page_size = own.acs_page_size;
        settings.use_get = own.acs_use_get;
        let meter = AcsMeter::new(manager.metrics());
        Reach::new(settings, &own.cloudstack_endpoint_allow, manager.clock().clone(), meter)
    };
    SHARED.get_or_init(make).clone()
}
