//! The faults that strike processes, servers and nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::server::{HostCall, PeerId, StoreOffer};
use modex::types::{ProcId, Time};

use crate::faults::Faults;
use crate::process::{Process, State};
use crate::queue::{QueuedEvent, ServerId, ToClient};
use crate::setup::{STOPPED_FOR, job};
use crate::world::{Node, World};

impl World {
    pub(crate) fn strikes(&mut self, kind: Faults) -> bool {
        !self.is_ending && self.fault_schedule.strikes(kind)
    }

    /// Plans when processes and servers are struck.
    pub(crate) fn plan_strikes(&mut self) {
        let span_us = 2_000 + 1_500 * u64::from(self.setup.phases);
        let more = u64::from(self.setup.ranks / 1000);
        for kind in STRIKING {
            let Some(random) = self.fault_schedule.stream(kind) else { continue };
            let count = match kind {
                Faults::SERVER | Faults::NODE => 1,
                _ => random.between(1, 3 + more),
            };
            let moments: Vec<u64> = (0..count).map(|_| random.below(span_us)).collect();
            for moment in moments {
                self.queue.plan(Time::ZERO + Duration::from_micros(moment), QueuedEvent::Strike(kind));
            }
        }
    }

    pub(crate) fn strike(&mut self, kind: Faults) {
        if self.is_ending || !self.fault_schedule.spend() {
            return;
        }
        let (processes, nodes) = (u32::try_from(self.processes.len()).unwrap_or(0), self.setup.nodes);
        let Some(random) = self.fault_schedule.stream(kind) else { return };
        let (victim, node, choice) = (random.below_u32(processes), random.below_u32(nodes), random.below(4));
        let now = self.now;
        self.trace.words(&[u64::from(kind.bits()), u64::from(victim), u64::from(node)]);
        self.trace.line(now, || format!("fault {kind}: process {victim} or node {node}"));
        match kind {
            Faults::DIE => self.kill(victim),
            Faults::FORK => self.kill_parent(victim),
            Faults::HANG => self.hang(victim),
            Faults::STOP => self.stop(victim),
            Faults::EXEC => self.exec(victim),
            Faults::REINIT => self.reinit(victim, u32::try_from(choice).unwrap_or(0) + 1),
            Faults::CLONE => self.fork(victim),
            Faults::FLOOD => self.flood(victim),
            Faults::SERVER => self.kill_server(node, true),
            Faults::NODE => self.kill_server(node, false),
            Faults::DEREGISTER => self.deregister(victim, choice == 0),
            _ => {}
        }
    }

    fn kill(&mut self, process: u32) {
        self.hang_up(process);
        self.retire(process, State::Ended);
    }

    /// The process is gone, but its connection stays open for a while. Only the host can tell its server.
    fn kill_parent(&mut self, process: u32) {
        let Some(of) = self.process_mut(process).filter(|of| of.state == State::Running) else { return };
        let (proc, node) = (of.proc.clone(), of.node);
        let peers = [of.main.take(), of.child.take()];
        let child_ends = self.now + Duration::from_secs(30);
        for peer in peers.into_iter().flatten() {
            if let Some(connection) = self.connections.get_mut(&peer) {
                connection.up = connection.up.max(child_ends);
            }
            self.close_client(peer);
        }
        self.retire(process, State::Ended);
        let at = self.now + self.latency();
        if let Some(server) = self.server_at(node) {
            self.queue.plan(at, QueuedEvent::Call(server, Box::new(HostCall::DeregisterClient(proc)), None));
        }
    }

    fn hang(&mut self, process: u32) {
        if self.process(process).is_some_and(|of| of.state == State::Running) {
            self.retire(process, State::Hung);
        }
    }

    fn stop(&mut self, process: u32) {
        let until = self.now + STOPPED_FOR;
        if let Some(of) = self.process_mut(process) {
            of.stopped_until = until;
        }
    }

    /// The process ends without a finalize and starts again under its name.
    fn exec(&mut self, process: u32) {
        if self.process(process).is_none_or(|of| of.is_over() || of.state == State::Away) {
            return;
        }
        self.hang_up(process);
        self.go_away(process);
    }

    fn reinit(&mut self, process: u32, times: u32) {
        if let Some(of) = self.process_mut(process) {
            of.reinits = of.reinits.saturating_add(times);
        }
    }

