//! Status and event codes.

use std::fmt;

mod status_table;

use status_table::NAMES;

/// A status or event code of PMIx.
///
/// Every value is legal. Hosts define their own codes below `PMIX_EXTERNAL_ERR_BASE`, and a peer of a newer version may
/// send codes that this version does not know. The constants are the codes of all released versions without the prefix
/// `PMIX_`. Source: PMIx Standard, chapter "Data Structures and Types", section on return status codes, and the chapter
/// on event notification.
///
/// ```
/// use modex::types::Status;
///
/// assert_eq!(Status::from_raw(-46), Status::ERR_NOT_FOUND);
/// assert_eq!(Status::ERR_NOT_FOUND.to_string(), "PMIX_ERR_NOT_FOUND (-46)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Status(i32);

impl Status {
    /// The code with this number.
    #[must_use]
    pub const fn from_raw(code: i32) -> Self {
        Self(code)
    }

    /// The number of the code, as in `pmix_status_t`.
    #[must_use]
    pub const fn to_raw(self) -> i32 {
        self.0
    }

    /// Name in the standard, with the prefix `PMIX_`; `None` for a code no version of PMIx defines.
    ///
    /// If a number has several names, names in use win over deprecated or removed ones, then the oldest.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let index = NAMES.partition_point(|&(code, _)| code < self.0);
        let &(code, name) = NAMES.get(index)?;
        (code == self.0).then_some(name)
    }

    /// The code with this [`Status::name`], with or without the prefix `PMIX_`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let is_this = |full: &str| full == name || full.strip_prefix("PMIX_") == Some(name);
        NAMES.iter().find(|(_, full)| is_this(full)).map(|&(code, _)| Self(code))
    }

    /// All codes that have a name, in order of their numbers.
    pub fn named() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|&(code, _)| Self(code))
    }

    /// Whether an operation that returned this code has succeeded: `SUCCESS` or `OPERATION_SUCCEEDED`.
    ///
    /// A non-blocking call that finished at once returns `OPERATION_SUCCEEDED`, which is nevertheless negative.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == Self::SUCCESS.0 || self.0 == Self::OPERATION_SUCCEEDED.0
    }

    /// Whether an operation that returned this code has failed: negative and not a success.
    ///
    /// Only meaningful for results. Event codes are negative too, even for good events. A positive number is neither
    /// success nor error: some calls return an identifier instead of a code.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 0 && !self.is_success()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or("unnamed status");
        write!(f, "{name} ({})", self.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error with a PMIx status.
pub trait AsStatus {
    /// The status a peer receives.
    fn status(&self) -> Status;
}

impl AsStatus for Status {
    fn status(&self) -> Status {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_prints_its_name_and_number() {
        assert_eq!(Status::from_raw(-46).to_string(), "PMIX_ERR_NOT_FOUND (-46)");
        assert_eq!(format!("{:?}", Status::SUCCESS), "PMIX_SUCCESS (0)");
        assert_eq!(Status::from_raw(-4000).to_string(), "unnamed status (-4000)");
    }

    #[test]
    fn of_several_names_the_oldest_in_use_is_printed() {
        let aliases = [
            (Status::ERR_BASE, "PMIX_SUCCESS"),
            (Status::EXISTS, "PMIX_ERR_EXISTS"),
            (Status::ERR_DEBUGGER_RELEASE, "PMIX_DEBUGGER_RELEASE"),
            (Status::DEBUG_WAITING_FOR_NOTIFY, "PMIX_READY_FOR_DEBUG"),
            (Status::ERR_JOB_TERMINATED, "PMIX_EVENT_JOB_END"),
            (Status::ERROR_MIN, "PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER"),
            (Status::ERR_LOST_PRECISION, "PMIX_ERR_PROC_KILLED_BY_CMD"),
        ];
        for (status, preferred) in aliases {
            assert_eq!(status.name(), Some(preferred));
        }
    }

    #[test]
    fn numbers_between_and_beyond_the_named_ones_have_no_name() {
        for code in [i32::MIN, -3001, -54, 1, i32::MAX] {
            assert_eq!(Status::from_raw(code).name(), None, "{code}");
        }
    }

    #[test]
    fn an_operation_that_finished_at_once_is_a_success() {
        assert!(Status::OPERATION_SUCCEEDED.is_success());
        assert!(!Status::OPERATION_SUCCEEDED.is_error());
        assert!(Status::SUCCESS.is_success() && !Status::SUCCESS.is_error());
        assert!(Status::ERR_TIMEOUT.is_error() && !Status::ERR_TIMEOUT.is_success());
        assert!(!Status::from_raw(7).is_error() && !Status::from_raw(7).is_success());
    }

    #[test]
    fn every_named_code_is_found_by_its_name() {
        assert!(Status::named().all(|code| code.name().and_then(Status::from_name) == Some(code)));
        assert!(Status::named().count() > 150);
    }

    #[test]
    fn names_are_sorted_by_number_without_duplicates() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
