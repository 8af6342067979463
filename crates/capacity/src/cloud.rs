//! The ways to clouds: who asks, where, and whom to trust.

pub use aws::cloud::{Cloud, Door, DoorError};
pub use cloudstack::cloud::Clouds;
use cloudstack::profile::Profile;

/// The ways to every cloud that has a catalogue.
pub trait Ways: Send + Sync + 'static {
    /// The way to EC2.
    type Aws: Cloud;
    /// The way to CloudStack.
    type Acs: Clouds;

    /// The way to EC2.
    fn aws(&self) -> &Self::Aws;

    /// The way to CloudStack.
    fn acs(&self) -> &Self::Acs;
}

/// One way of each.
#[derive(Clone, Debug)]
pub struct Both<C, A> {
    /// The way to EC2.
    pub aws: C,
    /// The way to CloudStack.
    pub acs: A,
}

impl<C: Cloud, A: Clouds> Ways for Both<C, A> {
    type Aws = C;
    type Acs = A;

    fn aws(&self) -> &C {
        &self.aws
    }

    fn acs(&self) -> &A {
        &self.acs
    }
}

/// Everything that one question depends on.
#[derive(Clone, Debug)]
pub enum Way {
    /// To EC2.
    Ec2(Box<Door>),
    /// To CloudStack.
    Acs(Box<Profile>),
}
