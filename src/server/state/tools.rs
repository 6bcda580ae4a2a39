//! Tools that wait for the host.

use std::collections::BTreeMap;

use crate::server::interface::{PeerId, ToolHello};
use crate::types::ProcId;

/// Tools that wait for the host, and the number of assigned names.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    arriving: BTreeMap<PeerId, ToolHello>,
    last_name: u64,
}

impl Tools {
    pub(crate) fn len(&self) -> usize {
        self.arriving.len()
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&ToolHello> {
        self.arriving.get(&id)
    }

    pub(crate) fn insert(&mut self, id: PeerId, hello: ToolHello) {
        self.arriving.insert(id, hello);
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<ToolHello> {
        self.arriving.remove(&id)
    }

    /// Number of waiting tools of a user.
    pub(crate) fn count_of_user(&self, uid: u32) -> usize {
        self.arriving.values().filter(|hello| hello.credentials.uid == uid).count()
    }

    /// Whether a waiting tool brings this name.
    pub(crate) fn is_claimed(&self, proc: &ProcId) -> bool {
        self.arriving.values().any(|hello| hello.claimed.as_ref() == Some(proc))
    }

    /// A number for the next assigned name.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.last_name = self.last_name.saturating_add(1);
        self.last_name
    }
}
