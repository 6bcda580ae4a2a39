//! The writing side of one namespace's segment.

use rustc_hash::FxHashMap;
use std::sync::Arc;

use super::qualified_index::{QualifiedIndex, QualifiedSearch};
use super::record::{self, KeyIds};
use super::shares::{Exceeded, Shares};
use crate::gds::datastore::Committed;
use crate::gds::error::{Shared, StoreError};
use crate::gds::job_record::JobRecord;
use crate::gds::layout::block::{self, Absorption, Chain, Posting};
use crate::gds::layout::cell::Encoded;
use crate::gds::layout::dictionary::{self, KeyId};
use crate::gds::layout::format::{self, BlockHead, Entry, KEY_ALIGN};
use crate::gds::layout::image::Image;
use crate::gds::layout::segment_view::{Damage, SegmentView, root};
use crate::gds::limits::StoreLimits;
use crate::gds::lookup::{Audience, KeyRef, Lookup, Origin, Posted};
use crate::gds::read::reader::NamespaceReader;
use crate::gds::read::search::ReadError;
use crate::gds::read::statistics::{STATISTICS_CELLS, Section, Statistics};
use crate::keys;
use crate::shmem::{Align, Offset, Protection, ReaderHandle, RootIndex, SegmentOptions, SegmentWriter, TableRef};
use crate::types::{Info, Key, Scope, Value};

/// Writes one namespace. It reads its own data through a mapping like every reader. So the answers of the server and
/// its clients come from the same code.
#[derive(Debug)]
pub(crate) struct NamespaceWriter {
    pub(super) segment: SegmentWriter,
    reader: Arc<NamespaceReader>,
    pub(super) limits: StoreLimits,
    statistics: TableRef,
    keys: TableRef,
    /// The replacement for `keys`.
    larger_keys: Option<Growth>,
    key_count: u32,
    pub(super) qualified: QualifiedIndex,
    pub(super) modex: Option<TableRef>,
    /// Number of processes of the job according to the host or its maps. A process map may have more than the host's
    /// number.
    job_size: Option<u32>,
    /// Number of processes in the job record.
    rank_count: u32,
    /// Number of keys that each process introduced, and bytes that it posted.
    key_shares: Shares,
    byte_shares: Shares,
}

/// A larger table of keys while it is filled.
#[derive(Clone, Copy, Debug)]
struct Growth {
    table: TableRef,
    /// The next cell of the present table to move.
    next: u64,
    /// Keys from this offset on are in both tables.
    end: u64,
}

/// Cells of the present table moved with each new key. Eight would finish only when the table is full.
const CELLS_MOVED_PER_KEY: u64 = 16;
/// Memory prepared for a large value in one step.
const PREPARED_STEP_BYTES: u64 = 1 << 20;
/// Bytes of the larger table for each cell of the present one.
const LARGER_CELLS_BYTES: u64 = 2 * 8;
/// Tables of fewer cells are replaced at once.
const CELLS_MOVED_MIN: u64 = 4096;
/// Slots of a new key dictionary: enough for the keys of a usual registration.
const SLOTS_MIN: u64 = 128;

impl NamespaceWriter {
    /// Makes an empty segment.
    pub(crate) fn create(options: &SegmentOptions, limits: StoreLimits) -> Result<Self, StoreError> {
        let limits = StoreLimits { keys_max: limits.keys_max.min(StoreLimits::KEYS_MAX), ..limits };
        let mut segment = SegmentWriter::create(options, format::layout())?;
        let reader = Arc::new(NamespaceReader::attach(segment.handle()?)?);
        let statistics = segment.alloc_table(STATISTICS_CELLS)?;
        let keys = segment.alloc_table(SLOTS_MIN)?;
        segment.publish();
        segment.set_root(root::STATISTICS, statistics.offset())?;
        segment.set_root(root::KEYS, keys.offset())?;
        let mut writer = Self {
            segment,
            reader,
            limits,
            statistics,
            keys,
            larger_keys: None,
            key_count: 0,
            qualified: QualifiedIndex::default(),
            modex: None,
            job_size: None,
            rank_count: 0,
            key_shares: Shares::new(limits.keys_max.into()),
            byte_shares: Shares::new(limits.segment_bytes_max / 2),
        };
        writer.count(Section::Dictionary, table_bytes(keys))?;
        Ok(writer)
    }

