//! Bounds of published data and of lookups that wait.

use std::collections::BTreeMap;

use crate::server::UserShares;
use crate::types::ProcId;

/// Bounds on the state that processes can make a server keep. A request beyond a bound is refused with "out of
/// resource". Users share each bound; root and the server's user may take all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// Published values.
    pub entries_max: usize,
    /// Published values of one process.
    pub entries_per_process_max: usize,
    /// Memory of published values, in bytes.
    pub bytes_max: usize,
    /// Memory of the values of one process, in bytes.
    pub bytes_per_process_max: usize,
    /// Memory of one value, in bytes.
    pub value_bytes_max: usize,
    /// Keys of all lookups that wait, with the processes of their custom ranges.
    pub waiting_keys_max: usize,
    /// The same for one process.
    pub waiting_keys_per_process_max: usize,
    /// Keys of one request.
    pub keys_per_request_max: usize,
    /// Bytes of the values in one answer. Release 3.2 accepts messages of 16 MiB.
    pub answer_bytes_max: usize,
}

impl Default for NameLimits {
    /// Room for a few names of each process of a large job, and for values of some KiB.
    fn default() -> Self {
        Self {
            entries_max: 65_536,
            entries_per_process_max: 8192,
            bytes_max: 64 << 20,
            bytes_per_process_max: 8 << 20,
            value_bytes_max: 256 << 10,
            waiting_keys_max: 65_536,
            waiting_keys_per_process_max: 1024,
            keys_per_request_max: 4096,
            answer_bytes_max: 8 << 20,
        }
    }
}

/// The account of a resource: a process, or all tools of one user, because a tool can take a new name at any time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    Process(ProcId),
    Tools(u32),
}

/// The payer of a resource.
#[derive(Clone, Debug)]
pub(super) struct Payer {
    pub(super) account: Account,
    pub(super) uid: u32,
    /// Whether it is of root or of the server's user, which need no share.
    pub(super) is_trusted: bool,
}

/// A resource: the units that users and accounts hold.
#[derive(Debug)]
pub(super) struct Resource {
    max: usize,
    per_account_max: usize,
    users: UserShares,
    accounts: BTreeMap<Account, usize>,
}

impl Resource {
    pub(super) fn new(max: usize, per_account_max: usize) -> Self {
        Self { max, per_account_max, users: UserShares::default(), accounts: BTreeMap::new() }
    }

    /// Whether there is room for `more` units.
    pub(super) fn permits(&self, payer: &Payer, more: usize) -> bool {
        let held = self.accounts.get(&payer.account).copied().unwrap_or_default();
        let is_within = held.saturating_add(more) <= self.per_account_max;
        is_within
            && if payer.is_trusted {
                more <= self.max.saturating_sub(self.users.sum())
            } else {
                self.users.permit(payer.uid, more, self.max)
            }
    }

    pub(super) fn take(&mut self, payer: &Payer, units: usize) {
        if units > 0 {
            self.users.take(payer.uid, units);
            let held = self.accounts.entry(payer.account.clone()).or_default();
            *held = held.saturating_add(units);
        }
    }

    pub(super) fn give_back(&mut self, payer: &Payer, units: usize) {
        self.users.give_back(payer.uid, units);
        if let Some(held) = self.accounts.get_mut(&payer.account) {
            *held = held.saturating_sub(units);
            if *held == 0 {
                self.accounts.remove(&payer.account);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.users.sum() == 0 && self.accounts.is_empty()
    }
}
