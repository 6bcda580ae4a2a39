//! Invitations as the standard tells of them, kept beside what the cores make of them: who was asked, what each said and what
//! its leader has heard, who is in the group, and whom each event has reached.
//!
//! Source: PMIx Standard, "Process Sets and Groups" (invite, join, leave) and "Event Notification".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use modex::events::Event;
use modex::keys;
use modex::proto::Tag;
use modex::proto::notification::Event as Notification;
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
    /// Processes that have said yes or no at some time, whether this was heard or not.
    pub(super) accepted: BTreeSet<ProcId>,
    pub(super) declined: BTreeSet<ProcId>,
    /// Processes that have said yes in several lives.
    pub(super) accepted_again: BTreeSet<ProcId>,
    /// The first answer of each process that the leader has heard.
    heard: BTreeMap<ProcId, bool>,
    /// Processes that have ended, as far as its leader has heard.
    heard_ended: BTreeSet<ProcId>,
    /// The group that its leader has formed.
    pub(super) formed: Option<Group>,
    /// Processes that have told their servers that they are in.
    pub(super) entered: BTreeSet<ProcId>,
    pub(super) left: BTreeSet<ProcId>,
    /// Since when nobody needs to wait for it: its leader has told how it ended, or has ended.
    pub(super) over_since: Option<Time>,
    /// The server of its leader has heard how it ended.
    pub(super) is_told: bool,
    /// Its leader has ended, or left, before that: others may take its place.
    is_leaderless: bool,
    /// Its leader has ended, or left, at some time.
    pub(super) has_lost_leader: bool,
    /// Somebody who was invited had left before it was over.
    pub(super) somebody_left: bool,
    /// Processes that left before they could hear how it ended, or before they could tell their servers that they are in.
    pub(super) left_early: BTreeSet<ProcId>,
    /// Its leader could not go on, and has said so.
    pub(super) is_taken_back: bool,
    /// Its leader could not say how it ended, or can't tell whether that was heard.
    pub(super) is_untold: bool,
    /// Events about it were lost, or a server that was to carry them.
    is_lossy: bool,
}

/// A group as each of its members is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) members: Vec<ProcId>,
    pub(super) number: Option<u64>,
}

impl InvitedGroup {
    /// Its leader hears something that may be an answer: the first of each counts, but who has ended is no member.
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

    /// A process says yes.
    pub(super) fn accept(&mut self, proc: ProcId) {
        if !self.accepted.insert(proc.clone()) {
            self.accepted_again.insert(proc);
        }
    }

    pub(super) fn has_member(&self, proc: &ProcId) -> bool {
        self.formed.as_ref().is_some_and(|group| group.members.contains(proc))
    }

    /// Whether it is about everybody's business whom this holds for.
    fn concerns(&self, leader: &ProcId, is_meant: impl Fn(&ProcId) -> bool) -> bool {
        is_meant(leader) || self.invited.iter().any(is_meant)
    }

    /// Whether everybody must be in the group, where all have accepted and nothing went wrong: it is of all, and all are told so, of
    /// whom those enter who have not left by then. Who finalizes while it leads tells nobody.
    pub(super) fn is_kept(&self, leader: &ProcId) -> bool {
        let is_whole = self.formed.as_ref().is_some_and(|group| group.members == self.invited);
        let is_told = self.is_told || !self.left_early.contains(leader);
        let has_entered = |proc: &ProcId| self.entered.contains(proc) || self.left_early.contains(proc);
        is_whole && (!is_told || self.invited.iter().all(has_entered))
    }

    /// A process that was invited, or who invited it, has gone.
    fn lose(&mut self, proc: &ProcId, is_leader: bool, now: Time) {
        if self.over_since.is_none_or(|over| now <= over + TRAVEL_MAX) && (is_leader || self.invited.contains(proc)) {
            self.left_early.insert(proc.clone());
        }
        self.somebody_left |= self.over_since.is_none() && self.invited.contains(proc);
        self.has_lost_leader |= is_leader;
        if is_leader {
            self.is_leaderless |= !self.is_told;
            self.over_since.get_or_insert(now);
        }
    }
}