    /// Whether only this process can read the segment.
    pub(crate) fn is_private(&self) -> bool {
        self.segment.protection() == Protection::ProcessLocal
    }

    /// Moves the namespace into a segment that `options` describe. On failure nothing has changed.
    pub(crate) fn move_to(&mut self, options: &SegmentOptions) -> Result<(), StoreError> {
        self.segment.move_to(options)?;
        self.reader = Arc::new(NamespaceReader::attach(self.segment.handle()?)?);
        Ok(())
    }

    /// The reading side. Another thread may keep it: it stays valid after the writer's end.
    pub(crate) const fn reader(&self) -> &Arc<NamespaceReader> {
        &self.reader
    }

    /// A client's handle for attaching.
    pub(crate) fn handle(&self) -> Result<ReaderHandle, StoreError> {
        Ok(self.segment.handle()?)
    }

    /// Declares the end of all publications.
    pub(crate) fn retire(&mut self) {
        self.segment.retire();
    }

    /// Sizes.
    pub(crate) fn statistics(&self) -> Result<Statistics, StoreError> {
        let statistics = self.reader.statistics()?;
        Ok(Statistics { reserved_bytes: Some(self.segment.reserved_bytes()), ..statistics })
    }

    /// Replaces the job record.
    pub(crate) fn write_record(&mut self, job: &JobRecord) -> Result<(), StoreError> {
        record::check(job, &self.limits)?;
        let (mut ids, unknown) = self.known_keys(job)?;
        while unknown.len().checked_sub(1).is_some_and(|others| self.is_dictionary_full(others)) {
            self.grow_dictionary()?;
        }
        // New keys and their values come in one piece, so that a refused record leaves no keys behind.
        let mut image = self.image();
        let mut added = Vec::with_capacity(unknown.len());
        for key in unknown {
            let key = KeyRef::new(key);
            let id = push_key(&mut image, &key)?;
            ids.insert(key.name, id);
            added.push((id, key));
        }
        let key_bytes = image.size_bytes();
        let placed = record::push_record(&mut image, job, &ids, &self.limits)?;
        // Its processes' posted values need room, too.
        let table_bytes = self.larger_modex_table(job.rank_count).map_or(0, |cell_count| cell_count.saturating_mul(8));
        self.check_room(image.size_bytes().saturating_add(table_bytes))?;
        self.publish_image(&image)?;
        for (id, key) in added {
            self.enter_key(id, &key)?;
        }
        self.count(Section::Dictionary, key_bytes)?;
        self.link_record(image.size_bytes().saturating_sub(key_bytes), &placed)?;
        self.qualified.set_registered(record::keys(job));
        self.rank_count = job.rank_count;
        let declared = job.job_value(keys::JOB_SIZE.name()).and_then(Value::as_u32);
        self.job_size = declared.map(|declared| declared.max(job.rank_count));
        Ok(())
    }

    /// Publishes a rank's commit, and returns its effect.
    pub(crate) fn append_block(
        &mut self,
        rank: u32,
        origin: Origin,
        values: &[Posted],
    ) -> Result<Committed, StoreError> {
        self.check_commit(rank, values)?;
        let news = self.news(rank, origin, values)?;
        if news.is_empty() {
            return Ok(Committed::default());
        }
        let holder = (origin == Origin::Local).then_some(rank);
        let mut ids = Vec::with_capacity(news.len());
        for new in &news {
            ids.push(self.intern(new.key.as_str(), holder)?);
        }
        let table = self.ensure_modex_table(rank.saturating_add(1))?;
        let start = self.image().base();
        let large_bytes = news.iter().filter_map(|new| new.value.large()).map(room_for).fold(0, u64::saturating_add);
        let mut image = Image::new(start.saturating_add(large_bytes), self.limits.segment_bytes_max);
        let mut entries = Vec::with_capacity(news.len());
        let mut next = start;
        for (new, id) in news.iter().zip(ids) {
            let cell = match new.value.large() {
                Some(bytes) => {
                    let cell = new.value.cell_at(next);
                    next = next.saturating_add(room_for(bytes));
                    cell
                }
                None => image.push_value(&new.value)?,
            };
            let origin = block::stored_origin(origin);
            entries.push(Entry { id: id.0, scope: new.scope, origin, reserved: 0, cell });
        }
        let payload_bytes = large_bytes.saturating_add(image.size_bytes());
        let offset = self.push_block(&mut image, rank, &mut entries)?;
        let size_bytes = large_bytes.saturating_add(image.size_bytes());
        self.permit_bytes(holder, size_bytes)?;
        let mark = self.segment.mark();
        let placed = self.place_large(&news, large_bytes).and_then(|()| self.publish_image(&image));
        if let Err(error) = placed {
            self.segment.truncate_to(mark)?;
            return Err(error);
        }
        self.segment.store(table, rank.into(), offset)?;
        self.qualified.add(rank, values);
        self.take_bytes(holder, size_bytes);
        self.count(Section::Payload, payload_bytes)?;
        self.count(Section::Blocks, size_bytes.saturating_sub(payload_bytes))?;
        self.segment.bump_generation(false);
        Ok(committed(&news))
    }

