//! The room `vip`: control-plane and ingress addresses for clusters, from IPAM pools, without a race and without a leak.

pub mod config;
pub mod facts;
pub mod hooks;
pub mod names;
pub mod pools;
pub mod topology;
