//! Finds the name that was meant.

/// The candidate that differs least from `word`, if it differs little.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // One slip in a short word, up to three in a long one.
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let near = candidates.map(|candidate| (distance(word, candidate), candidate));
    near.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// How many letters have to be put in, taken out or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, x) in a.chars().enumerate() {
        let mut next = vec![line + 1];
        for ((y, corner), above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or_default();
            next.push((left + 1).min(above + 1).min(corner + usize::from(x != *y)));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_another_word_is_not() {
        let names = ["prod", "production", "staging"];
        assert_eq!(nearest("prdo", names.into_iter()), None, "two slips in four letters are another word");
        assert_eq!(nearest("pro", names.into_iter()), Some("prod"));
        assert_eq!(nearest("prodution", names.into_iter()), Some("production"));
        assert_eq!(nearest("stagign", names.into_iter()), Some("staging"));
        assert_eq!(nearest("castle", names.into_iter()), None);
        assert_eq!(nearest("", [].into_iter()), None);
    }

    #[test]
    fn the_distance_is_the_same_both_ways() {
        for (a, b, wanted) in [("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("a", "b", 1)] {
            assert_eq!((distance(a, b), distance(b, a)), (wanted, wanted));
        }
    }
}
