//! The index of qualified values: the names that a Get with qualifiers has to look up.
//!
//! A stored name follows from all qualifiers of a value, but a Get may leave some out. So the index has a row for each
//! qualifier of each posted value. The rows of one qualifier are in the order of the match: values with few qualifiers
//! first. The first name in the rows of all wanted qualifiers is the best one. A search goes through these rows in
//! step, so its time is that of the rarest qualifier.
//!
//! A row takes about as much memory as a small qualifier in the segment. So the limits of posted bytes bound the rows,
//! too.
//!
//! Registered values have no rows: they come from the host, and are few. A search looks up each of their names.

use std::collections::BTreeSet;

use crate::gds::layout::block::{self, Posting};
use crate::gds::layout::dictionary;
use crate::gds::layout::segment_view::Damage;
use crate::gds::layout::value_ref::ValueRef;
use crate::gds::lookup::{KeyRef, Lookup, Posted, RealmRequest};
use crate::gds::qualified::{self, Pattern, Qualified};
use crate::gds::read::reader::NamespaceReader;
use crate::gds::read::search::ReadError;
use crate::types::{Info, Key, Rank, Value};

/// The names of the qualified values in a namespace.
#[derive(Debug, Default)]
pub(super) struct QualifiedIndex {
    posted: BTreeSet<Row>,
    /// The names in the job record.
    registered: BTreeSet<String>,
}

/// One qualifier of one posted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// Hash of the key.
    key: u64,
    rank: u32,
    /// Hash of the qualifier.
    qualifier: u64,
    /// Number of qualifiers of the value.
    count: u32,
    /// Hash of all qualifiers, from the stored name.
    name: u64,
}

/// Position of a value in the order of the match: its number of qualifiers, and the hash in its name.
type MatchPosition = (u32, u64);

impl QualifiedIndex {
    /// Adds the qualified ones among posted values.
    pub(super) fn add(&mut self, rank: u32, values: &[Posted]) {
        for posted in values {
            let Some((key, name)) = qualified::hashes_in(posted.key.as_str()) else { continue };
            let Some(value) = Qualified::of(&posted.value) else { continue };
            let count = limited(value.qualifiers().count());
            let hashes = value.qualifiers().map(qualified::qualifier_hash);
            self.posted.extend(hashes.map(|qualifier| Row { key, rank, qualifier, count, name }));
        }
    }

    /// Takes the names of a job record, given all of its keys. Those of the previous record are forgotten.
    pub(super) fn set_registered<'k>(&mut self, keys: impl Iterator<Item = &'k Key>) {
        let names = keys.map(Key::as_str).filter(|name| qualified::is_qualified(name));
        self.registered = names.map(str::to_owned).collect();
    }

    /// Largest number of rows and names that a search examines.
    pub(super) fn examined_max(&self) -> usize {
        let rows_max = usize::try_from(STEPS_MAX).unwrap_or(usize::MAX);
        self.posted.len().min(rows_max).saturating_add(self.registered.len())
    }

    /// The registered names of a key, in order.
    fn registered_of(&self, key: &str) -> impl Iterator<Item = &str> {
        let prefix = qualified::prefix(key);
        let names = self.registered.range(prefix.clone()..);
        names.map(String::as_str).take_while(move |name| name.starts_with(&prefix))
    }

    /// The first position from `from` on of a rank's values with a qualifier.
    fn next_position(&self, key: u64, rank: u32, qualifier: u64, from: MatchPosition) -> Option<MatchPosition> {
        let row = |(count, name): MatchPosition| Row { key, rank, qualifier, count, name };
        self.posted.range(row(from)..=row((u32::MAX, u64::MAX))).next().map(|row| (row.count, row.name))
    }

    /// The first rank from `from` on that has posted qualified values of a key.
    fn next_rank(&self, key: u64, from: u32) -> Option<u32> {
        let row = |rank, qualifier| Row { key, rank, qualifier, count: 0, name: 0 };
        self.posted.range(row(from, 0)..=row(u32::MAX, u64::MAX)).next().map(|row| row.rank)
    }
}

