use super::harness::*;
use super::queries::{LOCALITY, hardware, rig};
use crate::keys;
use crate::server::{Capabilities, Input, NodeHardware, Output, PeerId, Upcall};
use crate::types::{Info, InfoFlags, Kval, Status, Value};

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
