//! The way to a cloud: who asks, where, and whom to trust.

pub use aws::cloud::{Cloud, Door, DoorError};
