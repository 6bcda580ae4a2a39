//! The reading side of a namespace's segment: the implementation of `Get`.

use std::collections::BTreeMap;

use super::job::JobView;
use super::quick;
use super::search::{ReadError, Search};
use crate::gds::layout::block::{self, Chain, Posting};
use crate::gds::layout::dictionary::{self, KeyId};
use crate::gds::layout::format::{self, Cell, Entry};
use crate::gds::layout::segment_view::{Damage, SegmentView};
use crate::gds::layout::value_ref::ValueRef;
use crate::gds::lookup::{Audience, KeyRef, Lookup, RealmRequest};
use crate::gds::qualified;
use crate::shmem::{LayoutId, ReaderHandle, ReaderOptions, SegmentError, SegmentReader};
use crate::types::{DataType, Info, Rank, Value};

/// Reads a namespace. Cheap to make, without a copy or scan, and safe to share between threads.
///
/// Later publications become visible without attaching again.
///
/// ```
/// # use modex::gds::{Lookup, KeyRef, NamespaceReader, ReadError, RealmRequest};
/// # use modex::types::Rank;
/// fn job_size(reader: &NamespaceReader) -> Result<Option<u32>, ReadError> {
///     let lookup = Lookup {
///         rank: Rank::Wildcard,
///         key: KeyRef::new("pmix.job.size"),
///         realm: RealmRequest::Default,
///         audience: None,
///     };
///     Ok(reader.get(&lookup)?.as_u32())
/// }
/// ```
#[derive(Debug)]
pub struct NamespaceReader {
    segment: SegmentReader,
    /// The reading process, if it belongs to this namespace.
    own_rank: Option<u32>,
}

impl NamespaceReader {
    /// Maps a segment received from a server.
    ///
    /// # Errors
    /// [`SegmentError`] if it is not a segment, was made by another build, or cannot be mapped. The caller then asks
    /// the server instead.
    pub fn attach(handle: ReaderHandle) -> Result<Self, SegmentError> {
        Self::attach_with(handle, &ReaderOptions::default())
    }

