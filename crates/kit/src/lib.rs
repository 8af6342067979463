//! What every room shares: watching, queueing, deciding, writing, serving, and saying why.

pub mod clock;
