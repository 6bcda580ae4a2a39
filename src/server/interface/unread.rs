//! Posted values on their way to a peer or the host. The thread that sends them reads them, not the server's.

use crate::gds::qualified::is_same_place;
use crate::gds::{LookupError, StoredValues};
use crate::proto::blob::COMMIT_NUMBER;
use crate::proto::{RankData, Reply};
use crate::types::{AsStatus, Kval, ProcId, Status};

/// All data of a process for a peer, or one large value.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessAnswer {
    /// The process.
    pub proc: ProcId,
    /// Its posted values.
    pub posted: StoredValues,
    /// Its registered values, which have no scope.
    pub registered: Vec<Kval>,
}

impl ProcessAnswer {
    /// The values. As in a Get of one key, the host's value wins for a reserved key, and the process's value for any
    /// other.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn read(self) -> Result<RankData, LookupError> {
        let mut entries = self.posted.read()?;
        entries.retain(|entry| !entry.is_removal());
        for registered in self.registered {
            match entries.iter_mut().find(|entry| is_same_place(entry, &registered)) {
                Some(entry) if registered.key.is_reserved() => *entry = registered,
                Some(_) => {}
                None => entries.push(registered),
            }
        }
        Ok(RankData { proc: self.proc, entries })
    }

    /// The reply for the peer.
    #[must_use]
    pub fn into_reply(self) -> Reply {
        match self.read() {
            // A process may withdraw a value from its readers meanwhile.
            Ok(data) if data.entries.is_empty() => Reply::Status(Status::ERR_NOT_FOUND),
            Ok(data) => Reply::Data(vec![data]),
            Err(error) => Reply::Status(error.status()),
        }
    }
}

/// Data of processes in the answer to a Get.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerData {
    /// Values.
    Read(Vec<RankData>),
    /// Large data of one process.
    Unread(Box<ProcessAnswer>),
}

impl AnswerData {
    /// No data.
    pub const NONE: Self = Self::Read(Vec::new());

    /// The values.
    ///
    /// # Errors
    /// The status for the peer: the segment is damaged.
    pub fn read(self) -> Result<Vec<RankData>, Status> {
        match self {
            Self::Read(data) => Ok(data),
            Self::Unread(data) => data.read().map(|data| vec![data]).map_err(|error| error.status()),
        }
    }
}

/// Posted values for other servers, with the number of the commit that they include. A receiver thus knows the newer of
/// two.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedValues {
    pub(in crate::server) values: StoredValues,
    /// `None`: no local process has posted them.
    pub(in crate::server) commit: Option<u64>,
}

impl CommittedValues {
    /// The values; none without a posted one.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn read(&self) -> Result<Vec<Kval>, LookupError> {
        let mut entries = self.values.read()?;
        if let Some(commit) = self.commit.filter(|_| !entries.is_empty()) {
            entries.push(Kval { key: COMMIT_NUMBER, value: commit.into() });
        }
        Ok(entries)
    }
}
