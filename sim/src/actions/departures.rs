//! Members that leave a group while the others end it.
//!
//! A server that ends the group must not wait for a node that all members have left.

use std::time::Duration;

use modex::client::{Call, CallError, Outcome};
use modex::proto::{Command, GROUP_AWAITED, Reply};
use modex::server::{PeerId, UpcallId};
use modex::types::{Info, Status, Text};

use super::invitations::about;
use crate::host::Subject;
use crate::process::CallPurpose;
use crate::program::{Leavers, REMAINDERS};
use crate::program::{Meeting, ProgramPhase};
use crate::queue::ServerId;
use crate::rule::Rule;
use crate::world::World;

impl World {
    /// The call of a process that leaves the group while others end it.
    pub(crate) fn leave_call(&self, process: u32, phase: &ProgramPhase) -> Option<(CallPurpose, Call)> {
        let (Meeting::Destruct(name), Some(leavers)) = (&phase.meeting, phase.leavers) else { return None };
        let is_one = self.process(process).is_some_and(|of| match leavers {
            Leavers::Node(node) => of.node == node,
            Leavers::Ranks(remainder) => of.rank % REMAINDERS == remainder,
        });
        let call = || Call::Exchange(about(Command::GroupLeave, name, Vec::new()));
        (is_one && self.has_group_host).then(|| (CallPurpose::LeaveGroup(name.clone()), call()))
    }

    pub(crate) fn note_leave(&mut self, process: u32, name: Text, result: &Result<Outcome, CallError>) {
        if let Ok(Outcome::Reply(Reply::Status(Status::SUCCESS))) = result {
            self.forget_member(process, Some(&name));
            self.departures.left.insert((name, process), self.now);
        }
    }

    pub(crate) fn note_departure_notice(&mut self, peer: PeerId, name: &Text) {
        if let Some(connection) = self.connections.get(&peer) {
            *self.departures.notices.entry((name.clone(), connection.process)).or_default() += 1;
        }
    }

    /// A group has ended, for a server.
    pub(crate) fn note_end_of_group(&mut self, server: ServerId, name: &Text) {
        self.forget_formed(server, Some(name));
        self.departures.ended.insert((name.clone(), server));
    }

    /// The host gives up an operation. The end of a group must not have waited for members that left long ago. News
    /// takes a while: the news of the leave, and the servers' question after it.
    pub(crate) fn check_departures(&mut self, subject: &Subject, arrived: &[(ServerId, UpcallId)], missing: &[u32]) {
        let Subject::Group(false, name, procs) = subject else { return };
        let is_awaited =
            |(server, upcall): &(ServerId, UpcallId)| self.core(*server).is_some_and(|of| of.awaits(*upcall));
        let is_whole = |node: u32| self.node(node).is_some_and(|of| !of.is_dead && of.epoch == 0);
        let knows_all = |node: u32| {
            self.server_at(node).is_some_and(|at| procs.iter().all(|proc| self.is_registered(at, &proc.namespace)))
        };
        let have_left = |node: u32| {
            let mut members = self.processes_on(node, procs).into_iter();
            members.all(|process| {
                let key = (name.clone(), process);
                let left = self.departures.left.get(&key).filter(|_| self.departures.notices.get(&key) == Some(&1));
                left.is_some_and(|left| *left + LEAVE_HEARD_WITHIN <= self.now)
            })
        };
        let is_vain = |node: &&u32| is_whole(**node) && knows_all(**node) && have_left(**node);
        let node = missing.iter().find(is_vain).copied();
        let has_ended = |server: &ServerId| self.departures.ended.contains(&(name.clone(), *server));
        let is_first = !arrived.iter().any(|(server, _)| has_ended(server));
        let is_fair = is_first && !self.departures.has_lost_news && arrived.iter().all(is_awaited);
        // A server may end a group that it does not have; it then knows nothing of the group's members.
        let know_it = arrived.iter().all(|(server, _)| self.is_formed(*server, name, procs));
        let are_whole = arrived.iter().all(|(server, _)| is_whole(server.node));
        if let Some(node) = node.filter(|_| is_fair && know_it && are_whole && missing.len() == 1) {
            self.rules.breaks(Rule::NoWaitInVain, || format!("{name} was not ended: all on node {node} had left it"));
        }
    }
}

/// Whether servers ask each other for their parts in this operation.
pub(crate) fn asks_for_part(info: &[Info]) -> bool {
    info.iter().any(|info| info.key.as_str() == GROUP_AWAITED)
}

const LEAVE_HEARD_WITHIN: Duration = Duration::from_secs(31);
