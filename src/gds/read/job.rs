//! Reads the job record: the tables of session, job and applications, and the columns of nodes and processes.

use crate::gds::layout::column::ColumnView;
use crate::gds::layout::dictionary::KeyId;
use crate::gds::layout::format::{Array, ColumnHead, DealtMap, Entry, HostName, JobHead, NONE, NodeId, PartHead, form};
use crate::gds::layout::segment_view::{Damage, SegmentView, root};
use crate::gds::layout::value_ref::ValueRef;
use crate::regex::DealtRanks;

/// The job record of a segment at the time of the lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobView<'a> {
    segment: SegmentView<'a>,
    head: &'a JobHead,
}

type Found<'a> = Result<Option<ValueRef<'a>>, Damage>;

impl<'a> JobView<'a> {
    /// The present record; `None` if the job has not been described.
    #[inline(always)]
    pub(crate) fn current(segment: SegmentView<'a>) -> Result<Option<Self>, Damage> {
        match segment.root(root::JOB) {
            Some(offset) => Ok(Some(Self { segment, head: segment.record(offset)? })),
            None => Ok(None),
        }
    }

    /// Its head.
    pub(crate) const fn head(&self) -> &'a JobHead {
        self.head
    }

    /// Index of the writer's node.
    #[inline]
    pub(crate) const fn own_node(&self) -> Option<u32> {
        if self.head.own_node == NONE { None } else { Some(self.head.own_node) }
    }

    /// A session value, of the own session or a given one.
    #[inline]
    pub(crate) fn session_value(&self, session: Option<u32>, key: KeyId) -> Found<'a> {
        match session {
            Some(wanted) if self.session_id() != Some(wanted) => {
                self.session(wanted)?.map_or(Ok(None), |session| self.table_value(session.entries, key))
            }
            _ => self.table_value(self.head.session, key),
        }
    }

    /// All sessions that have a number, ascending.
    pub(crate) fn sessions(&self) -> Result<&'a [PartHead], Damage> {
        self.segment.array(self.head.sessions)
    }

    /// A session.
    pub(crate) fn session(&self, id: u32) -> Result<Option<&'a PartHead>, Damage> {
        part(self.sessions()?, id)
    }

    /// A node value of an application or session.
    pub(crate) fn part_node_value(&self, part: &PartHead, node: u32, key: KeyId) -> Found<'a> {
        self.column(part.node_columns, key)?.map_or(Ok(None), |column| column.value(node))
    }

    /// The session's number.
    pub(crate) const fn session_id(&self) -> Option<u32> {
        if self.head.session_known == 1 { Some(self.head.session_id) } else { None }
    }

    /// A job value.
    #[inline(always)]
    pub(crate) fn job_value(&self, key: KeyId) -> Found<'a> {
        self.table_value(self.head.job, key)
    }

    /// All applications, ascending.
    pub(crate) fn apps(&self) -> Result<&'a [PartHead], Damage> {
        self.segment.array(self.head.apps)
    }

    /// An application.
    pub(crate) fn app(&self, number: u32) -> Result<Option<&'a PartHead>, Damage> {
        part(self.apps()?, number)
    }

    /// A value of an application.
    pub(crate) fn app_value(&self, number: u32, key: KeyId) -> Found<'a> {
        self.app(number)?.map_or(Ok(None), |app| self.table_value(app.entries, key))
    }

    /// Number of the application a process belongs to.
    pub(crate) fn app_of(&self, rank: u32) -> Result<Option<u32>, Damage> {
        let Some(column) = self.proc_column_at(self.head.app_number_column)? else { return Ok(None) };
        Ok(self.value_in(column, rank)?.and_then(|value| value.as_u32()))
    }

    /// A value of a node.
    #[inline]
    pub(crate) fn node_value(&self, node: u32, key: KeyId) -> Found<'a> {
        match self.column(self.head.node_columns, key)? {
            Some(column) => column.value(node),
            None => Ok(None),
        }
    }

    /// A value of a process.
    #[inline]
    pub(crate) fn proc_value(&self, rank: u32, key: KeyId) -> Found<'a> {
        match self.column(self.head.proc_columns, key)? {
            Some(column) => self.value_in(column, rank),
            None => Ok(None),
        }
    }

    /// Index of the node a process runs on.
    #[inline]
    pub(crate) fn node_of(&self, rank: u32) -> Result<Option<u32>, Damage> {
        let Some(column) = self.proc_column_at(self.head.node_id_column)? else { return Ok(None) };
        // Only the process's own value: the writer refuses a column of node ids that refers to the node. In a damaged
        // segment such a reference must not recurse.
        match column.value(rank)?.and_then(|value| value.as_u32()) {
            Some(id) => self.node_by_id(id),
            None => Ok(None),
        }
    }

    /// Index of the node with this number.
    #[inline]
    pub(crate) fn node_by_id(&self, id: u32) -> Result<Option<u32>, Damage> {
        if self.head.node_ids_are_indexes == 1 {
            return Ok((id < self.head.node_count).then_some(id));
        }
        let ids = self.segment.array::<NodeId>(self.head.node_ids)?;
        Ok(ids.binary_search_by_key(&id, |node| node.id).ok().and_then(|at| ids.get(at)).map(|node| node.node))
    }

    /// Index of the node with this name or alias.
    pub(crate) fn node_by_name(&self, name: &str) -> Result<Option<u32>, Damage> {
        let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
        let names = self.segment.array::<HostName>(self.head.host_names)?;
        let start = names.partition_point(|entry| entry.hash < hash);
        for entry in names.iter().skip(start).take_while(|entry| entry.hash == hash) {
            if self.segment.bytes(entry.name, entry.len.into())? == name.as_bytes() {
                return Ok(Some(entry.node));
            }
        }
        Ok(None)
    }

    /// The entries of a table.
    pub(crate) fn entries(&self, table: Array) -> Result<&'a [Entry], Damage> {
        self.segment.array(table)
    }

    /// The columns of nodes or of processes.
    pub(crate) fn columns(&self, columns: Array) -> Result<impl Iterator<Item = ColumnView<'a>> + use<'a>, Damage> {
        let (segment, rank_count) = (self.segment, self.head.rank_count);
        Ok(segment.array::<ColumnHead>(columns)?.iter().map(move |head| ColumnView::new(segment, head, rank_count)))
    }

    #[inline(always)]
    fn table_value(&self, table: Array, key: KeyId) -> Found<'a> {
        let entries = self.segment.array::<Entry>(table)?;
        let at = entries.partition_point(|entry| entry.id < key.0);
        match entries.get(at) {
            Some(entry) if entry.id == key.0 => self.entry_value(entry),
            _ => Ok(None),
        }
    }

    /// The value of an entry of one of the record's tables.
    #[inline(always)]
    pub(crate) fn entry_value(&self, entry: &'a Entry) -> Found<'a> {
        match entry.cell.form {
            form::DEALT => self.map_value(entry.cell.payload).map(Some),
            _ => ValueRef::from_cell(self.segment, &entry.cell),
        }
    }

    /// The text of a process map by rule, with no more processes and nodes than the job has.
    #[cold]
    fn map_value(&self, rule: u64) -> Result<ValueRef<'a>, Damage> {
        let DealtMap { block, node_count, end, .. } = *self.segment.record::<DealtMap>(rule)?;
        let is_of_job = end <= self.head.rank_count && node_count <= self.head.node_count;
        let dealt = DealtRanks::new(block, node_count, end).filter(|_| is_of_job);
        dealt.map(ValueRef::from_map).ok_or(Damage::Code { what: "the rule of a process map", code: end.into() })
    }

    #[inline]
    fn column(&self, columns: Array, key: KeyId) -> Result<Option<ColumnView<'a>>, Damage> {
        let heads = self.segment.array::<ColumnHead>(columns)?;
        let head = heads.binary_search_by_key(&key.0, |head| head.key).ok().and_then(|at| heads.get(at));
        Ok(head.map(|head| ColumnView::new(self.segment, head, self.head.rank_count)))
    }

    /// A process's value in a column: its own, or its node's.
    #[inline]
    fn value_in(&self, column: ColumnView<'a>, rank: u32) -> Found<'a> {
        if !column.is_of_node() {
            return column.value(rank);
        }
        match self.node_of(rank)? {
            Some(node) if rank < column.count() => self.node_value(node, column.key()),
            _ => Ok(None),
        }
    }

    /// The process column at a position, if there is one.
    #[inline]
    fn proc_column_at(&self, position: u32) -> Result<Option<ColumnView<'a>>, Damage> {
        if position == NONE {
            return Ok(None);
        }
        let head = self.segment.element::<ColumnHead>(self.head.proc_columns, position.into())?;
        let head = head.ok_or(Damage::Missing { what: "a column of the job record" })?;
        Ok(Some(ColumnView::new(self.segment, head, self.head.rank_count)))
    }
}

fn part(parts: &[PartHead], number: u32) -> Result<Option<&PartHead>, Damage> {
    Ok(parts.binary_search_by_key(&number, |part| part.number).ok().and_then(|at| parts.get(at)))
}
