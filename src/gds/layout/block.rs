//! Modex blocks: the committed values of one rank, newest first.
//!
//! A block holds all values of one commit, and the values of small earlier blocks. A new block absorbs the blocks
//! before it until the next one has at least twice its entries. So a rank with `n` values has at most `log2(n) + 1`
//! blocks, however often it commits. Each value is copied about `log2(n)` times, as a cell without its payload.
//!
//! A block of more than 32,768 entries usually stays as it is. A copy of a million cells takes 50 ms, and all clients
//! wait meanwhile. Once a rank has more than 40 blocks, after some two million values, its large blocks are absorbed,
//! too.

use super::dictionary::KeyId;
use super::format::{Array, BlockHead, Cell, Entry, origin};
use super::segment_view::{CHAIN_MAX, Damage, SegmentView, root};
use super::value_ref::ValueRef;
use crate::gds::limits::StoreLimits;
use crate::gds::lookup::{Audience, Origin};
use crate::types::DataType;

/// Bytes of a block's head; its entries follow.
pub(crate) const HEAD_BYTES: u64 = 16;
const _: () = assert!(size_of::<BlockHead>() == 16);

/// A block in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockView<'a> {
    pub(crate) offset: u64,
    pub(crate) previous: u64,
    pub(crate) entries: &'a [Entry],
}

impl<'a> BlockView<'a> {
    #[inline(always)]
    fn at(segment: SegmentView<'a>, offset: u64) -> Result<Self, Damage> {
        let head = segment.record::<BlockHead>(offset)?;
        let entries = Array { offset: offset.saturating_add(HEAD_BYTES), count: head.entry_count.into() };
        Ok(Self { offset, previous: head.previous, entries: segment.array(entries)? })
    }

    /// The entries of one key, newest first: at most two, with disjoint scopes.
    #[inline(always)]
    pub(crate) fn entries_of(&self, key: KeyId) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let start = self.entries.partition_point(|entry| entry.id < key.0);
        self.entries.get(start..).unwrap_or_default().iter().take_while(move |entry| entry.id == key.0)
    }
}

/// The blocks of a rank, newest first. Ends after an error.
#[derive(Debug)]
pub(crate) struct Chain<'a> {
    segment: SegmentView<'a>,
    next: u64,
    steps: usize,
}

impl<'a> Chain<'a> {
    /// The blocks of a rank; none if it has not committed.
    #[inline(always)]
    pub(crate) fn of_rank(segment: SegmentView<'a>, rank: u32) -> Result<Self, Damage> {
        let newest = segment.root_cells(root::MODEX)?.and_then(|table| table.load(rank.into()));
        Ok(Self { segment, next: newest.unwrap_or_default(), steps: 0 })
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = Result<BlockView<'a>, Damage>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == 0 {
            return None;
        }
        let offset = std::mem::take(&mut self.next);
        let block = match BlockView::at(self.segment, offset) {
            Ok(block) => block,
            Err(damage) => return Some(Err(damage)),
        };
        self.steps += 1;
        // A block refers only to older blocks. Without this check a damaged chain could be a ring.
        if block.previous >= offset || self.steps > CHAIN_MAX {
            return Some(Err(Damage::Chain { offset }));
        }
        self.next = block.previous;
        Some(Ok(block))
    }
}

/// Result of a search for a posted value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Posting<'a> {
    /// The newest value that the reader may see.
    Visible(ValueRef<'a>),
    /// The process has removed the value.
    Removed,
    /// There are values, but none for this reader.
    Hidden,
    /// The rank has not committed the key.
    Absent,
}

/// Looks for the newest value of a key.
#[inline(always)]
pub(crate) fn find<'a>(
    segment: SegmentView<'a>,
    rank: u32,
    key: KeyId,
    audience: Option<Audience>,
) -> Result<Posting<'a>, Damage> {
    let mut posting = Posting::Absent;
    // Scopes in which a newer entry has replaced the entries of older blocks. Absorbed blocks have lost these entries,
    // so entries of other blocks must be ignored in the same way.
    let mut replaced = 0;
    for block in Chain::of_rank(segment, rank)? {
        for entry in block?.entries_of(key) {
            if scope_admits(entry.scope & !replaced, entry.origin, audience) {
                if is_removal(&entry.cell) {
                    return Ok(Posting::Removed);
                }
                let value = ValueRef::from_cell(segment, &entry.cell)?;
                return value.map(Posting::Visible).ok_or(Damage::Missing { what: "a posted value" });
            }
            posting = Posting::Hidden;
            replaced |= entry.scope;
        }
    }
    Ok(posting)
}

