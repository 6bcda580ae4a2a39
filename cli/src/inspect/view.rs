//! The report: the segment's own description, and its use of space.
//!
//! The fields of the report are the JSON document.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::LongestTurn;
use modex::gds::walk::JobTables;
use modex::gds::{Damage, NamespaceReader, Section, Statistics};
use modex::shmem::{ReaderHandle, SegmentError, SegmentReader, SegmentState};
use modex::topo::{self, Machine};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use serde::Serialize;

use super::detail::{self, KeyReport, RankReport, RealmsReport, Room};
use super::error::InspectError;
use super::hardware::{ClusterReport, HardwareReport, InventoryReport};
use super::options::Selection;
use super::process::{self, FoundSegment};

/// Version of the JSON document.
const FORMAT: u32 = 1;

/// The parts of the report that the user wants. The fields are documented in [`super::options`].
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) format: u32,
    pub(super) segments: Vec<SegmentReport>,
    pub(super) servers: Vec<ServerReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inventory: Option<InventoryReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inventories: Option<Vec<ClusterReport>>,
    pub(super) problems: Vec<Problem>,
}

/// The report of a server's process about its work.
#[derive(Debug, Serialize)]
pub(super) struct ServerReport {
    pub(super) pid: u32,
    pub(super) longest_turn_us: u64,
    pub(super) longest_turn_cause: String,
    pub(super) longest_turn_cause_us: u64,
}

/// A part that could not be shown.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) place: String,
    pub(super) message: String,
}

/// One segment.
#[derive(Debug, Serialize)]
pub(super) struct SegmentReport {
    pub(super) namespace: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) place: String,
    pub(super) holder_pid: Option<u32>,
    pub(super) backing: String,
    pub(super) protection: &'static str,
    pub(super) seals: Vec<&'static str>,
    pub(super) creator_pid: u32,
    pub(super) created_unix_s: Option<u64>,
    pub(super) layout_id: String,
    pub(super) layout_version: u32,
    pub(super) is_layout_ours: bool,
    pub(super) note: Option<String>,
    pub(super) span_bytes: u64,
    pub(super) reserved_bytes: Option<u64>,
    pub(super) content: Option<SegmentContent>,
    pub(super) hardware: Option<HardwareReport>,
}

/// The contents of a segment.
#[derive(Debug, Serialize)]
pub(super) struct SegmentContent {
    pub(super) state: Option<&'static str>,
    pub(super) generation: u32,
    pub(super) published_bytes: Option<u64>,
    pub(super) roots: Vec<RootReport>,
    pub(super) sections: Vec<SectionReport>,
    pub(super) key_count: Option<u64>,
    pub(super) rank_capacity: Option<u64>,
    pub(super) job: Option<JobReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keys: Option<Vec<KeyReport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) realms: Option<RealmsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rank: Option<RankReport>,
}

/// The target of a root.
#[derive(Debug, Serialize)]
pub(super) struct RootReport {
    pub(super) name: &'static str,
    pub(super) offset: Option<u64>,
}

/// The bytes of a part of a segment.
#[derive(Debug, Serialize)]
pub(super) struct SectionReport {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) share: Option<f64>,
    pub(super) bytes_per_rank: Option<f64>,
}

/// The size of a job.
#[derive(Debug, Serialize)]
pub(super) struct JobReport {
    pub(super) rank_count: u32,
    pub(super) node_count: u32,
    pub(super) own_node: Option<u32>,
    pub(super) session_id: Option<u32>,
}

/// Reports on all segments found that the user selected.
pub(super) fn report(found: Vec<FoundSegment>, selection: &Selection) -> Result<Report, InspectError> {
    let mut report = Report::empty();
    let mut others = BTreeSet::new();
    for found in found {
        // A segment without a readable name is always shown: it may be the wanted one.
        let name = SegmentReader::peek(&found.handle).ok().map(|info| info.label);
        match (name, &selection.namespace) {
            (Some(name), Some(wanted)) if name != *wanted => {
                others.insert(name);
            }
            _ => report.push(found, selection),
        }
    }
    match &selection.namespace {
        Some(wanted) if report.segments.is_empty() && report.problems.is_empty() => {
            Err(InspectError::NoNamespace { wanted: wanted.clone(), found: others.into_iter().collect() })
        }
        _ => {
            report.require_rank(selection);
            report.add_servers();
            report.segments.sort_by(|a, b| (&a.owner, &a.namespace, &a.place).cmp(&(&b.owner, &b.namespace, &b.place)));
            Ok(report)
        }
    }
}

impl Report {
    /// A report on an inventory alone.
    pub(super) fn of_inventory(inventory: InventoryReport) -> Self {
        Self { inventory: Some(inventory), ..Self::empty() }
    }

    /// A report on the inventories of servers.
    pub(super) fn of_clusters(inventories: Vec<ClusterReport>, problems: Vec<Problem>) -> Self {
        Self { inventories: Some(inventories), problems, ..Self::empty() }
    }

    const fn empty() -> Self {
        Self {
            format: FORMAT,
            segments: Vec::new(),
            servers: Vec::new(),
            inventory: None,
            inventories: None,
            problems: Vec::new(),
        }
    }

