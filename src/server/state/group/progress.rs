//! The part of an operation on a group that other operations lack: leavers, leaders, and awaited decisions.

use std::collections::{BTreeMap, BTreeSet};

use super::vacancies::take_if_lower;
use crate::server::interface::PeerId;
use crate::types::{ProcId, Time};

/// The progress of an operation on a group.
#[derive(Debug, Default)]
pub(crate) struct GroupProgress {
    /// Processes that have left the group, arrived or not.
    left: BTreeSet<ProcId>,
    survives_deaths: bool,
    written: Option<Vec<ProcId>>,
    /// Processes that declared themselves leaders of the construction.
    leaders: BTreeSet<ProcId>,
    is_leaderless: bool,
    /// The process that has replaced an ended leader.
    successor: Option<ProcId>,
    /// The announced new leader, before the end of a leader is known here.
    announced_leader: Option<ProcId>,
    /// Number of decisions about ended members that each connection owes.
    owed: BTreeMap<PeerId, usize>,
    /// Bounds the wait for these decisions.
    owed_until: Option<Time>,
}

impl GroupProgress {
    /// Processes that have left the group.
    pub(crate) const fn left(&self) -> &BTreeSet<ProcId> {
        &self.left
    }

    pub(crate) fn note_leave(&mut self, proc: &ProcId) {
        self.left.insert(proc.clone());
    }

    /// Whether it ends a group that survives deaths and has no local member any more.
    pub(crate) const fn survives_deaths(&self) -> bool {
        self.survives_deaths
    }

    pub(crate) const fn set_survives_deaths(&mut self, survives_deaths: bool) {
        self.survives_deaths = survives_deaths;
    }

    /// Members in the host's request, if they differ from the participants: for a process that forms a group with
    /// members it can't name.
    pub(crate) const fn written(&self) -> Option<&Vec<ProcId>> {
        self.written.as_ref()
    }

    pub(crate) fn write(&mut self, members: Vec<ProcId>) {
        self.written = Some(members);
    }

    /// Processes that lead the construction.
    pub(crate) const fn leaders(&self) -> &BTreeSet<ProcId> {
        &self.leaders
    }

    /// A process declares itself leader.
    pub(crate) fn add_leader(&mut self, leader: ProcId) {
        self.leaders.insert(leader);
    }

    /// A leader has ended.
    pub(crate) fn lose_leader(&mut self, leader: &ProcId) {
        self.leaders.remove(leader);
        for place in [&mut self.successor, &mut self.announced_leader] {
            place.take_if(|proc| proc == leader);
        }
        self.is_leaderless = self.leaders.is_empty();
        if self.is_leaderless
            && let Some(successor) = self.announced_leader.take()
        {
            self.be_led_by(&successor);
        }
    }

    /// A process takes the role of an ended leader if nobody has it. Returns whether it does.
    pub(crate) fn volunteer(&mut self, proc: &ProcId) -> bool {
        let is_leaderless = self.is_leaderless;
        if is_leaderless {
            self.be_led_by(proc);
        }
        is_leaderless
    }

    /// A process has become leader elsewhere. Of several the lowest one leads.
    pub(crate) fn note_leader(&mut self, proc: &ProcId) {
        match &self.successor {
            _ if self.is_leaderless => self.be_led_by(proc),
            Some(earlier) if proc < earlier => self.be_led_by(proc),
            None => take_if_lower(&mut self.announced_leader, proc),
            Some(_) => {}
        }
    }

    /// The process that leads in place of an ended leader, or will.
    pub(crate) fn new_leader(&self) -> Option<&ProcId> {
        self.successor.as_ref().or(self.announced_leader.as_ref())
    }

    fn be_led_by(&mut self, successor: &ProcId) {
        self.is_leaderless = false;
        if let Some(earlier) = self.successor.replace(successor.clone()) {
            self.leaders.remove(&earlier);
        }
        self.leaders.insert(successor.clone());
    }

    /// The connections that owe decisions.
    pub(crate) fn owing(&self) -> impl ExactSizeIterator<Item = PeerId> {
        self.owed.keys().copied()
    }

    /// The end of the wait for decisions, if there is one.
    pub(crate) const fn owed_until(&self) -> Option<Time> {
        self.owed_until
    }

    /// Each of these connections owes one more decision. Returns whether a wait begins, which ends at `until`.
    pub(crate) fn owe(&mut self, peers: Vec<PeerId>, until: Time) -> bool {
        for peer in peers {
            let owed = self.owed.entry(peer).or_default();
            *owed = owed.saturating_add(1);
        }
        let begins = self.owed_until.is_none();
        self.owed_until.get_or_insert(until);
        begins
    }

    /// A connection owes one decision less.
    pub(crate) fn settle(&mut self, peer: PeerId) {
        if let Some(owed) = self.owed.get_mut(&peer) {
            *owed = owed.saturating_sub(1);
        }
        self.owed.retain(|_, owed| *owed > 0);
    }

    /// A connection has ended. Returns whether it owed decisions.
    pub(crate) fn excuse(&mut self, peer: PeerId) -> bool {
        self.owed.remove(&peer).is_some()
    }

    /// Ends the wait if no decision is owed. Returns the end that the wait had.
    pub(crate) fn end_settled_wait(&mut self) -> Option<Time> {
        if self.owed.is_empty() { self.owed_until.take() } else { None }
    }

    /// Awaits no more decisions. Returns the end that the wait had.
    pub(crate) fn end_wait(&mut self) -> Option<Time> {
        self.owed.clear();
        self.owed_until.take()
    }
}
