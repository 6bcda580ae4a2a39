//! Changes of groups: joins by invitation, leaves, ends of members.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::directives::{group_of, membership, membership_in, name_of, named_members};
use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Command};
use crate::server::interface::{
    Capabilities, Garbage, GroupOperation, Output, PeerId, Upcall, find, flag, processes, requires_more_than,
};
use crate::server::state::{
    Bereaved, CollectiveKind, Invited, OperationId, OperationStage, Pool, Presence, Remote, ServerCore, Signature,
    Ticket,
};
use crate::types::codes::range;
use crate::types::{Info, Key, Namespace, ProcId, Rank, Status, Text, Time, Value};

/// Directives of a job control that requests a number for a group. The client honours the time limit.
pub(crate) const UNDERSTOOD_OF_NUMBERS: [&str; 3] =
    [keys::GROUP_ASSIGN_CONTEXT_ID.name(), keys::GROUP_ID.name(), keys::TIMEOUT.name()];

impl<S: Datastore> ServerCore<S> {
    /// Joins and leaves; invitations are events, and have no request of their own.
    pub(in crate::server) fn group_other(&mut self, now: Time, ticket: Ticket, proc: &ProcId, group: proto::Group) {
        let Some(id) = name_of(&group) else { return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM) };
        let status = match Command::from_raw(group.command) {
            Some(Command::GroupJoin) => self.join_group(&ticket, proc, id, &group.directives),
            Some(Command::GroupLeave) => self.leave_group(now, proc, id, &group.directives),
            // This command carries only the verdicts of our own clients.
            Some(Command::GroupInvite) => {
                self.take_verdict(now, ticket.peer(), proc, &group).unwrap_or(Status::ERR_NOT_SUPPORTED)
            }
            _ => Status::ERR_NOT_SUPPORTED,
        };
        if status == Status::ERR_OUT_OF_RESOURCE {
            // A list of a million processes takes long to free.
            self.outputs.push(Output::Discard(Garbage::new(group)));
        }
        self.outputs.reply_status(ticket, status);
    }

    /// A leader requests a number for a group formed by invitation, and no host numbers groups.
    pub(in crate::server::rules) fn number_for_group(
        &mut self,
        proc: &ProcId,
        control: &proto::JobControl,
    ) -> Option<Info> {
        let is_asked = control.targets.is_empty() && flag(&control.directives, keys::GROUP_ASSIGN_CONTEXT_ID);
        let is_asked = is_asked && !requires_more_than(&control.directives, &UNDERSTOOD_OF_NUMBERS);
        let has_host = self.config.capabilities.contains(Capabilities::GROUP);
        (is_asked && !has_host && self.is_all_here(&proc.namespace)).then(|| self.groups.next_number())
    }

    /// Whether a job has no remote process, so that numbers of this server are unique in it.
    pub(super) fn is_all_here(&self, namespace: &Namespace) -> bool {
        let whole = [ProcId { namespace: namespace.clone(), rank: Rank::Wildcard }];
        self.registry.membership(&whole, false).is_some_and(|members| members.remote == Remote::None)
    }

    /// Whether a job has this name. A group of that name would stand for the job's processes in all their operations.
    pub(super) fn is_a_jobs_name(&self, id: &Text) -> bool {
        Namespace::from_bytes(id.as_bytes()).is_ok_and(|namespace| self.registry.job(&namespace).is_some())
    }

    /// Whether a process can't be in another group, with `member_count` members as far as known.
    pub(super) fn has_too_many_groups(&self, proc: &ProcId, uid: u32, member_count: usize) -> bool {
        let limits = &self.config.limits;
        let (all, own) = self.groups.counts(proc);
        let groups = Pool { max: limits.groups_max, used: all };
        let members = Pool { max: limits.group_members_max, used: self.groups.member_count() };
        own >= limits.groups_per_process_max
            || !self.has_share(uid, groups, 1, || self.groups.counts_of_user(uid).0)
            || !self.has_share(uid, members, member_count, || self.groups.counts_of_user(uid).1)
    }

    /// A process reports that it is in a group formed by invitation. It speaks only for itself.
    fn join_group(&mut self, ticket: &Ticket, proc: &ProcId, id: Text, directives: &[Info]) -> Status {
        if self.are_too_many(named_members(directives)) {
            return Status::ERR_OUT_OF_RESOURCE;
        }
        let members = membership(directives).unwrap_or_default();
        if self.is_a_jobs_name(&id) {
            return Status::ERR_BAD_PARAM;
        }
        if !members.contains(proc) {
            return Status::ERR_NOT_A_MEMBER;
        }
        let Some(user) = self.peers.user_of(ticket.peer()) else { return Status::ERR_NOT_AVAILABLE };
        if self.has_too_many_groups(proc, user, members.len()) {
            return Status::ERR_OUT_OF_RESOURCE;
        }
        let context_id = find(directives, keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64());
        self.untie_group(&id, &BTreeSet::from([proc.clone()]));
        self.tie_joined(&id, proc, &members);
        self.groups.join(&id, proc, user, (members, context_id));
        Status::SUCCESS
    }

    /// A process leaves its group; the others are informed.
    fn leave_group(&mut self, now: Time, proc: &ProcId, id: Text, directives: &[Info]) -> Status {
        let survives_deaths = self.groups.of_member(&id, proc).is_some_and(|group| group.survives_deaths);
        let Some(others) = self.groups.leave(&id, proc) else { return Status::ERR_NOT_FOUND };
        self.note_leaver(proc, &id, survives_deaths, &others);
        self.tell_of(now, Status::GROUP_LEFT, proc, &id, others, directives);
        self.go_on_without(now, &id, proc);
        self.untie_group(&id, &BTreeSet::from([proc.clone()]));
        Status::SUCCESS
    }

    /// A local process has left a group: remote members may ask for this server's part in the end.
    fn note_leaver(&mut self, proc: &ProcId, id: &Text, survives_deaths: bool, others: &[ProcId]) {
        if others.iter().any(|member| self.registry.client(member).is_none()) {
            self.groups.note_leaver(proc, id, survives_deaths, &self.config.limits);
        }
    }

    /// A process has left the group: its members' operations go on without it.
    fn go_on_without(&mut self, now: Time, id: &Text, proc: &ProcId) {
        let table = self.collectives.table;
        for operation in self.collectives.about(id, proc) {
            let Some(of) = self.collectives.get_mut(operation) else { continue };
            of.leave(proc, table);
            match of.stage() {
                OperationStage::Gathering => self.advance_operation(now, operation),
                _ => self.ask_for_part(now, operation, proc),
            }
        }
    }

    /// The host works on the end of a group: asks the servers of processes that have left it.
    pub(in crate::server::rules) fn ask_for_parts(&mut self, now: Time, operation: OperationId) {
        let Some(of) = self.collectives.get(operation) else { return };
        let CollectiveKind::Group(GroupOperation::Destruct, id) = &of.signature().kind else { return };
        let members = of.remaining();
        let doubtful = self.groups.of(id, &members).flat_map(|group| &group.doubtful);
        // A member may request the end before it has heard of the beginning.
        let begun = CollectiveKind::Group(GroupOperation::Construct, id.clone());
        let forming = self.collectives.iter().filter(|(_, other)| other.signature().kind == begun);
        let forming = forming.flat_map(|(_, other)| other.left()).filter(|leaver| of.signature().covers(leaver));
        for leaver in of.left().chain(doubtful).chain(forming).cloned().collect::<BTreeSet<ProcId>>() {
            self.ask_for_part(now, operation, &leaver);
        }
    }

    /// The host waits for the server of a process that has left a group, perhaps as its last local member: asks that
    /// server.
    fn ask_for_part(&mut self, now: Time, operation: OperationId, leaver: &ProcId) {
        let Some(operation) = self.collectives.get(operation) else { return };
        let CollectiveKind::Group(GroupOperation::Destruct, id) = &operation.signature().kind else { return };
        let is_waited_for =
            matches!(operation.stage(), OperationStage::AtHost(_)) && self.registry.client(leaver).is_none();
        let Some(asker) = operation.contributed().first().filter(|_| is_waited_for) else { return };
        let (id, asker, procs) = (id.clone(), asker.clone(), operation.signature().procs.to_vec());
        let awaited = Info::new(Key::from_static(proto::GROUP_AWAITED), processes(procs));
        self.tell(now, Status::GROUP_MEMBERSHIP_UPDATE, &asker, &id, vec![leaver.clone()], vec![awaited]);
    }

    /// Another server may ask for this one's part in the end of a group that all local members have left. Returns
    /// whether the event is such a question, which is for servers only.
    pub(in crate::server::rules) fn is_asked_for_part(&mut self, now: Time, event: &Event) -> bool {
        let awaited = event.info.iter().find(|info| info.key.as_str() == proto::GROUP_AWAITED);
        if let Some(awaited) = awaited
            && let Some(id) = group_of(event)
            && let Some(procs) = membership_in(&awaited.value)
        {
            self.take_part_without_members(now, id, procs);
        }
        awaited.is_some()
    }

    fn take_part_without_members(&mut self, now: Time, id: Text, procs: Vec<ProcId>) {
        let limits = &self.config.limits;
        if procs.len() > limits.participants_max || self.collectives.len() >= limits.collectives_max {
            return;
        }
        let signature = Signature::new(CollectiveKind::Group(GroupOperation::Destruct, id.clone()), procs);
        let Some(members) = signature.membership(&self.registry) else { return };
        // A process that knows of more or fewer leaves requests the end with other members.
        let is_of_group = |other: &Signature| other.kind == signature.kind && other.overlaps(&signature);
        let is_open = self.collectives.iter().any(|(_, operation)| is_of_group(operation.signature()));
        let has_left = |proc: &&ProcId| self.groups.left_by(proc, &id).is_some();
        let left: Vec<ProcId> = members.local.iter().filter(has_left).cloned().collect();
        let may_come = |proc: &ProcId| !left.contains(proc) && !self.registry.is_gone(proc);
        if left.is_empty() || members.local.iter().any(may_come) || is_open {
            return;
        }
        let survives_deaths = left.iter().any(|proc| self.groups.left_by(proc, &id) == Some(true));
        let operation = self.collectives.open(now, signature, Vec::new(), None);
        let table = self.collectives.table;
        for proc in &left {
            self.groups.forget_leaver(proc, &id);
            if let Some(operation) = self.collectives.get_mut(operation) {
                operation.leave(proc, table);
                operation.group_mut().into_iter().for_each(|group| group.set_survives_deaths(survives_deaths));
            }
        }
        self.advance_operation(now, operation);
    }

    /// Informs processes on all nodes about another one in their group.
    pub(super) fn tell_of(
        &mut self,
        now: Time,
        status: Status,
        about: &ProcId,
        id: &Text,
        targets: Vec<ProcId>,
        more: &[Info],
    ) -> Option<Event> {
        if targets.is_empty() {
            return None;
        }
        let affected = Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), about.clone());
        let more = [affected].into_iter().chain(more.iter().cloned()).collect();
        Some(self.tell(now, status, about, id, targets, more))
    }

    fn tell(
        &mut self,
        now: Time,
        status: Status,
        source: &ProcId,
        id: &Text,
        targets: Vec<ProcId>,
        more: Vec<Info>,
    ) -> Event {
        let is_elsewhere = |target: &ProcId| self.registry.client(target).is_none();
        let goes_up = targets.iter().any(is_elsewhere) && self.config.capabilities.contains(Capabilities::NOTIFY_EVENT);
        let mut info = vec![
            Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), processes(targets)),
            Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true),
            Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id.clone())),
        ];
        info.extend(more);
        let event = Arc::new(Event { status, source: Some(source.clone()), range: range::RANGE_CUSTOM, info });
        self.distribute(now, &event, self.voice_of(Some(source)).into());
        if goes_up {
            let id = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(id, Upcall::NotifyEvent((*event).clone())));
        }
        Arc::unwrap_or_clone(event)
    }

    /// Handles an observed event of a local connection or of another node that may be about a group.
    pub(in crate::server::rules) fn note_group_event(&mut self, now: Time, event: &Event, origin: Option<PeerId>) {
        let Some(source) = &event.source else { return };
        let is_about_source = event.affected() == [source];
        let comes_from_elsewhere = origin.is_none();
        match (event.status, group_of(event)) {
            (Status::GROUP_INVITED, Some(id)) => {
                self.vacancies.keep(&id, source);
                self.note_invitation(now, event, source, id, origin);
            }
            (status @ (Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED), id) => {
                let accepts = status == Status::GROUP_INVITE_ACCEPTED;
                let leaders = event.targets();
                // A process accepts an invitation of one leader; an event with many targets is not answered for each.
                if let (true, Some(id), [leader]) = (accepts, &id, leaders.as_slice())
                    && id.as_bytes().len() <= Namespace::SIZE_BYTES_MAX
                {
                    self.answer_latecomer(now, leader, id, source);
                }
                for leader in leaders {
                    let answered = self.invitations.answer(leader, id.as_ref(), source, accepts);
                    for (id, invited) in answered {
                        self.tell_end(now, leader, &id, invited);
                    }
                }
            }
            (status @ (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT), Some(id)) => {
                let invited = self.invitations.close(source, &id);
                self.vacancies.close(&id, source);
                let is_formed_here = status == Status::GROUP_CONSTRUCT_COMPLETE && !comes_from_elsewhere;
                if let Some(invited) = invited.filter(|_| is_formed_here) {
                    self.tell_left_out(now, event, source, &id, &invited);
                }
            }
            (Status::GROUP_LEADER_SELECTED, Some(id)) if is_about_source => self.note_leader(now, &id, source),
            (Status::GROUP_LEADER_FAILED | Status::GROUP_MEMBER_FAILED, Some(id))
                if is_about_source && comes_from_elsewhere =>
            {
                self.ask_about_remote_end(now, &id, event, source);
            }
            (Status::PROC_TERMINATED, Some(id)) if is_about_source && comes_from_elsewhere => {
                self.vacancies.reopen(source);
                self.invitations.end_wait(&id, source);
                self.note_vacancy(now, source, &id);
            }
            // A local process reports a leave to its server, which informs the others. A remote process's own report
            // counts, too.
            (Status::GROUP_LEFT, Some(id)) if is_about_source => {
                let survives_deaths = self.groups.of_member(&id, source).is_some_and(|group| group.survives_deaths);
                let others = self.groups.leave(&id, source);
                let is_elsewhere = others.is_none() && comes_from_elsewhere;
                others.into_iter().for_each(|others| self.note_leaver(source, &id, survives_deaths, &others));
                is_elsewhere.then(|| self.groups.note_left(&id, source));
                self.go_on_without(now, &id, source);
            }
            _ => {}
        }
    }

    fn note_invitation(&mut self, now: Time, event: &Event, leader: &ProcId, id: Text, origin: Option<PeerId>) {
        let limits = &self.config.limits;
        let (all, own, own_invited) = self.invitations.counts(leader);
        let room = INVITED_PER_LEADER_MAX.saturating_sub(own_invited).min(self.room_for_invited(leader));
        let Some(invited) = self.all_invited(event, room) else {
            return self.miss_invitation(leader, origin);
        };
        let concerns_us = origin.is_some() || invited.iter().any(|proc| self.registry.client(proc).is_some());
        let is_full = all >= limits.groups_max || own >= INVITATIONS_PER_LEADER_MAX;
        if !concerns_us {
            return;
        }
        if is_full {
            return self.miss_invitation(leader, origin);
        }
        let peer = origin.and_then(|origin| self.peers.get(origin));
        let leader_tells = event.info.iter().any(|info| info.key.as_str() == proto::GROUP_LEADER_TELLS);
        let is_notified_here = peer.is_some_and(|peer| !leader_tells && !peer.informs_members());
        let is_gone = |proc: &&ProcId| {
            self.registry
                .client(proc)
                .is_some_and(|client| client.presence().is_gone() || client.presence() == Presence::Finalized)
        };
        let gone: Vec<ProcId> = invited.iter().filter(is_gone).cloned().collect();
        self.invitations.open(id, leader.clone(), invited, is_notified_here);
        for proc in gone {
            self.end_invitations_of(now, &proc);
        }
    }

    /// Number of processes that the leaders of a user may still invite. Each end of a process goes through all of them.
    fn room_for_invited(&self, leader: &ProcId) -> usize {
        let uid_of = |proc: &ProcId| self.registry.client(proc).map(|client| client.credentials().uid);
        let uid = uid_of(leader);
        let of_user = self.invitations.invited_count(|other| uid_of(other) == uid);
        let free = INVITED_MAX.saturating_sub(self.invitations.invited_count(|_| true));
        free.min((INVITED_MAX / 2).saturating_sub(of_user))
    }

    /// An invitation does not fit. Only its leader is marked, because other invitations may be another user's.
    fn miss_invitation(&mut self, leader: &ProcId, origin: Option<PeerId>) {
        if origin.is_some() {
            self.invitations.note_incomplete(leader);
        }
    }

    /// The processes that an invitation names individually, in the order of their first mention. `None`: too many, or
    /// unknown ones. A wildcard counts once, however often it is repeated.
    fn all_invited(&self, event: &Event, room: usize) -> Option<Vec<ProcId>> {
        let (mut mentioned, mut invited) = (BTreeSet::new(), Vec::new());
        for target in event.targets().into_iter().filter(|target| mentioned.insert(*target)) {
            match (target.rank, self.job_size(&target.namespace)) {
                (Rank::Process(_), _) => invited.push(target.clone()),
                (Rank::Wildcard, Some(size)) => {
                    let left = room.saturating_add(1).saturating_sub(invited.len());
                    let numbered = |rank: u32| ProcId::new(target.namespace.clone(), rank);
                    invited.extend((0..size).take(left).map(numbered));
                }
                _ => return None,
            }
            if invited.len() > room {
                return None;
            }
        }
        Some(invited)
    }

    /// A process accepts an invitation of a local leader that is over. An invitee listens only after it has accepted,
    /// so it has missed the end. An abort informs it if the leader had concluded. If the leader ended before that, it
    /// gets the leader's end, so that it can volunteer as the successor.
    fn answer_latecomer(&mut self, now: Time, leader: &ProcId, id: &Text, proc: &ProcId) {
        let Some(client) = self.registry.client(leader) else { return };
        if self.invitations.is_incomplete(leader) || self.invitations.is_open(leader, id) {
            return;
        }
        let has_left = client.presence().is_gone() || client.presence() == Presence::Finalized;
        if has_left && self.vacancies.contains(leader, id) {
            self.tell_of(now, Status::PROC_TERMINATED, leader, id, vec![proc.clone()], &[]);
        } else {
            self.tell(now, Status::GROUP_CONSTRUCT_ABORT, leader, id, vec![proc.clone()], Vec::new());
        }
    }

    /// The group exists without some processes whose acceptance passed here before its completion, perhaps too late for
    /// the leader. It also lacks those that its leader names as left out, because the leader may end before it informs
    /// them. Receivers and members of the completion get no other event from here.
    fn tell_left_out(&mut self, now: Time, complete: &Event, leader: &ProcId, id: &Text, invited: &Invited) {
        let named = |key: &str| -> BTreeSet<ProcId> {
            let lists = complete.info.iter().filter(|info| info.key.as_str() == key);
            lists.filter_map(|info| membership_in(&info.value)).flatten().collect()
        };
        let members = named(keys::GROUP_MEMBERSHIP.name());
        let job = |proc: &ProcId| ProcId { namespace: proc.namespace.clone(), rank: Rank::Wildcard };
        let hearers: BTreeSet<&ProcId> = complete.targets().into_iter().collect();
        let hears = |proc: &ProcId| match complete.range {
            range::RANGE_CUSTOM => hearers.contains(proc) || hearers.contains(&job(proc)),
            _ => complete.is_meant_for(proc),
        };
        // A process without the invitation is not informed.
        let named_out = named(proto::GROUP_LEFT_OUT);
        let asked = invited.answers.iter().map(|(proc, _)| proc);
        let is_left_out = |proc: &&ProcId| {
            let waits = invited.waiting.contains(*proc) || named_out.contains(*proc);
            waits && !members.contains(*proc) && !members.contains(&job(proc)) && !hears(proc)
        };
        let left_out: Vec<ProcId> = asked.filter(is_left_out).cloned().collect();
        if !left_out.is_empty() {
            self.tell(now, Status::GROUP_CONSTRUCT_ABORT, leader, id, left_out, Vec::new());
        }
    }

    /// All invitees have answered a leader whose library does not report the result.
    fn tell_end(&mut self, now: Time, leader: &ProcId, id: &Text, invited: Invited) {
        let asked: Vec<ProcId> = invited.answers.iter().map(|(proc, _)| proc.clone()).collect();
        if invited.answers.iter().any(|(_, answer)| *answer != Some(true)) {
            self.tell(now, Status::GROUP_CONSTRUCT_ABORT, leader, id, asked, Vec::new());
            return;
        }
        let membership = Info::new(Key::from_static(keys::GROUP_MEMBERSHIP.name()), processes(asked.clone()));
        self.tell(now, Status::GROUP_CONSTRUCT_COMPLETE, leader, id, asked, vec![membership]);
    }

    /// A local process has ended or finalized: informs the processes that wait for its answer.
    pub(in crate::server::rules) fn end_invitations_of(&mut self, now: Time, proc: &ProcId) {
        self.vacancies.reopen(proc);
        for Bereaved { id, targets, is_leaderless, successor } in self.invitations.bereaved_of(proc) {
            if is_leaderless {
                self.open_vacancy(now, proc, &id, targets.clone(), successor);
            }
            self.tell_of(now, Status::PROC_TERMINATED, proc, &id, targets, &[]);
        }
    }
}

/// Open invitations of one leader. When it ends, all of them end in one turn.
const INVITATIONS_PER_LEADER_MAX: usize = 256;
/// Processes that the open invitations of one leader, and of all, may name. Beyond it the server does not help with an
/// invitation.
const INVITED_PER_LEADER_MAX: usize = 1 << 14;
const INVITED_MAX: usize = 1 << 16;
