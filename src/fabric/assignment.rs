//! The endpoints of a job's processes, and the facts about its nodes.

use std::collections::BTreeMap;

use super::attributes::{PlaneDevices, coordinates_of, endpoint, switch_peers};
use super::plane::Device;
use super::revisions::Fabric;
use crate::types::{DataArray, DataType, Info, Value};

/// Bytes of all lists of ranks at switches. The lists of a larger job would exceed everything else that it needs.
pub const SWITCH_PEERS_BYTES_MAX: usize = 1 << 20;

/// The part of a fabric that a job gets.
#[derive(Debug, Default, PartialEq)]
pub struct Assignment {
    /// Distinct lists of endpoints, without the numbers of processes.
    pub lists: Vec<Value>,
    /// The list of each process, counted from 1. Processes of nodes without devices are not among them.
    pub numbers: BTreeMap<u32, u32>,
    /// Each node with devices, and values for it.
    pub nodes: Vec<(String, Vec<Info>)>,
}

impl Fabric {
    /// Gives each process one endpoint in each plane. `place` is where a process runs: many processes have the same. `distance` is that
    /// of a place and a device, if it is known.
    ///
    /// The endpoint is at the closest device. Among equally close ones, the processes of a node take turns. A process has its closest
    /// endpoints first.
    #[must_use]
    pub fn assign<'n, P: Ord + Copy>(
        &self,
        nodes: impl Iterator<Item = (&'n str, Vec<u32>)>,
        place: impl Fn(u32) -> P,
        distance: impl Fn(P, Device<'_>) -> Option<u32>,
    ) -> Assignment {
        let (mut given, mut described) = (Assignment::default(), Vec::new());
        for (node, ranks) in nodes {
            let devices = self.devices_by_plane(node);
            if !devices.is_empty() {
                given.add_node(&devices, ranks.iter().map(|rank| (*rank, place(*rank))), &distance);
                described.push((node.to_owned(), devices, ranks));
            }
        }
        let peers = switch_peers(&described, SWITCH_PEERS_BYTES_MAX);
        let mut peers = peers.into_iter().flatten();
        for (node, devices, _) in &described {
            let infos = std::iter::once(coordinates_of(devices)).chain(peers.next()).collect();
            given.nodes.push((node.clone(), infos));
        }
        given
    }

    /// The planes in which a node has devices.
    fn devices_by_plane(&self, node: &str) -> Vec<PlaneDevices<'_>> {
        let planes = self.planes().iter().enumerate();
        let planes = planes.map(|(number, plane)| (number, plane, plane.devices_of_node(node).collect::<Vec<_>>()));
        planes.filter(|(_, _, devices)| !devices.is_empty()).collect()
    }
}

impl Assignment {
    /// Adds the processes of a node, each with its place.
    fn add_node<P: Ord + Copy>(
        &mut self,
        planes: &[PlaneDevices<'_>],
        processes: impl Iterator<Item = (u32, P)>,
        distance: impl Fn(P, Device<'_>) -> Option<u32>,
    ) {
        let mut closest: BTreeMap<P, Vec<Closest>> = BTreeMap::new();
        let mut known: BTreeMap<Vec<(u32, usize)>, u32> = BTreeMap::new();
        for (turn, (rank, place)) in processes.enumerate() {
            let closest = closest.entry(place).or_insert_with(|| Closest::of(planes, |device| distance(place, device)));
            let chosen: Vec<(u32, usize)> =
                closest.iter().map(|closest| (closest.in_turn(turn), closest.plane)).collect();
            let number = match known.get(&chosen) {
                Some(number) => *number,
                None => {
                    let number = self.add_list(planes, &chosen);
                    known.insert(chosen, number);
                    number
                }
            };
            self.numbers.insert(rank, number);
        }
    }

    /// Adds a list and returns its number.
    fn add_list(&mut self, planes: &[PlaneDevices<'_>], chosen: &[(u32, usize)]) -> u32 {
        let plane = |number: usize| planes.iter().find(|(other, ..)| *other == number).map(|(_, plane, _)| *plane);
        let devices = chosen.iter().filter_map(|&(device, number)| plane(number)?.device(device));
        let elements = devices.map(endpoint).collect();
        self.lists.push(Value::DataArray(Box::new(DataArray { element_type: DataType::Endpoint, elements })));
        u32::try_from(self.lists.len()).unwrap_or(u32::MAX)
    }
}

/// The closest devices of a plane to a place.
struct Closest {
    distance: u32,
    plane: usize,
    devices: Vec<u32>,
}

impl Closest {
    /// Those of each plane, the closest planes first. Devices of unknown distance are the farthest.
    fn of(planes: &[PlaneDevices<'_>], distance: impl Fn(Device<'_>) -> Option<u32>) -> Vec<Self> {
        let of_plane = |(plane, _, devices): &PlaneDevices<'_>| {
            let distances: Vec<u32> = devices.iter().map(|device| distance(*device).unwrap_or(u32::MAX)).collect();
            let least = distances.iter().copied().min().unwrap_or(u32::MAX);
            let close = devices.iter().zip(distances).filter(|(_, distance)| *distance == least);
            Self { distance: least, plane: *plane, devices: close.map(|(device, _)| device.index).collect() }
        };
        let mut closest: Vec<Self> = planes.iter().map(of_plane).collect();
        closest.sort_by_key(|closest| (closest.distance, closest.plane));
        closest
    }

    fn in_turn(&self, turn: usize) -> u32 {
        let place = turn.checked_rem(self.devices.len()).unwrap_or_default();
        self.devices.get(place).copied().unwrap_or(u32::MAX)
    }
}