/// Whether an entry removes the key's older values: its own value is undefined.
#[inline(always)]
pub(crate) const fn is_removal(cell: &Cell) -> bool {
    cell.data_type == DataType::Undefined.to_raw()
}

/// Whether an audience may see an entry; `None`: whether a process on the writer's node may see it.
#[inline]
pub(crate) const fn is_visible(entry: &Entry, audience: Option<Audience>) -> bool {
    scope_admits(entry.scope, entry.origin, audience)
}

#[inline(always)]
const fn scope_admits(scope: u8, origin: u8, audience: Option<Audience>) -> bool {
    let bit = match (audience, origin) {
        (Some(Audience::Nobody), _) => return false,
        (Some(Audience::SameNode), _) | (None, origin::LOCAL) => SCOPE_LOCAL,
        (Some(Audience::OtherNodes), _) | (None, _) => SCOPE_REMOTE,
    };
    scope & bit != 0
}

/// Bits of the standard's scopes: global is both.
pub(crate) const SCOPE_LOCAL: u8 = 1;
pub(crate) const SCOPE_REMOTE: u8 = 2;

/// An origin as stored.
pub(crate) const fn stored_origin(origin: Origin) -> u8 {
    match origin {
        Origin::Local => origin::LOCAL,
        Origin::Remote => origin::REMOTE,
    }
}

/// Adds the entries of an older block that `newer` does not replace. Both lists and the result are sorted by key, newer
/// entries first. An older entry lives on in scopes that no newer entry covers.
pub(crate) fn absorb(newer: &mut Vec<Entry>, older: &[Entry]) {
    let mut merged = Vec::with_capacity(newer.len().saturating_add(older.len()));
    let mut left = newer.iter().copied().peekable();
    // Scopes that newer entries of one key cover.
    let mut covered = (KeyId(0), 0);
    for entry in older {
        while let Some(newer) = left.next_if(|newer| newer.id <= entry.id) {
            let before = if covered.0 == KeyId(newer.id) { covered.1 } else { 0 };
            covered = (KeyId(newer.id), before | newer.scope);
            merged.push(newer);
        }
        let scope = entry.scope & !if covered.0 == KeyId(entry.id) { covered.1 } else { 0 };
        if scope != 0 {
            merged.push(Entry { scope, ..*entry });
        }
    }
    merged.extend(left);
    *newer = merged;
}

/// Decides which blocks of a rank a new block absorbs: copies, so that readers follow fewer blocks.
///
/// A small block is absorbed if the new one has more than half as many entries. A large block is absorbed only while
/// the rank has too many blocks. So a step copies a few times [`SMALL_ENTRIES_MAX`] entries, and rarely a few times the
/// rank's keys.
#[derive(Debug)]
pub(crate) struct Absorption {
    /// Number of the rank's older blocks that are left.
    depth: usize,
}

impl Absorption {
    /// For a rank with `depth` blocks.
    pub(crate) fn new(depth: usize) -> Self {
        Self { depth }
    }

    /// Whether the new block, with `entry_count` entries so far, absorbs the block before it.
    pub(crate) fn takes(&mut self, entry_count: usize, previous_entry_count: usize) -> bool {
        let is_smaller_than_twice = previous_entry_count < entry_count.saturating_mul(2);
        let takes = is_smaller_than_twice && (previous_entry_count <= SMALL_ENTRIES_MAX || self.depth > DEPTH_MAX);
        self.depth = self.depth.saturating_sub(usize::from(takes));
        takes
    }
}

