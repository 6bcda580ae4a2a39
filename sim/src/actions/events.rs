//! The reactions of processes to events: of leaders, of invited processes, and of processes that could replace a
//! leader.

use std::sync::Arc;
use std::time::Duration;

use modex::client::{Acceptance, Construction, ENDINGS, addressed};
use modex::events::Event;
use modex::keys;
use modex::proto::notification::EventNotice;
use modex::proto::{Command, GROUP_VERDICT, Notify};
use modex::server::PeerId;
use modex::types::{Info, Key, ProcId, Status, Time, Value};

use super::invitations::{PATIENCE, about, servers};
use crate::faults::{Canary, Faults};
use crate::invitations::{AcceptedInvitation, InvitationCall};
use crate::invited_groups::{InvitationId, affected, group_of};
use crate::process::State;
use crate::program::Invite;
use crate::queue::ToClient;
use crate::rule::Rule;
use crate::setup::STOPPED_FOR;
use crate::world::World;

impl World {
    /// An event reaches a process.
    pub(crate) fn hear(&mut self, peer: PeerId, process: u32, event: &EventNotice) {
        let Some(own) = self.process(process).map(|of| of.proc.clone()) else { return };
        // A cached event may be about an earlier group. Only invitations are heard at any time.
        if event.status == Status::GROUP_INVITED {
            return self.be_invited(peer, process, event);
        }
        if event.range.is_none() {
            return;
        }
        if event.status == Status::GROUP_LEADER_SELECTED {
            return self.hear_of_leader(peer, process, own, event);
        }
        self.hear_as_leader(peer, &own, event);
        self.hear_as_guest(peer, event);
        if event.status == Status::GROUP_LEFT
            && let (Some(id), Some(left)) = (group_of(&event.info), affected(&event.info).cloned())
            && let Some(guest) = self.invitations_of(peer)
            && let Some((_, members)) = guest.inside.get_mut(&id)
        {
            members.retain(|member| *member != left);
        }
    }

    fn hear_as_leader(&mut self, peer: PeerId, own: &ProcId, event: &EventNotice) {
        let ignores_refusals = self.setup.canary == Some(Canary::RefusalIgnored);
        let status = match event.status {
            Status::GROUP_INVITE_DECLINED if ignores_refusals => Status::GROUP_INVITE_ACCEPTED,
            status => status,
        };
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let mut settled = Vec::new();
        for (id, leading) in &mut connection.invitations.leads {
            if leading.invitation.is_answered() || group_of(&event.info).is_some_and(|named| named != *id) {
                continue;
            }
            if let Some(source) = &event.source
                && let Some(party) = self.invited_groups.all.get_mut(&(own.clone(), id.clone()))
            {
                party.hear(event.status, source, affected(&event.info));
            }
            leading.invitation.hear(status, event.source.as_ref(), &event.info);
            settled.extend(leading.invitation.is_answered().then_some(leading.wait));
        }
        settled.into_iter().for_each(|wait| self.settle(peer, wait));
    }

    fn hear_as_guest(&mut self, peer: PeerId, event: &EventNotice) {
        let lies = self.setup.canary == Some(Canary::OtherNumber);
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let mut settled = Vec::new();
        for joining in connection.invitations.joins.values_mut().filter(|joining| joining.heard.is_none()) {
            joining.heard = joining.acceptance.hear(event.status, event.source.as_ref(), &event.info);
            if let (Some(Construction::Formed { context_id: Some(number), .. }), true) = (&mut joining.heard, lies) {
                *number += 1;
            }
            settled.extend(joining.heard.is_some().then_some(joining.wait));
        }
        settled.into_iter().for_each(|wait| self.settle(peer, wait));
    }

