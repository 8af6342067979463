//! The wire protocol: form bodies, strict parameters, signatures, XML. No state, no sockets, no clock.

pub mod form;
pub mod params;
pub mod refusal;
pub mod sigv4;
pub mod xml;