/// Number of entries of a small block: a copy of them takes about a millisecond.
const SMALL_ENTRIES_MAX: usize = 1 << 15;
/// Number of blocks of a rank beyond which large ones are absorbed, too.
const DEPTH_MAX: usize = 40;
/// Entries of the largest block: at most two for each key. Blocks on top of [`DEPTH_MAX`] at least halve from one to
/// the next, so a chain stays within [`CHAIN_MAX`].
const BLOCK_ENTRIES_MAX: u32 = 2 * StoreLimits::KEYS_MAX;
const _: () = assert!(DEPTH_MAX + BLOCK_ENTRIES_MAX.ilog2() as usize + 2 <= CHAIN_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32, scope: u8, payload: u64) -> Entry {
        Entry {
            id,
            scope,
            cell: crate::gds::layout::format::Cell { payload, ..Default::default() },
            ..Entry::default()
        }
    }

    #[test]
    fn a_newer_entry_replaces_the_scopes_it_covers_and_no_others() {
        let mut newer = vec![entry(1, 1, 10), entry(3, 3, 30)];
        absorb(&mut newer, &[entry(1, 3, 1), entry(2, 1, 2), entry(3, 1, 3)]);
        assert_eq!(newer, vec![entry(1, 1, 10), entry(1, 2, 1), entry(2, 1, 2), entry(3, 3, 30)]);
    }

    #[test]
    fn each_audience_sees_its_scopes() {
        let local = entry(1, 1, 0);
        let from_elsewhere = Entry { origin: origin::REMOTE, ..entry(1, 2, 0) };
        assert!(is_visible(&local, None) && is_visible(&local, Some(Audience::SameNode)));
        assert!(!is_visible(&local, Some(Audience::OtherNodes)));
        assert!(is_visible(&from_elsewhere, None) && !is_visible(&from_elsewhere, Some(Audience::SameNode)));
    }

    /// Adds a block of `size` entries to a model of a chain, which keeps only the sizes of the blocks. A rank has
    /// `key_count` keys, so no block has more entries. Returns the number of copied entries.
    fn add(chain: &mut Vec<usize>, size: usize, key_count: usize) -> usize {
        let mut absorption = Absorption::new(chain.len());
        let (mut merged, mut copied) = (size, 0);
        while let Some(&previous) = chain.last()
            && absorption.takes(merged, previous)
        {
            merged = (merged + previous).min(key_count);
            copied += merged;
            chain.pop();
        }
        chain.push(merged);
        copied
    }

    #[test]
    fn chains_stay_logarithmic_whatever_the_sizes_of_the_commits() {
        for sizes in [vec![1_usize; 5000], (1..200).rev().collect(), (1..200).collect(), vec![100, 49, 24, 11, 5, 2, 1]]
        {
            let mut chain: Vec<usize> = Vec::new();
            for size in sizes {
                add(&mut chain, size, usize::MAX);
                let total: usize = chain.iter().sum();
                assert!(chain.len() <= total.ilog2() as usize + 1, "{chain:?}");
            }
        }
    }

    /// Regression: a rank with a million keys had them all copied at once, time and again. Each copy delayed all
    /// clients. The rule: one step copies a bounded number of entries, unless a reader would have to follow too many
    /// blocks.
    #[test]
    fn large_blocks_are_copied_seldom_and_chains_stay_bounded() {
        let key_count = 1 << 20;
        let mut chain: Vec<usize> = Vec::new();
        let mut large_copies = 0;
        for total in (1..=40_000_usize).map(|piece| piece * 256) {
            let copied = add(&mut chain, 256, key_count);
            large_copies += usize::from(copied > 4 * SMALL_ENTRIES_MAX);
            assert!(chain.len() < CHAIN_MAX, "{chain:?}");
            assert!(large_copies <= total / (2 * SMALL_ENTRIES_MAX), "{large_copies} after {total}");
            assert!(copied <= 4 * SMALL_ENTRIES_MAX || total >= DEPTH_MAX * SMALL_ENTRIES_MAX, "{copied} at {total}");
            assert!(copied <= 3 * key_count, "{copied} at {total}");
        }
        assert!(large_copies > 0);
    }

    /// The rule: a process that posts its keys again and again costs no step more than a few copies of them.
    #[test]
    fn keys_that_are_posted_again_are_never_copied_many_times_in_one_step() {
        let key_count = 100_000;
        let mut chain: Vec<usize> = Vec::new();
        let copied_max = (1..=40_000).map(|_| add(&mut chain, 256, key_count)).max().unwrap();
        assert!(copied_max <= 4 * key_count, "{copied_max}");
    }

    /// Regression: the number of large blocks to absorb was fixed before the small ones on top were absorbed. One
    /// commit of one key then copied all 40 large blocks of a rank again and again.
    #[test]
    fn halving_blocks_on_many_large_ones_cost_no_step_a_copy_of_everything() {
        let largest = BLOCK_ENTRIES_MAX as usize;
        let mut chain = vec![SMALL_ENTRIES_MAX + 1; DEPTH_MAX];
        let halves = std::iter::successors(Some(largest), |size| Some(size / 2).filter(|size| *size > 0));
        for size in halves {
            assert_eq!(add(&mut chain, size, usize::MAX), 0, "none is less than twice as large");
        }
        assert!(chain.len() <= CHAIN_MAX, "{}", chain.len());
        let copied = add(&mut chain, 1, usize::MAX);
        assert!(copied <= 4 * largest, "{copied}");
    }
}
