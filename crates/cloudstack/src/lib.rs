//! Apache CloudStack as Berth needs it: a port in domain types, and a signed client behind it.
//!
//! | What for | Modules |
//! |---|---|
//! | the calls rooms make, and what they give | [`port`] |
//! | what went wrong and what to do about it | [`errors`]: one table from codes and words to kinds |
//! | who we are and where the server is | [`profile`]: what a credentials secret says; [`cloud`]: the way there |
//! | long lists | [`paging`] |
//! | work that takes its time | [`jobs`]: waiting with a deadline, one machine per name |
//! | how fast we may go | [`limits`] |
//! | the wire (feature `net`) | `net`: signatures, requests, answers |
//!
//! A room depends on this crate without `net` and is generic over [`port::CloudStack`]; a model in a property test
//! implements that trait. The strict simulator implements the wire protocol instead, so tests with it cross the same
//! bytes as production.
//!
//! Promises of the client: every call ends by its deadline; an answer is read up to 8 MiB; a call whose outcome is
//! unknown is repeated only if a repetition is the same request; a list ends or is an error; every error names the
//! command; keys and signatures are never shown, not even if the server repeats them; only checked addresses are called
//! and redirects are not followed.

pub mod cloud;
pub mod errors;
pub mod jobs;
pub mod limits;
#[cfg(feature = "net")]
pub mod net;
pub mod paging;
pub mod port;
pub mod profile;
