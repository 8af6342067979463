//! The bytes: requests as forms, signatures, answers as trees.

mod form;
mod sign;
mod xml;

pub use form::Form;
pub use sign::sign;
pub use xml::{Document, Node};
