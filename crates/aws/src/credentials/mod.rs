//! Where credentials come from: descriptions of sources, and the texts they are read from.
//!
//! Nothing here touches the world. The network half turns a [`Source`] into keys and keeps them until shortly before
//! they end.

mod ambient;
mod config;
mod error;
mod source;

pub use ambient::{Ambient, AmbientError, Evidence, Files};
pub use config::{ConfigError, Profiles, SecretError, TokenPaths, from_config_text, from_secret, from_static_identity};
pub use error::{CredentialsError, Why};
pub use source::{ContainerAuth, Role, Source, WebIdentity};
