//! Topology mutation hooks as pure functions: patches, validation, variables.