/// The search for the best match of a Get.
///
/// Its time is bounded: beyond [`STEPS_MAX`] the best value so far counts. For a process this means that there is none,
/// because the first match is the best.
#[derive(Debug)]
pub(super) struct QualifiedSearch<'a> {
    index: &'a QualifiedIndex,
    reader: &'a NamespaceReader,
    lookup: &'a Lookup<'a>,
    pattern: Pattern<'a>,
    hashes: Vec<u64>,
    steps_left: u64,
    best: Option<Match>,
    /// Why there is no value.
    missing: ReadError,
}

#[derive(Debug)]
struct Match {
    /// Number of qualifiers that are not wanted.
    others: usize,
    name: String,
    value: Value,
}

/// Steps of a search. A step finds a row, which takes about half a microsecond in a large index.
const STEPS_MAX: u64 = 1 << 14;
/// Steps that a lookup of a value counts as: it searches up to 40 blocks of the rank.
const STEPS_PER_LOOKUP: u64 = 16;
/// Bytes of a value that are copied and compared in the time of a step.
const BYTES_PER_STEP: u64 = 64;

impl<'a> QualifiedSearch<'a> {
    pub(super) fn new(
        index: &'a QualifiedIndex,
        reader: &'a NamespaceReader,
        lookup: &'a Lookup<'a>,
        qualifiers: &[Info],
    ) -> Self {
        let pattern = Pattern::new(lookup.key.name, qualifiers);
        let hashes = pattern.hashes();
        let (steps_left, missing) = (STEPS_MAX, ReadError::NotFound);
        Self { index, reader, lookup, pattern, hashes, steps_left, best: None, missing }
    }

    /// The value, copied.
    pub(super) fn run(mut self) -> Result<Value, ReadError> {
        self.search()?;
        self.best.map(|best| best.value).ok_or(self.missing)
    }

    /// Most Gets have all qualifiers of their value. Then its name is known, and no other value can be better.
    fn search(&mut self) -> Result<(), Damage> {
        let exact = self.pattern.exact_name();
        if self.hashes.is_empty() || self.look_up(&exact) {
            return Ok(());
        }
        for name in self.index.registered_of(self.lookup.key.name) {
            self.look_up(name);
        }
        match (self.lookup.realm, self.lookup.rank) {
            (RealmRequest::Default, Rank::Process(rank)) => self.search_rank(rank),
            (RealmRequest::Default, Rank::Undefined) => self.search_all_ranks(),
            _ => Ok(()),
        }
    }

    /// Looks a name up as a whole, registered or posted. Returns whether its value is the best so far.
    fn look_up(&mut self, name: &str) -> bool {
        match self.reader.get(&Lookup { key: KeyRef::new(name), ..*self.lookup }) {
            Ok(value) => self.offer(name, &value),
            // The search of the posted values finds what is outside the scope.
            Err(ReadError::NotFound | ReadError::OutsideScope) => false,
            Err(damaged) => {
                self.missing = damaged;
                false
            }
        }
    }

    fn search_all_ranks(&mut self) -> Result<(), Damage> {
        let mut from = Some(0);
        while let Some(rank) = from.and_then(|from| self.index.next_rank(self.lookup.key.hash, from)) {
            if !self.has_steps_left() {
                break;
            }
            self.search_rank(rank)?;
            from = rank.checked_add(1);
        }
        Ok(())
    }

