//! Following numbered pages to the end, and noticing when there is none.

use std::collections::BTreeSet;

/// The longest list that is followed.
pub const PAGES: u32 = 200;

/// The page size a server takes if nobody configured it otherwise.
pub const SIZE: u32 = 500;

/// The smallest page that is asked for.
pub const LEAST: u32 = 20;

/// A list that cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// A whole page came a second time.
    #[error("the list goes round in circles: a page holds nothing new")]
    Loop,
    /// Too many pages.
    #[error("the list has more than {PAGES} pages")]
    TooLong,
    /// The server refuses even the smallest page.
    #[error("the server refuses pages of {LEAST} entries")]
    TooSmall,
}

/// The way through one list.
#[derive(Clone, Debug)]
pub struct Pager {
    size: u32,
    page: u32,
    pages: u32,
    seen: BTreeSet<String>,
}

impl Pager {
    /// A way that has not started, with pages of this size.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self { size: size.max(1), page: 1, pages: 0, seen: BTreeSet::new() }
    }

    /// The page to ask for next, from 1.
    #[must_use]
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Entries of a page.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether an entry is new; entries that move between pages come twice.
    pub fn is_new(&mut self, id: &str) -> bool {
        self.seen.insert(id.to_owned())
    }

    /// A page was read: `received` entries, `new` of them not seen before, `count` in all as the server says. Gives
    /// whether another page follows.
    ///
    /// # Errors
    /// When pages repeat or the list is longer than any list should be.
    pub fn turn(&mut self, received: usize, new: usize, count: Option<u64>) -> Result<bool, PagingError> {
        self.pages += 1;
        let short = u32::try_from(received).is_ok_and(|received| received < self.size);
        let all = count.is_some_and(|count| u64::try_from(self.seen.len()).is_ok_and(|seen| seen >= count));
        if short || all {
            return Ok(false);
        }
        if new == 0 {
            return Err(PagingError::Loop);
        }
        if self.pages >= PAGES {
            return Err(PagingError::TooLong);
        }
        self.page += 1;
        Ok(true)
    }

    /// The server takes smaller pages only: starts again with half the size. Entries that were seen stay seen.
    ///
    /// # Errors
    /// When the pages were the smallest already.
    pub fn shrink(&mut self) -> Result<(), PagingError> {
        if self.size <= LEAST {
            return Err(PagingError::TooSmall);
        }
        self.size = (self.size / 2).max(LEAST);
        self.page = 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_page_and_a_full_count_end_the_list() {
        let mut pager = Pager::new(2);
        assert_eq!(pager.turn(1, 1, Some(9)), Ok(false));
        let mut pager = Pager::new(2);
        assert!(pager.is_new("a") && pager.is_new("b") && !pager.is_new("a"));
        assert_eq!(pager.turn(2, 2, Some(2)), Ok(false));
        let mut pager = Pager::new(2);
        assert!(pager.is_new("a") && pager.is_new("b"));
        assert_eq!((pager.turn(2, 2, None), pager.page()), (Ok(true), 2));
        assert_eq!(pager.turn(0, 0, None), Ok(false));
    }

    #[test]
    fn a_page_that_comes_again_is_a_loop() {
        let mut pager = Pager::new(1);
        assert_eq!(pager.turn(1, 1, Some(3)), Ok(true));
        assert_eq!(pager.turn(1, 0, Some(3)), Err(PagingError::Loop));
    }

    #[test]
    fn sizes_halve_down_to_the_least() {
        let mut pager = Pager::new(SIZE);
        let mut sizes = vec![pager.size()];
        while pager.shrink().is_ok() {
            sizes.push(pager.size());
        }
        assert_eq!(sizes, [500, 250, 125, 62, 31, 20]);
        assert_eq!(pager.shrink(), Err(PagingError::TooSmall));
    }

    proptest! {
        #[test]
        fn every_list_is_read_whole_or_refused(total in 0usize..3000, size in 1u32..600, honest: bool) {
            let all: Vec<String> = (0..total).map(|n| n.to_string()).collect();
            let (mut pager, mut got) = (Pager::new(size), 0);
            let end = loop {
                let from = (pager.page() as usize - 1) * size as usize;
                let page: Vec<&String> = all.iter().skip(from).take(size as usize).collect();
                let new = page.iter().filter(|id| pager.is_new(id)).count();
                got += new;
                match pager.turn(page.len(), new, honest.then_some(total as u64)) {
                    Ok(true) => {}
                    other => break other,
                }
            };
            match end {
                Ok(_) => prop_assert_eq!(got, total),
                Err(error) => {
                    prop_assert_eq!(error, PagingError::TooLong);
                    prop_assert!(total >= PAGES as usize * size as usize);
                }
            }
        }
    }
}
