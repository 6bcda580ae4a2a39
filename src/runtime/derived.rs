//! Values that nobody registered and that follow from others: where processes run on the node, and what is near.
//!
//! A host that says which processors a process has (`PMIX_CPUSET`) has said all there is to say: what the process shares
//! with others, and how far devices are, is the topology's to tell.

use std::sync::Weak;

use super::session::{Session, ValueCallback};
use crate::client::{Call, GetDirectives, GetRequest, Outcome};
use crate::keys;
use crate::proto::{Get, Reply, Request};
use crate::topo::{CpuSet, DeviceDistance, Machine};
use crate::types::{self, DataArray, DataType, Key, Namespace, ProcId, Rank, Text, Value};

/// What follows from the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Derivable {
    /// The topology as text.
    Xml,
    /// The topology as an object.
    Topology,
    /// The processors of a process of this node, as a set.
    Processors,
    /// Where a process of this node is.
    Locality,
    /// How far devices are from a process of this node.
    Distances,
    /// Which of the processes of its package it is.
    PackageRank,
    /// What the server was told of the hardware of nodes, which is in no segment.
    Delivered,
}

impl Derivable {
    fn of(key: &str) -> Option<Self> {
        match key {
            _ if key == keys::HWLOC_XML_V2.name() || key == keys::LOCAL_TOPO.name() => Some(Self::Xml),
            _ if key == keys::TOPOLOGY2.name() => Some(Self::Topology),
            _ if key == keys::CPUSET_BITMAP.name() => Some(Self::Processors),
            _ if key == keys::LOCALITY_STRING.name() => Some(Self::Locality),
            _ if key == keys::DEVICE_DISTANCES.name() => Some(Self::Distances),
            _ if key == keys::PACKAGE_RANK.name() => Some(Self::PackageRank),
            _ if key == keys::FABRIC_DEVICES.name() || key == keys::FABRIC_DEVICE.name() => Some(Self::Delivered),
            _ => None,
        }
    }
}

/// Whether there may be a value although nobody registered one. Who looks only at what is there wants none.
pub(super) fn may_follow(request: &GetRequest) -> bool {
    let is_plain = !request.directives.optional && request.directives.qualifiers.is_empty();
    is_plain && request.key.as_ref().is_some_and(|key| Derivable::of(key.as_str()).is_some())
}

/// Takes a value, or where there is none what follows from others.
pub(super) fn or_derived(session: &Weak<Session>, request: &GetRequest, callback: ValueCallback) -> ValueCallback {
    let (session, request) = (Weak::clone(session), request.clone());
    Box::new(move |result| match result {
        Err(error) if error.is_not_found() => {
            let derived = session.upgrade().and_then(|session| session.derived(&request));
            callback(derived.ok_or(error));
        }
        result => callback(result),
    })
}

impl Session {
    /// What follows from the topology; `None` if nothing does, or there is no topology.
    pub(super) fn derived(&self, request: &GetRequest) -> Option<Value> {
        let wanted = Derivable::of(request.key.as_ref()?.as_str()).filter(|_| may_follow(request))?;
        let job = &request.proc.namespace;
        let is_here = *job == self.proc().namespace || self.near_ranks(job).is_some_and(|ranks| !ranks.is_empty());
        match wanted {
            // What a node is like follows for those that are there.
            Derivable::Xml | Derivable::Topology if !is_here => None,
            Derivable::Xml => Some(Value::from(self.machine().ok()?.xml())),
            Derivable::Topology => {
                let machine = self.machine().ok()?;
                let (xml, support) = (Some(Text::from(machine.xml())), machine.support().to_vec());
                Some(Value::Topology(Box::new(types::Topology { xml, support })))
            }
            Derivable::Delivered => self.delivered(request),
            of_process => self.of_process(of_process, &request.proc),
        }
    }

