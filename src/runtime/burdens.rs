//! What each process has laid on the host: requests that the host has not answered, and events that wait for the handlers
//! of its process.
//!
//! It is counted by process, not by connection: one that leaves and comes again finds what it left behind. The tools of one
//! user count as one: each could bring a new name every time it comes.

use std::collections::BTreeMap;

use crate::server::{UpcallId, UserShares};
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
    /// The user, according to the kernel.
    pub(super) uid: u32,
    pub(super) account: Account,
    pub(super) size_bytes: usize,
}

/// The duties of the host by who caused them.
#[derive(Debug)]
pub(super) struct Burdens {
    limits: BurdenLimits,
    accounts: BTreeMap<Account, Burden>,
    /// The same by user: how many, and how many bytes.
    users: [UserShares; 2],
    duties: BTreeMap<Duty, Origin>,
    last_event: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Burden {
    count: usize,
    bytes: usize,
}

impl Burdens {
    pub(super) fn new(limits: BurdenLimits) -> Self {
        let users = Default::default();
        Self { limits, accounts: BTreeMap::new(), users, duties: BTreeMap::new(), last_event: 0 }
    }

    /// Whether all that may be is laid on the host on this account, or by this user.
    pub(super) fn is_full(&self, Origin { uid, account, .. }: &Origin) -> bool {
        let BurdenLimits { count_max, bytes_max } = self.limits;
        let is_full = |burden: &Burden| burden.count >= count_max || burden.bytes >= bytes_max;
        let wholes = [count_max, bytes_max].map(|max| max.saturating_mul(USERS_PARTS));
        let mut of_user = self.users.iter().zip(wholes);
        self.accounts.get(account).is_some_and(is_full) || of_user.any(|(shares, whole)| !shares.permit(*uid, 1, whole))
    }

    /// The host has more to do.
    pub(super) fn add(&mut self, duty: Duty, origin: &Origin) {
        let burden = self.accounts.entry(origin.account.clone()).or_default();
        burden.count = burden.count.saturating_add(1);
        burden.bytes = burden.bytes.saturating_add(origin.size_bytes);
        let [counts, bytes] = &mut self.users;
        counts.take(origin.uid, 1);
        bytes.take(origin.uid, origin.size_bytes);
        self.duties.insert(duty, origin.clone());
    }

    /// A name for an event on its way to the handlers.
    pub(super) fn event(&mut self) -> Duty {
        self.last_event = self.last_event.saturating_add(1);
        Duty::Event(self.last_event)
    }

    /// The host has done it. What nobody is charged with is nothing.
    pub(super) fn remove(&mut self, duty: Duty) {
        let Some(Origin { uid, account, size_bytes }) = self.duties.remove(&duty) else { return };
        let [counts, bytes] = &mut self.users;
        counts.give_back(uid, 1);
        bytes.give_back(uid, size_bytes);
        let Some(burden) = self.accounts.get_mut(&account) else { return };
        burden.count = burden.count.saturating_sub(1);
        burden.bytes = burden.bytes.saturating_sub(size_bytes);
        if burden.count == 0 {
            self.accounts.remove(&account);
        }
    }
}

/// All users together may have so many times what one process may have.
const USERS_PARTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    fn origin(rank: u32, size_bytes: usize) -> Origin {
        Origin { uid: 1000, account: Account::Process(ProcId::new(Namespace::new("job").unwrap(), rank)), size_bytes }
    }

    #[test]
    fn each_process_has_its_own_bounds_on_number_and_bytes() {
        let mut burdens = Burdens::new(BurdenLimits { count_max: 2, bytes_max: 100 });
        let [small, large, other] = [origin(0, 1), origin(1, 99), origin(2, 0)];
        let [first, second] = [Duty::Upcall(UpcallId(1)), burdens.event()];
        burdens.add(first, &small);
        assert!(!burdens.is_full(&small));
        burdens.add(second, &small);
        assert!(burdens.is_full(&small));
        burdens.add(Duty::Upcall(UpcallId(2)), &large);
        assert!(!burdens.is_full(&large));
        burdens.add(Duty::Upcall(UpcallId(3)), &Origin { size_bytes: 1, ..large.clone() });
        assert!(burdens.is_full(&large) && !burdens.is_full(&other));
        burdens.remove(second);
        burdens.remove(second);
        burdens.remove(Duty::Upcall(UpcallId(2)));
        assert!(!burdens.is_full(&small) && !burdens.is_full(&large));
        burdens.remove(first);
        burdens.remove(Duty::Upcall(UpcallId(3)));
        assert!(burdens.accounts.is_empty() && burdens.duties.is_empty());
    }

    /// A user with many processes had as many times what one process may have, and no end.
    #[test]
    fn a_user_with_many_processes_leaves_something_for_others() {
        let mut burdens = Burdens::new(BurdenLimits { count_max: 2, bytes_max: 100 });
        let add_all = |burdens: &mut Burdens, uid: u32| {
            let origins = (0..100).map(|rank| Origin { uid, ..origin(uid * 100 + rank, 1) });
            let duty = |burdens: &mut Burdens, origin| {
                let duty = burdens.event();
                burdens.add(duty, &origin);
                duty
            };
            origins.map_while(|origin| (!burdens.is_full(&origin)).then(|| duty(burdens, origin))).collect::<Vec<_>>()
        };
        let first = add_all(&mut burdens, 1000);
        assert_eq!((first.len(), add_all(&mut burdens, 1001).len(), add_all(&mut burdens, 1002).len()), (8, 3, 2));
        first.into_iter().for_each(|duty| burdens.remove(duty));
        assert!(!burdens.is_full(&origin(0, 1)) && !add_all(&mut burdens, 1001).is_empty());
    }
}