    /// A process takes the place of a leader that has ended, and invites anew. If there are several successors, the
    /// lowest leads: its news must arrive last.
    fn hear_of_leader(&mut self, peer: PeerId, process: u32, own: ProcId, event: &EventNotice) {
        let (Some(id), Some(leader)) = (group_of(&event.info), event.source.clone()) else { return };
        let is_in_order =
            [Faults::DELAY, Faults::REORDER].iter().all(|kind| self.fault_schedule.stream(*kind).is_none());
        // A process that was stopped gets a series of events at once.
        let was_stopped = self
            .process(process)
            .is_none_or(|of| of.stopped_until > Time::ZERO && self.now < of.stopped_until + STOPPED_FOR);
        let before = self.invited_groups.note_selected(self.now, process, &own, &id, &leader).filter(|_| !was_stopped);
        if let Some(before) =
            before.filter(|before| *before < leader && is_in_order && !self.invited_groups.may_miss(&own, &id))
        {
            let what = format!("process {process} learns that {leader} leads {id:?}, after {before}");
            self.rules.breaks(Rule::Membership, || what);
        }
        let is_running = self.process(process).is_some_and(|of| of.main == Some(peer) && of.state == State::Running);
        if leader != own || !is_running || self.invited_groups.all.contains_key(&(own.clone(), id.clone())) {
            return;
        }
        let happened = Event { status: event.status, source: None, range: 0, info: event.info.clone() };
        let guests: Vec<ProcId> = happened.targets().into_iter().cloned().collect();
        let wishes = Invite { name: id, leader: 0, is_optional: true, wants_number: false };
        self.begin_party(peer, own, guests, wishes, PATIENCE, false);
    }

    /// The handler of a process decides: it accepts, declines, or does not answer.
    fn be_invited(&mut self, peer: PeerId, process: u32, event: &EventNotice) {
        let (Some(id), Some(leader)) = (group_of(&event.info), event.source.clone()) else { return };
        let party = (leader.clone(), id.clone());
        let Some(of) = self.process_mut(process).filter(|of| of.main == Some(peer)) else { return };
        if of.state != State::Running {
            return;
        }
        let (choice, is_bounded, seconds) = (of.random.below(12), of.random.one_in(2), of.random.between(5, 90));
        let own = of.proc.clone();
        let Some(guest) = self.invitations_of(peer) else { return };
        guest.asked.insert(id.clone());
        if guest.joins.contains_key(&party) {
            return;
        }
        let known = self.invited_groups.all.get_mut(&party);
        match choice {
            0 => {}
            1 => {
                known.map(|known| known.declined.insert(own));
                let info = addressed(&id, &[leader]);
                self.tell(peer, InvitationCall::Other, Status::GROUP_INVITE_DECLINED, info);
            }
            _ => {
                known.into_iter().for_each(|known| known.accept(own.clone()));
                let limit = is_bounded.then(|| Duration::from_secs(seconds));
                let (wait, since) = (self.next_call(peer), self.now);
                let acceptance = Acceptance { id, own, servers: servers(), leader: Some(leader) };
                if let Some(guest) = self.invitations_of(peer) {
                    let joining = AcceptedInvitation { acceptance, wait, since, heard: None, has_failed: false };
                    guest.joins.insert(party.clone(), joining);
                }
                self.await_events(peer, Command::GroupJoin, limit, InvitationCall::Waits(party.clone()));
                self.listen(peer, &ENDINGS, InvitationCall::GuestListens(party));
            }
        }
    }

    /// A planted defect: a process that accepts is told that there will be no group.
    pub(crate) fn give_up_on(&mut self, peer: PeerId, process: u32, notice: &Notify) {
        let event = Event { status: notice.status, source: None, range: notice.range, info: notice.info.clone() };
        let is_meant = notice.status == Status::GROUP_INVITE_ACCEPTED && self.canary.one_in(2);
        let leader = event.targets().first().map(|leader| ProcId::clone(leader));
        if let (Some(leader), Some(id)) = (leader.filter(|_| is_meant), group_of(&notice.info)) {
            let (status, range) = (Status::GROUP_CONSTRUCT_ABORT, Some(notice.range));
            let info = addressed(&id, &[self.own(process)]);
            self.send_down(peer, ToClient::Event(Arc::new(EventNotice { status, source: Some(leader), range, info })));
        }
    }

    /// The handler of a process that has lost its leader decides whether the process offers to lead.
    pub(crate) fn volunteer(&mut self, peer: PeerId, process: u32, (lost, id): &InvitationId) {
        let volunteers = self.process_mut(process).is_some_and(|of| of.random.one_in(2));
        if volunteers {
            self.invited_groups.volunteers(&self.own(process));
            let verdict = Value::Status(Status::GROUP_LEADER_SELECTED.to_raw());
            let lost = Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), lost.clone());
            let directives = vec![Info::new(Key::from_static(GROUP_VERDICT), verdict), lost];
            self.exchange(peer, InvitationCall::Other, about(Command::GroupInvite, id, directives));
        }
    }
}
