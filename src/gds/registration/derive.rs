//! Values derived from the node map and the process map where the host gave none.
//!
//! Source: PMIx Standard, chapter on reserved keys. Observed clients show which keys hosts leave out although clients
//! need them.

use std::collections::BTreeMap;

use crate::gds::job_record::Texts;
use crate::keys;
use crate::regex::{DealtRanks, RankMap};
use crate::types::{Key, Rank, Value};

use super::coerce::RecordCell;
use super::columns::{ColumnBuilder, Columns};
use super::maps::{Maps, count};
use super::named_ranks;
use super::nodes::Nodes;
use super::table::{PartFacts, ValueTable};

/// Session values.
pub(super) fn fill_session(session: &mut ValueTable) {
    // The standard defines both as the same number in the session's realm.
    if let Some(max_procs) = session.get(keys::MAX_PROCS.name()).cloned() {
        session.fill(Key::from_static(keys::UNIV_SIZE.name()), max_procs);
    }
}

/// Job values.
pub(super) fn fill_job(job: &mut ValueTable, maps: &Maps, job_size: Option<u32>) {
    if let Some(nodes) = &maps.nodes {
        job.fill(Key::from_static(keys::NUM_NODES.name()), Value::Uint32(count(nodes.len())));
        job.fill(Key::from_static(keys::NODE_LIST.name()), Value::from(nodes.as_text()));
    }
    if let Some(job_size) = job_size {
        job.fill(Key::from_static(keys::JOB_SIZE.name()), Value::Uint32(job_size));
        job.fill(Key::from_static(keys::MAX_PROCS.name()), Value::Uint32(job_size));
    }
}

/// Job values from a process map without a node map: the nodes with processes, by number.
pub(super) fn fill_node_list(job: &mut ValueTable, nodes: &mut Nodes<'_, '_>, ranks: &RankMap) {
    let used = (0_u32..).zip(0..ranks.node_count()).filter(|(_, node)| !ranks.runs_of(*node).is_empty());
    let mut used: Vec<(Option<u32>, usize)> = used.map(|(index, node)| (nodes.id(index), node)).collect();
    used.sort_unstable();
    let names = nodes.hostnames();
    let names: Vec<&str> = used.iter().filter_map(|(_, node)| *names.get(*node)?).collect();
    job.fill(Key::from_static(keys::NUM_NODES.name()), Value::Uint32(count(used.len())));
    job.fill(Key::from_static(keys::NODE_LIST.name()), Value::from(names.join(",")));
}

/// Values of each node that come from the process map.
pub(super) fn fill_nodes(columns: &mut Columns<'_>, node_count: u32, ranks: &RankMap) {
    let indexes = || (0_u32..).zip(0..ranks.node_count());
    let sizes = indexes().map(|(index, node)| (index, u64::from(ranks.rank_count_of(node))));
    columns.column(&Key::from_static(keys::LOCAL_SIZE.name())).fill_numbers(sizes);

    let leader_of = |node| ranks.runs_of(node).iter().map(|run| run.first()).min();
    let leaders = indexes().filter_map(|(index, node)| Some((index, u64::from(leader_of(node)?))));
    columns.column(&Key::from_static(keys::LOCALLDR.name())).fill_numbers(leaders);

    let peers = columns.column(&Key::from_static(keys::LOCAL_PEERS.name()));
    let dealt = DealtRanks::of(ranks).filter(|dealt| dealt.node_count() == node_count);
    if dealt.is_some_and(|dealt| peers.take_rank_lists(dealt)) {
        return;
    }
    let is_all = count(ranks.node_count()) == node_count && indexes().all(|(_, node)| !ranks.runs_of(node).is_empty());
    // All different, because every node has ranks that no other node has.
    if let (true, false, Some((text, ends))) = (is_all, peers.has_given(), ranks.texts()) {
        return peers.fill_every_text(Texts::new(text, ends));
    }
    let given: Vec<u32> = peers.entries().iter().map(|(index, _)| *index).collect();
    let used = indexes().filter(|(_, node)| !ranks.runs_of(*node).is_empty());
    let not_given = used.filter(|(index, _)| given.binary_search(index).is_err());
    peers.fill(not_given.map(|(index, node)| {
        let mut text = String::new();
        ranks.text_of(node, &mut text);
        (index, RecordCell::Owned(Box::new(Value::from(text))))
    }));
}