    /// Searches the posted values of a rank.
    fn search_rank(&mut self, rank: u32) -> Result<(), Damage> {
        let mut from = (limited(self.pattern.count()), 0);
        while let Some(position) = self.next_common(rank, from) {
            let name = qualified::name_of(self.lookup.key.hash, position.1);
            if self.best.as_ref().is_some_and(|best| best.is_at_least((self.others_at(position), &name))) {
                return Ok(());
            }
            self.spend(STEPS_PER_LOOKUP);
            match self.posted(rank, &name)? {
                Posting::Visible(value) if self.offer(&name, &value) => return Ok(()),
                // Another value with the same hash.
                Posting::Visible(_) => {}
                Posting::Hidden => self.missing = ReadError::OutsideScope,
                Posting::Absent | Posting::Removed => {}
            }
            match after(position) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// The first position from `at` on of a value with all wanted qualifiers, judged by their hashes. Goes through the
    /// qualifiers in turn until all have this position.
    fn next_common(&mut self, rank: u32, mut at: MatchPosition) -> Option<MatchPosition> {
        let mut agreeing = 0;
        for turn in 0.. {
            let qualifier = *self.hashes.get(turn % self.hashes.len())?;
            if !self.has_steps_left() {
                return None;
            }
            let position = self.index.next_position(self.lookup.key.hash, rank, qualifier, at)?;
            agreeing = if position == at { agreeing + 1 } else { 1 };
            at = position;
            if agreeing == self.hashes.len() {
                return Some(at);
            }
        }
        None
    }

    fn posted(&self, rank: u32, name: &str) -> Result<Posting<'a>, Damage> {
        let segment = self.reader.segment_view();
        let Some(key) = dictionary::find(segment, &KeyRef::new(name))? else { return Ok(Posting::Absent) };
        block::find(segment, rank, key.id, self.lookup.audience)
    }

    /// Copies and compares a value. Returns whether it is the best so far.
    fn offer(&mut self, name: &str, value: &ValueRef<'_>) -> bool {
        self.spend(value.payload_bytes().unwrap_or_default() / BYTES_PER_STEP);
        let value = match value.to_value() {
            Ok(value) => value,
            Err(damage) => {
                self.missing = damage.into();
                return false;
            }
        };
        let Some(others) = self.pattern.others(&value) else { return false };
        if self.best.as_ref().is_some_and(|best| best.is_at_least((others, name))) {
            return false;
        }
        self.best = Some(Match { others, name: name.to_owned(), value });
        true
    }

    fn others_at(&self, (count, _): MatchPosition) -> usize {
        usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(self.pattern.count())
    }

    /// Takes a step, if there is one left.
    fn has_steps_left(&mut self) -> bool {
        let is_left = self.steps_left > 0;
        self.spend(1);
        is_left
    }

    const fn spend(&mut self, steps: u64) {
        self.steps_left = self.steps_left.saturating_sub(steps);
    }
}

impl Match {
    /// Whether it is as good as a value with so many other qualifiers and this name.
    fn is_at_least(&self, other: (usize, &str)) -> bool {
        (self.others, self.name.as_str()) <= other
    }
}

/// The next position.
const fn after((count, name): MatchPosition) -> Option<MatchPosition> {
    match (name.checked_add(1), count.checked_add(1)) {
        (Some(name), _) => Some((count, name)),
        (None, Some(count)) => Some((count, 0)),
        (None, None) => None,
    }
}

fn limited(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::limits::StoreLimits;
    use crate::gds::lookup::{Audience, Origin};
    use crate::gds::write::writer::NamespaceWriter;
    use crate::shmem::{BackingKind, SegmentOptions};
    use crate::types::{InfoFlags, Scope};

    const KEY: &str = "k";

    fn info(name: &str, value: u32) -> Info {
        Info::new(Key::new(name.to_owned()).unwrap(), value)
    }

    fn qualifier(name: &str, value: u32) -> Info {
        Info { flags: InfoFlags::QUALIFIER.bits(), ..info(name, value) }
    }

    fn posted(scope: Scope, number: u32, qualifiers: Vec<Info>) -> Posted {
        let value = Value::info_array([vec![info(KEY, number)], qualifiers].concat());
        let (key, value) = qualified::stored(Key::from_static(qualified::QUALIFIED_VALUE), value);
        Posted { scope, key, value }
    }

    /// A namespace in which rank 0 has posted one value for each number below `count`.
    fn written(count: u32, of: impl Fn(u32) -> Posted) -> NamespaceWriter {
        let options = SegmentOptions { backing: BackingKind::Heap, ..SegmentOptions::new("job", "server") };
        let mut writer = NamespaceWriter::create(&options, StoreLimits::default()).unwrap();
        let values: Vec<Posted> = (0..count).map(of).collect();
        writer.append_block(0, Origin::Local, &values).unwrap();
        writer
    }

    /// The number found under these qualifiers, and the steps of the search.
    fn find(writer: &NamespaceWriter, rank: Rank, wanted: &[Info]) -> (Result<u32, ReadError>, u64) {
        let lookup = Lookup { rank, key: KeyRef::new(KEY), realm: RealmRequest::Default, audience: None };
        let mut search = QualifiedSearch::new(&writer.qualified, writer.reader(), &lookup, wanted);
        search.search().unwrap();
        let number = |best: &Match| Qualified::of(&best.value).and_then(|found| found.value().as_u32()).unwrap();
        (search.best.as_ref().map(number).ok_or(search.missing), STEPS_MAX - search.steps_left)
    }

    /// Regression: a Get with a qualifier that no value has copied all qualified values of its key. One process with
    /// 500,000 values stopped its server for 10 s with each Get. The rule: a search takes the time of the rarest wanted
    /// qualifier.
    #[test]
    fn a_search_does_not_depend_on_the_number_of_values_with_other_qualifiers() {
        let of = |number| posted(Scope::Global, number, vec![qualifier("a", number), qualifier("all", 0)]);
        let [few, many] = [500, 1000].map(|count| written(count, of));
        for rank in [Rank::Process(0), Rank::Undefined] {
            for (wanted, expected) in [
                (vec![qualifier("a", 5000)], Err(ReadError::NotFound)),
                (vec![qualifier("none", 0), qualifier("all", 0)], Err(ReadError::NotFound)),
                (vec![qualifier("a", 7), qualifier("a", 8)], Err(ReadError::NotFound)),
                (vec![qualifier("a", 7)], Ok(7)),
                (vec![qualifier("all", 0), qualifier("a", 7)], Ok(7)),
            ] {
                let [(one, steps), (other, steps_of_many)] = [&few, &many].map(|writer| find(writer, rank, &wanted));
                assert_eq!((one, other), (expected, expected), "{wanted:?}");
                assert!(steps == steps_of_many && steps < 30, "{steps} and {steps_of_many} for {wanted:?}");
            }
        }
    }

    #[test]
    fn a_search_ends_after_its_steps() {
        let hidden = |number| posted(Scope::Remote, number, vec![qualifier("a", number), qualifier("all", 0)]);
        let count = u32::try_from(STEPS_MAX / STEPS_PER_LOOKUP).unwrap() + 100;
        let writer = written(count, hidden);
        let (found, steps) = find(&writer, Rank::Process(0), &[qualifier("all", 0)]);
        assert_eq!((found, steps), (Err(ReadError::OutsideScope), STEPS_MAX));
        assert_eq!(find(&writer, Rank::Undefined, &[qualifier("all", 0)]).1, STEPS_MAX);
        // Two qualifiers that are never together.
        let apart = |number: u32| {
            let common = qualifier(if number.is_multiple_of(2) { "even" } else { "odd" }, 0);
            posted(Scope::Global, number, vec![qualifier("a", number), common])
        };
        let (found, steps) =
            find(&written(2000, apart), Rank::Process(0), &[qualifier("even", 0), qualifier("odd", 0)]);
        assert!(found == Err(ReadError::NotFound) && (2..4000).contains(&steps), "{steps}");
    }

    /// A process can make values whose qualifiers have one hash. Each costs a copy.
    #[test]
    fn values_with_the_hash_of_others_are_not_taken() {
        let mut writer = written(1, |number| posted(Scope::Global, number, vec![qualifier("a", 1), qualifier("b", 1)]));
        let Some((key, name)) = writer.qualified.posted.first().map(|row| (row.key, row.name)) else { panic!() };
        let qualifier_hash = qualified::qualifier_hash(&qualifier("c", 1));
        writer.qualified.posted.insert(Row { key, rank: 0, qualifier: qualifier_hash, count: 2, name });
        let (found, steps) = find(&writer, Rank::Process(0), &[qualifier("c", 1)]);
        assert!(found == Err(ReadError::NotFound) && steps > STEPS_PER_LOOKUP, "{steps}");
    }

    /// The limits of posted bytes bound the index. A set of rows takes up to twice their size.
    #[test]
    fn a_row_has_at_most_half_the_size_of_a_qualifier_in_the_segment() {
        let many = |count| (0..count).map(|number| qualifier("q", number)).collect::<Vec<_>>();
        let bytes = |count| {
            let lookup = Lookup {
                rank: Rank::Process(0),
                key: KeyRef::new(KEY),
                realm: RealmRequest::Default,
                audience: Some(Audience::SameNode),
            };
            let writer = written(1, |number| posted(Scope::Global, number, many(count)));
            let name = Pattern::new(KEY, &many(count)).exact_name();
            let found = writer.reader().get(&Lookup { key: KeyRef::new(&name), ..lookup }).unwrap();
            found.payload_bytes().unwrap()
        };
        let bytes_per_qualifier = (bytes(1100) - bytes(100)) / 1000;
        assert!(bytes_per_qualifier >= 2 * u64::try_from(size_of::<Row>()).unwrap(), "{bytes_per_qualifier}");
    }
}
