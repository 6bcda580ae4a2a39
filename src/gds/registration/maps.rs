//! The node map and the process map of a job.

use std::collections::BTreeMap;

use crate::keys;
use crate::regex::{self, MapLimits, NodeList, RankMap};
use crate::types::{Info, Value};

use super::entry_path::Anchor;
use super::error::RegisterError;
use super::table::ValueTable;

/// The maps of a job among infos that are no description, such as those of a setup. A registration refuses the same
/// maps.
///
/// # Errors
/// [`RegisterError`]: a map can't be read or is given twice, names a node or a rank twice, or does not fit the other
/// map.
///
/// ```
/// use modex::gds::registration::maps_among;
/// use modex::types::{Info, Key};
///
/// let infos = [("pmix.nmap", "n0,n1"), ("pmix.pmap", "0,1")].map(|(key, map)| Info::new(Key::from_static(key), map));
/// let refused = maps_among(infos.iter(), &Default::default()).unwrap_err();
/// assert!(refused.to_string().contains("the node map has 2 nodes but the process map has 1 fields"));
/// ```
pub fn maps_among<'a>(
    infos: impl Iterator<Item = &'a Info>,
    limits: &MapLimits,
) -> Result<(Option<NodeList>, Option<RankMap>), RegisterError> {
    let mut job = ValueTable::default();
    for info in infos.filter(|info| MAPS.contains(&info.key.as_str())) {
        check_once(&job, info.key.as_str()).map_err(|error| error.anchored(Anchor::job(info.key.as_str())))?;
        job.insert(info)?;
    }
    let maps = Maps::read(&job, limits)?;
    maps.check_lengths().map_err(|error| error.anchored(Anchor::job(maps.ranks_key)))?;
    maps.rank_end().map_err(|error| error.anchored(Anchor::job(maps.ranks_key)))?;
    let mut indexes = BTreeMap::new();
    for (index, name) in (0..).zip(maps.nodes.iter().flat_map(NodeList::iter)) {
        if let Some(first) = indexes.insert(name, index) {
            let error = RegisterError::NodeTwice { name: name.to_owned(), first, second: index };
            return Err(error.anchored(Anchor::job(maps.nodes_key)));
        }
    }
    Ok((maps.nodes, maps.ranks))
}

/// Refuses a second map of a kind.
pub(super) fn check_once(job: &ValueTable, key: &str) -> Result<(), RegisterError> {
    const NAMES: [(&str, &str); 2] =
        [(keys::NODE_MAP.name(), "PMIX_NODE_MAP"), (keys::PROC_MAP.name(), "PMIX_PROC_MAP")];
    match NAMES.iter().find(|(map, _)| *map == key) {
        Some((_, name)) if job.get(key).is_some() => Err(RegisterError::Twice { key: name, place: "the description" }),
        _ => Ok(()),
    }
}

/// The two maps, expanded.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) nodes: Option<NodeList>,
    pub(super) ranks: Option<RankMap>,
    /// The key of each map, out of its two keys.
    pub(super) nodes_key: &'static str,
    pub(super) ranks_key: &'static str,
}

impl Maps {
    /// Expands the maps of a job.
    pub(super) fn read(job: &ValueTable, limits: &MapLimits) -> Result<Self, RegisterError> {
        let key_of = |key: &'static str, raw| if job.get(key).is_some() { key } else { raw };
        let nodes_key = key_of(keys::NODE_MAP.name(), keys::NODE_MAP_RAW.name());
        let ranks_key = key_of(keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name());
        let bytes_of = |key: &str| job.get(key).and_then(map_bytes);
        let nodes = bytes_of(nodes_key)
            .map(|bytes| regex::expand_nodes(bytes, limits))
            .transpose()
            .map_err(|error| RegisterError::NodeMap(error).anchored(Anchor::job(nodes_key)))?;
        let ranks = bytes_of(ranks_key)
            .map(|bytes| regex::expand_ranks(bytes, limits))
            .transpose()
            .map_err(|error| RegisterError::ProcMap(error).anchored(Anchor::job(ranks_key)))?;
        Ok(Self { nodes, ranks, nodes_key, ranks_key })
    }

    /// Confirms that, with both maps, each node has its field.
    pub(super) fn check_lengths(&self) -> Result<(), RegisterError> {
        match (&self.nodes, &self.ranks) {
            (Some(nodes), Some(ranks)) if nodes.len() != ranks.node_count() => {
                Err(RegisterError::MapLengths { nodes: count(nodes.len()), fields: count(ranks.node_count()) })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is any map.
    pub(super) fn is_some(&self) -> bool {
        self.nodes.is_some() || self.ranks.is_some()
    }

    /// The process map, if its fields can be assigned to nodes.
    pub(super) fn placement(&self) -> Option<&RankMap> {
        self.ranks.as_ref().filter(|_| self.nodes.is_some())
    }

    /// One more than the highest rank of the process map, 0 without one. Its ranks must be distinct.
    pub(super) fn rank_end(&self) -> Result<u32, RegisterError> {
        let Some(ranks) = &self.ranks else { return Ok(0) };
        ranks.check_distinct().map_err(RegisterError::ProcMap)?;
        let runs = (0..ranks.node_count()).flat_map(|node| ranks.runs_of(node));
        Ok(runs.map(|run| run.last().saturating_add(1)).max().unwrap_or(0))
    }
}

/// The keys of maps.
pub(super) const MAPS: [&str; 4] =
    [keys::NODE_MAP.name(), keys::NODE_MAP_RAW.name(), keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name()];

pub(super) fn map_bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::String(text) => Some(text.as_bytes()),
        Value::Regex(bytes) | Value::ByteObject(bytes) => Some(bytes),
        _ => None,
    }
}

/// A count that limits keep far below the type's maximum.
pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
