//! The work of the host for each process: unanswered requests, and events that wait for handlers in the host's process.
//!
//! It is counted by process, not by connection, so a new connection does not reset it. All tools of one user count as
//! one process, because a tool can use a new name with every connection.

use std::collections::BTreeMap;

use crate::server::{UpcallId, UserShares};
use crate::types::ProcId;

/// The account that the host's work is counted on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    /// A process that the host registered.
    Process(ProcId),
    /// All tools of this user id.
    Tools(u32),
}

/// Limits of the host's work on one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestQuotaLimits {
    /// Number of requests and events.
    pub(super) count_max: usize,
    /// Their memory in bytes. One message may exceed it.
    pub(super) bytes_max: usize,
}

/// Pending work of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Duty {
    /// An upcall to answer.
    Upcall(UpcallId),
    /// An event for its handlers.
    Event(u64),
}

/// The origin of a request, and its size.
#[derive(Clone, Debug)]
pub(super) struct RequestOrigin {
    /// The user, according to the kernel.
    pub(super) uid: u32,
    pub(super) account: Account,
    pub(super) size_bytes: usize,
}

/// The pending work of the host, by account.
#[derive(Debug)]
pub(super) struct RequestQuota {
    limits: RequestQuotaLimits,
    accounts: BTreeMap<Account, RequestCost>,
    /// The same by user: number and bytes.
    users: [UserShares; 2],
    duties: BTreeMap<Duty, RequestOrigin>,
    last_event: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct RequestCost {
    count: usize,
    bytes: usize,
}

impl RequestQuota {
    pub(super) fn new(limits: RequestQuotaLimits) -> Self {
        let users = Default::default();
        Self { limits, accounts: BTreeMap::new(), users, duties: BTreeMap::new(), last_event: 0 }
    }

    /// Whether this account or this user has reached its limit.
    pub(super) fn is_full(&self, RequestOrigin { uid, account, .. }: &RequestOrigin) -> bool {
        let RequestQuotaLimits { count_max, bytes_max } = self.limits;
        let is_full = |burden: &RequestCost| burden.count >= count_max || burden.bytes >= bytes_max;
        let wholes = [count_max, bytes_max].map(|max| max.saturating_mul(USERS_PARTS));
        let mut of_user = self.users.iter().zip(wholes);
        self.accounts.get(account).is_some_and(is_full) || of_user.any(|(shares, whole)| !shares.permit(*uid, 1, whole))
    }

    /// Adds pending work.
    pub(super) fn add(&mut self, duty: Duty, origin: &RequestOrigin) {
        let burden = self.accounts.entry(origin.account.clone()).or_default();
        burden.count = burden.count.saturating_add(1);
        burden.bytes = burden.bytes.saturating_add(origin.size_bytes);
        let [counts, bytes] = &mut self.users;
        counts.take(origin.uid, 1);
        bytes.take(origin.uid, origin.size_bytes);
        self.duties.insert(duty, origin.clone());
    }

    /// A number for an event on its way to the handlers.
    pub(super) fn event(&mut self) -> Duty {
        self.last_event = self.last_event.saturating_add(1);
        Duty::Event(self.last_event)
    }

    /// Removes finished work. Work without an account was not counted.
    pub(super) fn remove(&mut self, duty: Duty) {
        let Some(RequestOrigin { uid, account, size_bytes }) = self.duties.remove(&duty) else { return };
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

/// The limit of all users together, as a multiple of one process's limit.
const USERS_PARTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    fn origin(rank: u32, size_bytes: usize) -> RequestOrigin {
        RequestOrigin {
            uid: 1000,
            account: Account::Process(ProcId::new(Namespace::new("job").unwrap(), rank)),
            size_bytes,
        }
    }

    #[test]
    fn each_process_has_its_own_bounds_on_number_and_bytes() {
        let mut request_quota = RequestQuota::new(RequestQuotaLimits { count_max: 2, bytes_max: 100 });
        let [small, large, other] = [origin(0, 1), origin(1, 99), origin(2, 0)];
        let [first, second] = [Duty::Upcall(UpcallId(1)), request_quota.event()];
        request_quota.add(first, &small);
        assert!(!request_quota.is_full(&small));
        request_quota.add(second, &small);
        assert!(request_quota.is_full(&small));
        request_quota.add(Duty::Upcall(UpcallId(2)), &large);
        assert!(!request_quota.is_full(&large));
        request_quota.add(Duty::Upcall(UpcallId(3)), &RequestOrigin { size_bytes: 1, ..large.clone() });
        assert!(request_quota.is_full(&large) && !request_quota.is_full(&other));
        request_quota.remove(second);
        request_quota.remove(second);
        request_quota.remove(Duty::Upcall(UpcallId(2)));
        assert!(!request_quota.is_full(&small) && !request_quota.is_full(&large));
        request_quota.remove(first);
        request_quota.remove(Duty::Upcall(UpcallId(3)));
        assert!(request_quota.accounts.is_empty() && request_quota.duties.is_empty());
    }

    /// A user with many processes had the limit of one process many times over, without an end.
    #[test]
    fn a_user_with_many_processes_leaves_something_for_others() {
        let mut request_quota = RequestQuota::new(RequestQuotaLimits { count_max: 2, bytes_max: 100 });
        let add_all = |request_quota: &mut RequestQuota, uid: u32| {
            let origins = (0..100).map(|rank| RequestOrigin { uid, ..origin(uid * 100 + rank, 1) });
            let duty = |request_quota: &mut RequestQuota, origin| {
                let duty = request_quota.event();
                request_quota.add(duty, &origin);
                duty
            };
            origins
                .map_while(|origin| (!request_quota.is_full(&origin)).then(|| duty(request_quota, origin)))
                .collect::<Vec<_>>()
        };
        let first = add_all(&mut request_quota, 1000);
        assert_eq!(
            (first.len(), add_all(&mut request_quota, 1001).len(), add_all(&mut request_quota, 1002).len()),
            (8, 3, 2)
        );
        first.into_iter().for_each(|duty| request_quota.remove(duty));
        assert!(!request_quota.is_full(&origin(0, 1)) && !add_all(&mut request_quota, 1001).is_empty());
    }
}
