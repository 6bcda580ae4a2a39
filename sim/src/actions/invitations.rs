//! Invitations, as the runtime handles them (`runtime/invite.rs`).
//!
//! A leader asks, and forms the group of the processes that accept. Invited processes answer and enter; members leave.
//! The real `client::invitation` decides, from the events that servers hand on.

use std::time::Duration;

use modex::client::{
    ANSWERS, Call, CallId, ClientInput, Conclusion, Construction, Invitation, Outcome, addressed, description,
};
use modex::keys;
use modex::proto::{Command, Group as GroupCall, JobControl, Notify, QueryInfo, RegisterEvents, Reply, Request};
use modex::server::PeerId;
use modex::types::AsStatus;
use modex::types::codes::range;
use modex::types::{Info, Key, Namespace, ProcId, Status, Text, Value};

use crate::invitations::{InvitationCall, Invitations, LedInvitation, Outcomes, Withdrawal};
use crate::invited_groups::{Group, InvitationId};
use crate::process::{CallPurpose, PendingCall};
use crate::program::{Invite, ProgramPhase};
use crate::world::World;

impl World {
    /// A process that has come hears of invitations from now on.
    pub(crate) fn hear_of_invitations(&mut self, peer: PeerId) {
        if self.program.has_invitations() {
            self.listen(peer, &BASE, InvitationCall::Listens);
        }
    }

    /// The processes of a phase's set, one by one.
    pub(crate) fn guests(&self, procs: &[ProcId]) -> Vec<ProcId> {
        let mut guests = Vec::new();
        for entry in procs {
            if let Some((_, job)) = self.job_named(&entry.namespace) {
                guests.extend(job.ranks_of(entry).map(|rank| job.proc(rank)));
            }
        }
        guests
    }

    /// Takes part in a phase of invitation. Returns whether the process has only to wait for an invitation.
    pub(crate) fn invite(&mut self, process: u32, peer: PeerId, phase: &ProgramPhase, invite: &Invite) -> bool {
        let Some(of) = self.process(process) else { return false };
        let Some(procs) = phase.procs(&self.jobs, of.job, of.rank) else { return false };
        let (own, guests) = (of.proc.clone(), self.guests(&procs));
        let place = usize::try_from(invite.leader).ok().and_then(|leader| leader.checked_rem(guests.len()));
        let leads = place.and_then(|place| guests.get(place)) == Some(&own);
        if !leads {
            return guests.contains(&own);
        }
        let limit =
            phase.timeout_s.and_then(|seconds| u64::try_from(seconds).ok()).map_or(PATIENCE, Duration::from_secs);
        self.begin_party(peer, own, guests, invite.clone(), limit, phase.waits);
        if !phase.waits {
            self.wake_soon(process);
        }
        false
    }

    pub(crate) fn begin_party(
        &mut self,
        peer: PeerId,
        own: ProcId,
        guests: Vec<ProcId>,
        wishes: Invite,
        limit: Duration,
        is_awaited: bool,
    ) {
        let id = wishes.name.clone();
        let party = self.invited_groups.invite((own.clone(), id.clone()), guests.clone());
        (party.is_optional, party.is_known_to_server, party.begun) = (wishes.is_optional, false, self.now);
        let (wait, leader) = (self.next_call(peer), own.clone());
        let invitation = Invitation::new(id.clone(), own, servers(), guests);
        let leading = LedInvitation { invitation, leader, wishes, wait, is_awaited, has_failed: false };
        if let Some(guest) = self.invitations_of(peer) {
            guest.leads.insert(id.clone(), leading);
        }
        self.await_events(peer, Command::GroupInvite, Some(limit), InvitationCall::Leads(id.clone()));
        self.listen(peer, &ANSWERS, InvitationCall::LeaderListens(id));
    }

    pub(crate) fn invitations_of(&mut self, peer: PeerId) -> Option<&mut Invitations> {
        self.connections.get_mut(&peer).filter(|of| !of.is_client_gone).map(|of| &mut of.invitations)
    }

    pub(crate) fn next_call(&self, peer: PeerId) -> CallId {
        CallId(self.connections.get(&peer).map_or(0, |connection| connection.last_call) + 1)
    }