    /// What the server says without waiting. One that has answered a message of this process's has said so already.
    fn delivered(&self, request: &GetRequest) -> Option<Value> {
        if self.is_alone() || !self.reads_segment() {
            return None;
        }
        let mut directives = request.directives.clone();
        directives.demand_immediate();
        let get = Get { proc: request.proc.clone(), key: request.key.clone(), directives: directives.upward };
        let Ok(Outcome::Reply(Reply::Data(data))) = self.link().call(Call::Exchange(Request::Get(get))) else {
            return None;
        };
        let mut entries = data.into_iter().flat_map(|data| data.entries);
        entries.find(|entry| Some(&entry.key) == request.key.as_ref()).map(|entry| entry.value)
    }

    fn of_process(&self, wanted: Derivable, proc: &ProcId) -> Option<Value> {
        let (job, rank) = match proc.rank {
            Rank::Undefined if proc.namespace == self.proc().namespace => {
                (&proc.namespace, self.proc().rank.process()?)
            }
            rank => (&proc.namespace, rank.process()?),
        };
        let processors = self.processors_of(job, rank).filter(|_| self.is_near(job, rank))?;
        if wanted == Derivable::Processors {
            return Some(Value::ProcCpuset(Some(Text::from(processors.to_string()))));
        }
        let machine = self.machine().ok()?;
        match wanted {
            Derivable::Locality => machine.locality(&processors).map(Value::from),
            Derivable::Distances => Some(distances(&machine, &processors)),
            Derivable::PackageRank => self.package_rank(&machine, job, rank, &processors).map(Value::Uint16),
            Derivable::Processors | Derivable::Xml | Derivable::Topology | Derivable::Delivered => None,
        }
    }

    /// Which processors the host gave a process.
    fn processors_of(&self, job: &Namespace, rank: u32) -> Option<CpuSet> {
        let text = self.known(job, Rank::from(rank), keys::CPUSET.name())?;
        let list = text.as_str()?;
        list.strip_prefix("hwloc:").unwrap_or(list).parse().ok()
    }

    /// Whether a process is on this node.
    fn is_near(&self, job: &Namespace, rank: u32) -> bool {
        if *job != self.proc().namespace {
            return self.near_ranks(job).is_some_and(|ranks| ranks.contains(&rank));
        }
        let node = |rank| self.known(job, rank, keys::NODEID.name()).and_then(|value| value.as_u64());
        let own = self.proc().rank;
        own == Rank::from(rank) || node(own).is_some_and(|own| node(Rank::from(rank)) == Some(own))
    }

    /// The processes of a job on this node.
    fn near_ranks(&self, job: &Namespace) -> Option<Vec<u32>> {
        let peers = self.known(job, Rank::Wildcard, keys::LOCAL_PEERS.name())?;
        Some(peers.as_str()?.split(',').filter_map(|peer| peer.parse().ok()).collect())
    }

    /// Processes of the job on the same package with smaller ranks.
    fn package_rank(&self, machine: &Machine, job: &Namespace, rank: u32, processors: &CpuSet) -> Option<u16> {
        let package = machine.package_of(processors)?;
        let is_beside = |peer: &u32| {
            let place = self.processors_of(job, *peer).and_then(|processors| machine.package_of(&processors));
            *peer < rank && place == Some(package)
        };
        u16::try_from(self.near_ranks(job)?.into_iter().filter(is_beside).count()).ok()
    }

    /// A registered value, as far as this process knows it; of other jobs, as far as its server does.
    fn known(&self, job: &Namespace, rank: Rank, key: &'static str) -> Option<Value> {
        let proc = ProcId { namespace: job.clone(), rank };
        let mut directives = GetDirectives { optional: *job == self.proc().namespace, ..GetDirectives::default() };
        if !directives.optional {
            directives.demand_immediate();
        }
        self.get(&GetRequest { proc, key: Some(Key::from_static(key)), directives }).ok()?.into_value().ok()
    }
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
