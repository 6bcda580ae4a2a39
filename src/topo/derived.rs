//! Values derived from others: the location of processes on the node, and the distance of devices.
//!
//! If a host gives the processors of a process (`PMIX_CPUSET`), the topology determines the rest: shared hardware, and
//! device distances. Clients and servers derive these values from their own data.

use super::cpu_set::CpuSet;
use super::machine::{DeviceDistance, Machine};
use crate::keys;
use crate::types::{self, DataArray, DataType, Namespace, ProcId, Rank, Text, Value, ranks_in};

/// Values derived from the topology and the processors of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivable {
    /// The topology as text.
    Xml,
    /// The topology as an object.
    Topology,
    /// The processors of a process of this node, as a set.
    Processors,
    /// Location of a process of this node.
    Locality,
    /// Distances of devices from a process of this node.
    Distances,
    /// Rank of a process within its package.
    PackageRank,
}

impl Derivable {
    /// The derivable value of a key; `None` if it has none.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        match key {
            _ if key == keys::HWLOC_XML_V2.name() || key == keys::LOCAL_TOPO.name() => Some(Self::Xml),
            _ if key == keys::TOPOLOGY2.name() => Some(Self::Topology),
            _ if key == keys::CPUSET_BITMAP.name() => Some(Self::Processors),
            _ if key == keys::LOCALITY_STRING.name() => Some(Self::Locality),
            _ if key == keys::DEVICE_DISTANCES.name() => Some(Self::Distances),
            _ if key == keys::PACKAGE_RANK.name() => Some(Self::PackageRank),
            _ => None,
        }
    }

    /// Whether it needs the topology.
    #[must_use]
    pub const fn needs_machine(self) -> bool {
        !matches!(self, Self::Processors)
    }

    const fn is_of_node(self) -> bool {
        matches!(self, Self::Xml | Self::Topology)
    }
}

/// Data about jobs on this node.
pub trait Surroundings {
    /// A registered value.
    fn known(&self, job: &Namespace, rank: Rank, key: &'static str) -> Option<Value>;

    /// Whether a process is on this node.
    fn is_near(&self, job: &Namespace, rank: u32) -> bool;

    /// Whether a job has processes on this node.
    fn is_here(&self, job: &Namespace) -> bool;

    /// The processes of a job on this node.
    fn near_ranks(&self, job: &Namespace) -> Option<Vec<u32>> {
        let peers = self.known(job, Rank::Wildcard, keys::LOCAL_PEERS.name())?;
        Some(ranks_in(peers.as_str()?).collect())
    }
}

/// Whether the value may exist, so that reading the topology is worthwhile.
pub fn may_follow(wanted: Derivable, proc: &ProcId, around: &impl Surroundings) -> bool {
    match wanted.is_of_node() {
        true => around.is_here(&proc.namespace),
        false => processors_near(proc, around).is_some(),
    }
}

/// The derived value; `None` if it cannot be derived, for example without a topology.
pub fn derive(
    wanted: Derivable,
    proc: &ProcId,
    around: &impl Surroundings,
    machine: Option<&Machine>,
) -> Option<Value> {
    if wanted.is_of_node() {
        // Values of the node are for jobs on this node.
        let machine = machine.filter(|_| around.is_here(&proc.namespace))?;
        return Some(match wanted {
            Derivable::Topology => {
                let (xml, support) = (Some(Text::from(machine.xml())), machine.support().to_vec());
                Value::Topology(Box::new(types::Topology { xml, support }))
            }
            _ => Value::from(machine.xml()),
        });
    }
    let processors = processors_near(proc, around)?;
    if wanted == Derivable::Processors {
        return Some(Value::ProcCpuset(Some(Text::from(processors.to_string()))));
    }
    let machine = machine?;
    match wanted {
        Derivable::Locality => machine.locality(&processors).map(Value::from),
        Derivable::Distances => Some(distances(machine, &processors)),
        _ => package_rank(proc, &processors, around, machine).map(Value::Uint16),
    }
}

/// The processors of a process of this node.
fn processors_near(proc: &ProcId, around: &impl Surroundings) -> Option<CpuSet> {
    let rank = proc.rank.process()?;
    processors_of(&proc.namespace, rank, around).filter(|_| around.is_near(&proc.namespace, rank))
}

/// The processors that the host gave a process.
fn processors_of(job: &Namespace, rank: u32, around: &impl Surroundings) -> Option<CpuSet> {
    let text = around.known(job, Rank::from(rank), keys::CPUSET.name())?;
    let list = text.as_str()?;
    list.strip_prefix("hwloc:").unwrap_or(list).parse().ok()
}

/// Processes of the job on the same package with smaller ranks.
fn package_rank(proc: &ProcId, processors: &CpuSet, around: &impl Surroundings, machine: &Machine) -> Option<u16> {
    let package = machine.package_of(processors)?;
    let is_beside = |peer: &u32| {
        let place = processors_of(&proc.namespace, *peer, around);
        Rank::from(*peer) < proc.rank && place.and_then(|processors| machine.package_of(&processors)) == Some(package)
    };
    u16::try_from(around.near_ranks(&proc.namespace)?.into_iter().filter(is_beside).count()).ok()
}

fn distances(machine: &Machine, processors: &CpuSet) -> Value {
    let distance = |distance: DeviceDistance| {
        Value::DeviceDistance(Box::new(types::DeviceDistance {
            uuid: Some(Text::from(distance.uuid)),
            os_name: Some(Text::from(distance.name)),
            device_type: distance.device_types,
            minimum: distance.nearest,
            maximum: distance.farthest,
        }))
    };
    let elements = machine.distances(processors).into_iter().map(distance).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::DeviceDistance, elements }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct KnownPeers(&'static str);

    impl Surroundings for KnownPeers {
        fn known(&self, _: &Namespace, _: Rank, key: &'static str) -> Option<Value> {
            (key == keys::LOCAL_PEERS.name()).then(|| Value::from(self.0))
        }

        fn is_near(&self, _: &Namespace, _: u32) -> bool {
            false
        }

        fn is_here(&self, _: &Namespace) -> bool {
            false
        }
    }

    #[test]
    fn neighbours_that_are_told_in_runs_are_neighbours() {
        let job = Namespace::new("job").unwrap();
        assert_eq!(KnownPeers("0-2, 7").near_ranks(&job), Some(vec![0, 1, 2, 7]));
    }
}
