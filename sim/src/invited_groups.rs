//! The standard's account of invitations, compared with the account of the cores.
//!
//! It records the invited processes, their answers, the answers that the leader has heard, the members, and the
//! processes that each event has reached.
//!
//! Source: PMIx Standard, "Process Sets and Groups" (invite, join, leave) and "Event Notification".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use modex::events::Event;
use modex::keys;
use modex::proto::Tag;
use modex::proto::notification::EventNotice;
use modex::server::PeerId;
use modex::types::{Info, Key, Namespace, ProcId, Status, Text, Time, Value};

use super::queue::ServerId;

/// Names an invitation: a leader invites to a group once.
pub(super) type InvitationId = (ProcId, Text);

/// One invitation.
#[derive(Debug, Default)]
pub(super) struct InvitedGroup {
    /// When its leader began to ask.
    pub(super) begun: Time,
    pub(super) invited: Vec<ProcId>,
    pub(super) is_optional: bool,
    /// Processes that have accepted or declined at some time, whether anybody heard it or not.
    pub(super) accepted: BTreeSet<ProcId>,
    pub(super) declined: BTreeSet<ProcId>,
    /// Processes that have accepted in several lives.
    pub(super) accepted_again: BTreeSet<ProcId>,
    /// The first answer of each process that the leader has heard.
    heard: BTreeMap<ProcId, bool>,
    /// Processes that have ended, as far as its leader has heard.
    heard_ended: BTreeSet<ProcId>,
    /// The group that the leader has formed.
    pub(super) formed: Option<Group>,
    /// Processes that have told their servers that they have entered.
    pub(super) entered: BTreeSet<ProcId>,
    pub(super) left: BTreeSet<ProcId>,
    /// The time from which nobody needs to wait for it: its leader has announced its end, or has ended.
    pub(super) over_since: Option<Time>,
    /// The server of its leader has heard how it ended.
    pub(super) is_known_to_server: bool,
    /// The leader has ended or left before that: others may take its place.
    is_leaderless: bool,
    /// The leader has ended or left at some time.
    pub(super) has_lost_leader: bool,
    /// An invited process had left before it was over.
    pub(super) somebody_left: bool,
    /// Processes that left before they could hear how it ended, or before they could tell their servers that they had
    /// entered.
    pub(super) left_early: BTreeSet<ProcId>,
    /// The leader could not go on, and has announced it.
    pub(super) is_taken_back: bool,
    /// The leader could not announce the end, or can't tell whether anybody heard it.
    pub(super) is_unannounced: bool,
    /// Events about it were lost, or a server that was to carry them was lost.
    is_lossy: bool,
}

/// A group, as its members hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) members: Vec<ProcId>,
    pub(super) number: Option<u64>,
}

impl InvitedGroup {
    /// The leader hears a possible answer. The first answer of each process counts, but an ended process is no member.
    pub(super) fn hear(&mut self, status: Status, source: &ProcId, affected: Option<&ProcId>) {
        match (status, affected) {
            (Status::GROUP_INVITE_ACCEPTED, _) => drop(self.heard.entry(source.clone()).or_insert(true)),
            (Status::GROUP_INVITE_DECLINED, _) => drop(self.heard.entry(source.clone()).or_insert(false)),
            (Status::PROC_TERMINATED, Some(affected)) => drop(self.heard_ended.insert(affected.clone())),
            _ => {}
        }
    }

    /// Processes that must be in the group if there is one.
    pub(super) fn due_members(&self, leader: &ProcId) -> Vec<ProcId> {
        let has_said_yes = |proc: &&ProcId| {
            *proc == leader || (self.heard.get(*proc) == Some(&true) && !self.heard_ended.contains(*proc))
        };
        self.invited.iter().filter(has_said_yes).cloned().collect()
    }

    /// A process accepts.
    pub(super) fn accept(&mut self, proc: ProcId) {
        if !self.accepted.insert(proc.clone()) {
            self.accepted_again.insert(proc);
        }
    }

    pub(super) fn has_member(&self, proc: &ProcId) -> bool {
        self.formed.as_ref().is_some_and(|group| group.members.contains(proc))
    }

    /// Whether it concerns a process for which the condition holds.
    fn concerns(&self, leader: &ProcId, is_meant: impl Fn(&ProcId) -> bool) -> bool {
        is_meant(leader) || self.invited.iter().any(is_meant)
    }

