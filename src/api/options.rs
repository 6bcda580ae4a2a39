use std::time::Duration;

use crate::keys;
use crate::types::{Info, InfoFlags, Key, ProcId, Scope, Value};

/// Options of a fence. The default is a barrier over the caller's namespace, without data, without time limit.
///
/// ```
/// use std::time::Duration;
/// use modex::FenceOptions;
///
/// let options = FenceOptions::new().collect(true).timeout(Duration::from_secs(30));
/// ```
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIx_Fence`).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct FenceOptions {
    pub(super) procs: Vec<ProcId>,
    pub(super) directives: Vec<Info>,
}

impl FenceOptions {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The participants. Every process must name the same set in the same way; an empty list is the caller's namespace.
    pub fn procs(mut self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        self.procs = procs.into_iter().collect();
        self
    }

    /// Whether committed data of all participants is exchanged (`PMIX_COLLECT_DATA`).
    pub fn collect(self, collect: bool) -> Self {
        self.directive(keys::COLLECT_DATA.name(), collect)
    }

    /// Time limit, rounded up to whole seconds (`PMIX_TIMEOUT`).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.directive(keys::TIMEOUT.name(), seconds(timeout))
    }

    /// Any other directive.
    pub fn info(mut self, info: Info) -> Self {
        self.directives.push(info);
        self
    }

    fn directive(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        set(&mut self.directives, key, value.into());
        self
    }
}

/// Options of a Get. The default waits for a missing value, without time limit.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIx_Get`).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct GetOptions {
    pub(super) directives: Vec<Info>,
}

impl GetOptions {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Search only this process and its segment (`PMIX_OPTIONAL`).
    pub fn optional(self) -> Self {
        self.directive(keys::OPTIONAL.name(), true)
    }

    /// The server answers from its own data, without waiting and without an upcall (`PMIX_IMMEDIATE`).
    pub fn immediate(self) -> Self {
        self.directive(keys::IMMEDIATE.name(), true)
    }

    /// Fetch values again that may be out of date (`PMIX_GET_REFRESH_CACHE`).
    pub fn refresh(self) -> Self {
        self.directive(keys::GET_REFRESH_CACHE.name(), true)
    }

    /// Time limit, rounded up to whole seconds (`PMIX_TIMEOUT`).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.directive(keys::TIMEOUT.name(), seconds(timeout))
    }

    /// Only values posted with this scope (`PMIX_DATA_SCOPE`).
    pub fn scope(self, scope: Scope) -> Self {
        self.directive(keys::DATA_SCOPE.name(), Value::Scope(scope.to_raw()))
    }

    /// Only a value that was put, or registered, with this qualifier. It may have others, too.
    pub fn qualifier(self, key: Key, value: impl Into<Value>) -> Self {
        self.info(Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key, value) })
    }

    /// Any other directive or qualifier.
    pub fn info(mut self, info: Info) -> Self {
        self.directives.push(info);
        self
    }

    fn directive(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        set(&mut self.directives, key, value.into());
        self
    }
}

/// The last value of a directive counts.
fn set(directives: &mut Vec<Info>, key: &'static str, value: Value) {
    directives.retain(|info| info.key.as_str() != key);
    directives.push(Info::new(Key::from_static(key), value));
}

/// The standard counts whole seconds, and 0 means no limit: a short limit becomes one second.
fn seconds(timeout: Duration) -> i32 {
    let seconds = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
    i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_rounded_up_and_never_endless() {
        for (timeout, expected) in [(Duration::ZERO, 1), (Duration::from_millis(1001), 2), (Duration::MAX, i32::MAX)] {
            assert_eq!(seconds(timeout), expected);
        }
    }

    #[test]
    fn the_last_word_counts() {
        let options = FenceOptions::new().collect(true).collect(false);
        assert_eq!(options.directives.len(), 1);
        assert_eq!(options.directives[0].value, Value::Bool(false));
    }
}
