//! The steps from a description to the record.

use std::collections::BTreeSet;

use crate::gds::job_record::{AppRecord, JobRecord, SessionRecord};
use crate::keys;
use crate::regex::RankMap;
use crate::types::{Info, Namespace, Value};

use super::collect::{Facts, collect};
use super::context::{Context, DescriptionLimits};
use super::derive;
use super::description::{Description, Part, parts_of};
use super::entry_path::Anchor;
use super::error::{RegisterError, within};
use super::homes::{EarlierHomes, Homes};
use super::maps::{MAPS, Maps};
use super::named_ranks;
use super::nodes::Nodes;
use super::previous;
use super::sessions::Settled;
use super::table::ValueTable;

/// Turns the host's description of a job into its record.
///
/// With `previous`, the description is an update: its values replace earlier ones, all others stay. A new node map or
/// process map replaces the values derived from the old one, and removes nodes that are not in it. Without `previous`
/// the description is complete.
///
/// With `PMIX_REGISTER_NODATA` no value of the description is kept: the record is the previous one, else empty.
///
/// Source: PMIx Standard, chapter on server-specific interfaces, `PMIx_server_register_nspace`.
///
/// # Errors
/// [`RegisterError`] if the description contradicts itself or exceeds the limits, or if the value of a key that
/// registration itself reads has another type.
pub fn parse(
    namespace: &Namespace,
    context: &Context,
    description: &[Info],
    previous: Option<&JobRecord>,
) -> Result<JobRecord, RegisterError> {
    settle_parts(namespace, context, || parts_of(description), previous, DerivedValues::Added)
}

/// As [`parse`], for a description whose process arrays are in tables. [Prepended](Description::prepend) entries that
/// contradict the description are left out.
///
/// # Errors
/// As [`parse`], for the description without the prepended entries.
pub fn parse_description(
    namespace: &Namespace,
    context: &Context,
    description: &Description,
    previous: Option<&JobRecord>,
) -> Result<JobRecord, RegisterError> {
    let without = |is_left_out: &dyn Fn(u64) -> bool| {
        let parts = || description.parts().filter(|part| !matches!(part, Part::Added(at, _) if is_left_out(*at)));
        settle_parts(namespace, context, parts, previous, DerivedValues::Added)
    };
    match (without(&|_| false), description.added_count()) {
        (Ok(record), _) => Ok(record),
        (Err(error), 0) => Err(error),
        (Err(_), added_count) => with_what_fits(added_count, without),
    }
}

/// The record of a description with all added entries that do not contradict it. `without` makes the record without the
/// added entries at some positions.
fn with_what_fits(
    added_count: u64,
    without: impl Fn(&dyn Fn(u64) -> bool) -> Result<JobRecord, RegisterError>,
) -> Result<JobRecord, RegisterError> {
    without(&|_| true)?;
    let mut left_out = BTreeSet::new();
    // Invariant: without `left_out`, the first `good` added entries make a record.
    let mut good = 0;
    while left_out.len() < LEFT_OUT_MAX {
        // Invariant: the first `bad` do not.
        let mut bad = added_count;
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            match without(&|at| at >= middle || left_out.contains(&at)) {
                Ok(_) => good = middle,
                Err(_) => bad = middle,
            }
        }
        left_out.insert(good);
        if let Ok(record) = without(&|at| left_out.contains(&at)) {
            return Ok(record);
        }
        good += 1;
    }
    without(&|at| at >= good || left_out.contains(&at))
}

/// Contradicting entries that are searched for; behind the last one all further entries are left out.
const LEFT_OUT_MAX: usize = 16;