/// Values of each process that come from its place in the process map.
pub(super) fn fill_places(columns: &mut Columns<'_>, nodes: &mut Nodes<'_, '_>, ranks: &RankMap, rank_count: u32) {
    let mut places = Places::of(ranks, rank_count);
    let ids: Vec<Option<u64>> = (0..nodes.count()).map(|node| nodes.id(node).map(u64::from)).collect();
    let id_of = |node: Option<u32>| ids.get(usize::try_from(node?).ok()?).copied().flatten();
    let every_id = places.is_complete.then(|| places.nodes.iter().map_while(|&node| id_of(Some(node))).collect());
    let every_id: Option<Vec<u64>> = every_id.filter(|ids: &Vec<u64>| ids.len() == places.nodes.len());

    let column = columns.column(&Key::from_static(keys::NODEID.name()));
    let leads_to_node = match every_id {
        Some(ids) if column.has_given() => {
            if !column.is_complete(rank_count) {
                column.fill_every_number(ids.clone());
            }
            column.is(&ids)
        }
        Some(ids) => {
            column.fill_every_number(ids);
            true
        }
        None => {
            column.fill_numbers((0..rank_count).filter_map(|rank| Some((rank, id_of(places.node(rank))?))));
            false
        }
    };
    // Both are 16 bits wide, so nodes with more processes have no such numbers.
    if places.local_rank_max <= u64::from(u16::MAX) {
        let local_ranks = places.local_ranks.clone();
        places.fill_local_ranks(columns.column(&Key::from_static(keys::NODE_RANK.name())), local_ranks);
        let local_ranks = std::mem::take(&mut places.local_ranks);
        places.fill_local_ranks(columns.column(&Key::from_static(keys::LOCAL_RANK.name())), local_ranks);
    }
    fill_hostnames(columns, nodes, &places, rank_count, leads_to_node);
}

/// The node number of each process outside the maps for which the host gave the node's name. Without the number,
/// nothing leads from the process to its node's values.
pub(super) fn fill_node_ids(columns: &mut Columns<'_>, nodes: &Nodes<'_, '_>) {
    let is_open = |column: &mut ColumnBuilder<'_>| column.is_open();
    if !columns.existing(keys::NODEID.name()).is_none_or(is_open) {
        return;
    }
    let Some(hostnames) = columns.existing(keys::HOSTNAME.name()) else { return };
    let id_of = |name: &str| nodes.id(nodes.index_of_name(name)?).map(u64::from);
    let named = hostnames.entries().iter();
    let ids: Vec<(u32, u64)> = named.filter_map(|(rank, cell)| Some((*rank, id_of(cell.as_str()?)?))).collect();
    if !ids.is_empty() {
        columns.column(&Key::from_static(keys::NODEID.name())).fill_numbers(ids);
    }
}

/// Facts about the node's devices as those of its processes. A description from a socket has them only in the arrays of
/// nodes.
pub(super) fn fill_fabric(columns: &mut Columns<'_>, nodes: &mut Nodes<'_, '_>, rank_count: u32) {
    let is_complete = |ids: &mut ColumnBuilder<'_>| !ids.is_open() || ids.is_complete(rank_count);
    if !columns.existing(keys::NODEID.name()).is_some_and(is_complete) {
        return;
    }
    for key in [keys::FABRIC_COORDINATES.name(), keys::SWITCH_PEERS.name()] {
        let has_given = nodes.columns.existing(key).is_some_and(|column| column.has_given());
        if has_given && !columns.existing(key).is_some_and(|column| column.has_given()) {
            columns.column(&Key::from_static(key)).set_of_node();
        }
    }
}

