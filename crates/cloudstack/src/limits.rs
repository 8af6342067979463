//! How fast and how wide a server is called.
//!
//! CloudStack counts requests per account (25 in a second where throttling is switched on) and works each one off on a
//! thread of its own, so both the rate and the number of requests under way are kept small.

/// What a client keeps to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests of one user that may follow each other at once.
    pub burst: u32,
    /// Requests of one user per second after that.
    pub per_second: f64,
    /// Requests under way at one server, of all users together.
    pub at_once: usize,
}

impl Limits {
    /// What is shipped: within the 25 in any second that a throttling server grants an account, four at once.
    pub const SHIPPED: Self = Self { burst: 10, per_second: 15.0, at_once: 4 };

    /// None worth mentioning but the number at once: for simulators.
    pub const UNLIMITED: Self = Self { burst: 1_000_000, per_second: 1_000_000.0, at_once: 4 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_limits_stay_within_what_a_throttling_server_grants() {
        // Its window is a second and begins with the first request: a burst and a second of refill may share one.
        assert!(f64::from(Limits::SHIPPED.burst) + Limits::SHIPPED.per_second <= 25.0);
        assert_eq!(Limits::SHIPPED.at_once, 4);
    }
}
