//! claim-kind