/// The host name of each process: a reference to its node if the name is the same, else written out. `leads_to_node`:
/// each process has the number of its node in the map.
fn fill_hostnames(
    columns: &mut Columns<'_>,
    nodes: &mut Nodes<'_, '_>,
    places: &Places,
    rank_count: u32,
    leads_to_node: bool,
) {
    let names = nodes.hostnames();
    let name_of = |rank: u32| names.get(usize::try_from(places.node(rank)?).ok()?).copied().flatten();
    let column = columns.column(&Key::from_static(keys::HOSTNAME.name()));
    let mut is_as_given =
        || column.entries().iter().all(|(rank, cell)| name_of(*rank).is_some_and(|name| cell.is_text(name)));
    if leads_to_node && is_as_given() && column.is_open() {
        column.set_of_node();
    } else {
        let names = (0..rank_count).filter_map(|rank| Some((rank, name_of(rank)?)));
        column.fill(names.map(|(rank, name)| (rank, RecordCell::Owned(Box::new(Value::from(name))))));
    }
}

/// Values of each process derived from its rank. `ranks`: the processes known to exist; `None`: all.
pub(super) fn fill_ranks(
    columns: &mut Columns<'_>,
    job: &ValueTable,
    app: Option<u32>,
    rank_count: u32,
    ranks: Option<&[u32]>,
) {
    fill_own_ranks(columns, rank_count, ranks);
    if let Some(app) = app {
        let column = columns.column(&Key::from_static(keys::APPNUM.name()));
        match some_of(ranks, rank_count) {
            Some(ranks) => column.fill_numbers(ranks.iter().map(|rank| (*rank, u64::from(app)))),
            None => column.fill_constant(Value::Uint32(app)),
        }
        fill_from(columns, keys::APP_RANK.name(), rank_count, ranks, 0);
    }
    if let Some(Value::ProcRank(Rank::Process(offset))) = job.get(keys::NPROC_OFFSET.name())
        && offset.checked_add(rank_count).is_some_and(|end| end <= Rank::PROCESS_MAX)
    {
        fill_from(columns, keys::GLOBAL_RANK.name(), rank_count, ranks, *offset);
    }
}

/// The rank of each process, which shows that the process exists.
pub(super) fn fill_own_ranks(columns: &mut Columns<'_>, rank_count: u32, ranks: Option<&[u32]>) {
    fill_from(columns, keys::RANK.name(), rank_count, ranks, 0);
}

/// The application of each process, its rank there, and the leader of each application, in a job of several
/// applications. Nothing is derived if the host's values leave them open or contradict each other.
pub(super) fn fill_apps(
    columns: &mut Columns<'_>,
    apps: &mut BTreeMap<u32, PartFacts<'_>>,
    job: &ValueTable,
    rank_count: u32,
) {
    let given = columns.existing(keys::APPNUM.name()).map(|column| column.numbers(rank_count)).unwrap_or_default();
    let every_given: Option<Vec<u64>> = given.iter().copied().collect();
    let numbers = match every_given {
        Some(numbers) if count(numbers.len()) == rank_count => numbers,
        _ => match apps_in_order(apps, job, rank_count) {
            Some(numbers) if given.iter().zip(&numbers).all(|(given, number)| given.is_none_or(|it| it == *number)) => {
                numbers
            }
            _ => return,
        },
    };
    let mut members: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    let ranks_in_apps = (0_u32..).zip(&numbers).map(|(rank, number)| {
        let (_, size) = members.entry(*number).or_insert((rank, 0));
        *size += 1;
        *size - 1
    });
    let ranks_in_apps: Vec<u64> = ranks_in_apps.collect();
    let fits = |(number, app): (&u32, &PartFacts<'_>)| {
        members.get(&u64::from(*number)).is_none_or(|(leader, size)| {
            leader_of(app).is_none_or(|given| given == *leader)
                && size_of(app).is_none_or(|given| u64::from(given) == *size)
        })
    };
    if !apps.iter().all(fits) {
        return;
    }
    columns.column(&Key::from_static(keys::APP_RANK.name())).fill_every_number(ranks_in_apps);
    columns.column(&Key::from_static(keys::APPNUM.name())).fill_every_number(numbers);
    for (number, app) in apps {
        if let Some((leader, _)) = members.get(&u64::from(*number)) {
            app.table.fill(Key::from_static(keys::APPLDR.name()), Value::ProcRank(Rank::from(*leader)));
        }
    }
}

