//! Paging: tokens that look like the real ones and are good for one listing only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::catalogue::fnv;
use super::super::wire::refusal::Refusal;

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins.
    pub next: Option<String>,
}

/// Makes the token of the page that begins after `last`. `listing` names operation, account and parameters.
#[must_use]
pub fn token(listing: &str, last: &str) -> String {
    let check = fnv(&[listing, last]);
    STANDARD.encode(format!("{{\"v\":\"2\",\"c\":\"{check:016x}\",\"s\":\"{}\"}}", STANDARD.encode(last)))
}

/// Another token for the same place in the listing.
#[must_use]
pub fn other_token(listing: &str, last: &str) -> String {
    token(listing, &format!("{last}\0"))
}

/// Reads a token back; only the listing it was made for accepts it.
pub fn after(listing: &str, token: &str) -> Result<String, Refusal> {
    let refused = || Refusal::bad("InvalidNextToken", "The specified NextToken is not valid.");
    let text = STANDARD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
    let last = text
        .strip_suffix("\"}")
        .and_then(|text| text.rsplit_once("\"s\":\""))
        .and_then(|(_, last)| STANDARD.decode(last).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(refused)?;
    if self::token(listing, &last) != token {
        return Err(refused());
    }
    Ok(last.strip_suffix('\0').map_or(last.clone(), str::to_owned))
}

/// Cuts the next page out of items sorted by a key. The position is a key and not a number, so that what comes and goes
/// between two pages neither repeats nor hides anything else.
pub fn page<T>(
    items: Vec<T>,
    key: impl Fn(&T) -> String,
    listing: &str,
    size: usize,
    given: Option<&str>,
) -> Result<Page<T>, Refusal> {
    let start = given.map(|token| after(listing, token)).transpose()?;
    let mut rest: Vec<T> = items.into_iter().filter(|item| start.as_ref().is_none_or(|at| key(item) > *at)).collect();
    let more = rest.len() > size;
    rest.truncate(size);
    let next = rest.last().filter(|_| more).map(|item| token(listing, &key(item)));
    Ok(Page { items: rest, next })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn pages_give_everything_once_and_in_order(names in prop::collection::btree_set("[a-z]{1,4}", 0..60), size in 1usize..10) {
            let (mut seen, mut given) = (Vec::new(), None::<String>);
            loop {
                let all: Vec<String> = names.iter().cloned().collect();
                let page = page(all, Clone::clone, "list", size, given.as_deref()).unwrap();
                prop_assert!(page.items.len() <= size);
                seen.extend(page.items);
                match page.next {
                    Some(next) => given = Some(next),
                    None => break,
                }
            }
            prop_assert_eq!(seen.len(), names.len());
            prop_assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), names);
        }

        #[test]
        fn a_token_is_good_for_its_own_listing_only(last in ".{0,12}", garbage in ".{0,24}") {
            let last = last.replace('\0', "");
            let made = token("list", &last);
            prop_assert_eq!(after("list", &other_token("list", &last)), Ok(last.clone()));
            prop_assert_ne!(other_token("list", &last), made.clone());
            prop_assert_eq!(after("list", &made), Ok(last.clone()));
            prop_assert!(after("other", &made).is_err());
            prop_assert!(after("list", &garbage).is_err());
        }
    }
}
