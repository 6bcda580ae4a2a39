//! The nodes of processes without a process map, from the values that the host gave for each process.
//!
//! If every process of the job has a named node, the ranks of the nodes make a process map. This map has the same
//! effect as a given one. If one process has no named node, or is on two nodes, nothing is derived.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::gds::job_record::{Column, ColumnValues, JobRecord};
use crate::keys;
use crate::regex::RankMap;
use crate::types::Value;

use super::coerce::text_of;
use super::collect::Facts;
use super::columns::Columns;
use super::context::DescriptionLimits;
use super::derive;
use super::error::RegisterError;
use super::node_identity::NodeIdentity;
use super::nodes::Nodes;
use super::previous;
use super::table::ValueTable;

/// The node of each process.
#[derive(Debug)]
pub(super) struct Homes {
    /// The index of its node, by rank.
    nodes: Vec<u32>,
    /// Node data from processes alone: new nodes in the order of their indexes, and numbers.
    identities: Vec<NodeIdentity>,
}

impl Homes {
    /// The homes of all ranks below `size`; `None` if one is not known.
    pub(super) fn of(
        facts: &mut Facts<'_>,
        nodes: &Nodes<'_, '_>,
        earlier: Option<&EarlierHomes<'_>>,
        size: u32,
    ) -> Option<Self> {
        let length = usize::try_from(size).ok()?;
        // A size alone must not allocate memory.
        if size == 0 || facts.ranks.len() + earlier.map_or(0, EarlierHomes::given_count_max) < length {
            return None;
        }
        let ids = facts.procs.existing(keys::NODEID.name()).map(|column| column.numbers(size)).unwrap_or_default();
        let names = facts.procs.existing(keys::HOSTNAME.name()).map(|column| column.texts(size)).unwrap_or_default();
        let word = |rank: u32| {
            let at = usize::try_from(rank).unwrap_or(usize::MAX);
            let id = ids.get(at).copied().flatten().and_then(|id| u32::try_from(id).ok());
            let name = names.get(at).copied().flatten().map(Cow::Borrowed);
            let home = earlier.filter(|earlier| earlier.has_followed).and_then(|earlier| earlier.home(rank));
            match earlier {
                Some(earlier) if name.is_none() && id.is_none() && home.is_none() => earlier.word(rank),
                _ => Word { name, id, home },
            }
        };
        let mut search = Search::new(nodes);
        let mut homes = vec![NOWHERE; length];
        // Names come first, because a number alone may mean a node that other processes name.
        for is_named in [true, false] {
            for (rank, home) in (0..).zip(&mut homes) {
                let word = word(rank);
                if word.name.is_some() == is_named {
                    *home = search.home(&word)?;
                }
            }
        }
        // A description that is accepted without the job's size must not be refused with it. The server's own node may
        // be one more.
        nodes
            .has_room_for(search.new_count.saturating_add(1))
            .then_some(Self { nodes: homes, identities: search.identities })
    }

    /// Adds the nodes. A node without a number is numbered by its position, like a node of a map.
    pub(super) fn settle(&mut self, nodes: &mut Nodes<'_, '_>) -> Result<(), RegisterError> {
        for identity in std::mem::take(&mut self.identities) {
            nodes.place(identity).map_err(|error| error.about(keys::HOSTNAME.name()))?;
        }
        nodes.imply_ids();
        Ok(())
    }

    /// The process map that the host could have given.
    pub(super) fn map(&self, node_count: u32, limits: &DescriptionLimits) -> Result<RankMap, RegisterError> {
        map(&self.nodes, node_count, limits)
    }
}

/// Known data about the node of a process.
struct Word<'w> {
    name: Option<Cow<'w, str>>,
    id: Option<u32>,
    /// Its earlier node.
    home: Option<u32>,
}

/// The search for homes, process by process. `None` from any step: nothing is derived.
struct Search<'n, 'm, 'a> {
    nodes: &'n Nodes<'m, 'a>,
    /// Node by name, for names from processes alone.
    named: FxHashMap<String, u32>,
    /// Number of new nodes among them.
    new_count: u32,
    /// Node by number, for numbers from processes alone; `numbers` is the inverse.
    numbered: FxHashMap<u32, u32>,
    numbers: FxHashMap<u32, u32>,
    identities: Vec<NodeIdentity>,
}

impl<'n, 'm, 'a> Search<'n, 'm, 'a> {
    fn new(nodes: &'n Nodes<'m, 'a>) -> Self {
        let (named, numbered, numbers) = Default::default();
        Self { nodes, named, new_count: 0, numbered, numbers, identities: Vec::new() }
    }

