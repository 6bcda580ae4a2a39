//! Walks over the whole contents of a segment, for `modex inspect` and for the server's own answers.

use super::job::JobView;
use super::reader::NamespaceReader;
use crate::gds::layout::block::Chain;
use crate::gds::layout::column::ColumnView;
use crate::gds::layout::dictionary::{self, KeyId};
use crate::gds::layout::format::{Array, JobHead, NODES_MAX, PartHead, RANKS_MAX, origin};
use crate::gds::layout::segment_view::{Damage, SegmentView, root};
use crate::gds::layout::value_ref::ValueRef;
use crate::gds::lookup::Origin;
use crate::types::Scope;

/// Keys with their values, in the order of the segment.
pub type NamedValues<'a> = Vec<(&'a str, ValueRef<'a>)>;

/// The description of a job; values of each process or node stay in their columns.
#[derive(Debug)]
pub struct JobTables<'a> {
    /// Number of processes.
    pub rank_count: u32,
    /// Number of nodes.
    pub node_count: u32,
    /// Index of the writer's node.
    pub own_node: Option<u32>,
    /// The session's number.
    pub session_id: Option<u32>,
    /// Session realm.
    pub session: NamedValues<'a>,
    /// Job realm.
    pub job: NamedValues<'a>,
    /// Node values of the session, by key.
    pub session_nodes: Vec<StoredColumn<'a>>,
    /// Other sessions, by number.
    pub other_sessions: Vec<StoredPart<'a>>,
    /// Application realm, by number.
    pub apps: Vec<StoredPart<'a>>,
    /// Node realm, by key.
    pub node_columns: Vec<StoredColumn<'a>>,
    /// Process realm, by key.
    pub proc_columns: Vec<StoredColumn<'a>>,
}

/// An application, or a session.
#[derive(Debug)]
pub struct StoredPart<'a> {
    /// Its number.
    pub number: u32,
    /// Its values.
    pub values: NamedValues<'a>,
    /// Its node values, by key.
    pub node_columns: Vec<StoredColumn<'a>>,
}

/// One key of all processes or all nodes.
#[derive(Clone, Copy, Debug)]
pub struct StoredColumn<'a> {
    key: &'a str,
    view: ColumnView<'a>,
}

impl<'a> StoredColumn<'a> {
    /// The key.
    #[must_use]
    pub const fn key(&self) -> &'a str {
        self.key
    }

    /// Short name of the column's form.
    #[must_use]
    pub const fn encoding(&self) -> &'static str {
        self.view.encoding()
    }

    /// Its bytes, without its head and the payloads of its cells.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.view.size_bytes()
    }

    /// Bytes of each number if it is stored as an array of small numbers.
    #[must_use]
    pub const fn width_bytes(&self) -> Option<u16> {
        self.view.width_bytes()
    }

    /// Number of ranks or nodes it covers.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.view.count()
    }

    /// Whether a process's value is that of its node.
    #[must_use]
    pub const fn is_of_node(&self) -> bool {
        self.view.is_of_node()
    }

    /// The value at an index; `None` if absent, or if the value is the node's.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn value(&self, index: u32) -> Result<Option<ValueRef<'a>>, Damage> {
        self.view.value(index)
    }

    pub(crate) const fn view(&self) -> ColumnView<'a> {
        self.view
    }
}

/// One block of posted values.
#[derive(Debug)]
pub struct StoredBlock<'a> {
    /// Offset in bytes from the start of the segment.
    pub offset: u64,
    /// Its entries, by key.
    pub entries: Vec<StoredEntry<'a>>,
}

/// One posted value.
#[derive(Debug)]
pub struct StoredEntry<'a> {
    /// The key.
    pub key: &'a str,
    /// The readers that may see it.
    pub scope: Scope,
    /// Its origin.
    pub origin: Origin,
    /// The value.
    pub value: ValueRef<'a>,
}

impl NamespaceReader {
    /// Names and targets of the roots, in bytes from the start of the segment; `None`: not set.
    #[must_use]
    pub fn roots(&self) -> [(&'static str, Option<u64>); 4] {
        let named =
            [("keys", root::KEYS), ("job", root::JOB), ("modex", root::MODEX), ("statistics", root::STATISTICS)];
        named.map(|(name, root)| (name, self.segment_view().root(root)))
    }

    /// All keys in the segment, in no particular order.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn keys(&self) -> Result<Vec<&str>, Damage> {
        let segment = self.segment_view();
        dictionary::ids(segment)?.map(|id| dictionary::name(segment, id)).collect()
    }

