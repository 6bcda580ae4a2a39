//! The wait of a tool for a server that it is not attached to yet.

use std::thread::sleep;
use std::time::Duration;

use crate::runtime::shared::clock::SharedTime;

/// One look for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether this look may search directories.
    pub may_search: bool,
    /// The rest of the time. `None`: there is no limit.
    pub left: Option<Duration>,
}

/// Looks for a server until `look` finds it or the time is over, and at least once. Without a time limit the wait has
/// no end. Returns whether the server was found.
///
/// # Errors
/// The error of `look`.
pub fn wait_for_server<E>(
    time_max: Option<Duration>,
    mut look: impl FnMut(Look) -> Result<bool, E>,
) -> Result<bool, E> {
    let time = time_max.map(SharedTime::begin);
    let left = || time.as_ref().map(SharedTime::left);
    let mut looks: u32 = 0;
    loop {
        if look(Look { may_search: looks.is_multiple_of(LOOKS_PER_SEARCH), left: left() })? {
            return Ok(true);
        }
        looks = looks.wrapping_add(1);
        match left() {
            Some(Duration::ZERO) => return Ok(false),
            left => sleep(left.map_or(LOOK_INTERVAL, |left| left.min(LOOK_INTERVAL))),
        }
    }
}

/// Directories are searched in every tenth look.
const LOOKS_PER_SEARCH: u32 = 10;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_looks_once_at_least_and_searches_in_every_tenth_look() {
        let mut found = Vec::new();
        let is_found = wait_for_server(Some(Duration::ZERO), |look| {
            found.push(look);
            Ok::<_, ()>(false)
        });
        assert_eq!((is_found, found), (Ok(false), vec![Look { may_search: true, left: Some(Duration::ZERO) }]));
        let mut found = Vec::new();
        let ended = wait_for_server(None, |look| {
            found.push(look.may_search);
            if found.len() > 10 { Err(7) } else { Ok(false) }
        });
        assert_eq!((ended, found.len()), (Err(7), 11));
        assert_eq!(found.iter().filter(|may_search| **may_search).count(), 2);
    }
}
