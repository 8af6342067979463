//! Names that may have been meant.

/// How many names are given at most.
const SHOWN: usize = 5;

/// The nearest names by the number of letters that differ, best first.
pub fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let limit = (name.len() / 2).clamp(2, 6);
    let mut near: Vec<(usize, &str)> =
        all.map(|other| (distance(name, other), other)).filter(|(distance, _)| *distance <= limit).collect();
    near.sort_unstable();
    near.into_iter().take(SHOWN).map(|(_, name)| name.to_owned()).collect()
}

/// Letters to add, drop, replace or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for (j, right) in b.iter().enumerate() {
            let at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&row, j) + usize::from(left != right);
            let mut best = replaced.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(right) && b.get(j - 1) == Some(left);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_comes_first_and_few_are_shown() {
        let all = ["m5.xlarge", "m5.large", "m5a.xlarge", "m5d.xlarge", "m5n.xlarge", "m4.xlarge", "c5.9xlarge"];
        let near = nearest("m5.xlrage", all.into_iter());
        assert_eq!(near.first().map(String::as_str), Some("m5.xlarge"));
        assert!(near.len() <= SHOWN);
        assert!(nearest("something-else-entirely", all.into_iter()).is_empty());
        assert!(nearest("", all.into_iter()).is_empty());
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
