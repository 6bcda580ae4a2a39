use super::harness::*;
use super::queries::{LOCALITY, hardware, rig};
use crate::gds::model::MapStore;
use crate::keys;
use crate::server::{
    Capabilities, HostCall, Input, NodeHardware, Output, PeerId, RegisterNamespace, ServerConfig, Upcall,
};
use crate::types::{Info, InfoFlags, Kval, ProcId, Status, Value};

/// A fence over two nodes that must spread data and generated values.
fn spread(rig: &mut Rig, peer: PeerId) -> Vec<Output> {
    let directive = Info { flags: InfoFlags::REQUIRED.bits(), ..flag(keys::COLLECT_GENERATED_JOB_INFO.name()) };
    rig.request(peer, fence(&[everybody()], &[flag(keys::COLLECT_DATA.name()), directive]))
}

/// The values that the only upcall carries.
fn carried(outputs: &[Output]) -> Vec<Kval> {
    let (_, Upcall::Fence(fence)) = upcall(outputs) else { panic!("no fence: {outputs:?}") };
    fence.data.parts.iter().flat_map(|(_, committed)| committed.values.read().unwrap()).collect()
}

#[test]
fn a_fence_carries_the_generated_values_of_its_processes() {
    let (mut rig, peer) = rig(Capabilities::FENCE, true);
    assert_eq!(spread(&mut rig, peer), [Output::WantTopology]);
    let values = carried(&rig.input(Input::Topology(hardware())));
    let names: Vec<&str> = values.iter().map(|value| value.key.as_str()).collect();
    assert!(names.contains(&keys::DEVICE_DISTANCES.name()), "{names:?}");
    let locality = values.iter().find(|value| value.key.as_str() == keys::LOCALITY_STRING.name());
    assert_eq!(locality.map(|value| &value.value), Some(&Value::from(LOCALITY)));
}

#[test]
fn values_that_are_there_are_not_generated_again() {
    let (mut rig, peer) = rig(Capabilities::FENCE, true);
    spread(&mut rig, peer);
    let outputs = rig.input(Input::Topology(hardware()));
    assert_ne!(carried(&outputs), []);
    rig.complete(upcall(&outputs).0, fenced(Vec::new()));
    assert_eq!(carried(&spread(&mut rig, peer)), []);
}

/// A required directive was honoured without any value.
#[test]
fn without_a_topology_a_fence_fails_if_it_requires_the_values() {
    for is_required in [true, false] {
        let (mut rig, peer) = rig(Capabilities::FENCE, true);
        let flags = if is_required { InfoFlags::REQUIRED.bits() } else { 0 };
        let directive = Info { flags, ..flag(keys::COLLECT_GENERATED_JOB_INFO.name()) };
        assert_eq!(rig.request(peer, fence(&[everybody()], &[directive])), [Output::WantTopology]);
        let outputs = rig.input(Input::Topology(NodeHardware(None)));
        assert_eq!(carried(&outputs), []);
        let expected = if is_required { Status::ERR_NOT_SUPPORTED } else { Status::SUCCESS };
        let answers = rig.complete(upcall(&outputs).0, fenced(Vec::new()));
        assert_eq!(statuses(&answers), [(peer, expected)]);
    }
}

#[test]
fn a_younger_fence_waits_for_the_values_of_the_older_one() {
    let (mut rig, peer) = rig(Capabilities::FENCE, true);
    spread(&mut rig, peer);
    assert_eq!(rig.request(peer, fence(&[everybody()], &[])), []);
    let mut outputs = rig.input(Input::Topology(hardware()));
    outputs.extend(rig.wait(1));
    let collects = |upcall| matches!(upcall, Upcall::Fence(fence) if fence.data.collect);
    let collects: Vec<bool> = upcalls(&outputs).into_iter().map(|(_, upcall)| collects(upcall)).collect();
    assert_eq!(collects, [true, false]);
}

#[test]
fn the_end_of_a_process_whose_values_are_awaited_lets_its_fence_go_on() {
    let (mut rig, peer) = rig(Capabilities::FENCE, true);
    spread(&mut rig, peer);
    assert_eq!(upcalls(&rig.lose(peer)).len(), 0);
    let outputs = rig.input(Input::Topology(hardware()));
    assert_eq!(upcalls(&outputs).len(), 1, "{outputs:?}");
}

/// The directives of the first arrival alone decided.
#[test]
fn a_fence_collects_for_each_process_that_wants_generated_values() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.request(peers[0], fence(&[everybody()], &[]));
    let outputs = rig.request(peers[1], fence(&[everybody()], &[flag(keys::COLLECT_GENERATED_JOB_INFO.name())]));
    assert!(matches!(upcall(&outputs), (_, Upcall::Fence(fence)) if fence.data.collect));
}

/// All values were generated in one turn, with a look at all processes for each.
#[test]
fn values_of_many_processes_take_several_turns() {
    const LOCAL: u32 = 150;
    let config = ServerConfig { capabilities: Capabilities::FENCE, answers_topology: true, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let bound =
        |rank: u32| vec![Info::new(key(keys::RANK.name()), rank), Info::new(key(keys::CPUSET.name()), "hwloc:0")];
    let bound = (0..LOCAL).map(|rank| Info::new(key(keys::PROC_INFO_ARRAY.name()), Value::info_array(bound(rank))));
    let description: Vec<Info> = bound.chain([Info::new(JOB_SIZE, LOCAL + 1)]).collect();
    let (namespace, local_count) = (namespace("job"), Some(LOCAL));
    let description = description.into();
    rig.host(HostCall::RegisterNamespace(RegisterNamespace { namespace, local_count, description, nodata: false }));
    let procs: Vec<ProcId> = (0..LOCAL).map(proc).collect();
    procs.iter().for_each(|proc| drop(rig.register_client(proc)));
    let mut wanted = Vec::new();
    for proc in &procs {
        let peer = rig.join(proc, SOCKET);
        wanted.extend(spread(&mut rig, peer));
    }
    assert_eq!(wanted, [Output::WantTopology], "each answer generates values of some processes");
    let mut outputs = rig.input(Input::Topology(hardware()));
    for _ in 0..2 {
        assert_eq!(upcalls(&outputs).len(), 0);
        assert_eq!(rig.wait(1), [Output::WantTopology]);
        outputs = rig.input(Input::Topology(hardware()));
    }
    let names = |key: &str| carried(&outputs).iter().filter(|value| value.key.as_str() == key).count();
    assert_eq!([names(keys::LOCALITY_STRING.name()), names(keys::DEVICE_DISTANCES.name())], [LOCAL as usize; 2]);
}
