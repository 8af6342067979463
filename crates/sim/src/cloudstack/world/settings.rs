//! How the simulated world behaves. Everything may be changed while it runs.

use std::time::Duration;

/// How long jobs take.
#[derive(Clone, Debug)]
pub struct Delays {
    /// To make and start a machine.
    pub deploy: Duration,
    /// To start, stop or restart one.
    pub power: Duration,
    /// To destroy one for good.
    pub expunge: Duration,
    /// Anything else.
    pub other: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            deploy: Duration::from_secs(4),
            power: Duration::from_secs(2),
            expunge: Duration::from_secs(8),
            other: Duration::from_millis(500),
        }
    }
}

/// Everything a test may want otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long jobs take.
    pub delays: Delays,
    /// The largest page.
    pub page_limit: u64,
    /// Requests of one account in one second; `None` = as many as come.
    pub request_limit: Option<u32>,
    /// Whether every request must have an expiry, at most 15 minutes ahead.
    pub enforce_expiry: bool,
    /// Hosts of a zone: as many machines fit into a group that keeps them apart.
    pub hosts: usize,
    /// Machines an account may have.
    pub machine_quota: usize,
    /// The most user data, in bytes before encoding.
    pub user_data: usize,
    /// An ended job is forgotten after this time.
    pub job_memory: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delays: Delays::default(),
            page_limit: 500,
            request_limit: None,
            enforce_expiry: true,
            hosts: 8,
            machine_quota: 1000,
            user_data: 32_768,
            job_memory: Duration::from_secs(24 * 3600),
        }
    }
}
