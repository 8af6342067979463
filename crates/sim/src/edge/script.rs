//! Lines of a fault script, whatever they are about.

/// One line: which calls, how often, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault<M, W> {
    pub(crate) which: M,
    pub(crate) what: W,
    skip: u32,
    times: Option<u32>,
}

impl<M, W> Fault<M, W> {
    /// The next such call goes wrong once.
    pub(crate) fn new(which: M, what: W) -> Self {
        Self { which, what, skip: 0, times: Some(1) }
    }

    /// Not the next but the n-th matching call, from 1.
    #[must_use]
    pub fn nth(mut self, n: u32) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// So many matching calls in a row.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Every matching call until the script is cleared.
    #[must_use]
    pub fn forever(mut self) -> Self {
        self.times = None;
        self
    }

    /// Counts a matching call; says whether it goes wrong.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.times == Some(0) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }

    /// Whether it is of a limited number of times and not used up.
    pub(crate) fn is_pending(&self) -> bool {
        self.times.is_some_and(|times| times > 0)
    }
}
