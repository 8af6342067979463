//! The way to a server: which addresses may be called, and as whom.

use kit::http::Policy;

use crate::port::CloudStack;
use crate::profile::Profile;

/// Gives the way to a server for the secret that was just read.
pub trait Clouds: Send + Sync + 'static {
    /// One server, called as one user.
    type Acs: CloudStack + Send + Sync + 'static;

    /// Which addresses may be called.
    fn policy(&self) -> &Policy;

    /// The way to the server of a profile; nothing is called yet.
    ///
    /// # Errors
    /// In words for people, when connections cannot be set up.
    fn open(&self, profile: &Profile) -> Result<Self::Acs, String>;
}

#[cfg(feature = "net")]
impl Clouds for crate::net::CloudStacks {
    type Acs = crate::net::Client;

    fn policy(&self) -> &Policy {
        Self::policy(self)
    }

    fn open(&self, profile: &Profile) -> Result<Self::Acs, String> {
        self.client(profile).map_err(|error| kit::class::chain(&error))
    }
}
