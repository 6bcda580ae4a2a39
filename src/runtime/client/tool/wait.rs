//! The wait of a tool for a server that it is not attached to yet.

use std::thread::sleep;
use std::time::Duration;

/// Looks for a server until `look` finds it or the time is over, and at least once. The argument of `look` says whether
/// this look may search directories. Without a time limit the wait has no end. Returns whether the server was found.
///
/// # Errors
/// The error of `look`.
pub fn wait_for_server<E>(
    time_max: Option<Duration>,
    mut look: impl FnMut(bool) -> Result<bool, E>,
) -> Result<bool, E> {
    let looks_max = time_max.map(|time_max| time_max.as_millis() / LOOK_INTERVAL.as_millis());
    let mut looks: u128 = 0;
    loop {
        if look(looks.is_multiple_of(LOOKS_PER_SEARCH))? {
            return Ok(true);
        }
        looks = looks.saturating_add(1);
        if looks_max.is_some_and(|max| looks >= max) {
            return Ok(false);
        }
        sleep(LOOK_INTERVAL);
    }
}

/// Directories are searched in every tenth look.
const LOOKS_PER_SEARCH: u128 = 10;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_looks_once_at_least_and_searches_in_every_tenth_look() {
        let searches = |looks: u32| {
            let mut found = Vec::new();
            let is_found = wait_for_server(Some(LOOK_INTERVAL * looks), |may_search| {
                found.push(may_search);
                Ok::<_, ()>(false)
            });
            assert_eq!(is_found, Ok(false));
            (found.len(), found.iter().filter(|may_search| **may_search).count())
        };
        assert_eq!([0, 1, 2, 11].map(searches), [(1, 1), (1, 1), (2, 1), (11, 2)]);
        assert_eq!(wait_for_server(None, |_| Err::<bool, _>(7)), Err(7));
    }
}
