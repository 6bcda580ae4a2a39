//! What each process has laid on the host: requests that the host has not answered, and events that wait for the handlers
//! of its process.
//!
//! It is counted by process, not by connection: one that leaves and comes again finds what it left behind. The tools of one
//! user count as one: each could bring a new name every time it comes.

use std::collections::BTreeMap;

use crate::server::UpcallId;
use crate::types::ProcId;

/// On whose account the host's work is put.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    /// A process that the host announced.
    Process(ProcId),
    /// All tools of this user id.
    Tools(u32),
}

/// What may be laid on the host on one account.
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
    pub(super) account: Account,
    pub(super) size_bytes: usize,
}

/// The duties of the host by who caused them.
#[derive(Debug)]
pub(super) struct Burdens {
    limits: BurdenLimits,
    accounts: BTreeMap<Account, Burden>,
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
        Self { limits, accounts: BTreeMap::new(), duties: BTreeMap::new(), last_event: 0 }
    }

    /// Whether all that may be is laid on the host on this account.
    pub(super) fn is_full(&self, account: &Account) -> bool {
        let BurdenLimits { count_max, bytes_max } = self.limits;
        self.accounts.get(account).is_some_and(|burden| burden.count >= count_max || burden.bytes >= bytes_max)
    }

    /// The host has more to do.
    pub(super) fn add(&mut self, duty: Duty, origin: &Origin) {
        let burden = self.accounts.entry(origin.account.clone()).or_default();
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
        let Some(Origin { account, size_bytes }) = self.duties.remove(&duty) else { return };
        let Some(burden) = self.accounts.get_mut(&account) else { return };
        burden.count = burden.count.saturating_sub(1);
        burden.bytes = burden.bytes.saturating_sub(size_bytes);
        if burden.count == 0 {
            self.accounts.remove(&account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    fn origin(rank: u32, size_bytes: usize) -> Origin {
        Origin { account: Account::Process(ProcId::new(Namespace::new("job").unwrap(), rank)), size_bytes }
    }

    #[test]
    fn each_process_has_its_own_bounds_on_number_and_bytes() {
        let mut burdens = Burdens::new(BurdenLimits { count_max: 2, bytes_max: 100 });
        let [small, large, other] = [origin(0, 1), origin(1, 99), origin(2, 0)];
        let [first, second] = [Duty::Upcall(UpcallId(1)), burdens.event()];
        burdens.add(first, &small);
        assert!(!burdens.is_full(&small.account));
        burdens.add(second, &small);
        assert!(burdens.is_full(&small.account));
        burdens.add(Duty::Upcall(UpcallId(2)), &large);
        assert!(!burdens.is_full(&large.account));
        burdens.add(Duty::Upcall(UpcallId(3)), &Origin { size_bytes: 1, ..large.clone() });
        assert!(burdens.is_full(&large.account) && !burdens.is_full(&other.account));
        burdens.remove(second);
        burdens.remove(second);
        burdens.remove(Duty::Upcall(UpcallId(2)));
        assert!(!burdens.is_full(&small.account) && !burdens.is_full(&large.account));
        burdens.remove(first);
        burdens.remove(Duty::Upcall(UpcallId(3)));
        assert!(burdens.accounts.is_empty() && burdens.duties.is_empty());
    }
}
