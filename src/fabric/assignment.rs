//! The endpoints of a job's processes, and the facts about its nodes.

use std::collections::BTreeMap;

use super::attributes::{PlaneDevices, coordinates_of, endpoint, switch_peers};
use super::plane::{Device, Plane};
use super::revisions::Fabric;
use crate::types::{DataArray, DataType, Info, Value};

/// Bytes of all lists of ranks at switches. 1,000 nodes with 64 ranks each and 36 nodes at a switch have 14 MB of them.
/// Each node of the job holds all lists, and so does each process that has no segment.
pub const SWITCH_PEERS_BYTES_MAX: usize = 16 << 20;

/// An endpoint of a process or a node, without its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceEndpoint {
    /// The number of the device among all of its node.
    pub device: u32,
    /// The owner's endpoints at this device before this one.
    pub earlier: u32,
}

impl Fabric {
    /// Coordinates and switch peers of each node of a job with devices. The nodes have their ranks.
    #[must_use]
    pub fn facts_of_nodes<'n>(&self, nodes: impl Iterator<Item = (&'n str, Vec<u32>)>) -> Vec<(&'n str, Vec<Info>)> {
        let nodes = nodes.map(|(node, ranks)| (node, self.devices_by_plane(node), ranks));
        let nodes: Vec<_> = nodes.filter(|(_, devices, _)| !devices.is_empty()).collect();
        let peers = switch_peers(&nodes, SWITCH_PEERS_BYTES_MAX);
        let mut peers = peers.into_iter().flatten();
        let mut facts =
            |devices: &[PlaneDevices<'_>]| std::iter::once(coordinates_of(devices)).chain(peers.next()).collect();
        nodes.iter().map(|(node, devices, _)| (*node, facts(devices))).collect()
    }

    /// The wanted devices of a node, by plane. Planes without any are left out.
    pub fn wanted_devices<'f>(
        &'f self,
        node: &str,
        is_wanted: impl Fn(&Plane, Device<'f>) -> bool,
    ) -> Vec<PlaneDevices<'f>> {
        let planes = self.devices_by_plane(node).into_iter();
        let wanted = |(number, plane, devices): PlaneDevices<'f>| {
            (number, plane, devices.into_iter().filter(|device| is_wanted(plane, *device)).collect::<Vec<_>>())
        };
        planes.map(wanted).filter(|(_, _, devices)| !devices.is_empty()).collect()
    }

    /// The planes in which a node has devices.
    fn devices_by_plane(&self, node: &str) -> Vec<PlaneDevices<'_>> {
        let planes = self.planes().iter().enumerate();
        let planes = planes.map(|(number, plane)| (number, plane, plane.devices_of_node(node).collect::<Vec<_>>()));
        planes.filter(|(_, _, devices)| !devices.is_empty()).collect()
    }
}

/// The array of endpoints at devices, without their owner. Their bytes are empty, or the number of the owner's earlier
/// ones at the same device: 4 bytes, least significant first.
pub fn endpoints_at<'f>(endpoints: impl Iterator<Item = (Device<'f>, u32)>) -> Value {
    let elements = endpoints.map(|(device, earlier)| endpoint(device, earlier)).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Endpoint, elements }))
}

/// Devices by their distance from a place.
#[derive(Debug)]
pub struct Closest {
    /// Plane and number of equally close devices, the closest first.
    levels: Vec<Vec<(usize, u32)>>,
}

impl Closest {
    /// The devices of some planes. Those of unknown distance are the farthest.
    pub fn of(planes: &[PlaneDevices<'_>], distance: impl Fn(Device<'_>) -> Option<u32>) -> Self {
        Self::with_distance(planes, distance).1
    }

    /// Each plane's devices on their own, the closest planes first.
    pub fn of_each_plane(planes: &[PlaneDevices<'_>], distance: impl Fn(Device<'_>) -> Option<u32>) -> Vec<Self> {
        let of_plane = |plane| Self::with_distance(std::slice::from_ref(plane), &distance);
        let mut closest: Vec<(u32, Self)> = planes.iter().map(of_plane).collect();
        closest.sort_by_key(|(distance, _)| *distance);
        closest.into_iter().map(|(_, closest)| closest).collect()
    }

    /// The devices, and the distance of the closest one.
    fn with_distance(planes: &[PlaneDevices<'_>], distance: impl Fn(Device<'_>) -> Option<u32>) -> (u32, Self) {
        let of_plane = |(plane, _, devices): &PlaneDevices<'_>| {
            let plane = *plane;
            let in_plane = |(place, device): (usize, &Device<'_>)| {
                (distance(*device).unwrap_or(u32::MAX), place, plane, device.index)
            };
            devices.iter().enumerate().map(in_plane).collect::<Vec<_>>()
        };
        // Equally close devices of different planes alternate, so that processes use all planes.
        let mut devices: Vec<_> = planes.iter().flat_map(of_plane).collect();
        devices.sort_unstable();
        let distance = devices.first().map_or(u32::MAX, |(distance, ..)| *distance);
        let levels = devices.chunk_by(|one, other| one.0 == other.0);
        let numbers = |level: &[(u32, usize, usize, u32)]| level.iter().map(|of| (of.2, of.3)).collect();
        (distance, Self { levels: levels.map(numbers).collect() })
    }
}