/// The application of each rank, if all applications have a size and these add up to the job's. Applications follow
/// each other by their leaders, or without leaders by their numbers.
fn apps_in_order(apps: &BTreeMap<u32, PartFacts<'_>>, job: &ValueTable, rank_count: u32) -> Option<Vec<u64>> {
    let app_count = job.get(keys::JOB_NUM_APPS.name()).and_then(Value::as_u32);
    let sizes: Option<Vec<(u32, u32)>> = apps.iter().map(|(number, app)| Some((*number, size_of(app)?))).collect();
    let mut sizes = sizes.filter(|sizes| app_count.is_none_or(|declared| declared == count(sizes.len())))?;
    if sizes.iter().map(|(_, size)| u64::from(*size)).sum::<u64>() != u64::from(rank_count) {
        return None;
    }
    if apps.values().all(|app| leader_of(app).is_some()) {
        sizes.sort_by_key(|(number, _)| apps.get(number).and_then(leader_of));
    }
    let ranks_of =
        |(number, size): (u32, u32)| std::iter::repeat_n(u64::from(number), usize::try_from(size).unwrap_or(0));
    Some(sizes.into_iter().flat_map(ranks_of).collect())
}

fn size_of(app: &PartFacts<'_>) -> Option<u32> {
    app.table.get(keys::APP_SIZE.name()).and_then(Value::as_u32)
}

fn leader_of(app: &PartFacts<'_>) -> Option<u32> {
    app.table.get(keys::APPLDR.name()).and_then(named_ranks::leader)
}

/// Numbers `ranks` from `offset`.
fn fill_from(columns: &mut Columns<'_>, key: &'static str, rank_count: u32, ranks: Option<&[u32]>, offset: u32) {
    let column = columns.column(&Key::from_static(key));
    if column.is_complete(rank_count) {
        return;
    }
    match some_of(ranks, rank_count) {
        Some(ranks) => column.fill_numbers(ranks.iter().map(|rank| (*rank, u64::from(*rank) + u64::from(offset)))),
        None => column.fill_counting(offset.into()),
    }
}

/// `ranks` unless they are all ranks; `None`: all.
fn some_of(ranks: Option<&[u32]>, rank_count: u32) -> Option<&[u32]> {
    ranks.filter(|ranks| count(ranks.len()) != rank_count)
}

/// The node of each rank and its position there. No rank has two nodes.
struct Places {
    nodes: Vec<u32>,
    local_ranks: Vec<u64>,
    local_rank_max: u64,
    /// Whether every rank has a node.
    is_complete: bool,
}

impl Places {
    fn of(map: &RankMap, rank_count: u32) -> Self {
        let length = usize::try_from(rank_count).unwrap_or(usize::MAX);
        let is_complete = map.rank_count() == rank_count;
        let (nodes, local_ranks) = (vec![NOWHERE; length], vec![0; length]);
        let mut places = Self { nodes, local_ranks, local_rank_max: 0, is_complete };
        for (index, node) in (0_u32..).zip(0..map.node_count()) {
            let mut next = 0_u64;
            for run in map.runs_of(node) {
                let [first, last] = [run.first(), run.last()].map(|rank| usize::try_from(rank).unwrap_or(usize::MAX));
                places.nodes.get_mut(first..=last).unwrap_or_default().fill(index);
                let local_ranks = places.local_ranks.get_mut(first..=last).unwrap_or_default();
                local_ranks.iter_mut().zip(next..).for_each(|(local_rank, number)| *local_rank = number);
                next += u64::from(run.count());
            }
            places.local_rank_max = places.local_rank_max.max(next.saturating_sub(1));
        }
        places
    }

    fn node(&self, rank: u32) -> Option<u32> {
        self.nodes.get(usize::try_from(rank).ok()?).copied().filter(|node| *node != NOWHERE)
    }

    /// Fills a column with these numbers.
    fn fill_local_ranks(&self, column: &mut ColumnBuilder<'_>, local_ranks: Vec<u64>) {
        if column.is_complete(count(self.nodes.len())) {
            return;
        }
        if self.is_complete {
            column.fill_every_number(local_ranks);
        } else {
            let placed = (0..).zip(local_ranks).filter(|(rank, _)| self.node(*rank).is_some());
            column.fill_numbers(placed);
        }
    }
}

/// Stands for no node; larger than any index.
const NOWHERE: u32 = u32::MAX;
