//! Members that leave a group where the others end it. Whoever ends it must not wait for a node that all members have left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use modex::client::{Call, CallError, Outcome};
use modex::proto::{Command, GROUP_AWAITED, Reply};
use modex::server::{PeerId, UpcallId};
use modex::types::{Info, Status, Text, Time};

use super::host::Subject;
use super::invariants::Rule;
use super::inviting::about;
use super::process::Why;
use super::program::{Meeting, Phase};
use super::queue::ServerId;
use super::random::Random;
use super::setup::Setup;
use super::world::World;

/// Who leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quitters {
    /// All on a node.
    Node(u32),
    /// The ranks with this remainder.
    Ranks(u32),
}

/// What is known of groups that were left, and ended.
#[derive(Debug, Default)]
pub(super) struct Quitting {
    /// Who has left which, and when it was told that it has.
    left: BTreeMap<(Text, u32), Time>,
    /// How often each was told that it is in one: as a clone it may have come in again.
    told: BTreeMap<(Text, u32), u32>,
    /// Where one of a name has ended: who ends it once more, perhaps as a clone, waits for nobody.
    ended: BTreeSet<(Text, ServerId)>,
    /// Events have not reached servers that they were meant for.
    pub(super) has_lost_news: bool,
}

/// Some groups are left where they are ended; some are formed for that.
pub(super) fn plan(phases: &mut [Phase], random: &mut Random, setup: &Setup) {
    if random.one_in(3)
        && !setup.is_large()
        && let [.., first, last] = phases
    {
        first.meeting = Meeting::Construct(Text::from("quit"));
        *last = Phase { meeting: Meeting::Destruct(Text::from("quit")), ..first.clone() };
    }
    for phase in phases.iter_mut().filter(|phase| matches!(phase.meeting, Meeting::Construct(_))) {
        phase.outlives_deaths = random.one_in(2);
    }
    for phase in phases.iter_mut().filter(|phase| matches!(phase.meeting, Meeting::Destruct(_))) {
        phase.quitters = match random.below(4) {
            0 => None,
            1 => Some(Quitters::Ranks(random.below_u32(REMAINDERS))),
            _ => Some(Quitters::Node(random.below_u32(setup.nodes))),
        };
    }
}

impl World {
    /// What a process calls that leaves the group where others end it.
    pub(super) fn quit_call(&self, process: u32, phase: &Phase) -> Option<(Why, Call)> {
        let (Meeting::Destruct(name), Some(quitters)) = (&phase.meeting, phase.quitters) else { return None };
        let is_one = self.process(process).is_some_and(|of| match quitters {
            Quitters::Node(node) => of.node == node,
            Quitters::Ranks(remainder) => of.rank % REMAINDERS == remainder,
        });
        let call = || Call::Exchange(about(Command::GroupLeave, name, Vec::new()));
        (is_one && self.has_group_host).then(|| (Why::Quits(name.clone()), call()))
    }

    pub(super) fn note_quit(&mut self, process: u32, name: Text, result: &Result<Outcome, CallError>) {
        if let Ok(Outcome::Reply(Reply::Status(Status::SUCCESS))) = result {
            self.forget_member(process, Some(&name));
            self.quitting.left.insert((name, process), self.now);
        }
    }

    pub(super) fn note_told(&mut self, peer: PeerId, name: &Text) {
        if let Some(connection) = self.connections.get(&peer) {
            *self.quitting.told.entry((name.clone(), connection.process)).or_default() += 1;
        }
    }

    /// A group has ended, for a server.
    pub(super) fn note_end_of_group(&mut self, server: ServerId, name: &Text) {
        self.forget_formed(server, Some(name));
        self.quitting.ended.insert((name.clone(), server));
    }

    /// The host gives up an operation: whoever is to end a group must not have waited for those who had left it for long. News
    /// may take a while: those of the leave, and the question that they lead to.
    pub(super) fn check_quitters(&mut self, subject: &Subject, arrived: &[(ServerId, UpcallId)], missing: &[u32]) {
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
                let left = self.quitting.left.get(&key).filter(|_| self.quitting.told.get(&key) == Some(&1));
                left.is_some_and(|left| *left + QUITTERS_HEARD_WITHIN <= self.now)
            })
        };
        let is_vain = |node: &&u32| is_whole(**node) && knows_all(**node) && have_left(**node);
        let node = missing.iter().find(is_vain).copied();
        let has_ended = |server: &ServerId| self.quitting.ended.contains(&(name.clone(), *server));
        let is_first = !arrived.iter().any(|(server, _)| has_ended(server));
        let is_fair = is_first && !self.quitting.has_lost_news && arrived.iter().all(is_awaited);
        // Who has no such group, and ends it all the same, knows nothing of it.
        let know_it = arrived.iter().all(|(server, _)| self.is_formed(*server, name, procs));
        let are_whole = arrived.iter().all(|(server, _)| is_whole(server.node));
        if let Some(node) = node.filter(|_| is_fair && know_it && are_whole && missing.len() == 1) {
            self.rules.breaks(Rule::NoWaitInVain, || format!("{name} was not ended: all on node {node} had left it"));
        }
    }
}

/// Whether servers ask each other for their parts in this.
pub(super) fn asks_for_part(info: &[Info]) -> bool {
    info.iter().any(|info| info.key.as_str() == GROUP_AWAITED)
}

const REMAINDERS: u32 = 3;
const QUITTERS_HEARD_WITHIN: Duration = Duration::from_secs(31);