/// Hands out the devices of a node to processes at places. Equally close devices have a turn of their own, which all
/// places share.
#[derive(Debug)]
pub struct Turns<P> {
    /// The numbers of each place's levels.
    places: BTreeMap<P, Vec<Vec<usize>>>,
    numbers: BTreeMap<Vec<(usize, u32)>, usize>,
    /// Equally close devices, and the index of the next one.
    levels: Vec<(Vec<(usize, u32)>, usize)>,
}

impl<P> Default for Turns<P> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), numbers: BTreeMap::new(), levels: Vec::new() }
    }
}

impl<P: Ord> Turns<P> {
    /// The devices of `count` endpoints in each element of `closest`, for the next process at a place: the closest
    /// ones. After all devices it begins again.
    pub fn take(&mut self, place: P, count: usize, closest: impl FnOnce() -> Vec<Closest>) -> Vec<(usize, u32)> {
        let Self { places, numbers, levels } = self;
        let mut number = |level: Vec<(usize, u32)>| {
            *numbers.entry(level).or_insert_with_key(|level| {
                levels.push((level.clone(), 0));
                levels.len().saturating_sub(1)
            })
        };
        let orders = places.entry(place).or_insert_with(|| {
            let mut order = |closest: Closest| closest.levels.into_iter().map(&mut number).collect();
            closest().into_iter().map(&mut order).collect()
        });
        let mut taken = Vec::with_capacity(count);
        for order in orders {
            let end = taken.len().saturating_add(count);
            while taken.len() < end && !order.is_empty() {
                for &mut level in &mut *order {
                    let Some((devices, next)) = levels.get_mut(level) else { continue };
                    let count = devices.len().min(end - taken.len());
                    taken.extend(devices.iter().cycle().skip(*next).take(count));
                    *next = next.saturating_add(count).checked_rem(devices.len()).unwrap_or_default();
                }
            }
        }
        taken
    }
}

/// Numbers an owner's new endpoints at each device, after its earlier ones. The devices have a plane and a number among
/// all of their node.
#[must_use]
pub fn numbered(devices: &[(usize, u32)], earlier: &[DeviceEndpoint]) -> Vec<DeviceEndpoint> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut count = |device: u32| {
        let count = counts.entry(device).or_default();
        *count = count.saturating_add(1);
        count.saturating_sub(1)
    };
    for endpoint in earlier {
        count(endpoint.device);
    }
    devices.iter().map(|&(_, device)| DeviceEndpoint { device, earlier: count(device) }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fabric::providers::{Provider, TestFabric};

    proptest! {
        /// Against the definition: no process has a farther device before all closer ones. Equally close ones have as
        /// many owners, wherever these are.
        #[test]
        fn processes_share_the_closest_devices(
            places in proptest::collection::vec(proptest::collection::vec(0_u32..3, 8), 1..4),
            planes in 1_usize..3,
            count in 0_usize..20,
            processes in proptest::collection::vec(any::<usize>(), 1..20),
        ) {
            let text = if planes == 1 { "wide:1;plane:d:8" } else { "wide:1;plane:d:5;plane:d:3" };
            let fabric = TestFabric.read(text).unwrap();
            let devices = fabric.wanted_devices("test000", |_, _| true);
            let number = |device: Device<'_>| device.name.trim_start_matches("test000:nic").parse::<usize>().unwrap();
            let mut turns = Turns::default();
            // The owners of each device among equally close ones.
            let mut owners: BTreeMap<Vec<usize>, [usize; 8]> = BTreeMap::new();
            for place in processes.into_iter().map(|process| process % places.len()) {
                let distances = &places[place];
                let closest = || vec![Closest::of(&devices, |device| Some(distances[number(device)]))];
                let taken = turns.take(place, count, closest);
                prop_assert_eq!(taken.len(), count);
                for round in taken.chunks(8) {
                    let of_round = round.iter().map(|&(plane, device)| plane * 5 + device as usize);
                    let mut of_round: Vec<usize> = of_round.collect();
                    let mut found: Vec<u32> = of_round.iter().map(|&device| distances[device]).collect();
                    found.sort_unstable();
                    let mut sorted = distances.clone();
                    sorted.sort_unstable();
                    prop_assert_eq!(&found, &sorted[..round.len()]);
                    of_round.sort_unstable();
                    of_round.dedup();
                    prop_assert_eq!(of_round.len(), round.len(), "one round has a device once");
                    for device in of_round {
                        let level = (0..8).filter(|&other| distances[other] == distances[device]).collect();
                        owners.entry(level).or_default()[device] += 1;
                    }
                }
            }
            for (level, owners) in owners {
                let of_level = || level.iter().map(|&device| owners[device]);
                prop_assert!(of_level().max().unwrap() - of_level().min().unwrap() <= 1, "{level:?}: {owners:?}");
            }
        }
    }

    #[test]
    fn an_owners_endpoints_at_a_device_are_numbered() {
        let first = numbered(&[(0, 1), (1, 2), (0, 1)], &[]);
        assert_eq!(first.iter().map(|endpoint| endpoint.earlier).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(
            numbered(&[(5, 1), (0, 3)], &first).iter().map(|endpoint| endpoint.earlier).collect::<Vec<_>>(),
            [2, 0]
        );
    }
}
