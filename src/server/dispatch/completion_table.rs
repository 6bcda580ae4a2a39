//! Notices of the runtime to connections without a message. The core decides their content only.

use crate::gds::{CompletionNotice, Store, StoreError};
use crate::server::state::ServerCore;
use crate::types::Namespace;

impl ServerCore<Store> {
    /// Gives an admitted connection a slot at the completion table of its namespace. Returns whether the slot was free.
    ///
    /// # Errors
    /// As [`Store::take_slot`].
    pub fn take_slot(&mut self, namespace: &Namespace, connection: u32) -> Result<bool, StoreError> {
        let local_count = self.registry.job(namespace).map_or(0, |job| job.local_count());
        self.store.take_slot(namespace, connection, local_count)
    }

    /// Moves a namespace to a segment that other processes can map.
    ///
    /// # Errors
    /// As [`Store::share`].
    pub fn share_segment(&mut self, namespace: &Namespace) -> Result<(), StoreError> {
        self.store.share(namespace)
    }

    /// Takes a connection's slot back.
    pub fn free_slot(&mut self, namespace: &Namespace, connection: u32) {
        self.store.free_slot(namespace, connection);
    }

    /// Writes verdicts for connections, and wakes sleepers.
    ///
    /// # Errors
    /// As [`Store::complete_waits`].
    pub fn complete_waits(&mut self, namespace: &Namespace, notices: &[CompletionNotice]) -> Result<(), StoreError> {
        self.store.complete_waits(namespace, notices)
    }
}
