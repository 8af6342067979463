//! The kind `fake` keeps every promise, and with a flaw it breaks the one that the flaw is about.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use claim_kind::contract::PROMISES;
use claim_kind::contract::fake::{Fake, Flaw};

claim_kind::contract!(Fake::default());

mod modest {
    use super::Fake;

    claim_kind::contract!(Fake { modest: true, ..Fake::default() });
}

/// A test that cannot fail proves nothing: each flaw must be found by the test of the promise it breaks.
#[test]
fn every_flaw_is_found() {
    let mut unproven: Vec<&str> = PROMISES.iter().map(|promise| promise.number).collect();
    for (flaw, number) in Flaw::ALL {
        let promise = PROMISES.iter().find(|promise| promise.number == number).unwrap();
        let broken = promise.test(&Fake { flaw: Some(flaw), ..Fake::default() });
        let Err(broken) = broken else { panic!("{flaw:?} was not found by {number}") };
        println!("{flaw:?}: {broken}");
        unproven.retain(|other| *other != number);
    }
    assert!(unproven.is_empty(), "no flaw shows that these tests can fail: {unproven:?}");
}