    fn push(&mut self, found: FoundSegment, selection: &Selection) {
        let place = found.path.display().to_string();
        let mut problems = Vec::new();
        match segment(found, selection, &mut problems) {
            Ok(segment) => self.segments.push(segment),
            Err(InspectError::Unfinished) => {}
            Err(error) => problems.push(error),
        }
        let messages = problems.into_iter().map(|error| error.to_string());
        self.problems.extend(messages.map(|message| Problem { place: place.clone(), message }));
    }

    /// The processes in which the segments were found, if they are servers.
    fn add_servers(&mut self) {
        let pids: BTreeSet<u32> = self.segments.iter().filter_map(|segment| segment.holder_pid).collect();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.servers.extend(pids.into_iter().filter_map(|pid| {
            let LongestTurn { time, cause, cause_time } = process::longest_turn(pid)?;
            let (longest_turn_us, longest_turn_cause_us) = (micros(time), micros(cause_time));
            Some(ServerReport { pid, longest_turn_us, longest_turn_cause: cause, longest_turn_cause_us })
        }));
    }

    /// Some namespaces may be smaller than others, but at least one must have the requested rank.
    fn require_rank(&mut self, selection: &Selection) {
        let Some(rank) = selection.rank else { return };
        let contents = || self.segments.iter().filter_map(|segment| Some((segment, segment.content.as_ref()?)));
        if contents().any(|(_, content)| content.rank.is_some()) {
            return;
        }
        let missing = contents().map(|(segment, content)| {
            let namespace = segment.namespace.clone().unwrap_or_default();
            let rank_count = content.job.as_ref().map_or(0, |job| job.rank_count);
            let message = InspectError::NoRank { namespace, rank, rank_count }.to_string();
            Problem { place: segment.place.clone(), message }
        });
        self.problems.extend(missing.collect::<Vec<_>>());
    }
}

/// Reports on one segment; fails if the object is no segment. Parts that can't be read become problems.
fn segment(
    found: FoundSegment,
    selection: &Selection,
    problems: &mut Vec<InspectError>,
) -> Result<SegmentReport, InspectError> {
    let FoundSegment { path, holder_pid, backing, handle } = found;
    let refuse = |error: SegmentError| match holder_pid {
        Some(_) if is_unfinished(&error) => InspectError::Unfinished,
        _ => error.into(),
    };
    let preamble = SegmentReader::preamble(&handle).map_err(refuse)?;
    let info = SegmentReader::peek(&handle).ok();
    let seals = seals(&handle);
    let size = handle.descriptor().and_then(|descriptor| nix::sys::stat::fstat(descriptor).ok());
    let mut report = SegmentReport {
        namespace: info.as_ref().map(|info| info.label.clone()),
        owner: info.map(|info| info.owner),
        place: path.display().to_string(),
        holder_pid,
        backing: backing.to_string(),
        protection: if seals.contains(&FUTURE_WRITE) { "sealed" } else { "read-only-descriptor" },
        seals,
        creator_pid: preamble.creator_pid,
        created_unix_s: Some(preamble.created_unix_s).filter(|&created| created != 0),
        layout_id: format!("{:016x}", preamble.layout_id),
        layout_version: preamble.layout_version,
        is_layout_ours: true,
        note: None,
        span_bytes: preamble.span_bytes,
        reserved_bytes: size.and_then(|found| u64::try_from(found.st_size).ok()),
        content: None,
        hardware: None,
    };
    if preamble.layout_id == topo::layout_id().get() {
        match Machine::attach(handle) {
            Ok(machine) => report.hardware = Some(HardwareReport::new(&machine, selection.topology)),
            Err(error) => problems.push(InspectError::Topology(error)),
        }
        return Ok(report);
    }
    match NamespaceReader::attach(handle) {
        Ok(reader) => report.content = Some(content(&reader, selection, problems)),
        Err(error) if is_foreign(&error) => {
            report.is_layout_ours = false;
            report.note = Some(error.to_string());
            if selection.keys || selection.realms || selection.rank.is_some() {
                problems.push(InspectError::Foreign);
            }
        }
        Err(error) => match refuse(error) {
            InspectError::Unfinished => return Err(InspectError::Unfinished),
            other => problems.push(other),
        },
    }
    Ok(report)
}

/// Whether a segment was refused because another build wrote it, not because it is damaged.
const fn is_foreign(error: &SegmentError) -> bool {
    matches!(
        error,
        SegmentError::Layout { .. }
            | SegmentError::Version { .. }
            | SegmentError::ByteOrder { .. }
            | SegmentError::Features { .. }
    )
}

/// Whether a segment looks like one whose header is not written yet.
const fn is_unfinished(error: &SegmentError) -> bool {
    matches!(
        error,
        SegmentError::TooSmall { .. }
            | SegmentError::Magic { found: [0, 0, 0, 0, 0, 0, 0, 0] }
            | SegmentError::Field { field: _, value: 0 }
    )
}

/// Name of the seal against writing.
const FUTURE_WRITE: &str = "future-write";