    /// Prepares some of the memory for a large value, if the segment may be so large. Returns whether more is to be
    /// prepared.
    pub(crate) fn prepare_some(&mut self, size_bytes: u64) -> bool {
        self.check_room(size_bytes).is_ok() && self.segment.prepare_some(size_bytes, PREPARED_STEP_BYTES)
    }

    /// Puts large values where the next bytes are allocated, one behind the other. They don't go through an image: that
    /// would be as much memory again.
    fn place_large(&mut self, news: &[New<'_>], size_bytes: u64) -> Result<(), StoreError> {
        if size_bytes == 0 {
            return Ok(());
        }
        let mut place = Some(self.segment.alloc(size_bytes, Align::Sixteen)?);
        for bytes in news.iter().filter_map(|new| new.value.large()) {
            let Some(offset) = place else { break };
            self.segment.write(offset, bytes)?;
            place = offset.get().checked_add(room_for(bytes)).and_then(Offset::from_raw);
        }
        Ok(())
    }

    fn check_commit(&self, rank: u32, values: &[Posted]) -> Result<(), StoreError> {
        self.check_block(rank, values.len())?;
        match values.iter().find(|posted| posted.scope == Scope::Internal) {
            Some(posted) => Err(StoreError::InternalScope { key: posted.key.clone() }),
            None => Ok(()),
        }
    }

    /// Checks whether a rank may post this many values at once.
    pub(super) fn check_block(&self, rank: u32, entry_count: usize) -> Result<(), StoreError> {
        let StoreLimits { ranks_max, commit_entries_max, .. } = self.limits;
        if rank >= ranks_max {
            return Err(StoreError::RankOutOfRange { rank, ranks_max });
        }
        if let Some(job_size) = self.job_size.filter(|&job_size| rank >= job_size) {
            return Err(StoreError::RankOutsideJob { rank, job_size });
        }
        if u32::try_from(entry_count).map_or(true, |found| found > commit_entries_max) {
            return Err(StoreError::TooManyEntries { found: entry_count, entries_max: commit_entries_max });
        }
        Ok(())
    }

    /// The values of a commit that differ from the stored ones. The last value of a key counts in the scopes that
    /// several cover. One value in two scopes becomes one entry.
    fn news<'v>(&self, rank: u32, origin: Origin, values: &'v [Posted]) -> Result<Vec<New<'v>>, StoreError> {
        let mut news: Vec<New<'v>> = Vec::with_capacity(values.len());
        // Position of the last entry of each key.
        let mut last: FxHashMap<&str, usize> = FxHashMap::default();
        for posted in values.iter().rev() {
            let value = Encoded::new(&posted.value, self.limits.value_bytes_max)
                .map_err(|reason| StoreError::Value { key: posted.key.clone(), reason })?;
            let behind = last.get(posted.key.as_str()).copied();
            let (mut covered, mut equal, mut next) = (0, None, behind);
            while let Some((at, new)) = next.and_then(|at| Some((at, news.get(at)?))) {
                covered |= new.scope;
                equal = equal.or_else(|| (new.value.identity() == value.identity()).then_some(at));
                next = new.behind;
            }
            let scope = posted.scope.to_raw() & !covered;
            match equal.and_then(|at| news.get_mut(at)) {
                Some(new) => new.scope |= scope,
                None if scope != 0 => {
                    last.insert(posted.key.as_str(), news.len());
                    news.push(New { key: &posted.key, scope, value, behind });
                }
                None => {}
            }
        }
        let mut kept = Vec::with_capacity(news.len());
        for new in news.into_iter().rev() {
            if !self.is_stored(rank, origin, new.key.as_str(), new.scope, &new.value)? {
                kept.push(new);
            }
        }
        Ok(kept)
    }

    /// Whether all intended readers already find this same value.
    pub(super) fn is_stored(
        &self,
        rank: u32,
        origin: Origin,
        key: &str,
        scope: u8,
        value: &Encoded<'_>,
    ) -> Result<bool, StoreError> {
        let segment = self.segment_view();
        let Some(key) = dictionary::find(segment, &KeyRef::new(key))? else { return Ok(value.is_undefined()) };
        let entry = Entry { scope, origin: block::stored_origin(origin), ..Entry::default() };
        for audience in [None, Some(Audience::SameNode), Some(Audience::OtherNodes)] {
            if !block::is_visible(&entry, audience) {
                continue;
            }
            match block::find(segment, rank, key.id, audience)? {
                Posting::Visible(found) if found.identity() == Some(value.identity()) => {}
                // There is nothing to remove.
                Posting::Absent | Posting::Removed | Posting::Hidden if value.is_undefined() => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds a block that absorbs earlier blocks where worthwhile; returns its future offset.
    pub(super) fn push_block(&self, image: &mut Image, rank: u32, entries: &mut Vec<Entry>) -> Result<u64, StoreError> {
        entries.sort_by_key(|entry| entry.id);
        let mut previous = NO_BLOCK;
        let mut absorption = Absorption::new(Chain::of_rank(self.segment_view(), rank)?.count());
        for older in Chain::of_rank(self.segment_view(), rank)? {
            let older = older?;
            if !absorption.takes(entries.len(), older.entries.len()) {
                previous = older.offset;
                break;
            }
            block::absorb(entries, older.entries);
        }
        push_block(image, previous, entries)
    }

    /// The ids of a record's known keys, and its unknown keys, for which there is room.
    fn known_keys<'r>(&self, job: &'r JobRecord) -> Result<(KeyIds<'r>, Vec<&'r str>), StoreError> {
        let mut ids = KeyIds::default();
        let mut unknown = Vec::new();
        for key in record::keys(job).map(Key::as_str) {
            if ids.contains_key(key) {
                continue;
            }
            let known = dictionary::find(self.segment_view(), &KeyRef::new(key))?;
            if known.is_none() {
                unknown.push(key);
            }
            ids.insert(key, known.map_or(KeyId(0), |known| known.id));
        }
        let keys_max = self.limits.keys_max;
        let room = usize::try_from(keys_max.saturating_sub(self.key_count)).unwrap_or(usize::MAX);
        match unknown.get(room) {
            Some(key) => Err(StoreError::TooManyKeys { key: (*key).to_owned(), keys_max }),
            None => Ok((ids, unknown)),
        }
    }

    /// Whether the dictionary's table would be more than half full with one more key than `added`.
    fn is_dictionary_full(&self, added: usize) -> bool {
        let keys = u64::from(self.key_count).saturating_add(u64::try_from(added).unwrap_or(u64::MAX));
        keys.saturating_mul(2) >= self.keys.cell_count()
    }

    /// The id of a key; a new key is added to the dictionary.
    pub(super) fn intern(&mut self, key: &str, holder: Option<u32>) -> Result<KeyId, StoreError> {
        let wanted = KeyRef::new(key);
        if let Some(known) = dictionary::find(self.segment_view(), &wanted)? {
            return Ok(known.id);
        }
        self.permit_key(key, holder)?;
        self.grow_dictionary_in_time()?;
        let mut image = self.image();
        let id = push_key(&mut image, &wanted)?;
        self.publish_image(&image)?;
        self.enter_key(id, &wanted)?;
        self.count(Section::Dictionary, image.size_bytes())?;
        if let Some(holder) = holder {
            self.key_shares.take(holder, 1);
        }
        self.take_bytes(holder, image.size_bytes());
        Ok(id)
    }

    /// Sets the number of local processes that share the remaining limits.
    pub(crate) fn share_among(&mut self, processes: u32) {
        self.key_shares.share_among(processes);
        self.byte_shares.share_among(processes);
    }

    /// Whether a local process, or a remote block, may add a key.
    fn permit_key(&self, key: &str, holder: Option<u32>) -> Result<(), StoreError> {
        let keys_max = self.limits.keys_max;
        let free = keys_max.saturating_sub(self.key_count);
        let permitted = self.key_shares.permit(holder, 1, free.into());
        match (permitted, holder) {
            (Ok(()), _) if free > 0 => Ok(()),
            (Err(Exceeded { held, left }), Some(rank)) => {
                Err(StoreError::Share { shared: Shared::Keys, rank, held, needed: 1, left })
            }
            _ => Err(StoreError::TooManyKeys { key: key.to_owned(), keys_max }),
        }
    }

    /// Whether a local process, or a remote block, may add this many bytes.
    fn permit_bytes(&self, holder: Option<u32>, needed: u64) -> Result<(), StoreError> {
        let (allocated, bytes_max) = (self.segment.allocated_bytes(), self.limits.segment_bytes_max);
        let permitted = self.byte_shares.permit(holder, needed, bytes_max.saturating_sub(allocated));
        permitted.map_err(|Exceeded { held, left }| match holder {
            Some(rank) => StoreError::Share { shared: Shared::Bytes, rank, held, needed, left },
            None => StoreError::SegmentFull { need_bytes: allocated.saturating_add(needed), bytes_max },
        })
    }

    fn take_bytes(&mut self, holder: Option<u32>, bytes: u64) {
        if let Some(holder) = holder {
            self.byte_shares.take(holder, bytes);
        }
    }

    /// Lets readers find a published key.
    fn enter_key(&mut self, id: KeyId, key: &KeyRef<'_>) -> Result<(), StoreError> {
        self.fill_slot(self.keys, id, key.hash)?;
        if let Some(growth) = self.larger_keys {
            self.fill_slot(growth.table, id, key.hash)?;
        }
        self.key_count = self.key_count.saturating_add(1);
        Ok(())
    }

    /// A qualified value, copied, whole: the best match.
    pub(crate) fn lookup_qualified(&self, lookup: &Lookup<'_>, qualifiers: &[Info]) -> Result<Value, ReadError> {
        QualifiedSearch::new(&self.qualified, &self.reader, lookup, qualifiers).run()
    }

    /// Replaces the dictionary's table at once by one of twice the size.
    fn grow_dictionary(&mut self) -> Result<(), StoreError> {
        self.begin_growth()?;
        self.move_keys(u64::MAX)
    }

    /// Replaces the dictionary's table in small steps, one for each new key of a commit, before it is full. Thus
    /// usually no single commit has to allocate the larger table or to move all keys.
    ///
    /// | keys / cells | step |
    /// |---|---|
    /// | from 5/16 | prepare memory for the larger table |
    /// | from 6/16 | move some keys |
    /// | 8/16 | the present table is full |
    fn grow_dictionary_in_time(&mut self) -> Result<(), StoreError> {
        let (keys, cells) = (u64::from(self.key_count), self.keys.cell_count());
        if cells >= CELLS_MOVED_MIN {
            let sixteenths = keys.saturating_mul(16);
            // Without room for a larger table, keys go into the present one until it is full.
            if sixteenths >= cells.saturating_mul(6) && self.begin_growth().is_ok() {
                self.move_keys(CELLS_MOVED_PER_KEY)?;
            } else if sixteenths >= cells.saturating_mul(5) {
                self.prepare_growth(sixteenths - cells.saturating_mul(5));
            }
        }
        if self.is_dictionary_full(0) { self.grow_dictionary() } else { Ok(()) }
    }

    /// Prepares memory for a part of the larger table: all of it when `part` reaches the number of cells.
    fn prepare_growth(&mut self, part: u64) {
        let ahead_bytes = part.saturating_mul(LARGER_CELLS_BYTES);
        if self.check_room(ahead_bytes).is_ok() {
            self.segment.prepare(ahead_bytes);
        }
    }

    fn begin_growth(&mut self) -> Result<(), StoreError> {
        if self.larger_keys.is_none() {
            // Later keys are entered in both tables.
            let end = self.segment.allocated_bytes();
            let table = self.new_table(self.keys.cell_count().saturating_mul(2))?;
            self.larger_keys = Some(Growth { table, next: 0, end });
        }
        Ok(())
    }

    /// Moves the keys of the next `cells` cells; after the last one, the larger table becomes the dictionary's.
    fn move_keys(&mut self, cells: u64) -> Result<(), StoreError> {
        let Some(Growth { table, next, end }) = self.larger_keys else { return Ok(()) };
        let stop = next.saturating_add(cells).min(self.keys.cell_count());
        for index in next..stop {
            let moved = dictionary::unpack(self.segment.load(self.keys, index)?).filter(|(_, id)| id.offset() < end);
            if let Some((_, id)) = moved {
                let hash = dictionary::hash(self.segment_view(), id)?;
                self.fill_slot(table, id, hash)?;
            }
        }
        if stop < self.keys.cell_count() {
            self.larger_keys = Some(Growth { table, next: stop, end });
            return Ok(());
        }
        self.larger_keys = None;
        self.segment.set_root(root::KEYS, table.offset())?;
        self.keys = table;
        self.count(Section::Dictionary, table_bytes(table))
    }

    fn fill_slot(&mut self, table: TableRef, id: KeyId, hash: u64) -> Result<(), StoreError> {
        let index = dictionary::free_slot(self.segment_view(), table, hash)?;
        let full = Damage::Missing { what: "a free slot of the key dictionary" };
        Ok(self.segment.store(table, index.ok_or(full)?, dictionary::slot(id, hash))?)
    }

    /// A modex table for at least `rank_count` ranks: the present one, or a larger replacement. The first one is made
    /// with the first posted value.
    pub(super) fn ensure_modex_table(&mut self, rank_count: u32) -> Result<TableRef, StoreError> {
        let larger = match (self.modex, self.larger_modex_table(rank_count)) {
            (Some(table), None) => return Ok(table),
            (_, size) => self.new_table(size.unwrap_or(rank_count.into()))?,
        };
        if let Some(table) = self.modex {
            for rank in 0..table.cell_count() {
                let newest = self.segment.load(table, rank)?;
                self.segment.store(larger, rank, newest)?;
            }
        }
        self.segment.set_root(root::MODEX, larger.offset())?;
        self.modex = Some(larger);
        self.count(Section::ModexTable, table_bytes(larger))?;
        Ok(larger)
    }

    /// Number of cells of a new modex table for `rank_count` ranks; `None` if the present one is large enough.
    pub(super) fn larger_modex_table(&self, rank_count: u32) -> Option<u64> {
        let wanted = u64::from(rank_count.max(self.rank_count));
        match self.modex {
            Some(table) if table.cell_count() >= u64::from(rank_count) => None,
            // Doubling keeps the number of tables small if ranks arrive one by one before the job's description.
            Some(table) => Some(wanted.max(table.cell_count().saturating_mul(2)).min(self.limits.ranks_max.into())),
            None => Some(wanted),
        }
    }

    /// A table of zeros, readable but not yet referenced.
    pub(super) fn new_table(&mut self, cell_count: u64) -> Result<TableRef, StoreError> {
        self.check_room(cell_count.saturating_mul(8))?;
        let table = self.segment.alloc_table(cell_count)?;
        self.segment.publish();
        Ok(table)
    }

    /// Refuses data that exceeds the limit.
    fn check_room(&self, size_bytes: u64) -> Result<(), StoreError> {
        let need_bytes = self.segment.allocated_bytes().saturating_add(size_bytes);
        let bytes_max = self.limits.segment_bytes_max;
        if need_bytes > bytes_max { Err(StoreError::SegmentFull { need_bytes, bytes_max }) } else { Ok(()) }
    }

    fn link_record(&mut self, size_bytes: u64, placed: &record::PlacedRecord) -> Result<(), StoreError> {
        self.set_root(root::JOB, placed.offset)?;
        self.count(Section::Columns, placed.column_bytes)?;
        self.count(Section::JobRecord, size_bytes.saturating_sub(placed.column_bytes))?;
        self.segment.bump_generation(false);
        Ok(())
    }

    /// An image for the next allocation.
    pub(super) fn image(&self) -> Image {
        let base = self.segment.allocated_bytes().next_multiple_of(Image::ALIGN);
        Image::new(base, self.limits.segment_bytes_max)
    }

    /// The same for remote values, which must leave free the guaranteed parts of local processes.
    pub(super) fn image_from_elsewhere(&self) -> Image {
        let kept_bytes = self.byte_shares.reserved_for_others(None);
        Image::new(self.image().base(), self.limits.segment_bytes_max.saturating_sub(kept_bytes))
    }

    /// Copies an image to its offset and publishes it.
    pub(super) fn publish_image(&mut self, image: &Image) -> Result<(), StoreError> {
        let offset = self.segment.append(image.bytes(), Align::Sixteen)?;
        assert!(image.is_at(offset.get()), "an image must be written before anything else is allocated");
        // Readers check bounds in whole words, so the end is aligned. Without room for that, the last bytes take their
        // slower path.
        let _ = self.segment.alloc(0, Align::Sixteen);
        self.segment.publish();
        Ok(())
    }

    pub(super) fn set_root(&mut self, root: RootIndex, target: u64) -> Result<(), StoreError> {
        match Offset::from_raw(target) {
            Some(target) => Ok(self.segment.set_root(root, target)?),
            None => Ok(()),
        }
    }

    /// Adds to a counter.
    pub(super) fn count(&mut self, section: Section, bytes: u64) -> Result<(), StoreError> {
        let before = self.segment.load(self.statistics, section.cell())?;
        Ok(self.segment.store(self.statistics, section.cell(), before.saturating_add(bytes))?)
    }

    pub(super) fn segment_view(&self) -> SegmentView<'_> {
        self.reader.segment_view()
    }
}