    /// Whether the rule for a group without faults holds: all have accepted, so all invited processes are members.
    ///
    /// All of them hear of it, and all that have not left by then enter. A leader that finalizes tells nobody.
    pub(super) fn is_kept(&self, leader: &ProcId) -> bool {
        let is_whole = self.formed.as_ref().is_some_and(|group| group.members == self.invited);
        let is_known_to_server = self.is_known_to_server || !self.left_early.contains(leader);
        let has_entered = |proc: &ProcId| self.entered.contains(proc) || self.left_early.contains(proc);
        is_whole && (!is_known_to_server || self.invited.iter().all(has_entered))
    }

    /// A process that was invited, or its leader, has gone.
    fn lose(&mut self, proc: &ProcId, is_leader: bool, now: Time) {
        if self.over_since.is_none_or(|over| now <= over + TRAVEL_MAX) && (is_leader || self.invited.contains(proc)) {
            self.left_early.insert(proc.clone());
        }
        self.somebody_left |= self.over_since.is_none() && self.invited.contains(proc);
        self.has_lost_leader |= is_leader;
        if is_leader {
            self.is_leaderless |= !self.is_known_to_server;
            self.over_since.get_or_insert(now);
        }
    }
}

/// An event on its way to its targets.
#[derive(Debug)]
pub(super) struct EventDelivery {
    number: u64,
    status: Status,
    source: ProcId,
    targets: Vec<ProcId>,
    /// Connections that had asked for it when it was raised.
    listeners: BTreeSet<PeerId>,
    /// Processes that it has reached on connections that have ended since.
    heard: BTreeSet<ProcId>,
}

/// All invitations, and all events of processes.
#[derive(Debug, Default)]
pub(super) struct InvitedGroups {
    pub(super) all: BTreeMap<InvitationId, InvitedGroup>,
    /// The groups that each process was invited to or leads: few of thousands.
    of_process: BTreeMap<ProcId, BTreeSet<InvitationId>>,
    /// The events that each connection has asked for and may get.
    interests: BTreeMap<PeerId, (ServerId, ProcId, BTreeSet<Status>)>,
    /// The connections of each process that has asked for events: an event concerns few of a million processes.
    listening: BTreeMap<ProcId, BTreeSet<PeerId>>,
    asked: BTreeMap<(PeerId, Tag), (ProcId, Vec<Status>)>,
    /// Events that servers have not answered for, by number. Below: the requests that brought them.
    under_way: BTreeMap<u64, EventDelivery>,
    brought: BTreeMap<(PeerId, Tag), u64>,
    reached: BTreeMap<PeerId, BTreeSet<u64>>,
    last: u64,
    /// The last successor of a leader that each process has heard of, and when.
    selected: BTreeMap<(u32, Text), (ProcId, Time)>,
    /// Processes that have gone and have not offered to lead since.
    gone: BTreeSet<ProcId>,
    /// Jobs that servers were asked to forget. A process in a group with their processes may miss any news.
    forgotten: BTreeSet<Namespace>,
}

impl InvitedGroups {
    /// The next event's number, as an info that nobody reads.
    pub(super) fn numbered(&mut self) -> Info {
        self.last += 1;
        Info::new(Key::from_static(NUMBER), Value::Uint64(self.last))
    }

    /// A process invites others.
    pub(super) fn invite(&mut self, id: InvitationId, invited: Vec<ProcId>) -> &mut InvitedGroup {
        for proc in invited.iter().chain([&id.0]) {
            self.of_process.entry(proc.clone()).or_default().insert(id.clone());
        }
        let party = self.all.entry(id).or_default();
        party.invited = invited;
        party
    }

    /// The groups that a process was invited to or leads.
    fn about(&self, proc: &ProcId) -> impl Iterator<Item = (&InvitationId, &InvitedGroup)> {
        self.of_process.get(proc).into_iter().flatten().filter_map(|id| Some((id, self.all.get(id)?)))
    }

    /// A process asks for events.
    pub(super) fn asks(&mut self, peer: PeerId, tag: Tag, proc: &ProcId, codes: &[Status]) {
        self.asked.insert((peer, tag), (proc.clone(), codes.to_vec()));
    }

    /// A connection no longer wants these events.
    pub(super) fn deregisters(&mut self, peer: PeerId, codes: &[Status]) {
        if let Some((_, _, wanted)) = self.interests.get_mut(&peer) {
            wanted.retain(|code| !codes.contains(code));
        }
    }

