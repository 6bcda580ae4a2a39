//! How much of a bounded resource one user may have.
//!
//! A bound for each process does not protect users from each other: four processes of one user opened as many operations
//! as the server holds, and every other user's fence was refused. So a user may take more only while it has less
//! than what is left. The first user gets at most one half, the next one a quarter, and there is always something left.
//! Root and the server's user may take everything: what they do to others they could do anyway.

use super::core::Server;
use crate::gds::Publish;

/// A resource that all users share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub(super) max: usize,
    pub(super) used: usize,
}

impl<S: Publish> Server<S> {
    /// Whether a user may take so much of a pool. What the user has is asked for only if it matters: that takes time.
    pub(super) fn has_share(&self, uid: u32, pool: Pool, taken: usize, of_user: impl FnOnce() -> usize) -> bool {
        let left = pool.max.saturating_sub(pool.used);
        let is_more_than_half_left = || pool.used.saturating_add(taken) <= left;
        taken <= left && (self.is_trusted(uid) || is_more_than_half_left() || of_user().saturating_add(taken) <= left)
    }
}
