//! A process that waits for a debugger before it does its work.
//!
//! Source: PMIx Standard, chapter on tools and debuggers.

use crate::keys;
use crate::runtime::EventError;
use crate::types::codes::range;
use crate::types::{Info, Key, ProcId, Rank, Status, Value};

use super::client::Client;
use super::events::Notification;
use super::pending::Pending;

impl Client {
    /// Whether the job's description holds this process in its initialization (`PMIX_DEBUG_STOP_IN_INIT`).
    #[doc(hidden)]
    #[must_use]
    pub fn is_held(&self) -> bool {
        let own = self.proc();
        [Rank::Wildcard, own.rank].into_iter().any(|rank| {
            let found = self.peek_value(rank, keys::DEBUG_STOP_IN_INIT.name());
            found.and_then(|found| found.into_value().ok()).is_some_and(|value| concerns(own, &value))
        })
    }

    /// Calls `heard` when a debugger releases this process, and when the release can't arrive any more: with
    /// `PMIX_DEBUGGER_RELEASE` and its source, or with `PMIX_ERR_LOST_CONNECTION`. Returns the registration's number.
    ///
    /// # Errors
    /// [`EventError`].
    #[doc(hidden)]
    pub fn on_release(
        &self,
        heard: impl Fn(Status, Option<ProcId>) + Send + Sync + 'static,
    ) -> Result<usize, EventError> {
        let codes = [Status::DEBUGGER_RELEASE, Status::ERR_LOST_CONNECTION];
        let registration = self.register_event_handler(&codes, &[], move |call| {
            heard(call.status, call.source.clone());
            call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
        });
        registration.wait()
    }

    /// Tells the host that this process waits in its initialization.
    #[doc(hidden)]
    pub fn report_waiting(&self) -> Pending<Notification> {
        let flag = |name| Info::new(Key::from_static(name), true);
        let mut infos = vec![
            Info::new(Key::from_static(keys::BREAKPOINT.name()), "pmix-init"),
            flag(keys::EVENT_NON_DEFAULT.name()),
        ];
        // Servers of OpenPMIx neither answer an event of this range that they keep, nor pass it to the host.
        if !self.session().reads_segment() {
            infos.push(flag(keys::EVENT_DO_NOT_CACHE.name()));
        }
        self.notify_event(Status::READY_FOR_DEBUG, None, range::RANGE_RM, &infos)
    }
}

/// Whether this process is to be held: `directive` names all, a rank, a process, or a list of these.
fn concerns(own: &ProcId, directive: &Value) -> bool {
    match directive {
        Value::Bool(all) => *all,
        Value::ProcRank(rank) => *rank == Rank::Wildcard || *rank == own.rank,
        Value::Proc(proc) => proc.covers(own),
        Value::DataArray(array) => array.elements.iter().any(|element| concerns(own, element)),
        number => number.as_u32().is_some_and(|rank| Rank::Process(rank) == own.rank),
    }
}

#[cfg(test)]
mod tests {
    use crate::types::{DataArray, DataType, Namespace};

    use super::*;

    #[test]
    fn the_named_ranks_are_held() {
        let own = ProcId::new(Namespace::new("job").unwrap(), 3);
        let other = ProcId::new(Namespace::new("job").unwrap(), 4);
        let ranks = |ranks: [u32; 2]| {
            let elements = ranks.map(|rank| Value::ProcRank(Rank::Process(rank))).to_vec();
            Value::DataArray(Box::new(DataArray { element_type: DataType::ProcRank, elements }))
        };
        for directive in [Value::Bool(true), Value::ProcRank(Rank::Wildcard), Value::from(own.clone()), ranks([1, 3])] {
            assert!(concerns(&own, &directive), "{directive:?}");
        }
        for directive in [Value::Bool(false), Value::ProcRank(Rank::Process(4)), Value::from(other), ranks([0, 1])] {
            assert!(!concerns(&own, &directive), "{directive:?}");
        }
    }
}