    pub(crate) fn await_events(
        &mut self,
        peer: PeerId,
        command: Command,
        limit: Option<Duration>,
        step: InvitationCall,
    ) {
        let deadline = limit.map(|limit| self.now + limit + GRACE);
        let asked = PendingCall { purpose: CallPurpose::Invitation(step), is_awaited: false, deadline };
        self.client_call(peer, asked, Call::Await(command, limit));
    }

    pub(crate) fn exchange(&mut self, peer: PeerId, step: InvitationCall, request: Request) {
        let asked = PendingCall { purpose: CallPurpose::Invitation(step), is_awaited: false, deadline: None };
        self.client_call(peer, asked, Call::Exchange(request));
    }

    pub(crate) fn listen(&mut self, peer: PeerId, codes: &[Status], step: InvitationCall) {
        let wish = RegisterEvents { codes: codes.to_vec(), directives: Vec::new() };
        self.exchange(peer, step, Request::RegisterEvents(wish));
    }

    pub(crate) fn tell(&mut self, peer: PeerId, step: InvitationCall, status: Status, mut info: Vec<Info>) {
        info.push(self.invited_groups.numbered());
        self.exchange(peer, step, Request::Notify(Notify { status, range: range::RANGE_CUSTOM, info }));
    }

    /// A process ends its own wait.
    pub(crate) fn settle(&mut self, peer: PeerId, wait: CallId) {
        self.client_input(peer, ClientInput::Settle(wait));
    }

    /// A call about an invitation has ended.
    pub(crate) fn party_goes_on(&mut self, peer: PeerId, process: u32, step: InvitationCall, result: Outcomes) {
        let is_well = result.is_ok();
        match step {
            InvitationCall::LeaderListens(id) | InvitationCall::Invites(id) if !is_well => self.fail_leading(peer, &id),
            InvitationCall::LeaderListens(id) => self.ask_guests(peer, id),
            InvitationCall::Leads(id) => self.conclude(peer, process, id, &result),
            InvitationCall::Numbers(id, conclusion) => {
                self.announce(peer, process, &id, &conclusion, number_in(result))
            }
            InvitationCall::Announces(party, group, is_awaited, withdrawal) => match is_well {
                true => self.enter(peer, process, party, group, is_awaited),
                false => self.take_back(peer, process, &party, is_awaited, withdrawal),
            },
            InvitationCall::Tells(party) => {
                if let Some(known) = self.invited_groups.all.get_mut(&party) {
                    known.is_unannounced |= !is_well;
                }
            }
            InvitationCall::GuestListens(party) | InvitationCall::Accepts(party) if !is_well => {
                self.fail_joining(peer, &party)
            }
            InvitationCall::GuestListens((leader, id)) => {
                let info = addressed(&id, std::slice::from_ref(&leader));
                self.tell(peer, InvitationCall::Accepts((leader, id)), Status::GROUP_INVITE_ACCEPTED, info);
            }
            InvitationCall::Waits(party) => self.stop_waiting(peer, process, party),
            InvitationCall::Enters(party, group, is_awaited) => {
                self.entered(peer, process, &party, group, is_awaited, is_well)
            }
            InvitationCall::Leaves(party) => self.check_departure(process, &party, &result),
            InvitationCall::Looks(party) => self.compare(peer, process, &party, result),
            InvitationCall::Listens
            | InvitationCall::Invites(_)
            | InvitationCall::Accepts(_)
            | InvitationCall::Other => {}
        }
    }

    fn fail_leading(&mut self, peer: PeerId, id: &Text) {
        let leading = self.invitations_of(peer).and_then(|guest| guest.leads.get_mut(id));
        let wait = leading.map(|leading| {
            leading.has_failed = true;
            leading.wait
        });
        wait.into_iter().for_each(|wait| self.settle(peer, wait));
    }

    fn fail_joining(&mut self, peer: PeerId, party: &InvitationId) {
        let joining = self.invitations_of(peer).and_then(|guest| guest.joins.get_mut(party));
        let wait = joining.map(|joining| {
            joining.has_failed = true;
            joining.wait
        });
        wait.into_iter().for_each(|wait| self.settle(peer, wait));
    }