    /// The keys with this prefix, in order.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, Damage> {
        let mut names = self.keys()?;
        names.retain(|name| name.starts_with(prefix));
        names.sort_unstable();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// The description of the job; `None` before the registration.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn job_tables(&self) -> Result<Option<JobTables<'_>>, Damage> {
        let segment = self.segment_view();
        let Some(job) = JobView::current(segment)? else { return Ok(None) };
        let head = job.head();
        check_counts(head)?;
        let mut other_sessions = parts(segment, job, job.sessions()?)?;
        let own = other_sessions.iter().position(|session| Some(session.number) == job.session_id());
        let own = own.map(|at| other_sessions.remove(at));
        Ok(Some(JobTables {
            rank_count: head.rank_count,
            node_count: head.node_count,
            own_node: job.own_node(),
            session_id: job.session_id(),
            session: table(segment, job, head.session)?,
            session_nodes: own.map(|own| own.node_columns).unwrap_or_default(),
            other_sessions,
            job: table(segment, job, head.job)?,
            apps: parts(segment, job, job.apps()?)?,
            node_columns: columns(segment, job, head.node_columns)?,
            proc_columns: columns(segment, job, head.proc_columns)?,
        }))
    }

    /// A process's value in a column, its own or its node's.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn proc_value<'a>(&'a self, column: &StoredColumn<'a>, rank: u32) -> Result<Option<ValueRef<'a>>, Damage> {
        if !column.is_of_node() {
            return column.value(rank);
        }
        match JobView::current(self.segment_view())? {
            Some(job) => job.proc_value(rank, column.view.key()),
            None => Ok(None),
        }
    }

    /// All registered values of a process, by key.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn described(&self, rank: u32) -> Result<NamedValues<'_>, Damage> {
        let segment = self.segment_view();
        let Some(job) = JobView::current(segment)? else { return Ok(Vec::new()) };
        let mut values = Vec::new();
        for column in job.columns(job.head().proc_columns)? {
            if let Some(value) = job.proc_value(rank, column.key())? {
                values.push((dictionary::name(segment, column.key())?, value));
            }
        }
        Ok(values)
    }

    /// The blocks of a rank, newest first.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn blocks(&self, rank: u32) -> Result<Vec<StoredBlock<'_>>, Damage> {
        let segment = self.segment_view();
        let mut blocks = Vec::new();
        for block in Chain::of_rank(segment, rank)? {
            let block = block?;
            let mut entries = Vec::new();
            for entry in block.entries {
                let scope = Scope::from_raw(entry.scope);
                entries.push(StoredEntry {
                    key: dictionary::name(segment, KeyId(entry.id))?,
                    scope: scope.ok_or(Damage::Code { what: "a scope", code: entry.scope.into() })?,
                    origin: if entry.origin == origin::LOCAL { Origin::Local } else { Origin::Remote },
                    value: present(ValueRef::from_cell(segment, &entry.cell)?)?,
                });
            }
            blocks.push(StoredBlock { offset: block.offset, entries });
        }
        Ok(blocks)
    }
}

/// Refuses counts that no writer makes, because whole walks take time and memory in proportion.
fn check_counts(head: &JobHead) -> Result<(), Damage> {
    if head.rank_count > RANKS_MAX {
        return Err(Damage::Code { what: "the number of ranks", code: head.rank_count.into() });
    }
    if head.node_count > NODES_MAX {
        return Err(Damage::Code { what: "the number of nodes", code: head.node_count.into() });
    }
    Ok(())
}

fn parts<'a>(segment: SegmentView<'a>, job: JobView<'a>, heads: &'a [PartHead]) -> Result<Vec<StoredPart<'a>>, Damage> {
    let part = |head: &PartHead| {
        let values = table(segment, job, head.entries)?;
        Ok(StoredPart { number: head.number, values, node_columns: columns(segment, job, head.node_columns)? })
    };
    heads.iter().map(part).collect()
}

fn table<'a>(segment: SegmentView<'a>, job: JobView<'a>, table: Array) -> Result<NamedValues<'a>, Damage> {
    let mut values = Vec::new();
    for entry in job.entries(table)? {
        let found = present(job.entry_value(entry)?)?;
        values.push((dictionary::name(segment, KeyId(entry.id))?, found));
    }
    Ok(values)
}

fn columns<'a>(segment: SegmentView<'a>, job: JobView<'a>, columns: Array) -> Result<Vec<StoredColumn<'a>>, Damage> {
    let head = job.head();
    let count_max = head.rank_count.max(head.node_count);
    let views = job.columns(columns)?;
    let checked = views.map(|view| match view.count() {
        count if count > count_max => Err(Damage::Code { what: "the length of a column", code: count.into() }),
        _ => Ok(view),
    });
    checked
        .map(|view| view.and_then(|view| Ok(StoredColumn { key: dictionary::name(segment, view.key())?, view })))
        .collect()
}

fn present<'a>(found: Option<ValueRef<'a>>) -> Result<ValueRef<'a>, Damage> {
    found.ok_or(Damage::Missing { what: "a value" })
}