    /// A process raises an event.
    pub(super) fn tells(&mut self, peer: PeerId, tag: Tag, source: &ProcId, status: Status, info: &[Info]) {
        let event =
            Event { status, source: None, range: modex::types::codes::range::RANGE_CUSTOM, info: info.to_vec() };
        if let (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, Some(id)) = (status, group_of(info))
            && let Some(party) = self.all.get_mut(&(source.clone(), id))
        {
            party.is_known_to_server = true;
        }
        let Some(number) = number_of(info) else { return };
        let targets: Vec<ProcId> = event.targets().into_iter().cloned().collect();
        let listeners = self.wanting(&targets, status).map(|(listener, ..)| listener).collect();
        let delivery =
            EventDelivery { number, status, source: source.clone(), targets, listeners, heard: BTreeSet::new() };
        self.under_way.insert(number, delivery);
        self.brought.insert((peer, tag), number);
    }

    /// A server hands an event to a connection. Returns the fault in that, if any.
    pub(super) fn reaches(&mut self, peer: PeerId, proc: &ProcId, event: &EventNotice) -> Option<String> {
        let number = number_of(&event.info)?;
        let whole = Event { status: event.status, source: None, range: 0, info: event.info.clone() };
        if !whole.targets().contains(&proc) {
            return Some(format!("{peer:?} of {proc} gets event {number}, which is for {:?}", whole.targets()));
        }
        let is_new = self.reached.entry(peer).or_default().insert(number);
        (!is_new).then(|| format!("{peer:?} of {proc} gets event {number} ({}) twice", event.status))
    }

    /// A server has answered. Returns the local process that the event has missed, if any.
    pub(super) fn replied(&mut self, server: ServerId, peer: PeerId, tag: Tag, status: Status) -> Option<String> {
        if let Some((proc, codes)) = self.asked.remove(&(peer, tag))
            && status == Status::SUCCESS
        {
            self.listening.entry(proc.clone()).or_default().insert(peer);
            let (_, _, wanted) = self.interests.entry(peer).or_insert_with(|| (server, proc, BTreeSet::new()));
            wanted.extend(codes);
        }
        let number = self.brought.remove(&(peer, tag))?;
        let delivery = self.under_way.remove(&number).filter(|_| status == Status::SUCCESS)?;
        let is_passed_over = |(listener, on, proc): &(PeerId, ServerId, &ProcId)| {
            let has_got = || self.reached.get(listener).is_some_and(|got| got.contains(&delivery.number));
            // A server keeps an event for later processes until each target process has got it once, in all its lives.
            let has_had = || delivery.heard.contains(*proc) && !delivery.listeners.contains(listener);
            *on == server && **proc != delivery.source && !has_got() && !has_had()
        };
        let (listener, _, proc) = self.wanting(&delivery.targets, delivery.status).find(is_passed_over)?;
        let EventDelivery { number, status, source, .. } = &delivery;
        Some(format!("{listener:?} of {proc} never heard of event {number} ({status}) of {source}"))
    }