    /// A child takes over the program's next operations beside its parent.
    fn fork(&mut self, process: u32) {
        let Some(of) = self.process(process) else { return };
        if of.state != State::Running || of.child.is_some() {
            return;
        }
        let child = self.connect(process, StoreOffer::Segment);
        if let Some(of) = self.process_mut(process) {
            of.child = child;
        }
    }

    fn deregister(&mut self, process: u32, whole_job: bool) {
        let Some(of) = self.process(process) else { return };
        let (number, proc, node) = (of.job, of.proc.clone(), of.node);
        let at = self.now + self.latency();
        let is_second = number > 0;
        if !(whole_job && is_second) {
            if let Some(server) = self.server_at(node) {
                self.queue.plan(at, QueuedEvent::Call(server, Box::new(HostCall::DeregisterClient(proc)), None));
            }
            return;
        }
        self.invited_groups.forget(proc.namespace.clone());
        self.note_job_over(number);
        for node in 0..self.setup.nodes {
            let Some(server) = self.server_at(node) else { continue };
            let call = Box::new(HostCall::DeregisterNamespace(proc.namespace.clone()));
            self.queue.plan(at, QueuedEvent::Call(server, call, None));
        }
    }

    /// Ends all connections of a process at its end.
    fn hang_up(&mut self, process: u32) {
        let Some(of) = self.process_mut(process) else { return };
        let peers = [of.main.take(), of.child.take()];
        for peer in peers.into_iter().flatten() {
            self.close_client(peer);
        }
    }

    /// The server ends at once with all its state. Its processes notice when no more messages come from it.
    fn kill_server(&mut self, node: u32, comes_again: bool) {
        let Some(server) = self.server_at(node) else { return };
        if self.setup.nodes == 1 && !comes_again {
            return;
        }
        if let Some(of) = self.node_mut(node) {
            of.server = None;
            of.is_dead = !comes_again;
        }
        self.rules.server_ended(server);
        let on_node: BTreeSet<ProcId> =
            self.processes.iter().filter(|of| of.node == node).map(|of| of.proc.clone()).collect();
        self.invited_groups.lose_news(None, |proc| on_node.contains(proc));
        self.collectives.forgotten(server, |_| true);
        self.bootstraps.forgotten(server);
        let peers: Vec<PeerId> =
            self.connections.iter().filter(|(_, of)| of.server == server).map(|(peer, _)| *peer).collect();
        for peer in peers.into_iter().chain(self.tools_of(server)) {
            self.end_at_server(peer, false);
            if !comes_again {
                self.forget_client(peer);
            }
            self.send_down(peer, ToClient::Closed);
        }
        let on_node = self.processes.iter().zip(0..).filter(|(of, _)| of.node == node).map(|(_, process)| process);
        on_node.collect::<Vec<u32>>().into_iter().for_each(|process| self.return_allocations(process));
        self.fail_exchanges_with(node);
        self.retire_all_on(node, comes_again);
        if !comes_again {
            return;
        }
        let at = self.now + Duration::from_millis(5);
        self.queue.plan(at, QueuedEvent::Restart(node));
    }

    /// Nobody on a dead node acts any more. No process starts under a killed server.
    fn retire_all_on(&mut self, node: u32, comes_again: bool) {
        let ends = |of: &&Process| of.node == node && (!comes_again || of.state == State::Away);
        let number = |of: &Process| self.jobs.get(of.job).map(|job| job.first.saturating_add(of.rank));
        let ended: Vec<u32> = self.processes.iter().filter(ends).filter_map(number).collect();
        ended.into_iter().for_each(|process| self.retire(process, State::Ended));
    }

    /// A new server knows nothing of the old one. The host starts a new job there.
    pub(crate) fn restart(&mut self, node: u32) {
        if self.is_ending {
            return;
        }
        let server = self.new_server(node);
        let Some(of) = self.node_mut(node) else { return };
        let epoch = of.epoch + 1;
        *of = Node { epoch, ..Node::of(server) };
        let first = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let id = ServerId { node, epoch };
        let new = job(&format!("new{}on{}", id.epoch, id.node), 2, first, node, 1);
        self.launch(new, Duration::from_millis(1));
    }
}

const STRIKING: [Faults; 11] = [
    Faults::FORK,
    Faults::DIE,
    Faults::HANG,
    Faults::FLOOD,
    Faults::STOP,
    Faults::REINIT,
    Faults::EXEC,
    Faults::CLONE,
    Faults::SERVER,
    Faults::NODE,
    Faults::DEREGISTER,
];
