//! Every Kubernetes type Berth owns or reads, and the names it shares with the outside world.
//!
//! * [`own`]: the kinds of group `berth.dev`, with their schemas, rules and printer columns.
//! * [`views`]: foreign kinds, reduced to the fields Berth reads. They are read-only shapes: Berth changes foreign
//!   objects by patches of its own keys alone, so fields a view does not name survive on the server.
//! * [`raw`]: our own kinds as they are received, unread.
//! * [`names`]: identifiers, parsed once where they enter the program; labels, finalizers, field managers.
//! * [`reasons`]: condition types and reasons, each with its meaning and its place in the book.
//! * [`meta`], [`key`], [`status`], [`duration`]: object metadata without its bulk, object keys, conditions, durations.
//!
//! Nothing here is asynchronous and nothing talks to a server.

pub mod duration;
pub mod key;
pub mod meta;
pub mod names;
pub mod own;
pub mod raw;
pub mod reasons;
pub mod selector;
pub mod status;
pub mod views;

pub use key::ObjectKey;