    /// The leader hears every answer from now on, and asks.
    fn ask_guests(&mut self, peer: PeerId, id: Text) {
        let Some(leading) = self.invitations_of(peer).and_then(|guest| guest.leads.get_mut(&id)) else { return };
        let (is_alone, wait) = (leading.invitation.others().is_empty(), leading.wait);
        if is_alone {
            return self.settle(peer, wait);
        }
        let question = leading.invitation.question();
        self.tell(peer, InvitationCall::Invites(id), Status::GROUP_INVITED, question);
    }

    /// All have answered, or the time is over.
    fn conclude(&mut self, peer: PeerId, process: u32, id: Text, result: &Outcomes) {
        let Some(leading) = self.invitations_of(peer).and_then(|guest| guest.leads.get(&id)) else { return };
        let party = (leading.leader.clone(), id.clone());
        let (conclusion, is_awaited) = (leading.invitation.conclude(leading.wishes.is_optional), leading.is_awaited);
        let wants_number = leading.wishes.wants_number;
        let is_late = matches!(result, Err(error) if error.status() == Status::ERR_TIMEOUT);
        if leading.has_failed || (result.is_err() && !is_late) {
            let withdrawal = leading.invitation.withdrawal();
            self.invitations_of(peer).and_then(|guest| guest.leads.remove(&id));
            return self.take_back(peer, process, &party, is_awaited, withdrawal);
        }
        self.check_conclusion(&party, &conclusion);
        if conclusion.members.is_empty() || !wants_number {
            return self.announce(peer, process, &id, &conclusion, None);
        }
        let directives = vec![flag(keys::GROUP_ASSIGN_CONTEXT_ID.name()), named(&id)];
        let control = Request::from(JobControl::new(Vec::new(), directives));
        self.exchange(peer, InvitationCall::Numbers(id, conclusion), control);
    }

    fn announce(&mut self, peer: PeerId, process: u32, id: &Text, conclusion: &Conclusion, number: Option<u64>) {
        let Some(leading) = self.invitations_of(peer).and_then(|guest| guest.leads.remove(id)) else { return };
        let party = (leading.leader.clone(), id.clone());
        let group = Group { members: conclusion.members.clone(), number };
        let is_formed = !group.members.is_empty();
        if let Some(known) = self.invited_groups.all.get_mut(&party) {
            known.formed = is_formed.then(|| group.clone());
            known.over_since = Some(self.now);
        }
        let withdrawal = leading.invitation.withdrawal();
        // The server tells the processes that are left out.
        for (status, info) in leading.invitation.announcements(conclusion, number, true) {
            let step = match is_formed {
                true => InvitationCall::Announces(party.clone(), group.clone(), leading.is_awaited, withdrawal.clone()),
                false => InvitationCall::Tells(party.clone()),
            };
            self.tell(peer, step, status, info);
        }
        if !is_formed && leading.is_awaited {
            self.wake_soon(process);
        }
    }