/// Adds a block of these sorted entries; returns its future offset.
pub(super) fn push_block(image: &mut Image, previous: u64, entries: &[Entry]) -> Result<u64, StoreError> {
    let entry_count = u32::try_from(entries.len());
    let entry_count =
        entry_count.map_err(|_| StoreError::TooManyEntries { found: entries.len(), entries_max: u32::MAX })?;
    let offset = image.push_record(&BlockHead { previous, entry_count, reserved: 0 })?;
    image.push_array(entries)?;
    Ok(offset)
}

/// The previous block of a rank's first block.
pub(super) const NO_BLOCK: u64 = 0;

/// A value to be published.
struct New<'v> {
    key: &'v Key,
    /// Scopes, as a bit set.
    scope: u8,
    value: Encoded<'v>,
    /// Another value of the key, for other scopes.
    behind: Option<usize>,
}

/// The effect of publishing these values.
fn committed(news: &[New<'_>]) -> Committed {
    let for_others = news.iter().filter(|new| new.scope & Scope::Remote.to_raw() != 0);
    Committed { is_changed: !news.is_empty(), keys_for_others: for_others.map(|new| new.key.clone()).collect() }
}

/// Bytes of a large value in the segment, with the zeros behind it.
fn room_for(bytes: &[u8]) -> u64 {
    let size_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX).saturating_add(1);
    size_bytes.checked_next_multiple_of(Image::ALIGN).unwrap_or(u64::MAX)
}

/// Adds a key to an image; returns its id.
fn push_key(image: &mut Image, key: &KeyRef<'_>) -> Result<KeyId, StoreError> {
    let offset = image.push_record(&dictionary::new_head(key.name, key.hash))?;
    image.push(1, key.name.as_bytes())?;
    image.push(1, &[0])?;
    let full = StoreError::SegmentFull { need_bytes: offset, bytes_max: u64::from(u32::MAX) * KEY_ALIGN };
    KeyId::at(offset).ok_or(full)
}

fn table_bytes(table: TableRef) -> u64 {
    table.cell_count().saturating_mul(8)
}
