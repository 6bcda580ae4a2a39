//! Progress on a terminal: a line on standard error that the next one overwrites. Nothing is shown elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};

/// The steps of a scenario.
#[derive(Debug)]
pub(super) struct Progress {
    scenario: &'static str,
    total: usize,
    begun: Cell<usize>,
}

impl Progress {
    /// A bar of this many steps.
    pub(super) fn new(scenario: &'static str, total: usize) -> Self {
        Self { scenario, total, begun: Cell::new(0) }
    }

    /// The next step begins.
    pub(super) fn step(&self, what: &str) {
        let done = self.begun.replace(self.begun.get().saturating_add(1));
        progress(&bar(self.scenario, done, self.total, what));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        progress("");
    }
}

/// Shows the present step on one line, which the next one overwrites; only on a terminal.
pub(crate) fn progress(what: &str) {
    let mut terminal = stderr();
    if terminal.is_terminal() {
        // An error about a progress line would help nobody.
        let _ = write!(terminal, "\r\x1b[K{what}").and_then(|()| terminal.flush());
    }
}

/// The bar in one line of a usual terminal. A longer line could not be overwritten.
fn bar(scenario: &str, done: usize, total: usize, what: &str) -> String {
    let done = done.min(total);
    let full = (done * BAR_WIDTH).checked_div(total).unwrap_or(0);
    let empty = BAR_WIDTH - full;
    let line = format!("{scenario} [{:#<full$}{:.<empty$}] {done}/{total} {what}", "", "");
    line.chars().take(LINE_WIDTH).collect()
}

const BAR_WIDTH: usize = 24;
const LINE_WIDTH: usize = 79;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_with_the_steps_and_fits_a_line() {
        assert_eq!(bar("get", 0, 8, "a"), format!("get [{}] 0/8 a", ".".repeat(24)));
        assert_eq!(bar("get", 2, 8, "a"), format!("get [{}{}] 2/8 a", "#".repeat(6), ".".repeat(18)));
        assert_eq!(bar("get", 9, 8, ""), format!("get [{}] 8/8 ", "#".repeat(24)));
        assert_eq!(bar("get", 0, 0, "").len(), "get [] 0/0 ".len() + 24);
        assert_eq!(bar("get", 1, 8, &"x".repeat(200)).len(), LINE_WIDTH);
    }
}