    fn home(&mut self, word: &Word<'_>) -> Option<u32> {
        let home = match (&word.name, word.id) {
            (Some(name), id) => self.by_name(name, id),
            (None, Some(id)) => {
                let known = self.numbered.get(&id).copied().or_else(|| self.nodes.index_of_id(id));
                known.or(word.home)?
            }
            (None, None) => word.home?,
        };
        let name = word.name.as_deref().or_else(|| self.nodes.name(home));
        let is_named = name.is_some() || home >= self.nodes.count();
        let is_numbered = word.id.is_none_or(|id| self.number(home, id, name));
        (is_named && is_numbered).then_some(home)
    }

    fn by_name(&mut self, name: &str, id: Option<u32>) -> u32 {
        if let Some(known) = self.nodes.index_of_name(name).or_else(|| self.named.get(name).copied()) {
            return known;
        }
        let other = id.and_then(|id| self.nodes.index_of_other_name(name, id));
        // The index that it gets when it is placed.
        let home = other.unwrap_or_else(|| self.nodes.count().saturating_add(self.new_count));
        self.new_count += u32::from(other.is_none());
        self.named.insert(name.to_owned(), home);
        self.say(name, other.and(id));
        home
    }

    /// Gives a node a number. Returns whether the node has this number and no other node has it.
    fn number(&mut self, home: u32, id: u32, name: Option<&str>) -> bool {
        if let Some(own) = self.nodes.given_id(home).or_else(|| self.numbers.get(&home).copied()) {
            return own == id;
        }
        if self.nodes.is_given(id) || self.numbered.contains_key(&id) {
            return false;
        }
        self.numbered.insert(id, home);
        self.numbers.insert(home, id);
        name.map(|name| self.say(name, Some(id))).is_some()
    }

    fn say(&mut self, name: &str, id: Option<u32>) {
        self.identities.push(NodeIdentity { hostname: Some(name.to_owned()), id, ..NodeIdentity::default() });
    }
}

/// The nodes of processes after an earlier registration without maps.
#[derive(Debug)]
pub(super) struct EarlierHomes<'r> {
    record: &'r JobRecord,
    /// The nodes by their numbers.
    indexes: FxHashMap<u32, u32>,
    /// The index of each process's node according to its number, by rank.
    nodes: Vec<u32>,
    ids: Option<&'r ColumnValues>,
    hostnames: Option<&'r ColumnValues>,
    /// Whether all processes had a named node, so that values were derived from their map, numbers of nodes included.
    pub(super) has_followed: bool,
}

impl<'r> EarlierHomes<'r> {
    pub(super) fn of(record: &'r JobRecord) -> Self {
        let values = |key: &str| previous::column(&record.proc_columns, key).map(|column| &column.values);
        let (ids, hostnames) = (values(keys::NODEID.name()), values(keys::HOSTNAME.name()));
        let indexes = previous::indexes_by_id(record);
        let home = |ids, rank| indexes.get(&previous::value_at(ids, rank)?.as_u32()?).copied();
        let homes = |ids| (0..record.rank_count).map(|rank| home(ids, rank).unwrap_or(NOWHERE)).collect();
        let nodes: Vec<u32> = ids.map(homes).unwrap_or_default();
        let names = previous::column(&record.node_columns, keys::HOSTNAME.name());
        let has_name = |index| names.is_some_and(|names| previous::value_at(&names.values, index).is_some());
        let named: Vec<bool> = (0..record.node_count).map(has_name).collect();
        let is_named = |home: &u32| usize::try_from(*home).is_ok_and(|home| named.get(home) == Some(&true));
        let has_followed =
            [keys::JOB_SIZE.name(), keys::NODE_LIST.name()].iter().all(|key| record.job_value(key).is_some())
                && !nodes.is_empty()
                && nodes.iter().all(is_named);
        Self { record, indexes, nodes, ids, hostnames, has_followed }
    }

    /// An upper bound of the processes with values that may lead to their nodes.
    fn given_count_max(&self) -> usize {
        let is_given = self.ids.is_some() || self.hostnames.is_some();
        if is_given { usize::try_from(self.record.rank_count).unwrap_or(usize::MAX) } else { 0 }
    }

    fn home(&self, rank: u32) -> Option<u32> {
        home(&self.nodes, rank)
    }

