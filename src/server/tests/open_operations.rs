use std::time::Duration;

use super::harness::*;
use crate::server::{Capabilities, OpenOperation, OperationKind};

#[test]
fn open_operations_are_listed_with_their_age_and_missing_processes() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 3);
    assert_eq!(rig.server.open_operations(rig.now), []);
    rig.request(peers[1], fence(&[everybody()], &[]));
    rig.now = rig.now + Duration::from_secs(2);
    rig.request(peers[0], get(&proc(2), Some("address"), &[]));
    rig.now = rig.now + Duration::from_secs(1);
    let of_fence = OpenOperation {
        kind: OperationKind::Fence,
        participants: vec![everybody()],
        arrived: 1,
        missing: vec![proc(0), proc(2)],
        lacking_clones: Vec::new(),
        age: Duration::from_secs(3),
    };
    let of_get = OpenOperation {
        kind: OperationKind::Get(Some(key("address"))),
        participants: vec![proc(0)],
        arrived: 1,
        missing: vec![proc(2)],
        lacking_clones: Vec::new(),
        age: Duration::from_secs(1),
    };
    assert_eq!(rig.server.open_operations(rig.now), [of_fence, of_get]);
    rig.lose(peers[0]);
    rig.request(peers[2], fence(&[everybody()], &[]));
    let waiting = rig.server.open_operations(rig.now);
    assert_eq!(waiting.iter().map(|operation| operation.missing.len()).collect::<Vec<_>>(), [0], "{waiting:?}");
}
