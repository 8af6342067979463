//! Simulators of the outside world and the sweeps that run controllers against them. Not part of the product.
#![allow(clippy::disallowed_methods, reason = "simulators own their time and their tasks")]

pub mod cloudstack;
pub mod conformance;
pub mod dock;
pub mod ec2;
pub mod edge;
pub mod history;
pub mod metal;
pub mod nodes;
pub mod noise;
pub mod percent;
pub mod plane;
pub mod provider;
pub mod proxy;
pub mod record;
mod seeds;
pub mod server;
pub mod sweep;
pub mod time;
pub mod wait;