    /// Values of a process whose node was unknown.
    fn word(&self, rank: u32) -> Word<'static> {
        let value = |values: Option<&ColumnValues>| previous::value_at(values?, rank);
        let name = value(self.hostnames).as_ref().and_then(text_of).map(Cow::Owned);
        Word { name, id: value(self.ids).as_ref().and_then(Value::as_u32), home: None }
    }

    /// The earlier record without values derived from these homes, if they or the nodes' numbers have changed. A host's
    /// value that equals the derived one counts as derived.
    pub(super) fn without_what_followed(
        &self,
        now: Option<&Homes>,
        nodes: &Nodes<'_, '_>,
        limits: &DescriptionLimits,
    ) -> Result<Option<JobRecord>, RegisterError> {
        let is_number = |(id, index): (&u32, &u32)| nodes.id(*index) == Some(*id);
        let stays = || now.is_some_and(|now| now.nodes == self.nodes) && self.indexes.iter().all(is_number);
        if !self.has_followed || stays() {
            return Ok(None);
        }
        let mut nodes = Nodes::new(limits);
        previous::add_nodes(&mut nodes, self.record, self.has_followed, limits)?;
        nodes.settle_ids()?;
        nodes.fill_identities();
        let map = map(&self.nodes, nodes.count(), limits)?;
        let (mut job, mut of_nodes, mut of_procs) = (ValueTable::default(), Columns::default(), Columns::default());
        derive::fill_node_list(&mut job, &mut nodes, &map);
        derive::fill_nodes(&mut of_nodes, nodes.count(), &map);
        derive::fill_places(&mut of_procs, &mut nodes, &map, self.record.rank_count);

        let mut record = self.record.clone();
        record.job.retain(|(key, value)| job.get(key.as_str()) != Some(value));
        for Column { key, values } in of_nodes.finish(record.node_count) {
            let follows = |index: u32, value: &Value| previous::value_at(&values, index).as_ref() == Some(value);
            subtract(&mut record.node_columns, key.as_str(), record.node_count, follows);
        }
        const LEAD_THERE: [&str; 2] = [keys::NODEID.name(), keys::HOSTNAME.name()];
        for Column { key, values } in of_procs.finish(record.rank_count) {
            let has_moved = |rank: u32| now.is_some_and(|now| home(&now.nodes, rank) != self.home(rank));
            let follows = |rank: u32, value: &Value| match LEAD_THERE.contains(&key.as_str()) {
                true => has_moved(rank),
                false => previous::value_at(&values, rank).as_ref() == Some(value),
            };
            subtract(&mut record.proc_columns, key.as_str(), record.rank_count, follows);
        }
        Ok(Some(record))
    }
}

/// Removes values from a column. A column that repeats its nodes' values stays, because it follows the nodes' numbers.
fn subtract(columns: &mut [Column], key: &str, count: u32, is_gone: impl Fn(u32, &Value) -> bool) {
    let is_meant = |column: &&mut Column| column.key.as_str() == key && column.values != ColumnValues::OfNode;
    let Some(column) = columns.iter_mut().find(is_meant) else { return };
    let values = (0..count).filter_map(|index| Some((index, previous::value_at(&column.values, index)?)));
    column.values = ColumnValues::Sparse(values.filter(|(index, value)| !is_gone(*index, value)).collect());
}

/// The ranks of each node, in order.
fn map(homes: &[u32], node_count: u32, limits: &DescriptionLimits) -> Result<RankMap, RegisterError> {
    let position = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let mut firsts = vec![NOWHERE; position(node_count)];
    let mut nexts = vec![NOWHERE; homes.len()];
    let rank_count = u32::try_from(homes.len()).unwrap_or(u32::MAX);
    for (rank, next) in (0..rank_count).zip(&mut nexts).rev() {
        if let Some(first) = home(homes, rank).and_then(|home| firsts.get_mut(position(home))) {
            *next = std::mem::replace(first, rank);
        }
    }
    let known = |rank: u32| (rank != NOWHERE).then_some(rank);
    let next = |rank: &u32| known(*nexts.get(position(*rank))?);
    let nodes = firsts.iter().map(|first| std::iter::successors(known(*first), next));
    RankMap::from_ranks(nodes, &limits.of_maps()).map_err(RegisterError::ProcMap)
}

fn home(homes: &[u32], rank: u32) -> Option<u32> {
    homes.get(usize::try_from(rank).ok()?).copied().filter(|home| *home != NOWHERE)
}

/// Stands for no node; larger than any index and rank.
const NOWHERE: u32 = u32::MAX;
