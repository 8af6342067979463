//! The way to AWS, which all rooms of a process share.

use std::sync::OnceLock;

use aws::net::{Aws, Meter, Options};
use kit::manager::Manager;

/// The clients of this process. There is one set of them: request limits are an account's, whichever room calls, and
/// figures are registered once.
pub fn aws(manager: &Manager) -> Aws {
    static SHARED: OnceLock<Aws> = OnceLock::new();
    let agent = concat!("berth/", env!("CARGO_PKG_VERSION"));
    let make = || Aws::new(Options::new(agent), manager.clock().clone(), Meter::new(manager.metrics()));
    SHARED.get_or_init(make).clone()
}
