//! Following page tokens to the end, and noticing when there is none.

use std::collections::BTreeSet;

use crate::errors::PagingError;

/// The longest list that is followed.
const PAGES: u32 = 200;

/// The way through one paged list.
#[derive(Clone, Debug)]
pub struct Pager {
    seen: BTreeSet<String>,
    pages: u32,
    limit: u32,
}

impl Default for Pager {
    fn default() -> Self {
        Self { seen: BTreeSet::new(), pages: 0, limit: PAGES }
    }
}

impl Pager {
    /// A way that has not started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A page was read and names its follower: gives the token to go on with, or `None` at the end. A missing and an
    /// empty token both mean the end: an empty one sent back would start the list again.
    ///
    /// # Errors
    /// When the token was seen before or the list is longer than any list should be.
    pub fn next(&mut self, token: Option<&str>) -> Result<Option<String>, PagingError> {
        self.pages += 1;
        let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(None) };
        if self.pages >= self.limit {
            return Err(PagingError::TooLong { limit: self.limit });
        }
        if !self.seen.insert(token.to_owned()) {
            return Err(PagingError::Loop);
        }
        Ok(Some(token.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_missing_and_an_empty_token_end_the_list() {
        assert_eq!(Pager::new().next(None), Ok(None));
        let mut pager = Pager::new();
        assert_eq!(pager.next(Some("a")), Ok(Some("a".to_owned())));
        assert_eq!(pager.next(Some("b")), Ok(Some("b".to_owned())));
        assert_eq!(pager.next(Some("")), Ok(None));
    }

    #[test]
    fn a_token_that_comes_twice_is_a_loop() {
        let mut pager = Pager::new();
        for token in ["a", "b"] {
            assert!(pager.next(Some(token)).is_ok());
        }
        assert_eq!(pager.next(Some("a")), Err(PagingError::Loop));
    }

    #[test]
    fn two_hundred_pages_are_read_and_no_more() {
        let mut pager = Pager::new();
        for page in 1..200 {
            assert!(pager.next(Some(&page.to_string())).is_ok(), "{page}");
        }
        assert_eq!(pager.clone().next(None), Ok(None), "the 200th page may be the last");
        assert_eq!(pager.next(Some("200")), Err(PagingError::TooLong { limit: 200 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn every_way_ends(tokens in prop::collection::vec(prop::option::of("[a-z]{0,2}"), 1..20)) {
            let mut pager = Pager::new();
            let mut asked = 0;
            for token in tokens.iter().cycle() {
                asked += 1;
                prop_assert!(asked <= PAGES);
                match pager.next(token.as_deref()) {
                    Ok(Some(_)) => {}
                    Ok(None) => { prop_assert!(token.as_deref().unwrap_or_default().is_empty()); break }
                    Err(_) => break,
                }
            }
        }
    }
}