/// Confirms that a description can be read and added to others.
///
/// # Errors
/// As [`parse`]; a process with two arrays is allowed.
pub(super) fn check_added<'a, P: Iterator<Item = Part<'a>>>(
    namespace: &'a Namespace,
    context: &'a Context,
    parts: impl Fn() -> P,
) -> Result<(), RegisterError> {
    match settle_parts(namespace, context, parts, None, DerivedValues::Added) {
        Err(error) if !matches!(error.cause(), RegisterError::ProcessTwice { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// As [`parse_description`], for a description completed by another server: only the keys that lead from a process to
/// its node are added.
pub(super) fn parse_as_given(
    namespace: &Namespace,
    context: &Context,
    description: &Description,
    previous: Option<&JobRecord>,
) -> Result<JobRecord, RegisterError> {
    settle_parts(namespace, context, || description.parts(), previous, DerivedValues::AsGiven)
}

fn settle_parts<'a, P: Iterator<Item = Part<'a>>>(
    namespace: &'a Namespace,
    context: &'a Context,
    parts: impl Fn() -> P,
    previous: Option<&JobRecord>,
    derived_values: DerivedValues,
) -> Result<JobRecord, RegisterError> {
    let facts = collect(namespace, &context.limits, parts()).and_then(|facts| {
        // A server may send several arrays for a process. A description that is not kept can lose nothing.
        if derived_values == DerivedValues::Added && !facts.nodata {
            facts.check_processes()?;
        }
        Ok(facts)
    });
    let record = facts.and_then(|facts| settle(facts, context, previous, derived_values));
    record.map_err(|error| error.located(parts()))
}

/// Treatment of values that can be derived from others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DerivedValues {
    Added,
    AsGiven,
}

/// Makes the record from the collected facts.
fn settle(
    mut facts: Facts<'_>,
    context: &Context,
    previous: Option<&JobRecord>,
    derived_values: DerivedValues,
) -> Result<JobRecord, RegisterError> {
    if facts.nodata {
        return Ok(previous.cloned().unwrap_or_default());
    }
    settle_loose(&mut facts, previous)?;
    let mut sessions = std::mem::take(&mut facts.sessions).settle(previous);
    let fresh_maps = Maps::read(&facts.job, &context.limits.of_maps())?;
    fresh_maps.check_lengths().map_err(|error| error.anchored(Anchor::job(fresh_maps.ranks_key)))?;
    let (maps_are_fresh, ranks_are_fresh) = (fresh_maps.is_some(), fresh_maps.ranks.is_some());
    let size_is_fresh = facts.job.get(keys::JOB_SIZE.name()).is_some();
    let apps_are_counted = facts.job.get(keys::JOB_NUM_APPS.name()).is_some();
    let derives = derived_values == DerivedValues::Added;
    let earlier_homes = previous.filter(|of| derives && !has_map(|key| of.job_value(key))).map(EarlierHomes::of);
    if let Some(previous) = previous {
        previous::fill_tables(&mut facts, previous, &fresh_maps, earlier_homes.is_some());
    }
    let is_unmapped = derives && !has_map(|key| facts.job.get(key));
    let maps = if previous.is_some() { with_earlier(fresh_maps, &facts.job, context)? } else { fresh_maps };
    let ranks_key = if ranks_are_fresh { maps.ranks_key } else { keys::JOB_SIZE.name() };
    let size = Size::of(&facts, (&maps, ranks_key), context, previous)?;

    let earlier = previous.map(|previous| (previous, earlier_homes.as_ref()));
    let mut nodes = given_nodes(&maps, earlier, &mut facts, &mut sessions, &context.limits)?;
    let given_size = size.given().filter(|_| is_unmapped);
    let mut homes = given_size.and_then(|size| Homes::of(&mut facts, &nodes, earlier_homes.as_ref(), size));
    homes.as_mut().map_or(Ok(()), |homes| homes.settle(&mut nodes))?;
    let own_node = nodes.add_own(context, &facts.loose_node)?;
    nodes.settle_ids()?;
    let reduced = earlier_homes
        .map(|earlier| earlier.without_what_followed(homes.as_ref(), &nodes, &context.limits))
        .transpose()?;
    let previous = reduced.as_ref().and_then(Option::as_ref).or(previous);
    let homes = homes.map(|homes| homes.map(nodes.count(), &context.limits)).transpose()?;
    if derived_values == DerivedValues::Added {
        if size_is_fresh {
            let earlier = if maps_are_fresh { None } else { Some(Maps::read(&facts.job, &context.limits.of_maps())?) };
            size.check_map(earlier.as_ref().unwrap_or(&maps))?;
        }
        if apps_are_counted {
            check_app_count(&facts)?;
        }
        named_ranks::check(&facts, &mut sessions, size.given(), &context.limits)?;
    }

    let offset = facts.job.get(keys::NPROC_OFFSET.name()).and_then(Value::as_u32);
    previous::fill_node_list(&mut facts.job, previous.filter(|_| maps.nodes.is_none()));
    if let (Some(previous), false) = (previous, maps_are_fresh) {
        previous::fill_columns(&mut facts.procs, &mut nodes, previous, size.rank_count, offset);
    }
    match derived_values {
        DerivedValues::Added => {
            sessions.parts().for_each(|session| derive::fill_session(&mut session.table));
            fill(&mut facts, &mut nodes, &maps, homes.as_ref(), size);
        }
        DerivedValues::AsGiven => fill_as_given(&mut facts, &mut nodes, size),
    }
    derive::fill_fabric(&mut facts.procs, &mut nodes, size.rank_count);
    if let (Some(previous), true) = (previous, maps_are_fresh) {
        previous::fill_columns(&mut facts.procs, &mut nodes, previous, size.rank_count, offset);
    }
    if let Some(previous) = previous {
        previous::fill_parts(&mut sessions, &mut facts.apps, &nodes, previous);
    }
    Ok(assemble(facts, sessions, nodes, own_node, size))
}

/// The nodes of the map, else the earlier ones, then those of node arrays.
fn given_nodes<'m, 'a>(
    maps: &'m Maps,
    earlier: Option<(&JobRecord, Option<&EarlierHomes<'_>>)>,
    facts: &mut Facts<'a>,
    sessions: &mut Settled<'a>,
    limits: &DescriptionLimits,
) -> Result<Nodes<'m, 'a>, RegisterError> {
    let mut nodes = Nodes::new(limits);
    match (&maps.nodes, earlier) {
        (Some(map), _) => nodes.add_map(map).map_err(|error| error.anchored(Anchor::job(maps.nodes_key)))?,
        (None, Some((previous, homes))) => {
            let has_followed = homes.is_some_and(|homes| homes.has_followed);
            previous::add_nodes(&mut nodes, previous, has_followed, limits)?;
        }
        (None, None) => {}
    }
    nodes.add_arrays(&sessions.own.nodes)?;
    nodes.add_arrays(&facts.job_nodes)?;
    sessions.parts().chain(facts.apps.values_mut()).try_for_each(|part| nodes.add_part(part))?;
    Ok(nodes)
}

/// Whether a job has a map among its values.
fn has_map<'v>(value: impl Fn(&str) -> Option<&'v Value>) -> bool {
    MAPS.iter().any(|key| value(key).is_some())
}

/// A single new map is paired with the other earlier one.
fn with_earlier(fresh: Maps, job: &ValueTable, context: &Context) -> Result<Maps, RegisterError> {
    let fresh_key = match (&fresh.nodes, &fresh.ranks) {
        (Some(_), None) => fresh.nodes_key,
        (None, Some(_)) => fresh.ranks_key,
        _ => return Ok(fresh),
    };
    let maps = Maps::read(job, &context.limits.of_maps())?;
    maps.check_lengths().map_err(|error| error.anchored(Anchor::job(fresh_key)))?;
    Ok(maps)
}

/// Number of processes of the job.
#[derive(Clone, Copy)]
struct Size {
    /// According to the host, or to the process map.
    known: Option<u32>,
    /// At least one more than the highest rank with a value. It exceeds `known` if the process map has ranks beyond
    /// `PMIX_JOB_SIZE`. OpenPMIx accepts such a map, and hosts that give each server a part of the job rely on that.
    rank_count: u32,
}

impl Size {
    /// `ranks_key`: the key of the description that brought the process map.
    fn of(
        facts: &Facts<'_>,
        (maps, ranks_key): (&Maps, &str),
        context: &Context,
        previous: Option<&JobRecord>,
    ) -> Result<Self, RegisterError> {
        let given = facts.job.get(keys::JOB_SIZE.name()).and_then(Value::as_u32);
        let known = given.or_else(|| maps.ranks.as_ref().map(RankMap::rank_count));
        let before = previous.map_or(0, |previous| previous.rank_count);
        let in_map = match previous {
            Some(previous) if maps.ranks.is_none() && has_map(|key| previous.job_value(key)) => before,
            _ => maps.rank_end().map_err(|error| error.anchored(Anchor::job(ranks_key)))?,
        };
        let described = facts.ranks.iter().max().copied();
        let at_least = described.map_or(0, |rank| rank.saturating_add(1));
        let Some(given) = known else { return Ok(Self { known, rank_count: at_least.max(before) }) };
        let job_size = given.max(in_map);
        let key = if given < in_map { ranks_key } else { keys::JOB_SIZE.name() };
        let sized = within("ranks", u64::from(job_size), u64::from(context.limits.ranks_max));
        sized.map_err(|error| error.anchored(Anchor::job(key)))?;
        if let Some(rank) = described.filter(|rank| *rank >= job_size) {
            let error = RegisterError::RankOutsideJob { rank, place: "process arrays", job_size };
            return Err(error.about(keys::RANK.name()).anchored(Anchor::Process(rank)));
        }
        Ok(Self { known, rank_count: job_size })
    }

    /// The number of processes, if known.
    fn given(self) -> Option<u32> {
        self.known.map(|_| self.rank_count)
    }

    /// Confirms that the map places as many processes as the host declared.
    fn check_map(self, maps: &Maps) -> Result<(), RegisterError> {
        match (self.known, maps.ranks.as_ref().map(RankMap::rank_count)) {
            (Some(job_size), Some(in_map)) if job_size > in_map => {
                let anchor = Anchor::job(keys::JOB_SIZE.name());
                Err(RegisterError::JobSize { job_size, in_map }.anchored(anchor))
            }
            _ => Ok(()),
        }
    }
}

/// Confirms that there are no more applications than the host declared.
fn check_app_count(facts: &Facts<'_>) -> Result<(), RegisterError> {
    let described = u32::try_from(facts.apps.len()).unwrap_or(u32::MAX);
    match facts.job.get(keys::JOB_NUM_APPS.name()).and_then(Value::as_u32) {
        Some(declared) if declared < described => {
            Err(RegisterError::AppCount { declared, described }.anchored(Anchor::job(keys::JOB_NUM_APPS.name())))
        }
        _ => Ok(()),
    }
}

/// Derives the missing values. `homes` replaces missing maps.
fn fill(facts: &mut Facts<'_>, nodes: &mut Nodes<'_, '_>, maps: &Maps, homes: Option<&RankMap>, size: Size) {
    derive::fill_job(&mut facts.job, maps, size.known);
    nodes.fill_identities();
    if let Some(ranks) = homes {
        derive::fill_node_list(&mut facts.job, nodes, ranks);
    }
    if let Some(ranks) = homes.or_else(|| maps.placement()) {
        let node_count = nodes.count();
        derive::fill_nodes(&mut nodes.columns, node_count, ranks);
        derive::fill_places(&mut facts.procs, nodes, ranks, size.rank_count);
    }
    derive::fill_node_ids(&mut facts.procs, nodes);
    let app = only_app(facts, size.rank_count);
    if let (None, Some(rank_count)) = (app, size.given()) {
        derive::fill_apps(&mut facts.procs, &mut facts.apps, &facts.job, rank_count);
    }
    let existing = existing(facts, size);
    derive::fill_ranks(&mut facts.procs, &facts.job, app, size.rank_count, existing.as_deref());
}

/// Adds the keys that lead from a process to its node.
fn fill_as_given(facts: &mut Facts<'_>, nodes: &mut Nodes<'_, '_>, size: Size) {
    nodes.fill_identities();
    derive::fill_node_ids(&mut facts.procs, nodes);
    // A server gives values of a process only in its array, which begins with the rank.
    let given = given_ranks(facts);
    derive::fill_own_ranks(&mut facts.procs, size.rank_count, Some(&given));
}

/// The processes of the job: all (`None`) if the host gave the size, else those with values, now or before.
fn existing(facts: &mut Facts<'_>, size: Size) -> Option<Vec<u32>> {
    if size.known.is_some() {
        return None;
    }
    let mut existing = given_ranks(facts);
    if let Some(known) = facts.procs.existing(keys::RANK.name()) {
        let known = known.numbers(size.rank_count);
        existing.extend((0..size.rank_count).zip(known).filter_map(|(rank, known)| known.map(|_| rank)));
    }
    existing.sort_unstable();
    existing.dedup();
    Some(existing)
}

/// The ranks of the process arrays, ascending.
fn given_ranks(facts: &mut Facts<'_>) -> Vec<u32> {
    let mut ranks = std::mem::take(&mut facts.ranks);
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The number of the job's application, if it has no more than one.
fn only_app(facts: &mut Facts<'_>, rank_count: u32) -> Option<u32> {
    let declared = facts.job.get(keys::JOB_NUM_APPS.name()).and_then(Value::as_u32).unwrap_or(1);
    if facts.apps.len() > 1 || declared > 1 {
        return None;
    }
    let number = facts.apps.keys().next().copied().unwrap_or(0);
    let is_only = match facts.procs.existing(keys::APPNUM.name()) {
        None => true,
        Some(column) => column.is_throughout(number.into(), rank_count),
    };
    is_only.then_some(number)
}

fn assemble(
    facts: Facts<'_>,
    sessions: Settled<'_>,
    nodes: Nodes<'_, '_>,
    own_node: Option<u32>,
    size: Size,
) -> JobRecord {
    let node_count = nodes.count();
    let other_sessions = sessions.others.into_iter().map(|(id, part)| SessionRecord {
        id,
        entries: part.table.into_entries(),
        node_columns: part.columns.finish(node_count),
    });
    let apps = facts.apps.into_iter().map(|(number, part)| AppRecord {
        number,
        entries: part.table.into_entries(),
        node_columns: part.columns.finish(node_count),
    });
    JobRecord {
        session: sessions.own.table.into_entries(),
        session_id: sessions.own_id,
        session_nodes: sessions.own_id.map(|_| sessions.own.columns.finish(node_count)).unwrap_or_default(),
        other_sessions: other_sessions.collect(),
        job: facts.job.into_entries(),
        apps: apps.collect(),
        node_count,
        node_columns: nodes.columns.finish(node_count),
        own_node,
        rank_count: size.rank_count,
        proc_columns: facts.procs.finish(size.rank_count),
    }
}

/// Moves application values outside application arrays to the only application.
fn settle_loose(facts: &mut Facts<'_>, previous: Option<&JobRecord>) -> Result<(), RegisterError> {
    let loose = std::mem::take(&mut facts.loose_app);
    let Some(key) = loose.first_key() else { return Ok(()) };
    let earlier = previous.iter().flat_map(|record| &record.apps).map(|app| app.number);
    let numbers: BTreeSet<u32> = facts.apps.keys().copied().chain(earlier).collect();
    if numbers.len() > 1 {
        let app_count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let anchor = Anchor::job(key.as_str());
        return Err(RegisterError::WhichApp { key: key.as_str().to_owned(), app_count }.anchored(anchor));
    }
    let number = numbers.first().copied().unwrap_or(0);
    let table = &mut facts.apps.entry(number).or_default().table;
    loose.into_entries().into_iter().for_each(|(key, value)| table.fill(key, value));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The number of trials and the positions left out, for resources of which those at `unfit` contradict.
    fn tried(added_count: u64, unfit: &[u64]) -> (u32, Vec<u64>) {
        let (count, kept) = (Cell::new(0), Cell::new(Vec::new()));
        let without = |is_left_out: &dyn Fn(u64) -> bool| {
            count.set(count.get() + 1);
            kept.set((0..added_count).filter(|at| is_left_out(*at)).collect());
            let fits = unfit.iter().all(|at| is_left_out(*at));
            if fits { Ok(JobRecord::default()) } else { Err(RegisterError::NoValue) }
        };
        with_what_fits(added_count, without).unwrap();
        (count.get(), kept.take())
    }

    /// Each trial reads the whole description, which may describe a million processes.
    #[test]
    fn an_unfit_entry_is_found_in_logarithmically_many_readings() {
        for added_count in [1_u64, 2, 3, 100, 1000] {
            let bits = added_count.next_power_of_two().ilog2();
            for unfit in [vec![0], vec![added_count - 1], vec![0, added_count / 2, added_count - 1]] {
                let unfit: Vec<u64> = BTreeSet::from_iter(unfit).into_iter().collect();
                let (count, left_out) = tried(added_count, &unfit);
                let found = u32::try_from(unfit.len()).unwrap();
                assert_eq!(left_out, unfit);
                assert!(count <= 1 + found * (bits + 1), "{count} readings of {added_count} for {unfit:?}");
            }
        }
        // Once the maximum is found, all entries behind the last one are left out.
        let unfit: Vec<u64> = (0..100).map(|at| at * 3).collect();
        let (count, left_out) = tried(1000, &unfit);
        let expected: Vec<u64> = (0..16).map(|at| at * 3).chain(46..1000).collect();
        assert_eq!(left_out, expected);
        assert!(count <= 2 + 16 * 11, "{count}");
    }
}
