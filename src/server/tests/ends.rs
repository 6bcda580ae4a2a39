//! Ends of many processes at once.
//!
//! Each end looked at all that the process took part in, in its own turn. The processes of a job take turns, so all of
//! its ends came before the next request of another job, and that waited for a second. The rule: ends share a bound on
//! the work that they do at once, and the rest goes on in steps. Found by an attacker.

use super::groups::notified;
use super::harness::*;
use crate::proto::{Group, RegisterEvents, Request, Tag};
use crate::server::{Capabilities, Output, PeerId};
use crate::types::{Status, Text};

fn construct(id: &str) -> Request {
    let directives = vec![flag("pmix.grp.notterm"), flag("pmix.grp.ftcoll")];
    Request::GroupConstruct(Group { command: 24, id: Some(Text::from(id)), procs: vec![everybody()], directives })
}

/// The outputs of each later step, until nothing is left to do.
fn steps(rig: &mut Rig) -> Vec<Vec<Output>> {
    let mut steps = Vec::new();
    while rig.server.poll_timeout().is_some() {
        steps.push(rig.wait(1));
    }
    steps
}

fn entries(rig: &Rig, table: &str) -> usize {
    rig.server.holdings().into_iter().find(|(name, _)| *name == table).map(|(_, entries)| entries).unwrap()
}

/// 200 processes ended beside 4,000 fences with one of them each.
#[test]
fn ends_at_one_moment_look_at_a_bounded_number_of_fences_at_once() {
    const RANKS: u32 = 100;
    const FENCES: u32 = 1000;
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(RANKS, RANKS);
    for number in 0..FENCES {
        let with = proc(1 + number % (RANKS - 1));
        assert_eq!(rig.request(peers[0], fence(&[proc(0), with], &[])), []);
    }
    let at_once: usize = peers[1..].iter().map(|peer| statuses(&rig.lose(*peer)).len()).sum();
    assert!((1..=50).contains(&at_once), "{at_once}");
    let steps: Vec<usize> = steps(&mut rig).iter().map(|outputs| statuses(outputs).len()).collect();
    assert_eq!(at_once + steps.iter().sum::<usize>(), FENCES as usize, "{steps:?}");
    assert_eq!(rig.server.collective_count(), 0);
}

/// Each fence went through all older ones again, if another process ended before all were advanced.
#[test]
fn fences_of_the_same_processes_are_completed_in_order_and_without_a_walk_for_each() {
    const RANKS: u32 = 40;
    const FENCES: usize = 1000;
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(RANKS, RANKS);
    (0..FENCES).for_each(|_| assert_eq!(rig.request(peers[0], fence(&[everybody()], &[])), []));
    let (last, others) = peers[1..].split_last().unwrap();
    others.iter().for_each(|peer| assert_eq!(statuses(&rig.lose(*peer)), []));
    let waiting = steps(&mut rig);
    assert!(waiting.len() <= 60, "{}", waiting.len());
    let at_once = rig.lose(*last);
    let outputs = [vec![at_once], steps(&mut rig)].concat();
    let tag = |output: &Output| match output {
        Output::Answer(_, tag, _) => Some(*tag),
        _ => None,
    };
    let answered: Vec<Tag> = outputs.concat().iter().filter_map(tag).collect();
    assert!(answered.len() == FENCES && answered.is_sorted(), "{answered:?}");
}

/// 200 processes ended beside 4,000 constructions with all of them. 800,000 pairs waited for their events.
#[test]
fn an_end_that_others_do_not_know_is_kept_once() {
    const RANKS: u32 = 12;
    const GROUPS: usize = 200;
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(RANKS, RANKS);
    let wish = RegisterEvents { codes: vec![Status::GROUP_MEMBER_FAILED], directives: Vec::new() };
    rig.request(peers[0], Request::RegisterEvents(wish));
    (0..GROUPS).for_each(|number| drop(rig.request(peers[0], construct(&format!("g{number}")))));
    let ended = &peers[1..];
    let mut outputs: Vec<Vec<Output>> = ended.iter().map(|peer| rig.lose(*peer)).collect();
    let events_at_once: usize = outputs.iter().map(|outputs| notified(outputs).len()).sum();
    assert!((1..=32).contains(&events_at_once), "{events_at_once}");
    assert_eq!(entries(&rig, "unannounced end of a process"), ended.len());
    let steps = steps(&mut rig);
    assert!(steps.iter().all(|outputs| notified(outputs).len() <= 32));
    outputs.extend(steps);
    let all = outputs.concat();
    assert_eq!((notified(&all).len(), replies(&all).len()), (ended.len() * GROUPS, GROUPS));
    assert_eq!(rig.server.collective_count(), 0);
}

/// The rest of an end must not come after the result of an operation that goes on without the process.
#[test]
fn members_hear_of_all_ends_before_they_get_their_group() {
    const GROUPS: usize = 100;
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(4, 4);
    let wish = || RegisterEvents { codes: vec![Status::GROUP_MEMBER_FAILED], directives: Vec::new() };
    for peer in &peers[..2] {
        rig.request(*peer, Request::RegisterEvents(wish()));
        (0..GROUPS).for_each(|number| drop(rig.request(*peer, construct(&format!("g{number}")))));
    }
    let mut outputs = [rig.lose(peers[2]), rig.lose(peers[3])].concat();
    outputs.extend(steps(&mut rig).concat());
    let mut heard = [(peers[0], 0), (peers[1], 0)];
    let mut formed = 0;
    for output in &outputs {
        let of = |peer: PeerId| heard.iter().find(|(of, _)| *of == peer).map(|(_, heard)| *heard);
        if let Output::Answer(peer, ..) = output {
            formed += 1;
            // The second end comes to the first group when the first one has come to all.
            assert!(of(*peer).is_some_and(|heard| heard > GROUPS), "a group was formed without news");
        }
        for (peer, ..) in notified(std::slice::from_ref(output)) {
            heard.iter_mut().filter(|(of, _)| *of == peer).for_each(|(_, heard)| *heard += 1);
        }
    }
    assert_eq!((formed, heard.map(|(_, heard)| heard)), (2 * GROUPS, [2 * GROUPS; 2]));
}