/// The seals in force; none for an object that can't be sealed.
fn seals(handle: &ReaderHandle) -> Vec<&'static str> {
    let found = handle.descriptor().and_then(|descriptor| fcntl(descriptor, FcntlArg::F_GET_SEALS).ok());
    let found = SealFlag::from_bits_retain(found.unwrap_or_default());
    let names = [
        (SealFlag::F_SEAL_SEAL, "seal"),
        (SealFlag::F_SEAL_SHRINK, "shrink"),
        (SealFlag::F_SEAL_GROW, "grow"),
        (SealFlag::F_SEAL_WRITE, "write"),
        (SealFlag::F_SEAL_FUTURE_WRITE, FUTURE_WRITE),
        // F_SEAL_EXEC (Linux 6.3), missing in `nix`.
        (SealFlag::from_bits_retain(0x0020), "exec"),
    ];
    names.into_iter().filter(|(seal, _)| found.contains(*seal)).map(|(_, name)| name).collect()
}

fn content(reader: &NamespaceReader, selection: &Selection, problems: &mut Vec<InspectError>) -> SegmentContent {
    let segment = reader.segment();
    let tables = readable("job record", reader.job_tables(), problems).flatten();
    let statistics = readable("statistics", reader.statistics(), problems);
    let state = readable("state", segment.state().map_err(Damage::from), problems);
    let all_values = selection.values;
    let keys = selection.keys.then(|| readable("dictionary", detail::keys(reader, tables.as_ref()), problems));
    let realms = tables.as_ref().filter(|_| selection.realms);
    let room = Room::new(detail::VALUES_MAX);
    let realms = realms.map(|tables| readable("realms", detail::realms(reader, tables, all_values, &room), problems));
    let rank = selection.rank.map(|rank| detail::rank(reader, tables.as_ref(), rank, all_values, &room));
    let rank = rank.map(|found| readable("posted values", found, problems).flatten());
    if room.has_run_out() {
        problems.push(InspectError::TooMany { values_max: detail::VALUES_MAX });
    }
    SegmentContent {
        state: state.map(|state| if state == SegmentState::Live { "live" } else { "retired" }),
        generation: segment.generation(),
        published_bytes: statistics.as_ref().map(|statistics| statistics.published_bytes),
        roots: reader.roots().into_iter().map(|(name, offset)| RootReport { name, offset }).collect(),
        sections: statistics.as_ref().map(|statistics| sections(statistics, tables.as_ref())).unwrap_or_default(),
        key_count: statistics.as_ref().map(|statistics| statistics.key_count),
        rank_capacity: statistics.as_ref().map(|statistics| statistics.rank_count),
        job: tables.as_ref().map(|tables| JobReport {
            rank_count: tables.rank_count,
            node_count: tables.node_count,
            own_node: tables.own_node,
            session_id: tables.session_id,
        }),
        keys: keys.flatten(),
        realms: realms.flatten(),
        rank: rank.flatten(),
    }
}

/// A part of a segment, unless it is damaged.
fn readable<T>(part: &'static str, found: Result<T, Damage>, problems: &mut Vec<InspectError>) -> Option<T> {
    found.map_err(|damage| problems.push(InspectError::Damaged { part, damage })).ok()
}

/// Header, sections and padding: together they are the published bytes.
fn sections(statistics: &Statistics, tables: Option<&JobTables<'_>>) -> Vec<SectionReport> {
    let published = statistics.published_bytes;
    let named = Section::ALL.map(|section| (section.name(), statistics.section(section)));
    let counted = named.iter().fold(statistics.header_bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let ends = [("header", statistics.header_bytes), ("padding", published.saturating_sub(counted))];
    let [header, padding] = ends;
    std::iter::once(header)
        .chain(named)
        .chain([padding])
        .map(|(name, bytes)| SectionReport {
            name,
            bytes,
            share: quotient(bytes, published),
            bytes_per_rank: quotient(bytes, tables.map_or(0, |tables| tables.rank_count.into())),
        })
        .collect()
}

/// A quotient to three decimal places; `None` for a divisor of zero.
fn quotient(dividend: u64, divisor: u64) -> Option<f64> {
    let whole = u32::try_from(dividend.checked_div(divisor)?).unwrap_or(u32::MAX);
    let thousandths = (dividend % divisor).saturating_mul(1000) / divisor;
    Some(f64::from(whole) + f64::from(u16::try_from(thousandths).unwrap_or(u16::MAX)) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_have_three_decimals_and_no_divisor_of_zero() {
        assert_eq!(quotient(1, 3), Some(0.333));
        assert_eq!(quotient(4096, 64), Some(64.0));
        assert_eq!(quotient(1, 0), None);
    }

    #[test]
    fn sections_and_padding_add_up_to_what_is_published() {
        let statistics = Statistics {
            sections: [1, 2, 3, 4, 5, 6, 7],
            header_bytes: 4096,
            published_bytes: 5000,
            ..Statistics::default()
        };
        let total: u64 = sections(&statistics, None).iter().map(|section| section.bytes).sum();
        assert_eq!(total, 5000);
    }
}
