//! Which seeds are played: the usual ones, or those that somebody asks for.

use std::ops::Range;

/// The variable that names the first seed.
const FIRST: &str = "BERTH_SEED";
/// The variable that says how many.
const SEVERAL: &str = "BERTH_SEEDS";

/// The seeds to play: `usual`, unless somebody asks for others. `BERTH_SEED` asks for one, `BERTH_SEEDS` for that many from
/// it, or from the first of the usual ones, to look at a failure or to look longer.
///
/// # Panics
/// When what is asked for are no seeds: whoever asks must not take the usual ones for them.
#[expect(clippy::expect_used, reason = "a test that was asked for what it cannot do is a failed test")]
pub(crate) fn seeds(usual: &Range<u64>) -> Range<u64> {
    let variable = |name: &str| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    asked(usual, variable(FIRST).as_deref(), variable(SEVERAL).as_deref()).expect("seeds that can be played")
}

fn asked(usual: &Range<u64>, first: Option<&str>, several: Option<&str>) -> Result<Range<u64>, String> {
    if first.is_none() && several.is_none() {
        return Ok(usual.clone());
    }
    let number = |name: &str, text: &str| text.parse::<u64>().map_err(|_| format!("{name}={text} is no number"));
    let begin = first.map_or(Ok(usual.start), |text| number(FIRST, text))?;
    let count = several.map_or(Ok(1), |text| number(SEVERAL, text))?;
    if count == 0 {
        return Err(format!("{SEVERAL}=0 would prove nothing"));
    }
    let end = begin.checked_add(count).ok_or_else(|| format!("{FIRST}={begin} leaves no room for {count} seeds"))?;
    Ok(begin..end)
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn the_seeds_that_somebody_asks_for_are_played_instead_of_the_usual_ones() {
        let seeds = |first, several| asked(&(3..9), first, several);
        assert_eq!(seeds(None, None), Ok(3..9));
        assert_eq!(seeds(Some("7"), None), Ok(7..8), "one");
        assert_eq!(seeds(None, Some("2")), Ok(3..5), "as many from the first");
        assert_eq!(seeds(Some("70"), Some("2")), Ok(70..72));
    }

    #[test]
    fn what_are_no_seeds_is_refused_and_never_replaced_by_the_usual_ones() {
        let wrong = |first, several| asked(&(0..9), first, several).unwrap_err();
        assert_eq!(wrong(Some("x"), None), "BERTH_SEED=x is no number");
        assert_eq!(wrong(Some("7"), Some("1e3")), "BERTH_SEEDS=1e3 is no number");
        assert_eq!(wrong(Some(""), None), "BERTH_SEED= is no number");
        assert_eq!(wrong(None, Some("-1")), "BERTH_SEEDS=-1 is no number");
        assert_eq!(wrong(None, Some("0")), "BERTH_SEEDS=0 would prove nothing");
        assert!(wrong(Some("18446744073709551615"), Some("2")).contains("leaves no room for 2 seeds"));
    }
}
