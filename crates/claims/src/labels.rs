//! Selectors of hosts, as every room reads them.

pub use api::selector::{
    HostLabels, Labels, Operator, Selector, SelectorFault, Term, Test, is_derived, key_problem, value_problem,
};
