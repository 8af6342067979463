//! AWS as Berth needs it: a port in domain types, and a thin client behind it.
//!
//! | What for | Modules |
//! |---|---|
//! | the calls rooms make, and what they give | [`port`] |
//! | what went wrong and what to do about it | [`errors`]: one table from codes to kinds |
//! | where services answer | [`place`]: partitions, configured endpoints |
//! | who we are | [`credentials`]: sources as values, shared-config text, the process's own |
//! | the way there | [`cloud`]: who asks, where, and whom to trust |
//! | as whom a cluster is served | [`identity`]: what its infrastructure names, followed to credentials |
//! | how fast we may go | [`limits`]: the published buckets |
//! | long lists | [`paging`] |
//! | the wire (feature `net`) | `net`: Query protocol, signing, XML, credential providers |
//!
//! A room depends on this crate without `net` and is generic over [`port::Ec2`]; a model in a property test implements
//! that trait. The strict simulator implements the wire protocol instead, so tests with it cross the same bytes as
//! production.
//!
//! Promises of the client: every call ends by its deadline; an answer is read up to 8 MiB; a call whose outcome is
//! unknown is repeated only if a repetition is the same request; a list ends or is an error; every error names the
//! operation and carries the request id; secrets print as `***`; only checked addresses are called.

pub mod cloud;
pub mod credentials;
pub mod errors;
pub mod identity;
pub mod limits;
#[cfg(feature = "net")]
pub mod net;
pub mod paging;
pub mod place;
pub mod port;