/// An event on its way to those it is meant for.
#[derive(Debug)]
pub(super) struct EventDelivery {
    number: u64,
    status: Status,
    source: ProcId,
    targets: Vec<ProcId>,
    /// Connections that had asked for it when it was told.
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
    /// Which events each connection has asked for and was granted.
    interests: BTreeMap<PeerId, (ServerId, ProcId, BTreeSet<Status>)>,
    /// The connections of each process that has asked for some: an event is of few of a million processes.
    listening: BTreeMap<ProcId, BTreeSet<PeerId>>,
    asked: BTreeMap<(PeerId, Tag), (ProcId, Vec<Status>)>,
    /// Events that servers have not answered for, by number, and the requests that brought them.
    under_way: BTreeMap<u64, EventDelivery>,
    brought: BTreeMap<(PeerId, Tag), u64>,
    reached: BTreeMap<PeerId, BTreeSet<u64>>,
    last: u64,
    /// The last successor of a leader that each process has heard of, and when.
    selected: BTreeMap<(u32, Text), (ProcId, Time)>,
    /// Processes that have gone, and have not offered to lead since.
    gone: BTreeSet<ProcId>,
    /// Jobs that servers were told to forget: who was in a group with their processes can't be sure to hear of anything.
    forgotten: BTreeSet<Namespace>,
}

impl InvitedGroups {
    /// The next event's number, as an info that nobody looks at.
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

    /// A connection wants these no more.
    pub(super) fn deregisters(&mut self, peer: PeerId, codes: &[Status]) {
        if let Some((_, _, wanted)) = self.interests.get_mut(&peer) {
            wanted.retain(|code| !codes.contains(code));
        }
    }

    /// A process tells of an event.
    pub(super) fn tells(&mut self, peer: PeerId, tag: Tag, source: &ProcId, status: Status, info: &[Info]) {
        let event =
            Event { status, source: None, range: modex::types::codes::range::RANGE_CUSTOM, info: info.to_vec() };
        if let (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, Some(id)) = (status, group_of(info))
            && let Some(party) = self.all.get_mut(&(source.clone(), id))
        {
            party.is_told = true;
        }
        let Some(number) = number_of(info) else { return };
        let targets: Vec<ProcId> = event.targets().into_iter().cloned().collect();
        let listeners = self.wanting(&targets, status).map(|(listener, ..)| listener).collect();
        let told = EventDelivery { number, status, source: source.clone(), targets, listeners, heard: BTreeSet::new() };
        self.under_way.insert(number, told);
        self.brought.insert((peer, tag), number);
    }

    /// A server hands an event to a connection. Gives what is wrong with that.
    pub(super) fn reaches(&mut self, peer: PeerId, proc: &ProcId, event: &Notification) -> Option<String> {
        let number = number_of(&event.info)?;
        let whole = Event { status: event.status, source: None, range: 0, info: event.info.clone() };
        if !whole.targets().contains(&proc) {
            return Some(format!("{peer:?} of {proc} gets event {number}, which is for {:?}", whole.targets()));
        }
        let is_new = self.reached.entry(peer).or_default().insert(number);
        (!is_new).then(|| format!("{peer:?} of {proc} gets event {number} ({}) twice", event.status))
    }

