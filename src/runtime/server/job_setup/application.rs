//! An application of a job, as a setup describes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hardware::Hardware;
use super::layout::{Layout, elements};
use crate::keys;
use crate::topo::relative_locality;
use crate::types::{Info, Key};

/// Processes that are set up with one call.
#[derive(Debug)]
pub(super) struct Application {
    pub(super) layout: Layout,
    pub(super) places: Places,
    /// The endpoints that it wants, by the name of the wish.
    pub(super) wishes: Vec<(Key, Wanted)>,
}

/// Endpoints that a job wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The name of a plane, or of a device of each node.
    pub(super) plane: Option<String>,
    /// `PMIX_ALLOC_FABRIC_TYPE`, and the kinds of devices that it means.
    pub(super) kind: Option<(String, u64)>,
    /// The number for each process.
    pub(super) of_process: u64,
    /// The number for each node.
    pub(super) of_node: u64,
}

/// Where the processes of an application are.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Localities with packages and NUMA nodes alone. A large job has few of them.
    distinct: Vec<String>,
    of_ranks: BTreeMap<u32, usize>,
}

/// An application, and the hardware from which it has its endpoints.
#[derive(Clone, Debug)]
pub(super) struct PlacedApplication {
    pub(super) application: Arc<Application>,
    pub(super) hardware: Hardware,
}

impl Application {
    /// Whether both are for the nodes alone, and the later one gets nothing new.
    pub(super) fn asks_alike(&self, other: &Self) -> bool {
        let [nodes, of_other] = [self, other].map(|application| application.layout.node_names());
        self.layout.process_count() == 0 && self.wishes == other.wishes && nodes.eq(of_other)
    }

    /// The memory that it takes.
    pub(super) fn size_bytes(&self) -> usize {
        let of_wish = |(id, wanted): &(Key, Wanted)| {
            let texts = [wanted.plane.as_ref(), wanted.kind.as_ref().map(|(kind, _)| kind)];
            let bytes: usize = texts.into_iter().flatten().map(String::len).sum();
            bytes + id.as_str().len() + size_of::<(Key, Wanted)>()
        };
        let wishes: usize = self.wishes.iter().map(of_wish).sum();
        let places: usize = self.places.distinct.iter().map(String::len).sum();
        self.layout.size_bytes() + wishes + places + self.places.of_ranks.len() * size_of::<(u32, usize)>()
    }
}

impl Wanted {
    /// Whether it is for one endpoint in each of its planes.
    pub(super) const fn is_of_planes(&self) -> bool {
        self.of_process == 0 && self.of_node == 0 && (self.plane.is_some() || self.kind.is_some())
    }
}

impl Places {
    /// The places that process arrays name.
    pub(super) fn of(infos: &[Info]) -> Self {
        let (mut places, mut known, mut numbers) = (Self::default(), BTreeMap::new(), BTreeMap::new());
        for (rank, locality) in infos.iter().filter_map(locality_of) {
            let number = || place_of(locality).map(|place| places.number_of(place, &mut numbers));
            let place = *known.entry(locality).or_insert_with(number);
            places.of_ranks.extend(place.map(|place| (rank, place)));
        }
        places
    }

    /// Each process with a known place, and the number of that.
    pub(super) fn of_all(&self) -> impl Iterator<Item = (u32, usize)> {
        self.of_ranks.iter().map(|(&rank, &place)| (rank, place))
    }

    /// The packages and NUMA nodes of a place.
    pub(super) fn locality(&self, place: usize) -> Option<&str> {
        self.distinct.get(place).map(String::as_str)
    }

    /// The number of a place among the `numbers` of all.
    fn number_of(&mut self, place: String, numbers: &mut BTreeMap<String, usize>) -> usize {
        *numbers.entry(place).or_insert_with_key(|place| {
            self.distinct.push(place.clone());
            self.distinct.len().saturating_sub(1)
        })
    }
}

/// Rank and `PMIX_LOCALITY_STRING` of a process array.
fn locality_of(info: &Info) -> Option<(u32, &str)> {
    if info.key.as_str() != keys::PROC_INFO_ARRAY.name() {
        return None;
    }
    let value = |key: &str| elements(&info.value).find(|info| info.key.as_str() == key).map(|info| &info.value);
    Some((value(keys::RANK.name())?.as_u32()?, value(keys::LOCALITY_STRING.name())?.as_str()?))
}

/// The packages and NUMA nodes of a locality; `None` for a text that is none.
fn place_of(locality: &str) -> Option<String> {
    relative_locality(locality, "hwloc:").ok()?;
    let items = locality.split(':').filter(|item| item.starts_with("SK") || item.starts_with("NM"));
    Some(format!("hwloc:{}", items.collect::<Vec<_>>().join(":")))
}
