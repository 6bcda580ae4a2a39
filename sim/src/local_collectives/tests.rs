//! The account's own mistakes, found by many seeds.

use super::*;

const SERVER: ServerId = ServerId { node: 0, epoch: 0 };

/// Seed 44230: a process that had arrived started another program, whose own arrival was refused.
#[test]
fn a_refusal_takes_back_no_more_than_what_was_refused() {
    let mut all = LocalCollectives::default();
    let fence = signature(CollectiveKind::Fence, &[]);
    let [first, second] = [PeerId(1), PeerId(2)];
    let both = || Local { expected: BTreeSet::from([0, 1]), knowledge: Knowledge::Whole, ..Local::default() };
    all.arrive(SERVER, fence.clone(), (first, Tag(1), 1), (Time::ZERO, None), both);
    all.connection_ended(first);
    all.departed(SERVER, 1);
    for _ in 0..2 {
        all.arrive(SERVER, fence.clone(), (second, Tag(1), 1), (Time::ZERO, None), both);
        all.replied(Time::ZERO, second, Tag(1), Status::ERR_OUT_OF_RESOURCE, true);
    }
    let operation = all.handed_over(SERVER, &fence, UpcallId(1), Time::ZERO).unwrap();
    assert_eq!(operation.missing(), BTreeSet::from([0]));
    assert_eq!(operation.departed, BTreeSet::from([1]));
}

/// Seed 6744 of eight ranks on two nodes: later participants had a deadline from a clock that nobody had started.
#[test]
fn a_refusal_takes_back_the_clock_that_it_would_have_started() {
    let mut all = LocalCollectives::default();
    let fence = signature(CollectiveKind::Fence, &[]);
    let both = || Local { expected: BTreeSet::from([0, 1]), knowledge: Knowledge::Whole, ..Local::default() };
    let soon = Some(Time::ZERO + std::time::Duration::from_secs(1));
    assert_eq!(all.arrive(SERVER, fence.clone(), (PeerId(1), Tag(1), 0), (Time::ZERO, None), both), None);
    assert_eq!(all.arrive(SERVER, fence.clone(), (PeerId(2), Tag(1), 1), (Time::ZERO, soon), both), soon);
    all.replied(Time::ZERO, PeerId(2), Tag(1), Status::ERR_OUT_OF_RESOURCE, true);
    assert_eq!(all.arrive(SERVER, fence, (PeerId(3), Tag(1), 1), (Time::ZERO, None), both), None);
}