    /// The connections of these processes that have asked for an event.
    fn wanting<'t>(
        &'t self,
        targets: &'t [ProcId],
        status: Status,
    ) -> impl Iterator<Item = (PeerId, ServerId, &'t ProcId)> {
        let peers = targets.iter().filter_map(|target| self.listening.get(target)).flatten();
        let interests = peers.filter_map(|peer| Some((*peer, self.interests.get(peer)?)));
        let wanting = interests.filter(move |(_, (_, _, wanted))| wanted.contains(&status));
        wanting.map(|(peer, (server, proc, _))| (peer, *server, proc))
    }

    /// An event, or all events through one server, is lost for these processes, and so is what they send. Nobody in a
    /// group with them can be sure to hear of anything.
    pub(super) fn lose_news(&mut self, id: Option<&Text>, is_cut_off: impl Fn(&ProcId) -> bool) {
        for ((leader, name), party) in &mut self.all {
            let is_meant = id.is_none_or(|id| id == name);
            party.is_lossy |= is_meant && party.concerns(leader, &is_cut_off);
        }
    }

    /// Servers are told to forget a job.
    pub(super) fn forget(&mut self, namespace: Namespace) {
        self.forgotten.insert(namespace);
    }

    /// Whether the invited processes may miss something.
    pub(super) fn is_lossy(&self, id: &InvitationId) -> bool {
        let is_forgotten = |proc: &ProcId| self.forgotten.contains(&proc.namespace);
        self.all.get(id).is_some_and(|party| party.is_lossy || party.concerns(&id.0, is_forgotten))
    }

    /// Whether a process may miss news of a group of this name.
    pub(super) fn may_miss(&self, proc: &ProcId, id: &Text) -> bool {
        let mut same = self.about(proc).filter(|((_, name), _)| name == id);
        same.any(|(id, party)| party.concerns(&id.0, |other| other == proc) && self.is_lossy(id))
    }

    /// Whether a process has announced that it has left the groups of this name. News of one group counts for all
    /// groups of its name, because nothing else identifies a group. Two groups share a name if several processes take a
    /// leader's place at once.
    pub(super) fn has_left(&self, id: &Text, proc: &ProcId) -> bool {
        self.about(proc).any(|((_, name), party)| name == id && party.left.contains(proc))
    }

    /// Whether the news of the leader's end may be about an earlier life, in which it was invited to another group of
    /// that name. Nothing in the news tells the two lives apart.
    pub(super) fn had_left_earlier(&self, (leader, id): &InvitationId) -> bool {
        let mut others = self.about(leader).filter(|((of, name), _)| name == id && of != leader);
        others.any(|(_, party)| party.left_early.contains(leader))
    }

    /// A process offers to lead in another's place.
    pub(super) fn volunteers(&mut self, proc: &ProcId) {
        self.gone.remove(proc);
    }

    /// A process hears of the present leader. Returns the leader before it, if only one place of that name was free.
    ///
    /// It returns none if another leader of that name has gone, or the successor itself. The successor must have
    /// invited, or must still have time for it.
    pub(super) fn note_selected(
        &mut self,
        now: Time,
        process: u32,
        own: &ProcId,
        id: &Text,
        leader: &ProcId,
    ) -> Option<ProcId> {
        let is_lost = |(_, party): &(&InvitationId, &InvitedGroup)| party.is_leaderless && party.invited.contains(own);
        let lost = self.about(own).filter(|((_, name), _)| name == id).filter(is_lost).count();
        let (before, since) = self.selected.insert((process, id.clone()), (leader.clone(), now))?;
        let invites = |party: &InvitedGroup| party.begun >= since;
        let has_invited = || self.all.get(&(before.clone(), id.clone())).is_some_and(invites);
        let is_kept = now < since + PLACE_KEPT || has_invited();
        (lost <= 1 && is_kept && !self.gone.contains(&before)).then_some(before)
    }

    /// A connection leaves: no event reaches it from now on.
    pub(super) fn hears_no_more(&mut self, peer: PeerId) {
        let Some((_, proc, _)) = self.interests.remove(&peer) else { return };
        if let Some(peers) = self.listening.get_mut(&proc) {
            peers.remove(&peer);
        }
        let Some(reached) = self.reached.get(&peer) else { return };
        for number in reached {
            if let Some(delivery) = self.under_way.get_mut(number) {
                delivery.heard.insert(proc.clone());
            }
        }
    }

    /// A connection has ended.
    pub(super) fn connection_ended(&mut self, peer: PeerId) {
        self.hears_no_more(peer);
        self.reached.remove(&peer);
        let all = (peer, Tag(0))..=(peer, Tag(u32::MAX));
        self.asked.extract_if(all.clone(), |_, _| true).for_each(drop);
        for (_, number) in self.brought.extract_if(all, |_, _| true) {
            self.under_way.remove(&number);
        }
    }

    /// A process has gone, as far as its server can tell. It may come again.
    pub(super) fn left(&mut self, proc: &ProcId, now: Time) {
        self.gone.insert(proc.clone());
        for id in self.of_process.get(proc).into_iter().flatten() {
            if let Some(party) = self.all.get_mut(id) {
                party.lose(proc, id.0 == *proc, now);
            }
        }
    }
}

/// The process that an event is about.
pub(super) fn affected(info: &[Info]) -> Option<&ProcId> {
    let info = info.iter().find(|info| info.key.as_str() == keys::EVENT_AFFECTED_PROC.name())?;
    if let Value::Proc(proc) = &info.value { Some(proc) } else { None }
}

/// The group that an event is about.
pub(super) fn group_of(info: &[Info]) -> Option<Text> {
    let info = info.iter().find(|info| info.key.as_str() == keys::GROUP_ID.name())?;
    if let Value::String(id) = &info.value { Some(id.clone()) } else { None }
}

/// Whether a process raised the event, not a server.
pub(super) fn is_from_process(info: &[Info]) -> bool {
    number_of(info).is_some()
}

fn number_of(info: &[Info]) -> Option<u64> {
    info.iter().find(|info| info.key.as_str() == NUMBER)?.value.as_u64()
}

/// The time until all have heard of something and told their servers so, without faults. News goes up, over, down, and
/// up again or back, each 0.2 ms at most (`World::latency`).
const TRAVEL_MAX: Duration = Duration::from_millis(1);
/// How long a leader's place is kept for a successor that does not invite, as seen by processes that hear of it a
/// little later.
const PLACE_KEPT: Duration = Duration::from_secs(55);
/// The key of the number that identifies an event of a process.
const NUMBER: &str = "sim.event";

#[cfg(test)]
mod tests;
