//! Where catalogues are from.

use std::fmt;

use api::names::Region;
use api::own::anywhere::Named;

use crate::acs::cards::Card;
use crate::acs::shown;

/// Where a catalogue is from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A region of EC2.
    Ec2(Ec2Place),
    /// A zone of a CloudStack.
    Acs(AcsPlace),
}

impl Place {
    /// The provider, as metrics name it.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        match self {
            Self::Ec2(_) => "ec2",
            Self::Acs(_) => "cloudstack",
        }
    }

    /// The region or zone, as people write it.
    #[must_use]
    pub fn region(&self) -> &str {
        match self {
            Self::Ec2(place) => place.region.as_str(),
            Self::Acs(place) => shown(&place.zone),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let provider = match self {
            Self::Ec2(_) => "EC2",
            Self::Acs(_) => "CloudStack",
        };
        write!(f, "{provider} in {}", self.region())
    }
}

/// A zone of a CloudStack, as somebody sees it: what is offered depends on who asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcsPlace {
    /// The server and who calls it.
    pub card: Card,
    /// The zone.
    pub zone: Named,
    /// The domain, account and project machines are made for.
    pub account: Box<str>,
}

/// A region of EC2: types are public, so credentials are no part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ec2Place {
    /// The region.
    pub region: Region,
    /// The address of EC2, where somebody configured one.
    pub endpoint: Option<Box<str>>,
}