    /// A server has answered. Gives whom on it an event has not reached.
    pub(super) fn replied(&mut self, server: ServerId, peer: PeerId, tag: Tag, status: Status) -> Option<String> {
        if let Some((proc, codes)) = self.asked.remove(&(peer, tag))
            && status == Status::SUCCESS
        {
            self.listening.entry(proc.clone()).or_default().insert(peer);
            let (_, _, wanted) = self.interests.entry(peer).or_insert_with(|| (server, proc, BTreeSet::new()));
            wanted.extend(codes);
        }
        let number = self.brought.remove(&(peer, tag))?;
        let told = self.under_way.remove(&number).filter(|_| status == Status::SUCCESS)?;
        let is_passed_over = |(listener, on, proc): &(PeerId, ServerId, &ProcId)| {
            let has_got = || self.reached.get(listener).is_some_and(|got| got.contains(&told.number));
            // A server keeps an event for those who come, until each process that it is for has got it: once in all its lives.
            let has_had = || told.heard.contains(*proc) && !told.listeners.contains(listener);
            *on == server && **proc != told.source && !has_got() && !has_had()
        };
        let (listener, _, proc) = self.wanting(&told.targets, told.status).find(is_passed_over)?;
        let EventDelivery { number, status, source, .. } = &told;
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

    /// An event, or all that goes by way of a server, does not reach these processes, nor what they say others. Nobody in a group with them
    /// can be sure to hear of anything.
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

    /// Whether those who are asked may miss something.
    pub(super) fn is_lossy(&self, id: &InvitationId) -> bool {
        let is_forgotten = |proc: &ProcId| self.forgotten.contains(&proc.namespace);
        self.all.get(id).is_some_and(|party| party.is_lossy || party.concerns(&id.0, is_forgotten))
    }

    /// Whether a process may miss something of what is said of a name.
    pub(super) fn may_miss(&self, proc: &ProcId, id: &Text) -> bool {
        let mut same = self.about(proc).filter(|((_, name), _)| name == id);
        same.any(|(id, party)| party.concerns(&id.0, |other| other == proc) && self.is_lossy(id))
    }

    /// Whether a process has said that it is in no group of this name any more. What is said of one is heard of all of that name: a
    /// group has nothing else that says which it is. There are two where several take a leader's place at once.
    pub(super) fn has_left(&self, id: &Text, proc: &ProcId) -> bool {
        self.about(proc).any(|((_, name), party)| name == id && party.left.contains(proc))
    }

    /// Whether the news of the leader's end may be that of an earlier life of it, in which it had been asked to another group of
    /// that name: nothing in it tells them apart.
    pub(super) fn had_left_earlier(&self, (leader, id): &InvitationId) -> bool {
        let mut others = self.about(leader).filter(|((of, name), _)| name == id && of != leader);
        others.any(|(_, party)| party.left_early.contains(leader))
    }

    /// A process offers to lead in the place of another.
    pub(super) fn volunteers(&mut self, proc: &ProcId) {
        self.gone.remove(proc);
    }

    /// A process hears who leads from now on. Gives who did before, if the place was free only once: no other leader of that
    /// name has gone, nor has the one that had taken the place, and that has invited or need not have yet.
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

    /// A connection leaves: nothing reaches it from now on.
    pub(super) fn hears_no_more(&mut self, peer: PeerId) {
        let Some((_, proc, _)) = self.interests.remove(&peer) else { return };
        if let Some(peers) = self.listening.get_mut(&proc) {
            peers.remove(&peer);
        }
        let Some(reached) = self.reached.get(&peer) else { return };
        for number in reached {
            if let Some(told) = self.under_way.get_mut(number) {
                told.heard.insert(proc.clone());
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

    /// A process has gone, as far as its server can tell: for good, or until it comes again.
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

/// Whether it is not a server's own.
pub(super) fn is_told_by_process(info: &[Info]) -> bool {
    number_of(info).is_some()
}

fn number_of(info: &[Info]) -> Option<u64> {
    info.iter().find(|info| info.key.as_str() == NUMBER)?.value.as_u64()
}

/// How long it takes, where there are no faults, until all have heard of something and have told their servers so: up, over, down, and
/// up again or back, each 0.2 ms at most (`World::latency`).
const TRAVEL_MAX: Duration = Duration::from_millis(1);
/// How long a leader's place is kept for one who has taken it and does not invite, as far as those see it who hear of that a little later.
const PLACE_KEPT: Duration = Duration::from_secs(55);
/// The key of the number that tells events of processes apart.
const NUMBER: &str = "sim.event";

#[cfg(test)]
mod tests;
