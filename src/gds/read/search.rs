//! The places where a value is searched, and their order.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing" (data realms); `spec/semantics.md` section 3.

use super::job::JobView;
use crate::gds::layout::block::{self, Posting};
use crate::gds::layout::dictionary::KnownKey;
use crate::gds::layout::format::PartHead;
use crate::gds::layout::segment_view::{Damage, root};
use crate::gds::layout::value_ref::ValueRef;
use crate::gds::lookup::{Lookup, NodeSelector, RealmRequest};
use crate::keys::{self, DefaultRealm};
use crate::shmem::CellTable;
use crate::types::Rank;

/// One lookup of a key in the dictionary.
#[derive(Debug)]
pub(crate) struct Search<'a, 'l> {
    pub(crate) key: KnownKey<'a>,
    pub(crate) lookup: &'l Lookup<'l>,
    /// The reading process, if it belongs to the namespace.
    pub(crate) own_rank: Option<u32>,
}

type Found<'a> = Result<Option<ValueRef<'a>>, ReadError>;

impl<'a> Search<'a, '_> {
    /// The value, if there is one.
    #[inline(always)]
    pub(crate) fn run(&self) -> Found<'a> {
        match (self.lookup.realm, self.lookup.rank) {
            (RealmRequest::Default, Rank::Process(rank)) => self.of_process(rank),
            (RealmRequest::Default, Rank::Wildcard) => self.of_job(self.job()?),
            _ => self.of_rare(),
        }
    }

    /// Rare lookups.
    #[inline(never)]
    fn of_rare(&self) -> Found<'a> {
        let Some(job) = self.job()? else {
            return match (self.lookup.realm, self.lookup.rank) {
                (RealmRequest::Default, Rank::Undefined) => self.of_anyone(None),
                _ => Ok(None),
            };
        };
        let found = match self.lookup.realm {
            RealmRequest::Session(session) => job.session_value(session, self.key.id),
            RealmRequest::Job => job.job_value(self.key.id),
            RealmRequest::App(number) => match self.app_value(job, number)? {
                Some(value) => Ok(Some(value)),
                // A value that differs from node to node: that of the process's node, or of the reader's.
                None => self.app_node_value(job, number, NodeSelector::Implied),
            },
            RealmRequest::Node(selector) => self.node_value(job, selector),
            RealmRequest::AppNode(number, selector) => self.app_node_value(job, number, selector),
            RealmRequest::SessionNode(id, selector) => {
                let session = id.or(job.session_id()).map_or(Ok(None), |id| job.session(id))?;
                self.part_node_value(job, session, selector)
            }
            RealmRequest::Default if self.lookup.rank == Rank::Undefined => return self.of_anyone(Some(job)),
            RealmRequest::Default => Ok(None),
        };
        Ok(found?)
    }

    /// The present job record. A lookup takes it once, so that its results belong to one record.
    #[inline(always)]
    fn job(&self) -> Result<Option<JobView<'a>>, Damage> {
        JobView::current(self.key.segment)
    }

    /// A process's own value; else that of its application, node or session, if the key belongs there. Never one of the
    /// job's own: it would answer a question about one process with a fact about all. Reserved keys usually come from
    /// the host, others from the process: most lookups of the latter need no job record.
    #[inline(always)]
    fn of_process(&self, rank: u32) -> Found<'a> {
        if self.key.is_reserved() {
            let job = self.job()?;
            return match self.described_value(job, rank)? {
                Some(value) => Ok(Some(value)),
                None => self.of_place(job, rank, self.posted_value(rank)),
            };
        }
        match self.posted_value(rank) {
            posted @ (Ok(None) | Err(ReadError::OutsideScope)) => {
                let job = self.job()?;
                match self.described_value(job, rank)? {
                    Some(value) => Ok(Some(value)),
                    None => self.of_place(job, rank, posted),
                }
            }
            posted => posted,
        }
    }

    /// A process's own value, or that of its realm if there is none and the key belongs there.
    #[inline]
    fn of_place(&self, job: Option<JobView<'a>>, rank: u32, own: Found<'a>) -> Found<'a> {
        if !matches!(own, Ok(None) | Err(ReadError::OutsideScope)) || self.key.realm()? == DefaultRealm::ByRank {
            return own;
        }
        if job.is_some_and(|job| is_outside(job, rank)) {
            return own;
        }
        match self.of_default_realm(job)? {
            Some(value) => Ok(Some(value)),
            None => own,
        }
    }

    /// The value in the key's realm, else the job's registered value of the key.
    #[inline(always)]
    fn of_job(&self, job: Option<JobView<'a>>) -> Found<'a> {
        match (self.of_default_realm(job)?, job) {
            (None, Some(job)) => Ok(job.job_value(self.key.id)?),
            (found, _) => Ok(found),
        }
    }

    /// A key that is unique in its namespace: the job's value, else that of the only process with it. Searches every
    /// rank, because the owner is unknown.
    fn of_anyone(&self, job: Option<JobView<'a>>) -> Found<'a> {
        if let Some(value) = self.of_job(job)? {
            return Ok(Some(value));
        }
        let segment = self.key.segment;
        let rank_count = segment.root_cells(root::MODEX)?.map_or(0, CellTable::cell_count);
        let mut is_hidden = false;
        for rank in 0..u32::try_from(rank_count).unwrap_or(u32::MAX) {
            match block::find(segment, rank, self.key.id, self.lookup.audience)? {
                Posting::Visible(value) => return Ok(Some(value)),
                Posting::Hidden => is_hidden = true,
                Posting::Absent | Posting::Removed => {}
            }
        }
        if is_hidden { Err(ReadError::OutsideScope) } else { Ok(None) }
    }

    /// The registered value of a process.
    #[inline(always)]
    fn described_value(&self, job: Option<JobView<'a>>, rank: u32) -> Found<'a> {
        match job {
            Some(job) => Ok(job.proc_value(rank, self.key.id)?),
            None => Ok(None),
        }
    }

    #[inline(always)]
    fn posted_value(&self, rank: u32) -> Found<'a> {
        match block::find(self.key.segment, rank, self.key.id, self.lookup.audience)? {
            Posting::Visible(value) => Ok(Some(value)),
            Posting::Hidden => Err(ReadError::OutsideScope),
            Posting::Absent | Posting::Removed => Ok(None),
        }
    }

    #[inline(always)]
    fn of_default_realm(&self, job: Option<JobView<'a>>) -> Found<'a> {
        match (self.key.realm()?, job) {
            (_, None) => Ok(None),
            (DefaultRealm::ByRank, Some(job)) => Ok(job.job_value(self.key.id)?),
            (realm, Some(job)) => Ok(self.of_special_realm(job, realm)?),
        }
    }

    /// The rarer part of [`Self::of_default_realm`], separate from the hot path.
    #[inline(never)]
    fn of_special_realm(&self, job: JobView<'a>, realm: DefaultRealm) -> Result<Option<ValueRef<'a>>, Damage> {
        match realm {
            DefaultRealm::ByRank => job.job_value(self.key.id),
            DefaultRealm::Session => job.session_value(None, self.key.id),
            DefaultRealm::Application => self.app_value(job, None),
            DefaultRealm::Node => self.node_value(job, NodeSelector::Implied),
        }
    }

    /// The application is the requested one, else the process's, else the reader's own, else the first, which the
    /// standard calls application 0. A process without an assignment to one of several applications has none.
    fn app_value(&self, job: JobView<'a>, number: Option<u32>) -> Result<Option<ValueRef<'a>>, Damage> {
        self.app(job, number)?.map_or(Ok(None), |number| job.app_value(number, self.key.id))
    }

    fn app(&self, job: JobView<'a>, number: Option<u32>) -> Result<Option<u32>, Damage> {
        let meant = match (number, self.lookup.rank, self.own_rank) {
            (None, Rank::Process(rank), _) if is_outside(job, rank) => return Ok(None),
            (None, Rank::Process(rank), _) | (None, _, Some(rank)) => job.app_of(rank)?,
            _ => number,
        };
        if meant.is_some() {
            return Ok(meant);
        }
        Ok(match (job.apps()?, self.lookup.rank) {
            ([only], _) => Some(only.number),
            (_, Rank::Process(_)) | ([], _) => None,
            ([first, ..], _) => Some(first.number),
        })
    }

    fn app_node_value(
        &self,
        job: JobView<'a>,
        number: Option<u32>,
        selector: NodeSelector<'_>,
    ) -> Result<Option<ValueRef<'a>>, Damage> {
        let app = self.app(job, number)?.map_or(Ok(None), |number| job.app(number))?;
        self.part_node_value(job, app, selector)
    }

    fn part_node_value(
        &self,
        job: JobView<'a>,
        part: Option<&PartHead>,
        selector: NodeSelector<'_>,
    ) -> Result<Option<ValueRef<'a>>, Damage> {
        let Some(part) = part else { return Ok(None) };
        self.node(job, selector)?.map_or(Ok(None), |node| job.part_node_value(part, node, self.key.id))
    }

    /// The node is the requested one, else the process's, else the writer's own, which is also its readers'.
    fn node_value(&self, job: JobView<'a>, selector: NodeSelector<'_>) -> Result<Option<ValueRef<'a>>, Damage> {
        self.node(job, selector)?.map_or(Ok(None), |node| job.node_value(node, self.key.id))
    }

    fn node(&self, job: JobView<'a>, selector: NodeSelector<'_>) -> Result<Option<u32>, Damage> {
        Ok(match (selector, self.lookup.rank) {
            (NodeSelector::Id(id), _) => job.node_by_id(id)?,
            (NodeSelector::Name(name), _) => job.node_by_name(name)?,
            (NodeSelector::Implied, Rank::Process(rank)) if is_outside(job, rank) => None,
            (NodeSelector::Implied, Rank::Process(rank)) => match job.node_of(rank)? {
                None if self.may_be_here(job, rank) => job.own_node(),
                found => found,
            },
            (NodeSelector::Implied, _) => job.own_node(),
        })
    }

    /// Whether the own node may answer for a process without a known node. Its location must not be guessed; for other
    /// keys the standard means the own node anyway.
    #[cold]
    fn may_be_here(&self, job: JobView<'a>, rank: u32) -> bool {
        let tells_where =
            [keys::HOSTNAME.name(), keys::NODEID.name(), keys::HOSTNAME_ALIASES.name()].contains(&self.lookup.key.name);
        !tells_where || self.own_rank == Some(rank) || job.head().node_count == 1
    }
}

/// Whether the job lacks this process. A job of unknown size has every process.
fn is_outside(job: JobView<'_>, rank: u32) -> bool {
    job.head().rank_count != 0 && rank >= job.head().rank_count
}

/// Why a value was not read. Does not allocate, so a failed lookup costs as little as a successful one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The key is not stored.
    #[error("the key is not stored there")]
    NotFound,
    /// The value is not visible to this reader.
    #[error("the key was posted with a scope that excludes this reader")]
    OutsideScope,
    /// The stored bytes are damaged.
    #[error("the segment is damaged: {0}")]
    Damaged(#[from] Damage),
}
