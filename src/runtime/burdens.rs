//! What each process has laid on the host: requests that the host has not answered, and events that wait for the handlers
//! of its process.
//!
//! It is counted by process, not by connection: one that leaves and comes again finds what it left behind.

use std::collections::BTreeMap;

use crate::server::UpcallId;
use crate::types::ProcId;

/// What one process may lay on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BurdenLimits {
    /// Requests and events.
    pub(super) count_max: usize,
    /// Bytes of them, as sent. One message may go beyond it.
    pub(super) bytes_max: usize,
}

/// Something the host has yet to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Duty {
    /// Answer an upcall.
    Upcall(UpcallId),
    /// Let its handlers have an event.
    Event(u64),
}

/// Whose request is being handled, and how large it is.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) proc: ProcId,
    pub(super) size_bytes: usize,
}

/// The duties of the host by the process that caused them.
#[derive(Debug)]
pub(super) struct Burdens {
    limits: BurdenLimits,
    procs: BTreeMap<ProcId, Burden>,
    duties: BTreeMap<Duty, Origin>,
    last_event: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Burden {
    count: usize,
    bytes: usize,
}

impl Burdens {
    pub(super) const fn new(limits: BurdenLimits) -> Self {
        Self { limits, procs: BTreeMap::new(), duties: BTreeMap::new(), last_event: 0 }
    }

    /// Whether a process has laid all on the host that it may.
    pub(super) fn is_full(&self, proc: &ProcId) -> bool {
        let BurdenLimits { count_max, bytes_max } = self.limits;
        self.procs.get(proc).is_some_and(|burden| burden.count >= count_max || burden.bytes >= bytes_max)
    }

    /// The host has more to do.
    pub(super) fn add(&mut self, duty: Duty, origin: &Origin) {
        let burden = self.procs.entry(origin.proc.clone()).or_default();
        burden.count = burden.count.saturating_add(1);
        burden.bytes = burden.bytes.saturating_add(origin.size_bytes);
        self.duties.insert(duty, origin.clone());
    }

    /// A name for an event on its way to the handlers.
    pub(super) fn event(&mut self) -> Duty {
        self.last_event = self.last_event.saturating_add(1);
        Duty::Event(self.last_event)
    }

    /// The host has done it. What nobody is charged with is nothing.
    pub(super) fn remove(&mut self, duty: Duty) {
        let Some(Origin { proc, size_bytes }) = self.duties.remove(&duty) else { return };
        let Some(burden) = self.procs.get_mut(&proc) else { return };
        burden.count = burden.count.saturating_sub(1);
        burden.bytes = burden.bytes.saturating_sub(size_bytes);
        if burden.count == 0 {
            self.procs.remove(&proc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    fn origin(rank: u32, size_bytes: usize) -> Origin {
        Origin { proc: ProcId::new(Namespace::new("job").unwrap(), rank), size_bytes }
    }

    #[test]
    fn each_process_has_its_own_bounds_on_number_and_bytes() {
        let mut burdens = Burdens::new(BurdenLimits { count_max: 2, bytes_max: 100 });
        let [small, large, other] = [origin(0, 1), origin(1, 99), origin(2, 0)];
        let [first, second] = [Duty::Upcall(UpcallId(1)), burdens.event()];
        burdens.add(first, &small);
        assert!(!burdens.is_full(&small.proc));
        burdens.add(second, &small);
        assert!(burdens.is_full(&small.proc));
        burdens.add(Duty::Upcall(UpcallId(2)), &large);
        assert!(!burdens.is_full(&large.proc));
        burdens.add(Duty::Upcall(UpcallId(3)), &Origin { size_bytes: 1, ..large.clone() });
        assert!(burdens.is_full(&large.proc) && !burdens.is_full(&other.proc));
        burdens.remove(second);
        burdens.remove(second);
        burdens.remove(Duty::Upcall(UpcallId(2)));
        assert!(!burdens.is_full(&small.proc) && !burdens.is_full(&large.proc));
        burdens.remove(first);
        burdens.remove(Duty::Upcall(UpcallId(3)));
        assert!(burdens.procs.is_empty() && burdens.duties.is_empty());
    }
}
