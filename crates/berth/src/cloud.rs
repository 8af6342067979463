//! The ways to clouds, which all rooms of a process share.

use std::sync::{Arc, OnceLock};

use aws::net::{Aws, Meter, Options};
use cloudstack::net::{Meter as AcsMeter, Options as AcsOptions, Reach, Timing};
use kit::http::Proxies;
use kit::manager::Manager;

use crate::cli::RunOptions;
use crate::clusters::ClustersOptions;

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
    let own = &options.clusters;
    let make = || {
        let meter = AcsMeter::new(manager.metrics());
        Reach::new(acs_options(own), &own.cloudstack_endpoint_allow, manager.clock().clone(), meter)
    };
    SHARED.get_or_init(make).clone()
}

/// How CloudStack is called, by the flags.
pub fn acs_options(own: &ClustersOptions) -> AcsOptions {
    let mut options = AcsOptions::new(concat!("berth/", env!("CARGO_PKG_VERSION")));
    options.timing = Timing::of(own.acs_timeout);
    options.page_size = own.acs_page_size;
    options.use_get = own.acs_use_get;
    options.proxies = Arc::new(proxies(|name| std::env::var_os(name)?.into_string().ok()));
    options
}

/// The proxies of the environment. One that cannot be used keeps nobody from starting: CloudStack is called directly then.
fn proxies(variable: impl Fn(&str) -> Option<String>) -> Proxies {
    Proxies::by(variable).unwrap_or_else(|error| {
        tracing::error!(error = %error, "calling CloudStack without a proxy");
        Proxies::default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        own: ClustersOptions,
    }

    fn by(flags: &[&str]) -> (Duration, Duration, u32, bool) {
        let own = Flags::parse_from([&["berth"], flags].concat()).own;
        let options = acs_options(&own);
        (options.timing.request, options.timing.call, options.page_size, options.use_get)
    }

    #[test]
    fn every_flag_about_cloudstack_reaches_its_client() {
        assert_eq!(by(&[]), (Duration::from_secs(30), Duration::from_millis(127_500), 500, false));
        let flags = ["--acs-timeout", "5s", "--acs-page-size", "50", "--acs-use-get"];
        assert_eq!(by(&flags), (Duration::from_secs(5), Duration::from_millis(27_500), 50, true));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_stops_nobody() {
        let by = |url: &'static str| proxies(|name| (name == "HTTPS_PROXY").then(|| url.to_owned()));
        assert_ne!(by("http://proxy.example:3128"), Proxies::default());
        assert_eq!(by("socks5://proxy.example"), Proxies::default());
    }
}