    /// As [`NamespaceReader::attach`], with a bound on the address space to reserve.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn attach_with(handle: ReaderHandle, options: &ReaderOptions) -> Result<Self, SegmentError> {
        let segment = SegmentReader::attach(handle, LayoutId::of(format::layout()), options)?;
        Ok(Self { segment, own_rank: None })
    }

    /// The same for a process of this namespace: a lookup without application, node or another process means its own
    /// application and node.
    #[must_use]
    pub fn of_process(self, own_rank: Option<u32>) -> Self {
        Self { own_rank, ..self }
    }

    /// One value. Takes no lock, makes no system call and allocates nothing, whether it finds the value or not.
    ///
    /// The places searched, in order, unless the lookup names a realm:
    /// - for a process: its own values (reserved keys: registered before posted; others: the reverse), then the realm
    ///   of the key;
    /// - for the wildcard: the realm of the key, then the job;
    /// - for the undefined rank: as for the wildcard, then the posted values of all ranks, in time linear in their
    ///   number.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn get(&self, lookup: &Lookup<'_>) -> Result<ValueRef<'_>, ReadError> {
        let is_plain = lookup.realm == RealmRequest::Default && lookup.audience.is_none();
        match if is_plain { self.quick(lookup.rank, lookup.key) } else { None } {
            Some(value) => Ok(value),
            None => self.search(lookup),
        }
    }

    /// The complete search of [`NamespaceReader::get`], which also finds the reason of a missing value.
    #[inline(never)]
    pub(crate) fn search(&self, lookup: &Lookup<'_>) -> Result<ValueRef<'_>, ReadError> {
        let Some(key) = dictionary::find(self.segment_view(), &lookup.key)? else { return Err(ReadError::NotFound) };
        match (Search { key, lookup, own_rank: self.own_rank }).run() {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(ReadError::NotFound),
            Err(error) => Err(error),
        }
    }

    /// A qualified value, copied, whole. It must have all of the qualifiers; the match with the fewest others wins.
    /// Takes time linear in the number of keys.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn get_qualified(&self, lookup: &Lookup<'_>, qualifiers: &[Info]) -> Result<Value, ReadError> {
        let mut missing = ReadError::NotFound;
        let mut values = Vec::new();
        for name in self.names(&qualified::prefix(lookup.key.name))? {
            match self.get(&Lookup { key: KeyRef::new(&name), ..*lookup }) {
                Ok(value) => values.push(value.to_value()?),
                Err(ReadError::NotFound) => {}
                Err(error) => missing = error,
            }
        }
        qualified::best(lookup.key.name, qualifiers, values.into_iter()).ok_or(missing)
    }

    /// As [`NamespaceReader::get`] without a realm or an audience, for values on the fast path; on `None`, call `get`.
    /// Never returns a compressed value, nor a value that [is not written](ValueRef::unwritten).
    #[inline(always)]
    #[must_use]
    pub fn quick(&self, rank: Rank, key: KeyRef<'_>) -> Option<ValueRef<'_>> {
        quick::find(&self.segment, rank, key)
    }

    /// All posted values of a process visible to the audience, by key: the newest of each. `None`: values visible to a
    /// process on the writer's node, of any origin. Other nodes get removals, too, as undefined values.
    ///
    /// # Errors
    /// [`ReadError::Damaged`].
    pub fn posted(&self, rank: u32, audience: Option<Audience>) -> Result<Vec<(&str, ValueRef<'_>)>, ReadError> {
        let segment = self.segment_view();
        let mut newest: BTreeMap<u32, (u8, Option<&Cell>)> = BTreeMap::new();
        for found in Chain::of_rank(segment, rank)? {
            for entry in found?.entries {
                // As in `block::find`: a newer entry replaces older ones even if this reader may not see it.
                let (replaced, cell) = newest.entry(entry.id).or_default();
                let rest = Entry { scope: entry.scope & !*replaced, ..*entry };
                if cell.is_none() && block::is_visible(&rest, audience) {
                    *cell = Some(&entry.cell);
                }
                *replaced |= entry.scope;
            }
        }
        let mut values = Vec::with_capacity(newest.len());
        let tells_removals = audience == Some(Audience::OtherNodes);
        let shown = |cell: &&Cell| tells_removals || !block::is_removal(cell);
        for (id, cell) in newest.into_iter().filter_map(|(id, (_, cell))| Some((id, cell.filter(shown)?))) {
            let value = ValueRef::from_cell(segment, cell)?.ok_or(Damage::Missing { what: "a posted value" })?;
            values.push((dictionary::name(segment, KeyId(id))?, value));
        }
        Ok(values)
    }

    /// As [`NamespaceReader::posted`], for these keys only, in this order. Examines no other key. Removed values come
    /// as undefined ones.
    ///
    /// # Errors
    /// [`ReadError::Damaged`].
    pub fn posted_of<'a>(
        &'a self,
        rank: u32,
        audience: Option<Audience>,
        keys: &[&str],
    ) -> Result<Vec<(&'a str, ValueRef<'a>)>, ReadError> {
        let segment = self.segment_view();
        let mut values = Vec::new();
        for name in keys {
            let Some(key) = dictionary::find(segment, &KeyRef::new(name))? else { continue };
            let value = match block::find(segment, rank, key.id, audience)? {
                Posting::Visible(value) => value,
                Posting::Removed => ValueRef::from_scalar(DataType::Undefined.to_raw(), 0)?,
                Posting::Hidden | Posting::Absent => continue,
            };
            values.push((dictionary::name(segment, key.id)?, value));
        }
        Ok(values)
    }

    /// The size in bytes of a posted value that the audience sees; 0 if there is none.
    pub(crate) fn posted_bytes(&self, rank: u32, audience: Audience, key: &str) -> Result<usize, Damage> {
        let segment = self.segment_view();
        let Some(key) = dictionary::find(segment, &KeyRef::new(key))? else { return Ok(0) };
        match block::find(segment, rank, key.id, Some(audience))? {
            Posting::Visible(value) => {
                Ok(value.payload_bytes().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
            }
            Posting::Removed | Posting::Hidden | Posting::Absent => Ok(0),
        }
    }

    /// Whether a process has posted a value that the audience sees. Stops at the first.
    pub(crate) fn has_posted(&self, rank: u32, audience: Audience) -> Result<bool, Damage> {
        let (segment, audience) = (self.segment_view(), Some(audience));
        for block in Chain::of_rank(segment, rank)? {
            for entry in block?.entries.iter().filter(|entry| block::is_visible(entry, audience)) {
                // A newer entry may have replaced this one.
                if matches!(block::find(segment, rank, KeyId(entry.id), audience)?, Posting::Visible(_)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the values in all blocks of a rank take at most `bytes_max` bytes. Stops at that size.
    pub(crate) fn posts_at_most(&self, rank: u32, bytes_max: usize) -> Result<bool, Damage> {
        let mut left = bytes_max;
        for block in Chain::of_rank(self.segment_view(), rank)? {
            for Entry { cell, .. } in block?.entries {
                let payload = usize::try_from(cell.len).unwrap_or(usize::MAX);
                match left.checked_sub(payload.saturating_add(size_of::<Value>())) {
                    Some(rest) => left = rest,
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// The namespace's name, as the writer labelled the segment.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.segment.label()
    }

    /// Number of processes and nodes in the job's description. It bounds the time to read all of it.
    #[must_use]
    pub fn described_parts(&self) -> u64 {
        let job = JobView::current(self.segment_view()).ok().flatten();
        job.map_or(0, |job| u64::from(job.head().rank_count).saturating_add(job.head().node_count.into()))
    }

    /// Number of processes in the job's description.
    pub(crate) fn described_ranks(&self) -> usize {
        let job = JobView::current(self.segment_view()).ok().flatten();
        job.map_or(0, |job| usize::try_from(job.head().rank_count).unwrap_or(usize::MAX))
    }

    /// The mapping: its writer, its protection, and the wait for changes.
    #[must_use]
    pub const fn segment(&self) -> &SegmentReader {
        &self.segment
    }

    #[inline]
    pub(crate) const fn segment_view(&self) -> SegmentView<'_> {
        SegmentView::new(&self.segment)
    }
}
