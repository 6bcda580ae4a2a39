//! Signals, jobs and lists of ranks as people write them.

use std::str::FromStr;

use modex::types::{Namespace, NamespaceError, Rank};
use nix::sys::signal::Signal;

/// Ranks of one request.
const RANKS_MAX: usize = 4096;

/// Why a word on the command line was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WordError {
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("{0:?} is not a signal; give a number or a name, such as 10, USR1 or SIGUSR1")]
    Signal(String),
    #[error("{0:?} is not a list of ranks; write numbers and ranges, such as 0,4-7")]
    Ranks(String),
    #[error("{0:?} names more than {RANKS_MAX} ranks")]
    TooManyRanks(String),
}

/// A job's name.
pub(super) fn job(word: &str) -> Result<Namespace, WordError> {
    Ok(Namespace::new(word)?)
}

/// The number of a signal.
pub(super) fn signal(word: &str) -> Result<i32, WordError> {
    let refuse = || WordError::Signal(word.to_owned());
    if let Ok(number) = word.parse::<i32>() {
        return if (1..=64).contains(&number) { Ok(number) } else { Err(refuse()) };
    }
    let name = word.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    Signal::from_str(&name).map(|signal| signal as i32).map_err(|_| refuse())
}

/// The ranks of a list, in order, each once.
pub(crate) fn ranks(word: &str) -> Result<Vec<u32>, WordError> {
    let refuse = || WordError::Ranks(word.to_owned());
    let number = |text: &str| text.trim().parse().ok().filter(|rank| *rank <= Rank::PROCESS_MAX);
    let mut ranks = Vec::new();
    for part in word.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = number(first).zip(number(last)).ok_or_else(refuse)?;
        if first > last {
            return Err(refuse());
        }
        let count = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
        if count > RANKS_MAX.saturating_sub(ranks.len()) {
            return Err(WordError::TooManyRanks(word.to_owned()));
        }
        ranks.extend(first..=last);
    }
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_numbers_or_names() {
        assert_eq!(["10", "USR1", "sigusr1", "KILL", "64"].map(signal), [Ok(10), Ok(10), Ok(10), Ok(9), Ok(64)]);
        for word in ["0", "65", "-1", "NO", "", "SIG"] {
            assert_eq!(signal(word), Err(WordError::Signal(word.to_owned())));
        }
    }

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(ranks("3,0-1,1"), Ok(vec![0, 1, 3]));
        assert_eq!(ranks("0-4095").map(|ranks| ranks.len()), Ok(4096));
        for word in ["", "x", "1-", "2-1", "-1", "1,,2", "4294967295"] {
            assert_eq!(ranks(word), Err(WordError::Ranks(word.to_owned())));
        }
        for word in ["0-4096", "0-4095,7", "0-4000000000"] {
            assert_eq!(ranks(word), Err(WordError::TooManyRanks(word.to_owned())));
        }
    }
}
