//! The room `hosts`: machines of clusters on EC2, on dedicated hosts that are allocated for them.
//!
//! [`admit`] fills in and checks what users write.

pub mod admit;
