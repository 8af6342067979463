//! Waiting for what real processes do, which nobody can announce: bounded polls for tests.

use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(25);

/// Polls until `look` finds something; nothing when that has not happened after `bound`.
pub async fn seek<T>(bound: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return Some(found);
        }
        if begun.elapsed() >= bound {
            return None;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Polls until `look` finds something, and fails the test with `what` after `bound`.
///
/// # Panics
/// When nothing was found in time.
#[expect(clippy::panic, reason = "it is for tests, and this is how they fail")]
pub async fn within<T>(bound: Duration, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    seek(bound, look).await.unwrap_or_else(|| panic!("not seen within {bound:?}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_happens_is_found_and_what_does_not_is_not_waited_for_longer_than_said() {
        let mut looks = 0;
        let third = async || {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(within(Duration::from_secs(10), "the third look", third).await, 3);
        let begun = Instant::now();
        assert_eq!(seek(Duration::from_millis(60), async || None::<()>).await, None);
        assert!(begun.elapsed() >= Duration::from_millis(60));
    }

    #[tokio::test]
    #[should_panic(expected = "the moon")]
    async fn what_does_not_happen_fails_by_its_name() {
        within(Duration::ZERO, "the moon", async || None::<()>).await;
    }
}
