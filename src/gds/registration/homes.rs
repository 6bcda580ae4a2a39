//! Where processes run by the host's word on each of them, where no map places them.
//!
//! If every process of the job has a node with a name, the nodes' ranks are a process map like a told one, and all that follows
//! from that follows from this. If one has none, or a process is said to be on two nodes, nothing does.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::gds::job_record::{Column, ColumnValues, JobRecord};
use crate::keys;
use crate::regex::RankMap;
use crate::types::Value;

use super::coerce::text_of;
use super::collect::Facts;
use super::columns::Columns;
use super::context::Limits;
use super::derive;
use super::error::RegisterError;
use super::identity::Identity;
use super::nodes::Nodes;
use super::previous;
use super::table::Table;

/// The node of each process.
#[derive(Debug)]
pub(super) struct Homes {
    /// The index of its node, by rank.
    nodes: Vec<u32>,
    /// What processes say of nodes that nobody else does: those that are new in the order of their indexes, and numbers.
    identities: Vec<Identity>,
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
        // A size alone costs no memory.
        if size == 0 || facts.ranks.len() + earlier.map_or(0, EarlierHomes::told_count) < length {
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
        // Those with a name come first: a number alone may be that of a node that only others name.
        for is_named in [true, false] {
            for (rank, home) in (0..).zip(&mut homes) {
                let word = word(rank);
                if word.name.is_some() == is_named {
                    *home = search.home(&word)?;
                }
            }
        }
        // What is accepted while the job's size is not known is not refused for it. The server's own node may be one more.
        nodes
            .has_room_for(search.new_count.saturating_add(1))
            .then_some(Self { nodes: homes, identities: search.identities })
    }

    /// Makes the nodes known, and has each that nobody numbered be numbered by its position, as those of a map are.
    pub(super) fn settle(&mut self, nodes: &mut Nodes<'_, '_>) -> Result<(), RegisterError> {
        for identity in std::mem::take(&mut self.identities) {
            nodes.place(identity).map_err(|error| error.about(keys::HOSTNAME.name()))?;
        }
        nodes.imply_ids();
        Ok(())
    }

    /// The process map that a host could have told.
    pub(super) fn map(&self, node_count: u32, limits: &Limits) -> Result<RankMap, RegisterError> {
        map(&self.nodes, node_count, limits)
    }
}

/// What is known of the home of a process.
struct Word<'w> {
    name: Option<Cow<'w, str>>,
    id: Option<u32>,
    /// Where it was before.
    home: Option<u32>,
}

/// The search for homes, process by process. `None` from any step: nothing follows.
struct Search<'n, 'm, 'a> {
    nodes: &'n Nodes<'m, 'a>,
    /// The nodes of names that only processes give.
    named: FxHashMap<String, u32>,
    /// How many of these nodes are new.
    new_count: u32,
    /// The nodes of numbers that only processes give, and the other way round.
    numbered: FxHashMap<u32, u32>,
    numbers: FxHashMap<u32, u32>,
    identities: Vec<Identity>,
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
        // Where it will be when it is placed.
        let home = other.unwrap_or_else(|| self.nodes.count().saturating_add(self.new_count));
        self.new_count += u32::from(other.is_none());
        self.named.insert(name.to_owned(), home);
        self.say(name, other.and(id));
        home
    }

    /// Gives a node a number. Returns whether that is its number, and nobody else's.
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
        self.identities.push(Identity { hostname: Some(name.to_owned()), id, ..Identity::default() });
    }
}

/// Where an earlier registration without maps left the processes.
#[derive(Debug)]
pub(super) struct EarlierHomes<'r> {
    record: &'r JobRecord,
    /// The nodes by their numbers.
    indexes: FxHashMap<u32, u32>,
    /// The index of the node that the process's number leads to, by rank.
    nodes: Vec<u32>,
    ids: Option<&'r ColumnValues>,
    hostnames: Option<&'r ColumnValues>,
    /// Whether all processes had one with a name, so that what follows from a map followed from them, and numbers of nodes, too.
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

    /// Of at most how many processes something was told that may lead to their nodes.
    fn told_count(&self) -> usize {
        let is_told = self.ids.is_some() || self.hostnames.is_some();
        if is_told { usize::try_from(self.record.rank_count).unwrap_or(usize::MAX) } else { 0 }
    }

    fn home(&self, rank: u32) -> Option<u32> {
        home(&self.nodes, rank)
    }

    /// What was said of a process whose node was not known.
    fn word(&self, rank: u32) -> Word<'static> {
        let value = |values: Option<&ColumnValues>| previous::value_at(values?, rank);
        let name = value(self.hostnames).as_ref().and_then(text_of).map(Cow::Owned);
        Word { name, id: value(self.ids).as_ref().and_then(Value::as_u32), home: None }
    }

    /// The earlier record without what followed from these homes, if they or the nodes' numbers have changed. What a host says itself
    /// and would follow as well is not told apart from that.
    pub(super) fn without_what_followed(
        &self,
        now: Option<&Homes>,
        nodes: &Nodes<'_, '_>,
        limits: &Limits,
    ) -> Result<Option<JobRecord>, RegisterError> {
        let is_number = |(id, index): (&u32, &u32)| nodes.id(*index) == Some(*id);
        let stays = || now.is_some_and(|now| now.nodes == self.nodes) && self.indexes.iter().all(is_number);
        if !self.has_followed || stays() {
            return Ok(None);
        }
        let mut nodes = Nodes::new(limits);
        previous::add_nodes(&mut nodes, self.record, Some(self), limits)?;
        nodes.settle_ids()?;
        nodes.fill_identities();
        let map = map(&self.nodes, nodes.count(), limits)?;
        let (mut job, mut of_nodes, mut of_procs) = (Table::default(), Columns::default(), Columns::default());
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

/// Takes values out of a column. One that repeats its nodes' values stays: it goes with the nodes' numbers.
fn subtract(columns: &mut [Column], key: &str, count: u32, is_gone: impl Fn(u32, &Value) -> bool) {
    let is_meant = |column: &&mut Column| column.key.as_str() == key && column.values != ColumnValues::OfNode;
    let Some(column) = columns.iter_mut().find(is_meant) else { return };
    let values = (0..count).filter_map(|index| Some((index, previous::value_at(&column.values, index)?)));
    column.values = ColumnValues::Sparse(values.filter(|(index, value)| !is_gone(*index, value)).collect());
}

/// The ranks of each node, in order.
fn map(homes: &[u32], node_count: u32, limits: &Limits) -> Result<RankMap, RegisterError> {
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

/// No index of a node, and no rank.
const NOWHERE: u32 = u32::MAX;