    /// The leader could not go on, and tells the processes that have accepted.
    fn take_back(
        &mut self,
        peer: PeerId,
        process: u32,
        party: &InvitationId,
        is_awaited: bool,
        withdrawal: Withdrawal,
    ) {
        if let Some((status, info)) = withdrawal {
            if let Some(known) = self.invited_groups.all.get_mut(party) {
                known.is_taken_back = true;
                known.over_since = Some(self.now);
            }
            self.tell(peer, InvitationCall::Tells(party.clone()), status, info);
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    /// A member tells its server of its membership.
    fn enter(&mut self, peer: PeerId, process: u32, party: InvitationId, group: Group, is_awaited: bool) {
        let own = self.process(process).map(|of| of.proc.clone());
        if own.is_none_or(|own| !group.members.contains(&own)) {
            if is_awaited {
                self.wake_soon(process);
            }
            return;
        }
        let request = about(Command::GroupJoin, &party.1, description(&group.members, group.number));
        self.exchange(peer, InvitationCall::Enters(party, group, is_awaited), request);
    }

    fn stop_waiting(&mut self, peer: PeerId, process: u32, party: InvitationId) {
        let Some(joining) = self.invitations_of(peer).and_then(|guest| guest.joins.remove(&party)) else { return };
        self.check_wait(process, &party, joining.since);
        match joining.heard {
            _ if joining.has_failed => {}
            Some(Construction::Formed { members, context_id, .. }) => {
                self.enter(peer, process, party, Group { members, number: context_id }, false);
            }
            Some(Construction::LeaderLost) => {
                self.check_loss(process, &party);
                self.volunteer(peer, process, &party);
            }
            Some(Construction::Aborted) => self.check_abort(process, &party),
            // It had no time left, or no server.
            None => {}
        }
    }

    /// Its server has taken note of a member.
    fn entered(
        &mut self,
        peer: PeerId,
        process: u32,
        party: &InvitationId,
        group: Group,
        is_awaited: bool,
        is_well: bool,
    ) {
        let Some(own) = self.process(process).map(|of| of.proc.clone()) else { return };
        let others: Vec<ProcId> = group.members.iter().filter(|member| **member != own).cloned().collect();
        self.check_entry(process, party, &group);
        if let Some(known) = self.invited_groups.all.get_mut(party) {
            // A process that can't enter announces that it leaves.
            let place = if is_well { &mut known.entered } else { &mut known.left };
            place.insert(own);
        }
        if is_well {
            if let Some(guest) = self.invitations_of(peer) {
                guest.inside.insert(party.1.clone(), (party.0.clone(), group.members.clone()));
            }
            let keys = vec![Text::from(keys::QUERY_GROUP_MEMBERSHIP.name())];
            let query = modex::types::Query { keys, qualifiers: vec![named(&party.1)] };
            self.exchange(peer, InvitationCall::Looks(party.clone()), Request::from(QueryInfo::new(vec![query])));
        } else {
            let mut info = addressed(&party.1, &others);
            info.push(Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), self.own(process)));
            self.tell(peer, InvitationCall::Other, Status::GROUP_LEFT, info);
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    pub(crate) fn own(&self, process: u32) -> ProcId {
        self.process(process).map_or_else(|| ProcId::new(servers(), 0), |of| of.proc.clone())
    }

    /// A member leaves the group that an earlier phase has formed.
    pub(crate) fn leave_party(&mut self, process: u32, peer: PeerId, id: &Text) {
        let own = self.own(process);
        let Some((leader, _)) = self.invitations_of(peer).and_then(|guest| guest.inside.remove(id)) else { return };
        let party = (leader, id.clone());
        if let Some(known) = self.invited_groups.all.get_mut(&party) {
            known.left.insert(own);
        }
        self.exchange(peer, InvitationCall::Leaves(party), about(Command::GroupLeave, id, Vec::new()));
    }
}

pub(crate) fn about(command: Command, id: &Text, directives: Vec<Info>) -> Request {
    let (command, id) = (command.to_raw(), Some(id.clone()));
    Request::GroupOther(GroupCall { command, id, procs: Vec::new(), directives })
}

fn flag(name: &'static str) -> Info {
    Info::new(Key::from_static(name), true)
}

fn named(id: &Text) -> Info {
    Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id.clone()))
}

/// The number that the host has given a group.
fn number_in(result: Outcomes) -> Option<u64> {
    let Ok(Outcome::Reply(Reply::Infos(infos))) = result else { return None };
    infos.iter().find(|info| info.key.as_str() == keys::GROUP_CONTEXT_ID.name())?.value.as_u64()
}

pub(crate) fn procs_in(value: &Value) -> Vec<ProcId> {
    let Value::DataArray(array) = value else { return Vec::new() };
    let proc = |value: &Value| if let Value::Proc(proc) = value { Some((**proc).clone()) } else { None };
    array.elements.iter().filter_map(proc).collect()
}

/// The namespace of the servers; no job has it.
pub(crate) fn servers() -> Namespace {
    #[expect(clippy::expect_used, reason = "the name is ours")]
    let servers = Namespace::new("servers").expect("a short name");
    servers
}

/// Events that a process wants at any time.
const BASE: [Status; 3] = [Status::GROUP_INVITED, Status::GROUP_LEFT, Status::GROUP_LEADER_SELECTED];
/// How long a leader waits for answers if the phase sets no limit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The client core waits this much longer than the time of a call.
const GRACE: Duration = Duration::from_secs(2);
